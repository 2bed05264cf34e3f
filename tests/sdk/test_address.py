"""Connection strings: every row of spec/wire.md 7.1 and 7.2, the identities, and what is never
shown."""

from __future__ import annotations

import pytest

from mqlite_actor.contract.errors import InvalidArgument
from mqlite_actor.sdk.address import (
    Destination,
    Endpoint,
    Store,
    StoreKind,
    classify,
    dial,
    masked,
    parse_endpoint,
    parse_store,
)

ENDPOINTS = [
    ("mqlite://host", "http://host:6754", ""),
    ("mqlites://host", "https://host:6754", ""),
    ("mqlite://tok@host", "http://host:6754", "tok"),
    ("mqlite://tok@host:9000", "http://host:9000", "tok"),
    ("mqlites://host:8443", "https://host:8443", ""),
    ("mqlite://host?tls=true", "https://host:6754", ""),
    ("mqlite://host?tls=1", "http://host:6754", ""),
    ("mqlite://host?tls=TRUE", "http://host:6754", ""),
    ("mqlite://[::1]", "http://[::1]:6754", ""),
    ("mqlite://[::1]:9000", "http://[::1]:9000", ""),
    ("mqlite://host:", "http://host:6754", ""),
    ("mqlite://tok:password@host", "http://host:6754", "tok"),
    ("mqlite://t%40k%20n@host", "http://host:6754", "t@k n"),
    ("mqlite://host:1/path?x=y#z", "http://host:1", ""),
    ("http://host", "http://host", ""),
    ("https://host:8443/", "https://host:8443", ""),
    ("http://host/prod//", "http://host/prod", ""),
    ("http://tok@host", "http://tok@host", ""),
    ("http://host/p?x=1#f", "http://host/p?x=1#f", ""),
]


@pytest.mark.promise("W132", "T12")
@pytest.mark.parametrize(("text", "base_url", "token"), ENDPOINTS)
def test_an_endpoint_string_yields_its_base_url_and_token(
    text: str, base_url: str, token: str
) -> None:
    assert parse_endpoint(text) == Endpoint(base_url, token)


@pytest.mark.promise("W132", "T12")
@pytest.mark.parametrize(
    ("text", "mend"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("ftp://host", "mqlite://"),
        ("mqlite://", "no host"),
        ("http://", "no host"),
        ("http:///path", "no host"),
        ("mqlite://:9000", "no host"),
        ("127.0.0.1:6754", "write mqlite://127.0.0.1:6754"),
        ("localhost:6754", "write mqlite://localhost:6754"),
        ("./mq.db", "write file:./mq.db"),
        ("file:./mq.db", "is a store"),
        ("mqlite://host:0", "port"),
        ("mqlite://host:65536", "port"),
        ("mqlite://host:99999999999999999999", "port"),
        ("mqlite://host:x", "no host"),
        ("mqlite://a b", "percent-encode"),
        ("http://host/\r\nX: y", "percent-encode"),
        ("http://h\u00f6st", "percent-encode"),
        ("mqlite://%zz@host", "percent-encoded"),
        ("mqlite://%ff@host", "percent-encoded"),
        ("mqlite://a/b@host", "percent-encode it"),
    ],
)
def test_a_string_that_names_no_broker_is_refused_with_the_mend(text: str, mend: str) -> None:
    with pytest.raises(InvalidArgument, match=mend):
        parse_endpoint(text)


@pytest.mark.promise("T15")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http://h:6754", "http://h:6754/"),
        ("http://h:6754", "mqlite://h"),
        ("http://h:6754", "mqlite://tok@h"),
        ("https://h:6754", "mqlites://h"),
        ("https://h:6754", "mqlite://h?tls=true"),
    ],
)
def test_spellings_of_one_base_url_have_one_identity(one: str, other: str) -> None:
    assert parse_endpoint(one).identity() == parse_endpoint(other).identity()


@pytest.mark.promise("T14")
@pytest.mark.parametrize(
    "other",
    [
        "http://other:6754/prod",
        "http://h:6755/prod",
        "https://h:6754/prod",
        "http://h:6754/dev",
        "http://h:6754/%70rod",
        "http://h:6754/prod?x=1",
        "http://h:6754/prod#f",
        "http://H:6754/prod",
        "http://user@h:6754/prod",
        "http://h:6754",
    ],
)
def test_any_difference_in_the_base_url_is_another_identity(other: str) -> None:
    mine = parse_endpoint("http://h:6754/prod").identity()
    assert parse_endpoint(other).identity() != mine


@pytest.mark.parametrize(
    ("text", "is_tls", "host", "port", "header", "target"),
    [
        ("http://h", False, "h", 80, "h", "/x"),
        ("https://h", True, "h", 443, "h", "/x"),
        ("HTTP://h:8080/prod/", False, "h", 8080, "h:8080", "/prod/x"),
        ("http://user:pw@h/p?k=v#f", False, "h", 80, "h", "/p/x?k=v"),
        ("mqlite://[fe80::1%25eth0]", False, "fe80::1%eth0", 6754, "[fe80::1]:6754", "/x"),
    ],
)
def test_a_base_url_is_dialled_without_its_user_information(
    *, text: str, is_tls: bool, host: str, port: int, header: str, target: str
) -> None:
    place = dial(parse_endpoint(text))
    assert (place.is_tls, place.host, place.port) == (is_tls, host, port)
    assert place.host_header == header
    assert place.target("/x") == target


STORES = [
    ("", StoreKind.MEMORY, "", ""),
    (":memory:", StoreKind.MEMORY, "", ""),
    ("file:./mq.db", StoreKind.FILE, "./mq.db", ""),
    ("file:/a/b.db?mode=rw", StoreKind.FILE, "/a/b.db", ""),
    ("libsql://db.example", StoreKind.REMOTE, "https://db.example", ""),
    ("LIBSQL://db.example", StoreKind.REMOTE, "https://db.example", ""),
    ("wss://db.example", StoreKind.REMOTE, "https://db.example", ""),
    ("ws://127.0.0.1:8080", StoreKind.REMOTE, "http://127.0.0.1:8080", ""),
    ("libsql://127.0.0.1:8080?tls=0", StoreKind.REMOTE, "http://127.0.0.1:8080", ""),
    ("http://127.0.0.1:8080", StoreKind.REMOTE, "http://127.0.0.1:8080", ""),
    ("https://db.example/x/", StoreKind.REMOTE, "https://db.example/x", ""),
    ("libsql://db.example?authToken=jwt", StoreKind.REMOTE, "https://db.example", "jwt"),
]


@pytest.mark.promise("W132")
@pytest.mark.parametrize(("text", "kind", "location", "token"), STORES)
def test_a_store_string_yields_its_kind_and_place(
    text: str, kind: StoreKind, location: str, token: str
) -> None:
    assert parse_store(text) == Store(kind, location, token=token)


@pytest.mark.promise("W132")
def test_a_bare_path_is_a_store_only_where_that_is_said() -> None:
    assert parse_store("./mq.db?x=1", bare_paths=True) == Store(StoreKind.FILE, "./mq.db")
    with pytest.raises(InvalidArgument, match=r"write file:\./mq\.db"):
        parse_store("./mq.db")


@pytest.mark.parametrize(
    ("text", "mend"),
    [
        ("mqlite://host", "did you mean MQLITE_ENDPOINT"),
        ("unix:/run/mq.sock", "did you mean MQLITE_ENDPOINT"),
        ("ftp://host", "write file:PATH"),
        ("SECRET@libsql://host", "write file:"),
        (" libsql://host", "write file:"),
        ("2SECRET@ftp://host/mq.db", "write file:"),
        ("file:", "names no path"),
        ("libsql://host?tls=0", "needs a port"),
        ("libsql://user@host", "MQLITE_DB_AUTH_TOKEN"),
    ],
)
def test_a_string_that_names_no_store_is_refused_with_the_mend(text: str, mend: str) -> None:
    for bare_paths in (False, True):
        with pytest.raises(InvalidArgument, match=mend) as caught:
            parse_store(text, bare_paths=bare_paths)
        assert "SECRET" not in caught.value.message


@pytest.mark.parametrize(
    ("text", "destination"),
    [
        ("file:./mq.db", Destination.STORE),
        (":memory:", Destination.STORE),
        ("libsql://h", Destination.STORE),
        ("unix:/run/mq.sock", Destination.LINK),
        ("mqlite://h", Destination.BROKER),
        ("mqlites://h", Destination.BROKER),
        ("http://h", Destination.BROKER),
        ("https://h", Destination.BROKER),
    ],
)
def test_connect_knows_a_store_from_a_link_from_a_broker(
    text: str, destination: Destination
) -> None:
    assert classify(text) is destination


@pytest.mark.parametrize("text", ["", "./mq.db", "mq.db", "ftp://h", "127.0.0.1:6754"])
def test_connect_refuses_what_names_nothing(text: str) -> None:
    with pytest.raises(InvalidArgument, match="write "):
        classify(text)


@pytest.mark.promise("T16")
@pytest.mark.parametrize(
    "text",
    [
        "ftp://sesame@h",
        "sesame@h:1",
        "mqlite://sesame@",
        "mqlite://sesame@h:0",
        "mqlite://sesame%zz@h",
        "mqlite://sesame/x@h",
        "http://sesame@h:0",
        "http://:sesame@h:0/?t=sesame#sesame",
        "http://h:0?token=sesame",
        "libsql://sesame@h",
        "libsql://h?tls=0&authToken=sesame",
        "mqlite://ses ame@h/sesame@",
    ],
)
def test_no_error_repeats_a_credential(text: str) -> None:
    for parse in (parse_endpoint, parse_store, classify):
        with pytest.raises(InvalidArgument) as caught:
            parse(text)
        assert "sesame" not in str(caught.value)


@pytest.mark.promise("T16")
def test_no_repr_shows_a_credential() -> None:
    endpoint = parse_endpoint("http://sesame@h/p?token=sesame")
    for text in (repr(endpoint), endpoint.shown, repr(parse_endpoint("mqlite://sesame@h"))):
        assert "sesame" not in text
    assert "sesame" not in repr(parse_store("libsql://h?authToken=sesame&x=sesame"))
    assert masked("http://h/p?a=1&b=2#c") == "http://h/p?a=***&b=***#***"
