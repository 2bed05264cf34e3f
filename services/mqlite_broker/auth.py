"""Who may do what: the credential of a request, and the right that its call asks for.

Called by `app.py` once per protected request. Every configured token is compared, each time, digest
against digest, so that neither timing nor an early hit tells anything; a wrong credential of any
kind gets one and the same answer, and no value is ever echoed or logged (faults B78). With
authentication off the broker trusts whoever reaches it, so it listens on loopback only, and a web
page must not be able to reach it through somebody's browser (faults B77, decision 13).
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from mqlite_actor.contract.errors import PermissionDenied, Unauthenticated
from mqlite_actor.contract.keys import Right

LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1", "[::1]"})

_BEARER: Final = re.compile(r"bearer +([^ \t,]+)", re.IGNORECASE)
_REFUSED: Final = "missing or wrong Bearer token in the Authorization header"

ALL_RIGHTS: Final = frozenset(Right)


@dataclass(frozen=True, slots=True)
class Access:
    """What a caller may do, and the word for it in Observe."""

    rights: frozenset[Right]
    word: str

    def need(self, right: Right) -> None:
        """PermissionDenied unless the right is held."""
        if right not in self.rights:
            raise PermissionDenied(f"this credential lacks the right {right.value!r}")


ADMINISTRATOR: Final = Access(ALL_RIGHTS, "manage")
ANONYMOUS: Final = Access(ALL_RIGHTS, "anonymous")


class Authenticator:
    """Checks credentials against the configured administrator tokens; `tokens` None: off."""

    __slots__ = ("_digests",)

    def __init__(self, tokens: Sequence[str] | None) -> None:
        self._digests = None if tokens is None else tuple(map(_configured, tokens))

    @property
    def is_on(self) -> bool:
        """Whether a credential is asked for."""
        return self._digests is not None

    def access(self, headers: Sequence[str]) -> Access:
        """The rights behind the `Authorization` headers of one request; Unauthenticated."""
        if self._digests is None:
            return ANONYMOUS
        presented = _presented(_bearer(headers))
        matches = [hmac.compare_digest(presented, known) for known in self._digests]
        if not any(matches):
            raise Unauthenticated(_REFUSED)
        return ADMINISTRATOR


def check_origin(host: str, origin: str, allowed: str) -> None:
    """With authentication off: only our own pages, and only under a loopback name.

    `allowed` is the origin that the operator set with MQLITE_CORS, `*` for any, "" for none.
    """
    if not is_loopback(_host_name(host)):
        raise PermissionDenied(
            "authentication is off, so the Host must be a loopback name such as 127.0.0.1"
        )
    if not origin or allowed in ("*", origin):
        return
    if origin.lower().partition("://")[2] != host.lower():
        raise PermissionDenied("authentication is off, so requests of other web pages are refused")


def is_loopback(name: str) -> bool:
    """localhost, 127.0.0.0/8 or ::1; an empty name means all addresses and is not."""
    return name.lower() in LOOPBACK_NAMES or bool(re.fullmatch(r"127(\.\d{1,3}){3}", name))


def _bearer(headers: Sequence[str]) -> str:
    if len(headers) != 1:
        raise Unauthenticated(_REFUSED)
    match = _BEARER.fullmatch(headers[0].strip(" "))
    if match is None:
        raise Unauthenticated(_REFUSED)
    return match.group(1)


def _host_name(host: str) -> str:
    """The name in a Host field, without its port; "" for what is none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _configured(token: str) -> bytes:
    """Digest of a token from the environment: its bytes there were UTF-8, or escaped."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _presented(token: str) -> bytes:
    """Digest of a token from a header, whose bytes arrive as latin-1."""
    return hashlib.sha256(token.encode("latin-1", "replace")).digest()
