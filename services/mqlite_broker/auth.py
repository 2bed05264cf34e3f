"""Who may do what: the credential of a request, and the right that its call asks for.

Called by `rpc.py` once per protected request. Every configured token is compared, digest against
digest, so that neither timing nor an early hit tells anything; a field that proved good is known
from then on. A wrong credential of any kind gets one and the same answer, and no value is ever
echoed or logged (faults B78). With authentication off the broker trusts whoever reaches it, so it
listens on loopback only, and a web page must not be able to reach it through somebody's browser
(faults B77, decision 13).
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn
from urllib.parse import urlsplit

from mqlite_actor.contract.errors import (
    Internal,
    MqliteError,
    PermissionDenied,
    Unauthenticated,
)
from mqlite_actor.contract.keys import Right

LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1", "[::1]"})

_BEARER: Final = re.compile(r"bearer +([^ \t,]+)", re.IGNORECASE)
_MANAGED: Final = re.compile(r"mqk_[0-9a-f]{64}")
_REFUSED: Final = "missing or wrong Bearer token in the Authorization header"

ALL_RIGHTS: Final = frozenset(Right)

OUTCOMES: Final = (
    "success", "missing", "invalid", "expired", "revoked", "permission_denied", "backend_error",
)  # fmt: skip
"""How a check can end, in the order of Observe."""


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
MONITOR: Final = Access(frozenset({Right.MONITOR}), "monitor")
ANONYMOUS: Final = Access(ALL_RIGHTS, "anonymous")

PROVEN_MAX: Final = 64
"""Spellings of good fields that are remembered: a few for each token. One more is just compared."""

LookUp = Callable[[str], Awaitable[tuple[str, frozenset[Right]]]]
"""A managed key's token to an outcome and the rights behind it; raises when the store cannot be
read."""


class Authenticator:
    """Checks credentials: administrator tokens, then monitor tokens, then managed keys.

    `tokens` None switches authentication off. `counts` tells how the checks ended, in Observe's
    words.
    """

    __slots__ = ("_administrators", "_look_up", "_monitors", "_proven", "counts")

    def __init__(
        self, tokens: Sequence[str] | None, monitor_tokens: Sequence[str], look_up: LookUp
    ) -> None:
        self._administrators = None if tokens is None else tuple(map(_configured, tokens))
        self._monitors = tuple(map(_configured, monitor_tokens))
        self._look_up = look_up
        self._proven: dict[tuple[str, ...], Access] = {}
        self.counts = dict.fromkeys(OUTCOMES, 0)

    @property
    def is_on(self) -> bool:
        """Whether a credential is asked for."""
        return self._administrators is not None

    async def access(self, headers: Sequence[str]) -> Access:
        """The rights behind the `Authorization` headers of one request.

        Unauthenticated for anything wrong with the credential, Internal when the key store cannot
        be read; administrator and monitor tokens work all the same then.
        """
        if self._administrators is None:
            return ANONYMOUS
        token = _bearer(headers)
        if token is None:
            self._refuse("missing" if not headers else "invalid")
        presented = _presented(token)
        is_administrator = _is_one_of(presented, self._administrators)
        is_monitor = _is_one_of(presented, self._monitors)
        if is_administrator or is_monitor:
            self.counts["success"] += 1
            access = ADMINISTRATOR if is_administrator else MONITOR
            if len(self._proven) < PROVEN_MAX:
                self._proven[tuple(headers)] = access
            return access
        return await self._managed(token)

    def fixed(self, headers: tuple[str, ...]) -> Access | None:
        """The rights of a configured token whose field was proven before, counted; else None, and
        `access` has to decide.

        Only what `access` found good is in the table, and configured tokens stay as long as the
        broker, so nothing can be revoked under it. Looking up compares a keyed hash of the whole
        field: how long that takes tells nothing about a token.
        """
        access = self._proven.get(headers)
        if access is not None:
            self.counts["success"] += 1
        return access

    def denied(self) -> None:
        """A good credential lacked a right: it was counted as a success, and is none."""
        self.counts["success"] -= 1
        self.counts["permission_denied"] += 1

    async def _managed(self, token: str) -> Access:
        if not _MANAGED.fullmatch(token):
            self._refuse("invalid")
        try:
            outcome, rights = await self._look_up(token)
        except MqliteError as error:
            self.counts["backend_error"] += 1
            raise Internal("the key store cannot be read") from error
        if outcome != "success":
            self._refuse(outcome)
        self.counts["success"] += 1
        return Access(rights, "manage" if Right.MANAGE in rights else "key")

    def _refuse(self, outcome: str) -> NoReturn:
        self.counts[outcome] += 1
        raise Unauthenticated(_REFUSED)


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


def _bearer(headers: Sequence[str]) -> str | None:
    """The token of exactly one well-formed header."""
    if len(headers) != 1:
        return None
    match = _BEARER.fullmatch(headers[0].strip(" "))
    return match.group(1) if match else None


def _is_one_of(presented: bytes, known: tuple[bytes, ...]) -> bool:
    """Compares with every one, whether or not one matched already."""
    matches = [hmac.compare_digest(presented, each) for each in known]
    return True in matches


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
