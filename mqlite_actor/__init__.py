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
    from mqlite_actor.sdk.blocking_receiver import SyncReceiver
    from mqlite_actor.sdk.blocking_requesting import SyncRequester, requester_sync
    from mqlite_actor.sdk.blocking_typed import SyncTypedQueue
    from mqlite_actor.sdk.connect import connect, connect_sync
    from mqlite_actor.sdk.embedded import Embedded, open_embedded, run_embedded
    from mqlite_actor.sdk.handle import Handle
    from mqlite_actor.sdk.held import HeldMessage, SyncHeldMessage
    from mqlite_actor.sdk.message import Received, ReceivedMessage
    from mqlite_actor.sdk.policies import (
        DeadLetter,
        Policy,
        Retry,
        Verdict,
        by_exception,
        reject,
        retry,
        retry_exponentially,
    )
    from mqlite_actor.sdk.reader import Reader, SyncReader, open_reader, open_reader_sync
    from mqlite_actor.sdk.receiver import Receiver
    from mqlite_actor.sdk.receiving import STOP_SIGNALS, ReceiverHooks, ReceiverOptions
    from mqlite_actor.sdk.requesting import Requester, requester
    from mqlite_actor.sdk.serve import ServeInfo
    from mqlite_actor.sdk.tokens import generate_key_id, generate_token
    from mqlite_actor.sdk.transaction import SyncTx, Tx
    from mqlite_actor.sdk.typed import TypedQueue

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
    "mqlite_actor.sdk.reader": ("Reader", "SyncReader", "open_reader", "open_reader_sync"),
    "mqlite_actor.sdk.serve": ("ServeInfo",),
    "mqlite_actor.sdk.transaction": ("SyncTx", "Tx"),
    "mqlite_actor.sdk.blocking_receiver": ("SyncReceiver",),
    "mqlite_actor.sdk.held": ("HeldMessage", "SyncHeldMessage"),
    "mqlite_actor.sdk.policies": (
        "DeadLetter", "Policy", "Retry", "Verdict", "by_exception", "reject", "retry",
        "retry_exponentially",
    ),
    "mqlite_actor.sdk.receiver": ("Receiver",),
    "mqlite_actor.sdk.receiving": ("STOP_SIGNALS", "ReceiverHooks", "ReceiverOptions"),
    "mqlite_actor.sdk.message": ("Received", "ReceivedMessage"),
    "mqlite_actor.sdk.typed": ("TypedQueue",),
    "mqlite_actor.sdk.requesting": ("Requester", "requester"),
    "mqlite_actor.sdk.blocking_requesting": ("SyncRequester", "requester_sync"),
    "mqlite_actor.sdk.blocking_typed": ("SyncTypedQueue",),
    "mqlite_actor.sdk.tokens": ("generate_key_id", "generate_token"),
}  # fmt: skip
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "STOP_SIGNALS",
    "Closed",
    "DatabaseLocked",
    "DeadLetter",
    "DedupConflict",
    "Embedded",
    "GroupRequired",
    "Handle",
    "HeldMessage",
    "InvalidArgument",
    "LockLost",
    "Message",
    "MessageTooLarge",
    "MqliteError",
    "NameConflict",
    "NotFound",
    "OutcomeUnknown",
    "PermissionDenied",
    "Policy",
    "QueueInfo",
    "QueueNotFound",
    "Reader",
    "Received",
    "ReceivedMessage",
    "Receiver",
    "ReceiverHooks",
    "ReceiverOptions",
    "Requester",
    "Retry",
    "SchemaVersionMismatch",
    "ServeInfo",
    "StatsResponse",
    "StatusResponse",
    "StorageFailed",
    "StorageFull",
    "SyncEmbedded",
    "SyncHandle",
    "SyncHeldMessage",
    "SyncReader",
    "SyncReceivedMessage",
    "SyncReceiver",
    "SyncRequester",
    "SyncTx",
    "SyncTypedQueue",
    "Tx",
    "TxTimeout",
    "TypedQueue",
    "Unauthenticated",
    "Unavailable",
    "Unsupported",
    "Verdict",
    "__version__",
    "by_exception",
    "connect",
    "connect_sync",
    "generate_key_id",
    "generate_token",
    "open_embedded",
    "open_embedded_sync",
    "open_reader",
    "open_reader_sync",
    "reject",
    "requester",
    "requester_sync",
    "retry",
    "retry_exponentially",
    "run_embedded",
]


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'mqlite_actor' has no attribute {name!r}")
    return getattr(import_module(home), name)
