"""What is done about a disk that is (nearly) full: the log is cut, sends are refused, and what was
too much is tried smaller.

Called by groups and transactions in the storage thread, and by whatever runs in slices. `room`
(storage) knows what is left and what may be taken of it. Nothing here raises: what a failure means
for the file is left to the next use of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from outcome import Error

from mqlite_actor.contract import ext, wire
from mqlite_actor.contract.errors import StorageFailed, StorageFull
from mqlite_actor.engine import admission
from mqlite_actor.engine.commands import JudgedSend
from mqlite_actor.engine.outcomes import GroupResult, copy
from mqlite_actor.logs import logger
from mqlite_actor.storage.failures import mapped
from mqlite_actor.storage.store import Store

_log = logger("mqlite.engine")

SENDS: Final = (wire.SendRequest, wire.ScheduleRequest, ext.SendResultRequest, JudgedSend)
"""Not tried any more after the disk was found full."""


def fewer(number: int) -> int:
    """How many to try next, of what needed more room than there is; at least one."""
    return max(1, number // 4)


def cut_log(store: Store, *, waits: bool = False) -> bool:
    """Give the room of the log back to a disk that is (nearly) full, and look at the disk again;
    whether there is any more. Between transactions.

    A look that runs keeps the log from being cut. With `waits` it has FULL_WAIT_MS to end: for
    whoever would be refused otherwise. A transaction that was too large leaves a long log without
    anything in it, so its length on the disk counts.
    """
    if not store.healthy:
        return False
    if store.leaves_log or not store.log_bytes():
        store.room.cut()
        return look_at_disk(store)
    try:
        if store.room.is_near:
            store.trim_log()
        is_cut = store.truncate_log(waits=waits)
        look_at_disk(store)
    except Exception as error:  # noqa: BLE001  # it was a try; the keeper goes on trying, and logs
        if isinstance(mapped(error), StorageFailed):
            store.doubt()
        return False
    return is_cut


def look_at_disk(store: Store) -> bool:
    """Ask the disk what is left, and say so if sends are taken again; whether the file may grow by
    more than before."""
    was_short = store.room.is_short
    has_grown = store.room.look()
    if was_short and not store.room.is_short:
        _log.warning("there is room on the disk again; sends are taken")
    return has_grown


def prepare(store: Store) -> None:
    """Look, and cut the log if that would give much, before a transaction that cannot be run once
    more with what there is then."""
    if not store.healthy:
        return
    look_at_disk(store)
    log_bytes = store.log_bytes() or 0
    if store.room.would_gain(log_bytes):
        cut_log(store, waits=store.room.needs(log_bytes))


def take_back(store: Store) -> None:
    """After a ROLLBACK for want of room: give back what was written to the log until then. It would
    be in the way of what is in there from before."""
    if not store.healthy:
        return
    try:
        store.trim_log()
    except Exception as error:  # noqa: BLE001  # it was a try; the next cut of the log does it too
        if isinstance(mapped(error), StorageFailed):
            store.doubt()


def with_room(store: Store, requests: Sequence[Any], result: GroupResult) -> Sequence[int]:
    """The commands that may run: all, or without the sends where the disk has no room for them."""
    everything = range(len(requests))
    if not store.room.is_near:
        return everything
    sends = [index for index in everything if isinstance(requests[index], SENDS)]
    if not sends:
        return everything
    was_short = store.room.is_short
    if store.room.has_room(lambda: sum(admission.weigh(requests[index]) for index in sends)):
        if was_short:
            _log.warning("there is room on the disk again; sends are taken")
        return everything
    if not was_short:
        _log.error("the disk of %s is nearly full; sends are refused", store.location)
    refused = nearly_full()
    result.timings.append(("transaction", refused, 0.0, 1))
    for index in sends:
        result.outcomes[index] = Error(copy(refused))
    return sorted({*everything} - {*sends})


def nearly_full() -> StorageFull:
    """What a send gets that the reserve would have to hold."""
    return StorageFull(
        "the disk is nearly full and what is left is kept for settlements and purges; nothing of"
        " this call was stored"
    )


def full() -> StorageFull:
    """What a send gets that was not even tried."""
    return StorageFull("the disk is full; this message was not stored")
