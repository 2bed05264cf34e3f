"""Access-key rows: digests and what they permit, never a token.

Called by the key verbs and by the door's check of a credential.
"""

from __future__ import annotations

from typing import Final

from mqlite_actor.storage.database import Statement

_COLUMNS = "id, name, permissions, created_at, expires_at, revoked_at"

INSERT: Final = f"""
INSERT INTO access_keys ({_COLUMNS}, token_hash) VALUES (?, ?, ?, ?, ?, 0, ?)"""
EXISTS: Final = "SELECT 1 FROM access_keys WHERE id = ? OR token_hash = ?"
BY_HASH: Final = f"SELECT {_COLUMNS} FROM access_keys WHERE token_hash = ?"
BY_ID: Final = f"SELECT {_COLUMNS} FROM access_keys WHERE id = ?"
BY_ID_ASCENDING: Final = f"""
SELECT {_COLUMNS} FROM access_keys WHERE id > ? ORDER BY id LIMIT ?"""
# access_keys_by_age, backwards; the row value is the place of the cursor in that order.
NEWEST_FIRST: Final = f"""
SELECT {_COLUMNS} FROM access_keys WHERE (created_at, id) < (?, ?)
ORDER BY created_at DESC, id DESC LIMIT ?"""
REVOKE: Final = "UPDATE access_keys SET revoked_at = ? WHERE id = ? AND revoked_at = 0"


def insert(
    key_id: str, name: str, permissions: int, created_at: int, expires_at: int, token_hash: bytes
) -> Statement:
    """Store a new key."""
    return INSERT, (key_id, name, permissions, created_at, expires_at, token_hash)


def exists(key_id: str, token_hash: bytes) -> Statement:
    """A row if the id or the digest is taken."""
    return EXISTS, (key_id, token_hash)


def by_hash(token_hash: bytes) -> Statement:
    """The key whose token has this digest."""
    return BY_HASH, (token_hash,)


def by_id(key_id: str) -> Statement:
    """One key."""
    return BY_ID, (key_id,)


def page_by_id(after_id: str, limit: int) -> Statement:
    """Keys with greater ids, ascending."""
    return BY_ID_ASCENDING, (after_id, limit)


def page_newest_first(created_at: int, key_id: str, limit: int) -> Statement:
    """Keys behind a place in the order newest first."""
    return NEWEST_FIRST, (created_at, key_id, limit)


def revoke(key_id: str, now_ms: int) -> Statement:
    """Revoke once; the first time stays."""
    return REVOKE, (max(now_ms, 1), key_id)
