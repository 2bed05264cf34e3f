"""What a connection string means: which broker to dial and with which credential, or which store to
open.

Called by `connect`, by both HTTP handles and by the command line; calls nothing, opens nothing.
Rules: a broker's base URL is its identity, to the letter, because a credential is reused only where
the identity is the same (spec/wire.md 7.1); a store is never taken for a broker nor the other way
round (design.md R11, R23); no error text, `repr` or `shown` ever holds a credential.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote_to_bytes, urlencode

import msgspec

from mqlite_actor.contract.errors import InvalidArgument

PORT_DEFAULT = 6754
"""The port of `mqlite://` and `mqlites://` where none is named, and of `mqlite serve`."""

_WEB_PORTS = {"http": 80, "https": 443}
_PORT_MAX = 65_535
_MASK = "***"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
# A name, an IPv4 address, or an IPv6 address in brackets (with a zone); then perhaps a port.
_HOST_PORT = re.compile(r"(\[[0-9A-Fa-f:.]+(?:%[A-Za-z0-9._%-]+)?\]|[A-Za-z0-9._-]+)(?::([0-9]*))?")
_UNFIT = re.compile(r"[^\x21-\x7e]")
_TOKEN = re.compile(r"(?<![0-9A-Za-z])mqk_[^\s'\"`\\/,;:@?#&=()]+")
_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


# -- brokers ---------------------------------------------------------------------------------------


class Endpoint(msgspec.Struct, frozen=True):
    """A broker: where to send requests, and the credential that stood in the string (or "")."""

    base_url: str
    token: str = ""

    def identity(self) -> str:
        """The exact base URL. A credential for one identity is never sent to another."""
        return self.base_url

    @property
    def shown(self) -> str:
        """The base URL for people: user information and query values are masked."""
        return masked(self.base_url)

    def __repr__(self) -> str:
        return f"Endpoint({self.shown!r})"


class Dial(NamedTuple):
    """The parts of a base URL that a connection needs."""

    is_tls: bool
    host: str
    port: int
    host_header: str
    prefix: str
    query: str

    def target(self, path: str) -> str:
        """The request target of `path` behind this base URL; a query of the base URL stays behind
        it."""
        return f"{self.prefix}{path}?{self.query}" if self.query else self.prefix + path


def parse_endpoint(text: str) -> Endpoint:
    """The broker that `text` names; InvalidArgument with the mend if it names none.

    `mqlite(s)://[TOKEN@]HOST[:PORT]` drops path, query (but `?tls=true`) and fragment;
    `http(s)://` is taken as it is, without its trailing slashes, and never yields a token.
    """
    scheme = _scheme(text)
    if scheme in _WEB_PORTS:
        base_url = text.rstrip("/")
        _authority(base_url)
        return Endpoint(base_url)
    if scheme in {"mqlite", "mqlites"}:
        return _parse_mqlite(text, is_tls=scheme == "mqlites")
    raise InvalidArgument(_no_endpoint(text, scheme))


def dial(endpoint: Endpoint) -> Dial:
    """Split a base URL for dialling. User information is dropped: it is not a credential."""
    scheme = _scheme(endpoint.base_url)
    _userinfo, host, port, rest = _authority(endpoint.base_url)
    path, _, query = rest.partition("#")[0].partition("?")
    shown_port = "" if port is None else f":{port}"
    return Dial(
        is_tls=scheme == "https",
        host=_bare_host(host),
        port=_WEB_PORTS[scheme] if port is None else port,
        host_header=re.sub(r"%[^\]]*", "", host) + shown_port,
        prefix=path.rstrip("/"),
        query=query,
    )


def _parse_mqlite(text: str, *, is_tls: bool) -> Endpoint:
    userinfo, host, port, rest = _authority(text)
    if "@" in rest and not userinfo:
        # A token with a bare slash in it would be dialled as a host, and shown as one.
        raise InvalidArgument("the token inside the address holds / ? or #; percent-encode it")
    query = rest.partition("#")[0].partition("?")[2]
    tls = next((value for name, value in parse_qsl(query) if name == "tls"), "")
    scheme = "https" if is_tls or tls == "true" else "http"
    base_url = f"{scheme}://{host}:{PORT_DEFAULT if port is None else port}"
    return Endpoint(base_url, token=_unescaped(userinfo.partition(":")[0]))


def _authority(text: str) -> tuple[str, str, int | None, str]:
    """User information, host as written, port if one is written, and all that follows."""
    if _UNFIT.search(text):
        raise InvalidArgument(
            f"{masked(text)!r} holds a character that an address cannot hold; percent-encode it"
        )
    rest = text.partition("://")[2]
    end = min(rest.find(mark) if mark in rest else len(rest) for mark in "/?#")
    userinfo, _, place = rest[:end].rpartition("@")
    found = _HOST_PORT.fullmatch(place)
    if found is None:
        raise InvalidArgument(f"{masked(text)!r} names no host; write mqlite://HOST[:PORT]")
    host, digits = found.groups()
    port = int(digits[: len(str(_PORT_MAX)) + 1]) if digits else None
    if port is not None and not 0 < port <= _PORT_MAX:
        raise InvalidArgument(f"{masked(text)!r} names a port outside 1 to {_PORT_MAX}")
    return userinfo, host, port, rest[end:]


def _bare_host(host: str) -> str:
    """The host as the resolver wants it: no brackets, a zone unescaped."""
    inner = host.removeprefix("[").removesuffix("]")
    return unquote_to_bytes(inner).decode("utf-8", "replace") if "%25" in inner else inner


def _unescaped(text: str) -> str:
    """A percent-decoded credential. The error does not repeat it."""
    reason = "the token inside the address is not percent-encoded UTF-8; pass it apart from it"
    if _BROKEN_ESCAPE.search(text):
        raise InvalidArgument(reason)
    try:
        return unquote_to_bytes(text).decode("utf-8")
    except UnicodeDecodeError:
        # The cause would carry the bytes of the token into a traceback.
        raise InvalidArgument(reason) from None


# -- stores ----------------------------------------------------------------------------------------


class StoreKind(StrEnum):
    """Where an engine keeps its rows."""

    MEMORY = "memory"
    FILE = "file"
    REMOTE = "remote"


class Store(msgspec.Struct, frozen=True):
    """A store: a path for FILE, an http(s) URL for REMOTE, "" for MEMORY."""

    kind: StoreKind
    location: str = ""
    token: str = ""

    @property
    def dsn(self) -> str:
        """The engine's spelling of it."""
        if self.kind is StoreKind.MEMORY:
            return ":memory:"
        return f"file:{self.location}" if self.kind is StoreKind.FILE else self.location

    def __repr__(self) -> str:
        return f"Store({self.kind}, {masked(self.location)!r})"


def parse_store(text: str, *, bare_paths: bool = False) -> Store:
    """The store that `text` names; InvalidArgument with the mend if it names none.

    `bare_paths`: a path without `file:` is a file too, as MQLITE_DB has it. Options behind `?` of a
    file are dropped; an `authToken` behind a remote address becomes the store's token.
    """
    if text in {"", ":memory:", "file::memory:"}:
        return Store(StoreKind.MEMORY)
    scheme = _scheme(text)
    if scheme in _REMOTE_SCHEMES:
        return _parse_remote(text, scheme)
    if text.startswith("file:"):
        path = text.removeprefix("file:").partition("?")[0]
        if not path.strip():
            raise InvalidArgument("'file:' names no path; write file:PATH, or :memory:")
        return Store(StoreKind.FILE, path)
    if scheme in {"mqlite", "mqlites", "unix"} or _is_unix(text):
        raise InvalidArgument(
            f"{masked(text)!r} names a broker, not a store; did you mean MQLITE_ENDPOINT?"
        )
    if scheme or (bare_paths and "://" in text):  # behind a credential, say, which no path shows
        raise InvalidArgument(
            f"{masked(text)!r} is no store; write file:PATH, :memory: or libsql://HOST"
        )
    if bare_paths:
        return Store(StoreKind.FILE, text.partition("?")[0])
    raise InvalidArgument(f"{masked(text)!r} has no scheme; {_mend(text)}")


_REMOTE_SCHEMES = {
    "libsql": "https",
    "wss": "https",
    "ws": "http",
    "https": "https",
    "http": "http",
}
"""Remote store scheme to the one that is dialled (design.md R23)."""


def _parse_remote(text: str, scheme: str) -> Store:
    userinfo, host, port, rest = _authority(text)
    if userinfo:
        raise InvalidArgument(f"{masked(text)!r}: pass the credential as MQLITE_DB_AUTH_TOKEN")
    path, _, query = rest.partition("#")[0].partition("?")
    options = parse_qsl(query, keep_blank_values=True)
    token = next((value for name, value in options if name == "authToken"), "")
    dialled = _REMOTE_SCHEMES[scheme]
    if scheme == "libsql" and ("tls", "0") in options:
        if port is None:
            raise InvalidArgument(
                f"{masked(text)!r}: tls=0 needs a port; write libsql://HOST:PORT?tls=0"
            )
        dialled = "http"
    kept = urlencode([item for item in options if item[0] not in {"authToken", "tls"}])
    place = host if port is None else f"{host}:{port}"
    location = f"{dialled}://{place}{path.rstrip('/')}" + (f"?{kept}" if kept else "")
    return Store(StoreKind.REMOTE, location, token=token)


# -- which of the two ------------------------------------------------------------------------------


class Destination(StrEnum):
    """What `connect` does with a string."""

    STORE = "store"
    LINK = "link"
    BROKER = "broker"


def classify(text: str) -> Destination:
    """Which kind of handle a connection string asks for (design.md R11).

    `http(s)://` is a broker here; a remote store behind http is opened by name, with open_embedded.
    A bare path and an unknown scheme are refused with the mend.
    """
    if _is_unix(text):
        return Destination.LINK
    scheme = _scheme(text)
    if scheme in {"http", "https", "mqlite", "mqlites"}:
        parse_endpoint(text)
        return Destination.BROKER
    if text == "":
        raise InvalidArgument(_no_endpoint(text, scheme))
    parse_store(text)
    return Destination.STORE


def link_path(text: str) -> str:
    """The path of the socket in `unix:PATH` or `unix:///PATH`; InvalidArgument if it is empty."""
    path = text.removeprefix("unix:")
    path = path.removeprefix("//") if path.startswith("///") else path
    if not path or path.startswith("//"):
        raise InvalidArgument("the link's path is missing; write unix:/path/of/the/socket")
    return path


def masked(text: str) -> str:
    """`text` fit for an error line: nothing in front of an @, no value of a query, no fragment, no
    token in the place of an address.

    Everything up to the last @ goes, because in a string that is not well formed nobody knows where
    a credential ends.
    """
    scheme = _SCHEME.match(text)
    start = scheme.end() if scheme else 0  # a :// further on may stand behind a credential
    head, rest = text[:start], text[start:]
    credential, at, rest = rest.rpartition("@")
    rest, mark, fragment = rest.partition("#")
    place, question, query = without_tokens(rest).partition("?")
    names = [item.partition("=")[0] for item in query.split("&") if item]
    shown_query = "&".join(f"{name}={_MASK}" for name in names)
    shown_fragment = _MASK if fragment else ""
    shown_credential = _MASK if credential else ""
    return f"{head}{shown_credential}{at}{place}{question}{shown_query}{mark}{shown_fragment}"


def without_tokens(text: str) -> str:
    """`text` without what begins as our tokens do: where a path or an address is wanted, somebody
    may have put the token itself."""
    return _TOKEN.sub(f"mqk_{_MASK}", text)


def _scheme(text: str) -> str:
    found = _SCHEME.match(text)
    return found[1].lower() if found else ""


def _is_unix(text: str) -> bool:
    return text.startswith("unix:")


def _no_endpoint(text: str, scheme: str) -> str:
    known = "write mqlite://[TOKEN@]HOST[:PORT], mqlites://…, http://… or https://…"
    if not text.strip():
        return f"the address is empty; {known}"
    if scheme:
        return f"{masked(text)!r} has a scheme that is no broker's; {known}"
    if text.startswith(("file:", ":memory:")):
        return f"{masked(text)!r} is a store, not a broker; {known}, or open it as a store"
    return f"{masked(text)!r} has no scheme; {_mend(text)}"


def _mend(text: str) -> str:
    """How to write what a string without a scheme probably means."""
    place = _HOST_PORT.fullmatch(text.rpartition("@")[2])
    if place is not None and place[2]:
        return f"write mqlite://{masked(text)} for a broker"
    shown = masked(text)
    path = shown if shown.isprintable() else "PATH"  # an error is one line, and steers no terminal
    return f"write file:{path} for a store, mqlite://HOST[:PORT] for a broker"
