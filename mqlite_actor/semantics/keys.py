"""Access keys: create, list, revoke, and who a presented digest belongs to.

Called through the operations table, and by the broker for every request with a managed key. The
token is made here, returned once, and kept only as its SHA-256; a lost answer cannot be repeated
into the same secret, so the caller chose the id beforehand to find and revoke it (spec/engine.md
3.23).
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import InvalidArgument, KeyConflict, NotFound, quoted
from mqlite_actor.contract.keys import (
    AccessKey,
    CreateKeyRequest,
    CreateKeyResponse,
    ListKeysRequest,
    ListKeysResponse,
    RevokeKeyRequest,
    Right,
)
from mqlite_actor.contract.wire import OkResponse
from mqlite_actor.semantics.settle import DONE
from mqlite_actor.storage import keys
from mqlite_actor.storage.database import Row, Statement, Transaction

TOKEN_PREFIX: Final = "mqk_"  # the public beginning of every token, not a secret

BITS: Final = {Right.SEND: 1, Right.LISTEN: 2, Right.MANAGE: 4}
ALL_BITS: Final = 7

SORTS: Final = ("", "id_asc", "created_desc")

_ID: Final = re.compile("[0-9a-f]{32}")
_DIGEST: Final = re.compile("[0-9a-f]{64}")


def create_key(tx: Transaction, request: CreateKeyRequest, now_ms: int) -> CreateKeyResponse:
    """Make a key; its token is in this answer and nowhere else."""
    permissions = _permissions(request.permissions)
    _check_id(request.id)
    _check_name(request.name)
    if request.expires_at_ms and request.expires_at_ms <= now_ms:
        raise InvalidArgument(f"expires_at_ms is not in the future (now is {now_ms}); 0 is never")
    if request.expires_at_ms > limits.INSTANT_MS_MAX:
        raise InvalidArgument(f"expires_at_ms is after the last instant, {limits.INSTANT_MS_MAX}")
    token = TOKEN_PREFIX + tx.random(32).hex()
    token_hash = digest(token)
    if tx.run([keys.exists(request.id, token_hash)])[0]:
        raise KeyConflict(f"a key with the id {request.id} exists; its token is never shown again")
    row = (request.id, request.name, permissions, now_ms, request.expires_at_ms)
    tx.write([keys.insert(*row, token_hash)])
    return CreateKeyResponse(key=_key((*row, 0)), token=token)


def list_keys(tx: Transaction, request: ListKeysRequest, now_ms: int) -> ListKeysResponse:
    """A page of keys, revoked and expired ones included."""
    if request.sort not in SORTS:
        raise InvalidArgument(f"sort {quoted(request.sort)} is unknown; use id_asc, created_desc")
    if request.limit and not 1 <= request.limit <= limits.KEYS_PAGE_MAX:
        raise InvalidArgument(f"limit is from 1 to {limits.KEYS_PAGE_MAX}, or 0 for the default")
    if request.after_id:
        _check_id(request.after_id, "after_id")
    if request.token_sha256:
        return ListKeysResponse(keys=_of_digest(tx, request.token_sha256))
    limit = request.limit or limits.KEYS_PAGE_DEFAULT
    if request.sort == "created_desc":
        found = tx.run([_newest_page(tx, request.after_id, limit + 1)])[0]
    else:
        found = tx.run([keys.page_by_id(request.after_id, limit + 1)])[0]
    page = [_key(row) for row in found[:limit]]
    return ListKeysResponse(keys=page, next_after_id=page[-1].id if len(found) > limit else "")


def revoke_key(tx: Transaction, request: RevokeKeyRequest, now_ms: int) -> OkResponse:
    """Refuse the key from the next request on; repeating keeps the first time."""
    _check_id(request.id)
    if not tx.run([keys.by_id(request.id)])[0]:
        raise NotFound(f"no key has the id {request.id}")
    tx.write([keys.revoke(request.id, now_ms)])
    return DONE


def rights_of(tx: Transaction, token_hash: bytes, now_ms: int) -> tuple[str, frozenset[Right]]:
    """What became of a presented digest (the words of Observe), and the rights behind it."""
    found = tx.run([keys.by_hash(token_hash)])[0]
    if not found:
        return "invalid", frozenset()
    _, _, permissions, _, expires_at, revoked_at = found[0]
    if revoked_at:
        return "revoked", frozenset()
    if 0 < expires_at <= now_ms:
        return "expired", frozenset()
    return "success", frozenset(_rights(permissions))


def digest(token: str) -> bytes:
    """What is kept of a token."""
    return hashlib.sha256(token.encode()).digest()


def _permissions(words: list[str]) -> int:
    bits = 0
    for word in words:
        if word not in (Right.SEND, Right.LISTEN, Right.MANAGE):
            raise InvalidArgument(f"permissions: {quoted(word)} is none of send, listen, manage")
        bits |= BITS[Right(word)]
    if not bits:
        raise InvalidArgument("permissions is empty; name send, listen or manage")
    return ALL_BITS if bits & BITS[Right.MANAGE] else bits


def _rights(permissions: int) -> set[Right]:
    """What a key may do; managing covers all, the monitor's view included."""
    if permissions == ALL_BITS:
        return set(Right)
    return {right for right, bit in BITS.items() if permissions & bit}


def _key(row: Row) -> AccessKey:
    key_id, name, permissions, created_at, expires_at, revoked_at = row
    words = (
        [Right.MANAGE]
        if permissions == ALL_BITS
        else [right for right, bit in BITS.items() if permissions & bit]
    )
    return AccessKey(
        id=key_id,
        name=name,
        permissions=[word.value for word in words],
        created_at_ms=created_at,
        expires_at_ms=expires_at,
        revoked_at_ms=revoked_at,
    )


def _of_digest(tx: Transaction, text: str) -> list[AccessKey]:
    if not _DIGEST.fullmatch(text):
        raise InvalidArgument("token_sha256 has to be 64 lowercase hexadecimal digits")
    return [_key(row) for row in tx.run([keys.by_hash(bytes.fromhex(text))])[0]]


def _newest_page(tx: Transaction, after_id: str, limit: int) -> Statement:
    if not after_id:
        return keys.page_newest_first(limits.INT64_MAX, "", limit)
    found = tx.run([keys.by_id(after_id)])[0]
    if not found:
        raise InvalidArgument("after_id: no key has this id, so the order has no such place")
    return keys.page_newest_first(found[0][3], after_id, limit)


def _check_id(key_id: str, field: str = "id") -> None:
    if not _ID.fullmatch(key_id):
        raise InvalidArgument(f"{field} has to be 32 lowercase hexadecimal digits")


def _check_name(name: str) -> None:
    size = len(name.encode())
    if not 1 <= size <= limits.KEY_NAME_BYTES_MAX:
        raise InvalidArgument(
            f"name has {size} bytes; 1 to {limits.KEY_NAME_BYTES_MAX} are allowed"
        )
    if name != name.strip():
        raise InvalidArgument("name begins or ends with white space")
    if "\0" in name:
        raise InvalidArgument("name holds a NUL character")
