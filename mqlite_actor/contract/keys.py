"""Structs of the access-key calls (spec/wire.md 2.20) and the rights that a credential can carry.

Part of the wire like `wire.py`; kept apart because only the key calls and the door's check need it.
A token appears in exactly one struct, `CreateKeyResponse`, and never in anything stored or logged.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from mqlite_actor.contract.wire import Int, OkResponse, Request, Response


class Right(StrEnum):
    """What a call asks of its caller. `manage` covers send and listen."""

    SEND = "send"
    LISTEN = "listen"
    MANAGE = "manage"
    MONITOR = "monitor"


class AccessKey(msgspec.Struct, frozen=True):
    """A managed key without its secret. 0 means never for expiry and revocation."""

    id: str
    name: str
    permissions: list[str]
    created_at_ms: Int
    expires_at_ms: Int
    revoked_at_ms: Int


class CreateKeyResponse(Response, frozen=True):
    """The key and, this once, its token."""

    key: AccessKey
    token: str


class CreateKeyRequest(Request[CreateKeyResponse], frozen=True):
    """Make a key under an id that the caller chose, so that a lost answer can be looked up."""

    id: str = ""
    name: str = ""
    permissions: list[str] = []
    expires_at_ms: Int = 0


class ListKeysResponse(Response, frozen=True, omit_defaults=True):
    """A page of keys; `next_after_id` only when there are more."""

    keys: list[AccessKey]
    next_after_id: str = ""


class ListKeysRequest(Request[ListKeysResponse], frozen=True):
    """List keys, revoked and expired ones included.

    `token_sha256` (ours): only the key whose token has this SHA-256, in lower-case hex. Whoever has
    a token finds its key by it; it tells nobody else anything.
    """

    after_id: str = ""
    limit: Int = 0
    sort: str = ""
    token_sha256: str = ""


class RevokeKeyRequest(Request[OkResponse], frozen=True):
    """Revoke a key for good; the next request with it is refused."""

    id: str = ""
