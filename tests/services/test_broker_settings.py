"""Flags and variables to settings, or one clear refusal: the table of `read_settings`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

import msgspec
import pytest

from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import InvalidArgument
from mqlite_broker.settings import Settings, read_settings

Flags = Mapping[str, str | bool]
NONE: Flags = {}
LOOPBACK = {"MQLITE_ADDR": "127.0.0.1:0"}


def read(flags: Flags = NONE, /, **environ: str) -> Settings:
    return read_settings(flags, environ)


def refusal(flags: Flags = NONE, /, **environ: str) -> str:
    """The words of a refusal; they are one line, for `error: …`."""
    with pytest.raises(InvalidArgument) as caught:
        read(flags, **environ)
    assert "\n" not in caught.value.message
    assert "\r" not in caught.value.message
    return caught.value.message


def test_nothing_at_all_is_the_documented_default() -> None:
    settings = read()
    assert (settings.host, settings.port, settings.address) == ("", 6754, ":6754")
    assert (settings.db, settings.synchronous) == ("file:./mq.db", "NORMAL")
    assert settings.message_bytes_max == limits.MESSAGE_BYTES_DEFAULT == 1_048_576
    assert (settings.cors, settings.log_level, settings.log_format) == ("*", "info", "text")
    assert settings.is_token_generated
    assert not settings.insecure_allow_remote
    assert settings.warnings == ()


def test_an_empty_variable_counts_as_unset() -> None:
    names = ("DB", "SYNC", "MAX_MESSAGE_BYTES", "TOKENS", "CORS", "LOG_LEVEL", "LOG_FORMAT")
    for blank in ("", "  ", "\n"):
        settings = read(**{f"MQLITE_{name}": blank for name in names})
        assert settings.is_token_generated
        assert settings == msgspec.structs.replace(read(), tokens=settings.tokens)


# -- the address -----------------------------------------------------------------------------------

ADDRESSES = {
    ":6754": ("", 6754, ":6754", False),
    ":0": ("", 0, ":0", False),
    "127.0.0.1:6754": ("127.0.0.1", 6754, "127.0.0.1:6754", True),
    " 127.0.0.1:80\n": ("127.0.0.1", 80, "127.0.0.1:80", True),
    "127.200.3.4:1": ("127.200.3.4", 1, "127.200.3.4:1", True),
    "localhost:65535": ("localhost", 65535, "localhost:65535", True),
    "LOCALHOST:1": ("LOCALHOST", 1, "LOCALHOST:1", True),
    "[::1]:6754": ("::1", 6754, "[::1]:6754", True),
    "[::]:6754": ("::", 6754, "[::]:6754", False),
    "0.0.0.0:6754": ("0.0.0.0", 6754, "0.0.0.0:6754", False),
    "broker.example:1": ("broker.example", 1, "broker.example:1", False),
    "192.168.0.1:1": ("192.168.0.1", 1, "192.168.0.1:1", False),
    "127.0.0.1.example:1": ("127.0.0.1.example", 1, "127.0.0.1.example:1", False),
}


@pytest.mark.parametrize("text", ADDRESSES)
def test_an_address_is_a_host_and_a_port(text: str) -> None:
    host, port, address, is_loopback = ADDRESSES[text]
    for settings in (read(MQLITE_ADDR=text), read({"addr": text})):
        assert (settings.host, settings.port, settings.address) == (host, port, address)
        assert settings.is_loopback is is_loopback


@pytest.mark.promise("T68")
@pytest.mark.parametrize(
    "text",
    [
        "", " ", "\n", "6754", "127.0.0.1", "127.0.0.1:", ":", "127.0.0.1:http", "127.0.0.1:-1",
        "127.0.0.1:65536", "127.0.0.1:123456", "127.0.0.1: 80", "127.0.0.1:８０", "127.0.0.1:8_0",
        "::1:6754", "[::1:6754", "http://127.0.0.1:6754", "127.0.0.1:80/x", "[]:80",
    ],
)  # fmt: skip
def test_a_bad_address_is_refused_by_its_source(text: str) -> None:
    assert "MQLITE_ADDR" in refusal(MQLITE_ADDR=text)
    assert "--addr" in refusal({"addr": text}, MQLITE_ADDR="127.0.0.1:1")


@pytest.mark.promise("T68")
def test_the_flag_wins_over_the_variable() -> None:
    assert read({"addr": "localhost:1"}, MQLITE_ADDR="127.0.0.1:2").address == "localhost:1"
    assert read({"addr": "localhost:1"}, MQLITE_ADDR="").port == 1
    assert read({"addr": "localhost:1"}, MQLITE_ADDR="nonsense").port == 1


# -- tokens ----------------------------------------------------------------------------------------


@pytest.mark.promise("W32", "W33")
@pytest.mark.parametrize("environ", [{}, {"MQLITE_TOKENS": ""}, {"MQLITE_TOKENS": " \n"}])
def test_without_tokens_a_new_one_is_generated_each_time(environ: dict[str, str]) -> None:
    first, second = read(**environ).tokens, read(**environ).tokens
    assert first is not None
    assert second is not None
    assert first != second
    for tokens in (first, second):
        assert len(tokens) == 1
        assert re.fullmatch("mqk_[0-9a-f]{64}", tokens[0])


TOKEN_LISTS = {
    "a": ("a",),
    "a,b": ("a", "b"),
    " a ,\tb,,c\n": ("a", "b", "c"),
    "a,a": ("a", "a"),
    "off,t": ("off", "t"),
    "offf": ("offf",),
    "'a'": ("'a'",),
    "mqk_1": ("mqk_1",),
    "ключ": ("ключ",),
}


@pytest.mark.promise("W30")
@pytest.mark.parametrize("text", TOKEN_LISTS)
def test_a_list_of_tokens_is_split_and_trimmed(text: str) -> None:
    settings = read(MQLITE_TOKENS=text)
    assert (settings.tokens, settings.is_token_generated) == (TOKEN_LISTS[text], False)
    doubts = [each for each in settings.warnings if "the word off" in each]
    assert len(doubts) == ("off" in TOKEN_LISTS[text])


@pytest.mark.promise("W32", "T67")
@pytest.mark.parametrize("text", [",", " , ", ",,,", "\n,\n"])
def test_a_list_without_a_token_is_refused(text: str) -> None:
    assert "MQLITE_TOKENS" in refusal(MQLITE_TOKENS=text)


@pytest.mark.parametrize("text", ["a b", "good,very secret", "good,very\nsecret", "good,x\ty"])
def test_a_token_that_no_client_can_send_is_refused_without_its_text(text: str) -> None:
    words = refusal(MQLITE_TOKENS=text)
    assert "MQLITE_TOKENS" in words
    assert "secret" not in words


@pytest.mark.promise("W34", "T67")
@pytest.mark.parametrize("off", ["off", "OFF", " Off \n"])
def test_authentication_is_off_on_loopback_only_unless_the_flag_says_so(off: str) -> None:
    for text, (*_, is_loopback) in ADDRESSES.items():
        environ = {"MQLITE_ADDR": text, "MQLITE_TOKENS": off}
        insecure: dict[str, str | bool] = {"insecure-allow-remote": True}
        assert read(insecure, **environ).tokens is None
        if is_loopback:
            assert read(**environ).tokens is None
        else:
            assert "--insecure-allow-remote" in refusal(**environ)
            assert refusal({"insecure-allow-remote": False}, **environ)


def test_the_flag_for_the_bind_decides_whether_open_is_allowed() -> None:
    environ = {"MQLITE_TOKENS": "off", "MQLITE_ADDR": "127.0.0.1:1"}
    assert refusal({"addr": ":1"}, **environ)
    settings = read({"addr": "localhost:1"}, MQLITE_TOKENS="off", MQLITE_ADDR=":1")
    assert settings.tokens is None


@pytest.mark.parametrize("text", ["no", "none", "false", "0", "'off'", "off;"])
def test_only_the_word_off_switches_authentication_off(text: str) -> None:
    assert read(MQLITE_TOKENS=text, **LOOPBACK).tokens == (text,)


MONITOR_LISTS = {
    "": (),
    " \n": (),
    "m": ("m",),
    " m ,\tn\n": ("m", "n"),
    "m,m": ("m", "m"),
    "off": ("off",),
    "ADMIN": ("ADMIN",),
    "mqk_1,'m'": ("mqk_1", "'m'"),
    "ключ": ("ключ",),
}


@pytest.mark.promise("W44")
@pytest.mark.parametrize("text", MONITOR_LISTS)
def test_monitor_tokens_are_a_list_beside_the_administrators(text: str) -> None:
    settings = read(MQLITE_TOKENS="admin,b", MQLITE_MONITOR_TOKENS=text)
    assert (settings.tokens, settings.monitor_tokens) == (("admin", "b"), MONITOR_LISTS[text])
    assert settings.warnings == ()


def test_monitor_tokens_go_with_a_generated_token_too() -> None:
    settings = read(MQLITE_MONITOR_TOKENS="m")
    assert (settings.is_token_generated, settings.monitor_tokens) == (True, ("m",))


@pytest.mark.promise("W44")
@pytest.mark.parametrize(
    "text",
    [
        ",", ",,", " , ", "secret,", ",secret", "secret,,third", "secret, ,third", "a secret",
        "m,a\tsecret", "m,a\nsecret", "m,a\rsecret", "m,a\x0bsecret", "m,a\u3000secret",
        "secret-admin", "m, secret-admin ", "m,third-admin",
    ],
)  # fmt: skip
def test_a_bad_monitor_token_is_refused_without_its_text(text: str) -> None:
    words = refusal(MQLITE_TOKENS="secret-admin,third-admin", MQLITE_MONITOR_TOKENS=text)
    assert "MQLITE_MONITOR_TOKENS" in words
    assert not re.search("secret|third", words)


@pytest.mark.parametrize("off", ["off", " OFF "])
def test_monitor_tokens_are_refused_while_authentication_is_off(off: str) -> None:
    for insecure in (False, True):
        flags: Flags = {"insecure-allow-remote": insecure}
        environ = {"MQLITE_TOKENS": off, "MQLITE_MONITOR_TOKENS": "secret", **LOOPBACK}
        words = refusal(flags, **environ)
        assert "MQLITE_MONITOR_TOKENS" in words
        assert "secret" not in words
        assert read(flags, **{**environ, "MQLITE_MONITOR_TOKENS": " "}).monitor_tokens == ()


BAD_BOUNDS = [
    ("MQLITE_DLQ_MAX_AGE", "3 parsecs"),
    ("MQLITE_DLQ_MAX_COUNT", "many"),
    ("MQLITE_DLQ_MAX_COUNT", "1e6"),
    ("MQLITE_DLQ_MAX_BYTES", "1GB"),
    ("MQLITE_DLQ_RETENTION", "no"),
    ("MQLITE_DLQ_RETENTION", "0"),
]


def bounds(**environ: str) -> tuple[int, int, int]:
    found = read(**environ)
    return found.dlq_max_age_ms, found.dlq_max_count, found.dlq_max_bytes


@pytest.mark.promise("E117")
def test_a_broker_bounds_its_dead_letters_unless_it_is_told_not_to() -> None:
    assert bounds() == (14 * 24 * 3_600_000, 1_000_000, 0)
    assert bounds(MQLITE_DLQ_RETENTION="off") == (0, 0, 0)
    assert bounds(MQLITE_DLQ_MAX_AGE="36h", MQLITE_DLQ_MAX_COUNT="5", MQLITE_DLQ_MAX_BYTES="7") == (
        36 * 3_600_000,
        5,
        7,
    )
    assert bounds(MQLITE_DLQ_MAX_AGE="0", MQLITE_DLQ_MAX_COUNT="-1") == (0, 0, 0)


@pytest.mark.promise("T69")
@pytest.mark.parametrize(("name", "text"), BAD_BOUNDS)
def test_a_bad_bound_on_dead_letters_warns_and_keeps_the_default(name: str, text: str) -> None:
    settings = read(**{name: text})
    (warning,) = settings.warnings
    assert name in warning
    assert text in warning
    assert bounds(**{name: text}) == bounds()


# -- the rest --------------------------------------------------------------------------------------


@pytest.mark.promise("W37", "W38")
@pytest.mark.parametrize(
    ("text", "tokens", "cors"),
    [
        ("", "t", "*"),
        ("", "off", ""),
        ("off", "t", ""),
        (" OFF ", "off", ""),
        ("*", "off", "*"),
        ("https://a.example", "t", "https://a.example"),
        ("https://a.example", "off", "https://a.example"),
    ],
)
def test_the_allowed_origin_follows_authentication_unless_it_is_set(
    text: str, tokens: str, cors: str
) -> None:
    assert read(MQLITE_CORS=text, MQLITE_TOKENS=tokens, **LOOPBACK).cors == cors


@pytest.mark.parametrize(
    ("text", "is_doubtful"),
    [
        ("https://a.example:8443", False), ("http://[::1]:5173", False), ("null", False),
        ("*", False), ("off", False), ("", False), ("https://a.example/", True),
        ("https://a.example,https://b.example", True), ("a.example", True),
        ("https://*.example", True), ("HTTPS://A.example", True),
    ],
)  # fmt: skip
def test_an_origin_that_no_browser_names_is_told_of(text: str, *, is_doubtful: bool) -> None:
    warnings = [each for each in read(MQLITE_CORS=text).warnings if "MQLITE_CORS" in each]
    assert len(warnings) == is_doubtful


@pytest.mark.parametrize("text", ["https://a.example\r\nX: y", "a\nb"])
def test_an_origin_that_cannot_stand_in_a_header_is_refused(text: str) -> None:
    assert "MQLITE_CORS" in refusal(MQLITE_CORS=text)


@pytest.mark.promise("T69")
@pytest.mark.parametrize(
    "text", ["1MB", "0", "-1", "1.5", "1e6", "0x10", "1_000", "9" * 19, "x", "１"]
)
def test_a_bad_size_warns_and_keeps_the_default(text: str) -> None:
    settings = read(MQLITE_MAX_MESSAGE_BYTES=text)
    assert settings.message_bytes_max == limits.MESSAGE_BYTES_DEFAULT
    (warning,) = settings.warnings
    assert "MQLITE_MAX_MESSAGE_BYTES" in warning


def test_a_good_size_is_taken_up_to_the_size_of_a_request() -> None:
    for text, size in (("1", 1), ("+5", 5), (" 2097152 ", 2_097_152)):
        settings = read(MQLITE_MAX_MESSAGE_BYTES=text)
        assert (settings.message_bytes_max, settings.warnings) == (size, ())
    settings = read(MQLITE_MAX_MESSAGE_BYTES=str(limits.REQUEST_BYTES_MAX + 1))
    assert settings.message_bytes_max == limits.REQUEST_BYTES_MAX
    assert len(settings.warnings) == 1


@pytest.mark.parametrize("name", ["MQLITE_LOG_LEVEL", "MQLITE_LOG_FORMAT"])
def test_an_unknown_word_is_refused_with_the_known_ones(name: str) -> None:
    words = refusal(**{name: "loud"})
    assert name in words
    assert ("debug" if name.endswith("LEVEL") else "json") in words


def test_words_are_read_in_any_letter_case() -> None:
    settings = read(MQLITE_LOG_LEVEL=" WARN ", MQLITE_LOG_FORMAT="JSON")
    assert (settings.log_level, settings.log_format) == ("warn", "json")


# -- names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("MQLITE_TOKNS", "MQLITE_TOKENS"),
        ("MQLITE_ADDRESS", "MQLITE_ADDR"),
        ("MQLITE_MAX_MESSAGE_SIZE", "MQLITE_MAX_MESSAGE_BYTES"),
    ],
)
def test_a_mistyped_name_warns_with_the_nearest_and_never_shows_its_value(
    name: str, near: str
) -> None:
    (warning,) = read(**{name: "secret-value"}).warnings
    assert name in warning
    assert f"did you mean {near}?" in warning
    assert "secret-value" not in warning


def test_a_name_like_nothing_warns_without_a_guess_and_others_are_left_alone() -> None:
    settings = read(MQLITE_ZZZZZZZZZZZZ="1", PATH="/bin", MQLITE="1", mqlite_addr="1")
    (warning,) = settings.warnings
    assert "MQLITE_ZZZZZZZZZZZZ" in warning
    assert "did you mean" not in warning


def test_variables_of_the_client_commands_do_not_warn() -> None:
    names = ("MQLITE_ENDPOINT", "MQLITE_TOKEN", "MQLITE_TOKEN_FILE")
    assert read(**dict.fromkeys(names, "x")).warnings == ()


# -- processes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cores", "workers"), [(1, 0), (2, 0), (3, 2), (4, 3), (5, 4), (8, 4), (64, 4)]
)
def test_as_many_workers_as_fit_the_machine(
    cores: int, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)), raising=False)
    assert read().workers == workers
    assert read(MQLITE_DB=":memory:").workers == 0
    assert read(MQLITE_DB="libsql://example.org").workers == 0
    assert read(MQLITE_WORKERS="1").workers == 1
    assert read({"workers": "0"}, MQLITE_WORKERS="1").workers == 0


def test_a_machine_that_passes_no_descriptors_on_gets_no_workers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    assert read().workers == 0


def test_the_link_socket_is_none_unless_named() -> None:
    assert read().link_socket == ""
    assert read(MQLITE_LINK_SOCKET="/run/a").link_socket == "/run/a"
    assert read({"link-socket": "/run/b"}, MQLITE_LINK_SOCKET="/run/a").link_socket == "/run/b"
