"""The error tree: one class per wire code, told apart by whose fault it is.

Raised on every floor, turned into `{"code", "message"}` at one place of the broker, and rebuilt
from it by the HTTP handles, so that embedded and remote programs catch the same classes. Three
owners: the caller's mistake (`CallerError`: do not repeat the same call), you closed it (`Closed`),
the world broke it (`WorldError`: a repeat may succeed). `OutcomeUnknown` says that nobody can tell
whether the write happened: look before you repeat. Messages name the field and the mend; they never
hold a body, a token or a property value.
"""

from __future__ import annotations

from typing import ClassVar, Final

QUOTED_CHARACTERS: Final = 64
"""How much of a caller's own text an error repeats: enough to recognise it."""


def quoted(text: str) -> str:
    """A caller's text as an error shows it: in quotes, on one line, and not at length."""
    if len(text) > QUOTED_CHARACTERS:
        return repr(text[:QUOTED_CHARACTERS]) + "…"
    return repr(text)


class MqliteError(Exception):
    """Root of the tree. `message` is fit for a person; `code` and `http_status` are the wire's;
    `origin` names the class of a foreign failure behind it."""

    code: ClassVar[str] = "internal"
    http_status: ClassVar[int] = 500

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
        self.origin = ""


class CallerError(MqliteError):
    """The request itself is at fault: the same call will fail again."""

    code = "invalid_argument"
    http_status = 400


class InvalidArgument(CallerError):
    """A value is missing, out of range, of the wrong type or unknown. Mend the named field."""


class InvalidFilter(InvalidArgument):
    """A subscription filter does not compile. The message names position and cause."""


class GroupRequired(CallerError):
    """The queue orders by group and a message has no `group_id`. Nothing of the call was stored."""

    code = "group_required"


class Unauthenticated(CallerError):
    """The credential is missing, malformed, unknown, expired or revoked. Do not loop on it."""

    code = "unauthenticated"
    http_status = 401


class PermissionDenied(CallerError):
    """The credential is good but lacks the right. Do not loop on it."""

    code = "permission_denied"
    http_status = 403


class NotFound(CallerError):
    """The thing that the request names does not exist."""

    code = "not_found"
    http_status = 404


class QueueNotFound(NotFound):
    """No queue (and for a send no topic) has this name."""


class Unimplemented(CallerError):
    """The path exists but not for this HTTP method."""

    code = "unimplemented"
    http_status = 405


class DedupConflict(CallerError):
    """A message id was used inside the duplicate window with another body. That message was not
    stored.

    `seq_numbers` is None for a single send; for a batch the slots, 0 where a message was refused.
    """

    code = "already_exists"
    http_status = 409

    def __init__(self, message: str, *, seq_numbers: list[int] | None = None) -> None:
        super().__init__(message)
        self.seq_numbers = seq_numbers


class NameConflict(CallerError):
    """The name already belongs to a queue, subscription or topic of another kind."""

    code = "name_conflict"
    http_status = 409


class KeyConflict(CallerError):
    """An access key with this id exists. Look it up; its secret is never shown again."""

    code = "key_conflict"
    http_status = 409


class LockLost(CallerError):
    """The lease is over, was settled otherwise, or never existed. The message may be with somebody
    else."""

    code = "lock_lost"
    http_status = 409


class QueueNotEmpty(CallerError):
    """The queue still holds messages, in whatever state; it was not deleted."""

    code = "queue_not_empty"
    http_status = 409


class GenerationConflict(CallerError):
    """The guard of the call does not hold: the queue of this name is not the one (generation), or
    not as full (expected count), as the caller saw it. Nothing was changed."""

    code = "generation_conflict"
    http_status = 409


class MessageTooLarge(CallerError):
    """A message body or the whole request is over its limit. Nothing of the call was stored."""

    code = "message_too_large"
    http_status = 413


class Canceled(MqliteError):
    """The client went away before its answer; nobody reads this but the log."""

    code = "canceled"
    http_status = 499


class Unsupported(MqliteError):
    """The other side does not know this operation: an older broker, or a store without it."""

    code = "unsupported"
    http_status = 404


class Closed(MqliteError):
    """The engine or handle was closed by its owner. Calls begun after that do nothing."""


class TxTimeout(MqliteError):
    """A transaction held the writer for too long and was rolled back. Do less inside it."""


class WorldError(MqliteError):
    """Nothing was wrong with the request: storage, network or a fault of ours stood in the way."""


class Internal(WorldError):
    """Something unexpected. The broker's log has the cause."""


class Unavailable(WorldError):
    """Not now: too much waits, the broker is stopping, or another program holds the file. Nothing
    was done; repeat after a pause."""

    code = "unavailable"
    http_status = 503


class OutcomeUnknown(WorldError):
    """The write may or may not have happened. Look (peek, stats, receipts) before you repeat."""

    code = "outcome_unknown"
    http_status = 503


class StorageFull(WorldError):
    """The disk or the file's quota is full. Nothing was stored; settles are still tried."""

    code = "storage_full"
    http_status = 507


class StorageFailed(WorldError):
    """Reading or writing the file failed (I/O error, corruption). The message names the class of
    error."""


class StorageDamaged(StorageFailed):
    """The file is damaged, or is no database any more."""


class OpenError(MqliteError):
    """The store could not be opened; nothing in it was changed."""


class DatabaseLocked(OpenError):
    """Another engine owns this file."""


class SchemaVersionMismatch(OpenError):
    """The file is not ours, or of another format version. It was not touched."""


def _by_code() -> dict[str, type[MqliteError]]:
    """First class in definition order for each wire code, so `not_found` is NotFound."""
    found: dict[str, type[MqliteError]] = {}
    pending: list[type[MqliteError]] = [MqliteError]
    while pending:
        cls = pending.pop(0)
        if "code" in cls.__dict__ and cls not in (MqliteError, CallerError):
            found.setdefault(cls.code, cls)
        pending.extend(cls.__subclasses__())
    found["invalid_argument"] = InvalidArgument
    found["internal"] = Internal
    return found


BY_CODE: dict[str, type[MqliteError]] = _by_code()
"""Wire code to class, for handles that rebuild an error from a reply."""


def from_wire(code: str, message: str, http_status: int) -> MqliteError:
    """The error that a reply `{"code", "message"}` stands for; an unknown code becomes Internal.

    A 404 without a code, or one that says `no such path`, means that the broker is too old for the
    call (spec/wire.md 6): that is Unsupported, not NotFound.
    """
    if http_status == 404 and (not code or message.startswith("no such path")):
        return Unsupported(
            f"the broker does not know this operation: {message or 'no reason given'}"
        )
    cls = BY_CODE.get(code)
    if cls is None:
        return Internal(f"{code or http_status}: {message}")
    return cls(message)
