"""What a failure of storage means in the contract's words.

Called by the engine and by the local store. SQLite's errors are told apart here; a remote store
raises errors of the contract by itself, which pass as they are.
"""

from __future__ import annotations

from typing import Final

import apsw

from mqlite_actor.contract.errors import (
    Internal,
    MqliteError,
    StorageDamaged,
    StorageFailed,
    StorageFull,
    Unavailable,
)

# Errors after which nobody knows what the file holds until it was opened again.
_DOUBTFUL: Final = (
    apsw.IOError, apsw.CorruptError, apsw.NotADBError, apsw.CantOpenError, apsw.ReadOnlyError,
)  # fmt: skip


def mapped(error: Exception) -> MqliteError:
    """The error of ours that a failure stands for. StorageFailed: the file is in doubt."""
    if isinstance(error, MqliteError):
        return error
    found = _mapped(error)
    number = getattr(error, "extendedresult", 0)  # what SQLite says of itself, more exactly
    found.origin = f"{type(error).__name__} {number}" if number else type(error).__name__
    return found


def _mapped(error: Exception) -> MqliteError:
    if isinstance(error, apsw.FullError):
        return StorageFull("the disk is full; delete or purge messages, or free space")
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return Unavailable("another program holds a lock on the database file; try again")
    if isinstance(error, _DOUBTFUL):
        kind = type(error).__name__.removesuffix("Error").lower()
        is_damage = isinstance(error, apsw.CorruptError | apsw.NotADBError)
        return (StorageDamaged if is_damage else StorageFailed)(
            f"storage failed ({kind}); writes are refused until the file is sound again"
        )
    return Internal(f"unexpected {type(error).__name__}; the log has the cause")


def is_busy(error: BaseException | None) -> bool:
    """Whether only a foreign lock was in the way."""
    return isinstance(error, apsw.BusyError)


def is_full(error: BaseException | None) -> bool:
    """Whether SQLite met a full disk, where a store or a verb did not refuse by itself."""
    return isinstance(error, apsw.FullError)


def is_constraint(error: Exception) -> bool:
    """Whether a commit failed for a deferred constraint: the caller's rows, as ours have none."""
    return isinstance(error, apsw.ConstraintError)
