"""What the door refuses before the application sees it, and which target it hands on.

Called by `DoorProtocol` with each parsed request. Pure: decides and returns, sends nothing.
h11 has already refused malformed lines and fields, a missing Host, conflicting lengths (400) and
unknown transfer codings (501); this page holds what it lets through (spec/wire.md 1.1, R20).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import h11

from mqlite_broker.door_limits import HEADER_FIELDS_MAX

SAFE_METHODS: Final = frozenset({b"GET", b"HEAD", b"OPTIONS"})
"""Methods that change nothing, so that answering a client that half-closed cannot lose
anything."""

ABSOLUTE: Final = re.compile(rb"https?://(?:[^/?#@]*@)?([^/?#@]+)([/?].*)?", re.IGNORECASE)


@dataclass(frozen=True)
class Refusal:
    """An answer of the HTTP layer itself: text/plain, and the connection ends."""

    status: int
    reason: str

    def text(self) -> bytes:
        """The body: status, its phrase, and the reason on one line."""
        return f"{self.status} {HTTPStatus(self.status).phrase}: {self.reason}\n".encode()


@dataclass(frozen=True)
class Target:
    """Where a request goes: path and query in origin form, and the host it named there, if
    any."""

    path: bytes
    authority: bytes | None = None


def refuse(request: h11.Request) -> Refusal | None:
    """The first reason in REFUSALS that applies, or None."""
    return next((refusal for applies, refusal in REFUSALS if applies(request)), None)


def origin(request: h11.Request) -> Target | None:
    """The target in origin form; None if it is neither that, nor absolute, nor `*` for
    OPTIONS."""
    target = request.target
    if target.startswith(b"/") or (target == b"*" and request.method == b"OPTIONS"):
        return Target(target)
    absolute = ABSOLUTE.fullmatch(target)
    if absolute is None:
        return None
    path = absolute[2] or b"/"
    return Target(path if path.startswith(b"/") else b"/" + path, absolute[1])


def values(request: h11.Request, name: bytes) -> list[bytes]:
    """All values of a field; `name` in lower case."""
    return [value for field, value in request.headers if field == name]


def declared_bytes(request: h11.Request) -> int | None:
    """The length of the body: 0 without one, None when it is chunked."""
    if values(request, b"transfer-encoding"):
        return None
    lengths = values(request, b"content-length")
    return int(lengths[0]) if lengths else 0


def _is_foreign_version(request: h11.Request) -> bool:
    return not request.http_version.startswith(b"1.")


def _has_too_many_fields(request: h11.Request) -> bool:
    return len(request.headers) > HEADER_FIELDS_MAX


def _is_framed_twice(request: h11.Request) -> bool:
    return bool(values(request, b"transfer-encoding") and values(request, b"content-length"))


def _is_chunked_too_early(request: h11.Request) -> bool:
    return request.http_version < b"1.1" and bool(values(request, b"transfer-encoding"))


def _expects_the_unknown(request: h11.Request) -> bool:
    return any(value.lower() != b"100-continue" for value in values(request, b"expect"))


def _wants_a_tunnel(request: h11.Request) -> bool:
    return request.method == b"CONNECT"


def _has_no_target(request: h11.Request) -> bool:
    return origin(request) is None


REFUSALS: Final[tuple[tuple[Callable[[h11.Request], bool], Refusal], ...]] = (
    # The HTTP/2 preface is a request line of version 2.0 too (faults.md B69).
    (_is_foreign_version, Refusal(505, "this is an HTTP/1.1 server")),
    (_has_too_many_fields, Refusal(431, "too many header fields")),
    # Two framings, or chunks from a 1.0 client: a proxy in front may read them the other way.
    (_is_framed_twice, Refusal(400, "both Content-Length and Transfer-Encoding")),
    (_is_chunked_too_early, Refusal(400, "Transfer-Encoding needs HTTP/1.1")),
    (_expects_the_unknown, Refusal(417, "only 100-continue can be expected")),
    (_wants_a_tunnel, Refusal(501, "tunnels are not offered")),
    (_has_no_target, Refusal(400, "malformed request target")),
)

MALFORMED: Final = {
    400: Refusal(400, "malformed request"),
    413: Refusal(413, "request too large"),
    431: Refusal(431, "header block too large"),
    501: Refusal(501, "only the chunked transfer coding is understood"),
}
"""By the status that h11 suggests; anything else is a plain 400."""
