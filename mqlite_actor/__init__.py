"""A durable message queue in one SQLite file: the public names, loaded when first used."""

from __future__ import annotations

from importlib import import_module

from mqlite_actor.version import __version__

TYPE_CHECKING = False  # typing's own would cost `mqlite version` the import of typing and re
if TYPE_CHECKING:
    from mqlite_actor.contract.errors import (
        Closed,
        DatabaseLocked,
        DedupConflict,
        GroupRequired,
        InvalidArgument,
        LockLost,
        MessageTooLarge,
        MqliteError,
        NameConflict,
        NotFound,
        OutcomeUnknown,
        PermissionDenied,
        QueueNotFound,
        SchemaVersionMismatch,
        StorageFailed,
        StorageFull,
        TxTimeout,
        Unauthenticated,
        Unavailable,
        Unsupported,
    )
    from mqlite_actor.contract.wire import Message, QueueInfo, StatsResponse, StatusResponse
    from mqlite_actor.sdk.blocking import SyncHandle, SyncReceivedMessage
    from mqlite_actor.sdk.blocking_embedded import SyncEmbedded, open_embedded_sync
    from mqlite_actor.sdk.connect import connect, connect_sync
    from mqlite_actor.sdk.embedded import Embedded, open_embedded, run_embedded
    from mqlite_actor.sdk.handle import Handle
    from mqlite_actor.sdk.message import ReceivedMessage
    from mqlite_actor.sdk.transaction import SyncTx, Tx

_HOMES = {
    "mqlite_actor.contract.errors": (
        "Closed", "DatabaseLocked", "DedupConflict", "GroupRequired", "InvalidArgument", "LockLost",
        "MessageTooLarge", "MqliteError", "NameConflict", "NotFound", "OutcomeUnknown",
        "PermissionDenied", "QueueNotFound", "SchemaVersionMismatch", "StorageFailed",
        "StorageFull", "TxTimeout", "Unauthenticated", "Unavailable", "Unsupported",
    ),
    "mqlite_actor.contract.wire": ("Message", "QueueInfo", "StatsResponse", "StatusResponse"),
    "mqlite_actor.sdk.blocking": ("SyncHandle", "SyncReceivedMessage"),
    "mqlite_actor.sdk.blocking_embedded": ("SyncEmbedded", "open_embedded_sync"),
    "mqlite_actor.sdk.connect": ("connect", "connect_sync"),
    "mqlite_actor.sdk.embedded": ("Embedded", "open_embedded", "run_embedded"),
    "mqlite_actor.sdk.handle": ("Handle",),
    "mqlite_actor.sdk.message": ("ReceivedMessage",),
    "mqlite_actor.sdk.transaction": ("SyncTx", "Tx"),
}  # fmt: skip
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Closed",
    "DatabaseLocked",
    "DedupConflict",
    "Embedded",
    "GroupRequired",
    "Handle",
    "InvalidArgument",
    "LockLost",
    "Message",
    "MessageTooLarge",
    "MqliteError",
    "NameConflict",
    "NotFound",
    "OutcomeUnknown",
    "PermissionDenied",
    "QueueInfo",
    "QueueNotFound",
    "ReceivedMessage",
    "SchemaVersionMismatch",
    "StatsResponse",
    "StatusResponse",
    "StorageFailed",
    "StorageFull",
    "SyncEmbedded",
    "SyncHandle",
    "SyncReceivedMessage",
    "SyncTx",
    "Tx",
    "TxTimeout",
    "Unauthenticated",
    "Unavailable",
    "Unsupported",
    "__version__",
    "connect",
    "connect_sync",
    "open_embedded",
    "open_embedded_sync",
    "run_embedded",
]


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'mqlite_actor' has no attribute {name!r}")
    return getattr(import_module(home), name)
