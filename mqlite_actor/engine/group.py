"""Group commit: many commands, one transaction, every answer true (ruling R41).

Runs in the storage thread, called by the actor with what it took from the mailbox. Commands run one
after another between BEGIN IMMEDIATE and COMMIT and see each other's effects; no answer leaves
before COMMIT. A refusal costs nothing, because a verb refuses before its first write. Anything else
that goes wrong ends the group: SQLite may have rolled back the whole transaction by itself (disk
full, I/O error), after which each further statement would commit alone. So the group is rolled back
and its commands run again, each in a transaction of its own, settles first because they free space;
each then succeeds or fails for itself. A group that gives out much ends early (`given.py`), and
the actor runs the rest. Where the file itself is at fault (I/O error, damage)
nothing is repeated: all are told so. Sends are refused before the disk is full, so that settles
and purges, which free space, still find some; what the log takes of that is given back by cutting
it, before a group, and after one that met a full disk, which then runs once more. A COMMIT that
fails without saying why may still be found done after a restart: its commands get OutcomeUnknown
and are never run again. After either the file is opened anew before anything else runs on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from time import perf_counter
from typing import Any, Final

from outcome import Error

from mqlite_actor.clock import Clock
from mqlite_actor.contract import ext, wire
from mqlite_actor.contract.errors import (
    CallerError,
    Internal,
    MqliteError,
    OutcomeUnknown,
    StorageFailed,
    StorageFull,
    Unavailable,
)
from mqlite_actor.engine import admission, disk, given, waves
from mqlite_actor.engine.commands import ALONE, Table
from mqlite_actor.engine.outcomes import Broken, Done, GroupResult, NotBegun, Unknown, copy
from mqlite_actor.logs import logger
from mqlite_actor.storage.database import Transaction
from mqlite_actor.storage.failures import is_busy, is_full, mapped
from mqlite_actor.storage.store import Store

_log = logger("mqlite.engine")

SETTLES: Final = (
    wire.CompleteRequest, wire.CompleteBatchRequest, wire.AbandonRequest, wire.RejectRequest,
    wire.DeferRequest, wire.PurgeRequest, ext.ReleaseRequest,
)  # fmt: skip
"""Run first when a group is repeated one by one: they free space, and leases are ticking."""


def run_at_once(
    store: Store, table: Table, requests: Sequence[Any], clock: Clock
) -> GroupResult | None:
    """As `run_group`, but None, with nothing done, where that would wait: for a foreign lock,
    or until the log is cut on a disk that is nearly full."""
    return _run(store, table, requests, clock, is_patient=False)


def run_group(store: Store, table: Table, requests: Sequence[Any], clock: Clock) -> GroupResult:
    """Run commands and commit; at least one, and those that it came not to are NOT_RUN. Never
    raises for what storage or a command does."""
    result = _run(store, table, requests, clock, is_patient=True)
    assert result is not None, "it waited as long as it may"
    return result


def _run(
    store: Store, table: Table, requests: Sequence[Any], clock: Clock, *, is_patient: bool
) -> GroupResult | None:
    result = GroupResult(len(requests))
    everything = range(len(requests))
    if not _is_sound(store, result, everything):
        return result
    if type(requests[0]) in ALONE:
        _alone(store, requests[0], result)
        return result
    if store.room.asks_disk:
        disk.look_at_disk(store)
    if store.room.wants_cut:
        if not is_patient:
            return None
        disk.cut_log(store)
        if not _is_sound(store, result, everything):
            return result
    left = disk.with_room(store, requests, result)
    may_cut = True
    together = waves.together if store.backend.is_remote else _together
    while left:
        try:
            done = together(store, table, requests, left, clock, result, is_patient=is_patient)
        except Unknown as unknown:
            done = unknown.indexes
            _answer_unknown(store, result, done, unknown)
        except NotBegun as stuck:
            if not is_patient and is_busy(stuck.cause):
                return None
            done = stuck.indexes
            _fail(store, result, done, stuck.cause)
        except Broken as broken:
            if may_cut and is_full(broken.cause):
                if not is_patient and store.log_bytes():
                    return None
                may_cut = False
                if disk.cut_log(store, waits=True):
                    continue
            done = broken.indexes
            stops = StorageFailed | Unavailable if store.backend.is_remote else StorageFailed
            if len(done) == 1 or isinstance(mapped(broken.cause), stops):
                _fail(store, result, done, broken.cause)
            else:
                _one_by_one(store, table, requests, done, clock, result)
                _tell_of_a_fault(result, broken.cause)
        is_done = set(done)
        left = [index for index in left if index not in is_done]
        if not store.backend.is_remote or not given.may_go_on(result):
            break  # what is left comes to its turn when those who are answered had theirs
    return result


def _together(
    store: Store,
    table: Table,
    requests: Sequence[Any],
    indexes: Sequence[int],
    clock: Clock,
    result: GroupResult,
    *,
    is_patient: bool = True,
) -> Sequence[int]:
    """Run the commands at `indexes` in one transaction, up to the one with which it gives out
    enough; fills outcomes only if it commits. Which those were."""
    answered: list[Any] = []
    weight = 0
    began, started = store.changes, perf_counter()
    try:
        tx = store.begin(is_patient=is_patient)
    except Exception as error:
        raise NotBegun(indexes) from error
    try:
        waiting = [requests[index] for index in indexes]
        is_near = store.room.is_near
        while waiting:
            if is_near:
                store.room.permit(admission.kept(waiting[0]))
            answers = _answers(store, table, tx, waiting, clock, result)
            answered += answers
            del waiting[: len(answers)]
            weight += given.weigh(answers) if len(requests) > 1 else 0
            if given.is_enough(weight):
                break
        tx.flush()
        if not store.in_transaction:
            raise StorageFailed("the transaction ended by itself")
        if is_near:
            store.room.check(has_changed=store.changes != began)
    except Exception as error:
        _roll_back(store, error)
        raise Broken(indexes) from error
    indexes = indexes[: len(answered)]
    try:
        store.commit()
    except Exception as error:
        _roll_back(store, error)
        if isinstance(mapped(error), StorageFull | Unavailable):
            raise Broken(indexes) from error
        raise Unknown(indexes) from error
    result.timings.append(("transaction", None, perf_counter() - started, 1))
    if store.complaint and store.changes != began:  # a commit that wrote nothing proves nothing
        store.complaint = ""
    for index, answer in zip(indexes, answered, strict=True):
        is_refusal = isinstance(answer, CallerError)
        result.outcomes[index] = Error(answer) if is_refusal else Done(answer)
    result.given += weight
    result.publish(tx)
    return indexes


def _answers(
    store: Store,
    table: Table,
    tx: Transaction,
    waiting: Sequence[Any],
    clock: Clock,
    result: GroupResult,
) -> Sequence[Any]:
    """Responses or refusals for the first of these commands, or for the first few if they can go
    together; at least one."""
    changes, began_at = store.changes, perf_counter()
    kind = type(waiting[0])
    run = table.runs.get(kind)
    answers: Sequence[Any] = ()
    if run is not None:
        is_lone = len(waiting) == 1
        alike = waiting if is_lone else list(takewhile(lambda each: type(each) is kind, waiting))
        answers = run(tx, alike, clock.now_ms())
    if not answers:
        try:
            answers = (table[kind](tx, waiting[0], clock.now_ms()),)
        except CallerError as refusal:
            if store.changes != changes:
                raise  # a refusal after a write: only a rollback makes it true
            # Where it was raised is nobody's business, and would hold this frame, which holds it.
            answers = (refusal.with_traceback(None),)
    seconds = (perf_counter() - began_at) / len(answers)
    operation = "read" if store.changes == changes else "write"
    refusals = [each for each in answers if isinstance(each, CallerError)]
    result.timings.append((operation, None, seconds, len(answers) - len(refusals)))
    if refusals:
        result.timings += [(operation, refusal, seconds, 1) for refusal in refusals]
    return answers


def _one_by_one(
    store: Store,
    table: Table,
    requests: Sequence[Any],
    indexes: Sequence[int],
    clock: Clock,
    result: GroupResult,
) -> None:
    settles_first = sorted(indexes, key=lambda i: not isinstance(requests[i], SETTLES))
    together = waves.together if store.backend.is_remote else _together
    is_disk_full, waits = False, True
    for place, index in enumerate(settles_first):
        if not _is_sound(store, result, settles_first[place:]):
            return  # what a failed rollback leaves in the cache must never be committed
        if not given.may_go_on(result):
            return
        if is_disk_full and isinstance(requests[index], disk.SENDS):
            result.outcomes[index] = Error(disk.full())
            continue
        try:
            try:
                together(store, table, requests, [index], clock, result)
            except Broken as broken:
                if isinstance(requests[index], disk.SENDS) or not is_full(broken.cause):
                    raise
                waits = disk.cut_log(store, waits=waits)  # in vain once, and no longer
                if not waits:
                    raise
                together(store, table, requests, [index], clock, result)
        except Unknown as unknown:
            _answer_unknown(store, result, [index], unknown)
        except (NotBegun, Broken) as broken:
            error = _fail(store, result, [index], broken.cause)
            is_disk_full = is_disk_full or isinstance(error, StorageFull)
            if isinstance(error, StorageFailed | Unavailable):
                _fail(store, result, settles_first[place + 1 :], broken.cause)
                return


def _alone(store: Store, request: object, result: GroupResult) -> None:
    started = perf_counter()
    try:
        result.outcomes[0] = Done(ALONE[type(request)](store, request))
    except Exception as error:  # noqa: BLE001  # mapped, and answered like every other failure
        _fail(store, result, [0], error)
    else:
        result.timings.append(("transaction", None, perf_counter() - started, 1))


# -- answers ---------------------------------------------------------------------------------------


def _fail(
    store: Store, result: GroupResult, indexes: Sequence[int], cause: Exception
) -> MqliteError:
    """The same error for each of these commands.

    A file in doubt is opened anew before the next group. One line a kind of outage, not one a
    command (faults B11); only what nobody expected comes with its traceback.
    """
    error = mapped(cause)
    result.timings.append(("transaction", error, 0.0, 1))
    if isinstance(error, StorageFailed):
        store.doubt()
    if isinstance(error, Internal):
        _log.error("a command failed and was rolled back: %s", error.message, exc_info=cause)
    elif not isinstance(error, CallerError) and store.complaint != error.message:
        store.complaint = error.message
        _log.error("%s (%s)", error.message, cause)
    for index in indexes:
        result.outcomes[index] = Error(copy(error))
    return error


def _answer_unknown(
    store: Store, result: GroupResult, indexes: Sequence[int], unknown: Unknown
) -> None:
    cause = unknown.__cause__
    reason = cause.message if isinstance(cause, MqliteError) else type(cause).__name__
    _log.error("a commit failed, its outcome is unknown: %s", reason, exc_info=cause)
    store.doubt()
    result.is_doubtful = True
    result.timings.append(("transaction", OutcomeUnknown(reason), 0.0, 1))
    for index in indexes:
        result.outcomes[index] = Error(
            OutcomeUnknown(
                f"the commit failed ({reason}) and may or may not be on disk; look before repeating"
            )
        )


def _tell_of_a_fault(result: GroupResult, cause: Exception) -> None:
    """Log a fault of ours that ended a group, unless a command has it for itself and `_fail` did:
    where each succeeds by itself, nobody else would ever hear of it."""
    if not isinstance(mapped(cause), Internal):
        return
    errors = [each.error for each in result.outcomes if isinstance(each, Error)]
    if not any(isinstance(error, Internal) for error in errors):
        _log.error("a group failed, and its commands ran one by one", exc_info=cause)


def _is_sound(store: Store, result: GroupResult, indexes: Sequence[int]) -> bool:
    """Open a file in doubt anew; if that fails these commands are refused and the next group tries
    again."""
    if store.healthy:
        return True
    try:
        store.reopen()
    except MqliteError as error:
        if store.complaint != error.message:
            store.complaint = error.message
            _log.error("%s", error.message)
        result.timings.append(("transaction", StorageFailed(error.message), 0.0, 1))
        for index in indexes:
            result.outcomes[index] = Error(StorageFailed(error.message))
        return False
    _log.warning("the database was opened again after a storage failure")
    return True


def _roll_back(store: Store, failure: Exception) -> None:
    try:
        store.rollback()
    except Exception:  # noqa: BLE001  # whatever it was: the connection is of no use any more
        _log.exception("rollback failed; the database will be opened again")
        store.healthy = False
    if is_full(failure):
        disk.take_back(store)
