"""A group on a distant store: many commands, a few round trips, every answer true (ruling R3).

The counterpart of `group.py`'s transaction for a store where each question costs a round trip of
tens of milliseconds. Commands are gathered into units, and units that do not meet (`footprints.py`)
into a batch; the units of a batch run side by side in waves: each runs until it needs rows, all
that is asked goes in one request, and so on. What is to be written waits for the end of the batch,
and the last of it goes with COMMIT. So sends into a known queue, claims, and settlements of leases
that are remembered, are one request; claims under an attempt id and sends with duplicate detection
two; none more than three, except what passes of time find in queues never heard of. Nobody's order
is changed that anybody could see: all these commands are unanswered.

Looks go by themselves. Each of their waves is a transaction of its own, which nothing can come
between, since one engine owns the database. Whichever kind heads a group goes first, so that
neither keeps the other waiting for ever.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import groupby
from time import perf_counter
from typing import Any, Final, cast

from outcome import Error

from mqlite_actor.clock import Clock
from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import CallerError, OutcomeUnknown, Unavailable
from mqlite_actor.engine import given
from mqlite_actor.engine.commands import LastActive, LastDeadLetter, Table
from mqlite_actor.engine.footprints import NOTHING, Keys, keys_of
from mqlite_actor.engine.outcomes import Broken, Done, GroupResult, Unknown
from mqlite_actor.engine.readers import READS
from mqlite_actor.engine.unit import Unit, Writing
from mqlite_actor.storage import queues
from mqlite_actor.storage.database import READ_COUNTER, Recall, Row, Statement, Transaction
from mqlite_actor.storage.patience import Patience
from mqlite_actor.storage.store import Again, DistantStore, Store

REQUESTS_MAX: Final = 2
"""After so many requests a transaction takes no further batch: the next one would be its fourth."""

LOOKS: Final = {*READS, LastDeadLetter, LastActive}
"""What changes nothing, and so goes by itself."""

TOGETHER: Final = (wire.SendRequest, wire.ReceiveRequest, wire.CompleteRequest)
"""Kinds of which neighbours share statements; brought together wherever they stand."""


def together(
    store: Store,
    table: Table,
    requests: Sequence[Any],
    indexes: Sequence[int],
    clock: Clock,
    result: GroupResult,
    *,
    is_patient: bool = True,
) -> Sequence[int]:
    """Run as many of these commands as fit one transaction; fills their outcomes if it commits.
    Which those were.

    At least one is answered. Raises Broken or Unknown with those that were in it. What may be run
    anew is, after a growing pause, until REMOTE_PATIENCE_SECONDS are over: then nothing of it
    happened.
    """
    assert is_patient, "it never runs in the loop's own thread"
    is_look = type(requests[indexes[0]]) in LOOKS
    chosen = [index for index in indexes if (type(requests[index]) in LOOKS) is is_look]
    group = _Group(cast("DistantStore", store), table, requests, clock, result)
    patience = group.patience()
    while True:
        try:
            taken = group.look(chosen) if is_look else group.write(chosen)
            if taken:
                return taken
        except Again as again:
            cause = again.__cause__ or Unavailable("the remote database is busy")
            if not patience.rest(again.pause_seconds):
                raise Broken(chosen) from _refused(cause)
        except OutcomeUnknown as error:
            raise Unknown(group.taken or chosen) from error
        except Exception as error:
            group.give_up()
            raise Broken(group.taken or chosen) from error


def _refused(cause: BaseException) -> Exception:
    if isinstance(cause, Unavailable):
        return cause
    return Unavailable(f"the remote database did not take it in time: {cause}")


class _Group:
    """One try after the other at a part of a group."""

    __slots__ = (
        "_clock", "_ledger", "_requests", "_result", "_store", "_table", "_trips", "_whole",
        "_writings", "taken",
    )  # fmt: skip

    def __init__(
        self,
        store: DistantStore,
        table: Table,
        requests: Sequence[Any],
        clock: Clock,
        result: GroupResult,
    ) -> None:
        self._store = store
        self._ledger = store.ledger
        self._table = table
        self._requests = requests
        self._clock = clock
        self._result = result
        self.taken: list[int] = []
        self._begin()

    def write(self, indexes: Sequence[int]) -> Sequence[int]:
        """Batch after batch, then COMMIT; the commands that were answered."""
        started = perf_counter()
        self._begin()
        self._learn_queues()
        done: list[Unit] = []
        waiting = deque(self._units(indexes))
        while waiting and self._trips < REQUESTS_MAX:
            done += self._batch(waiting)
        self.taken = _answered(done)
        writings = self._flushed()
        found = self._store.finish(_statements(writings))
        if found is None:
            self._result.is_doubtful = True  # nobody heard what became claimable
            self._recall([each.recall for each in writings if each.recall])
        else:
            _tell(writings, found)
        self.taken = _answered(done)  # some answers may be taken back by what was found
        self._publish(done, perf_counter() - started)
        return self.taken

    def look(self, indexes: Sequence[int]) -> Sequence[int]:
        """Commands that change nothing: each wave a transaction of its own."""
        started = perf_counter()
        self._begin()
        self.taken = list(indexes)
        units = [self._alone(index) for index in indexes]
        blocked = [unit for unit in units if not unit.go_on(self._ledger)]
        while blocked:
            found = self._store.finish([each for unit in blocked for each in unit.asked])
            if found is None:
                raise Again  # it changed nothing
            _share(blocked, found)
            blocked = [unit for unit in blocked if not unit.go_on(self._ledger)]
        self._publish(units, perf_counter() - started)
        return self.taken

    def _recall(self, recalls: Sequence[Recall]) -> None:
        """Ask again for what was answered, and lost. OutcomeUnknown if nobody says it in time."""
        patience = self.patience()
        while recalls:
            try:
                found = self._store.finish([each.statement for each in recalls])
            except Again:
                found = None
            if found is not None:
                for recall, rows in zip(recalls, found, strict=True):
                    recall.told(rows)
                return
            if not patience.rest():
                raise OutcomeUnknown("what was claimed cannot be asked for")

    def patience(self) -> Patience:
        """For what may be tried again."""
        return self._store.patience()

    def give_up(self) -> None:
        """Undo what is open."""
        self._store.rollback()

    def _begin(self) -> None:
        self._trips = 0
        self.taken = []
        self._writings: list[Writing] = []  # to be sent with the next batch, or with COMMIT
        self._whole = Transaction(_never, _never_many, self._ledger, write=self._keep)

    def _keep(self, statements: Sequence[Statement]) -> None:
        self._writings.append(Writing(statements))

    def _learn_queues(self) -> None:
        """All of them at once, after an opening or a rollback."""
        if self._ledger.knows_all:
            return
        found, counter = self._store.ask([queues.everything(), (READ_COUNTER, ("seq",))])
        queues.fill(self._ledger, found)
        self._ledger.last_seq = counter[0][0]

    def _publish(self, done: list[Unit], seconds: float) -> None:
        result, whole = self._result, self._whole
        self._store.complaint = ""
        result.timings.append(("transaction", None, seconds, 1))
        for unit in done:
            operation = "write" if unit.wrote else "read"
            whole.absorb_truth(unit.tx)
            result.given += given.weigh(unit.answers)
            for index, answer in zip(unit.indexes, unit.answers, strict=False):
                is_refusal = isinstance(answer, CallerError)
                result.outcomes[index] = Error(answer) if is_refusal else Done(answer)
                result.timings.append((operation, answer if is_refusal else None, seconds, 1))
        result.publish(whole)

    # -- units -------------------------------------------------------------------------------------

    def _units(self, indexes: Sequence[int]) -> list[Unit]:
        """In the order in which they will run: those of a kind and queue brought together."""
        order: dict[type[Any], int] = {kind: place for place, kind in enumerate(TOGETHER)}

        def place(index: int) -> tuple[int, str]:
            request = self._requests[index]
            at = order.get(type(request))
            return (len(order), "") if at is None else (at, request.queue)

        units: list[Unit] = []
        for (at, _), alike in groupby(sorted(indexes, key=place), place):
            found = list(alike)
            if at < len(order):
                units.append(self._neighbours(found))
            else:
                units += [self._alone(index) for index in found]
        return units

    def _neighbours(self, indexes: list[int]) -> Unit:
        requests = [self._requests[index] for index in indexes]
        run = self._table.runs[type(requests[0])]
        far = self._table.far_runs.get(type(requests[0]))
        if len(indexes) == 1 and far is None:
            return self._alone(indexes[0])
        now_ms = self._clock.now_ms()
        keys: set[object] = set()
        if type(requests[0]) is not wire.SendRequest:  # those that fit read nothing
            keys = {key for each in requests for key in keys_of(each, self._ledger) or NOTHING}

        def step(tx: Transaction) -> Sequence[Any]:
            return (far and far(tx, requests, now_ms)) or run(tx, requests, now_ms)

        return Unit(indexes, step, cast("Keys", frozenset(keys)))

    def _alone(self, index: int) -> Unit:
        request, now_ms = self._requests[index], self._clock.now_ms()
        operation = self._table[type(request)]

        def step(tx: Transaction) -> Sequence[Any]:
            return (operation(tx, request, now_ms),)

        return Unit([index], step, keys_of(request, self._ledger))

    # -- a batch -----------------------------------------------------------------------------------

    def _batch(self, waiting: deque[Unit]) -> list[Unit]:
        """Run the next units that do not meet, to their end; what meets them stays in `waiting`."""
        done, blocked = self._first_wave(waiting)
        is_first = True
        while blocked:
            self._ask(blocked, self._flushed() if is_first else [])
            is_first = False
            going, blocked = blocked, []
            for unit in going:
                if unit.go_on(self._ledger):
                    done += self._ended(unit, waiting)
                else:
                    blocked.append(unit)
        return done

    def _first_wave(self, waiting: deque[Unit]) -> tuple[list[Unit], list[Unit]]:
        """Those that came to their end without asking, and those that ask."""
        taken: set[object] = set()
        done: list[Unit] = []
        blocked: list[Unit] = []
        later: list[Unit] = []
        is_full = False
        while waiting:
            unit = waiting.popleft()
            is_alone = unit.keys is None
            keys = unit.keys or NOTHING
            if is_full or (is_alone and (done or blocked)) or keys & taken:
                later.append(unit)  # and nobody behind it may pass it
                taken |= keys
                is_full |= is_alone
                continue
            if not unit.go_on(self._ledger):
                blocked.append(unit)
            else:
                done += self._ended(unit, waiting)
                if not unit.answers:
                    continue
            taken |= keys
            is_full |= is_alone
        waiting.extend(later)
        return done, blocked

    def _ended(self, unit: Unit, waiting: deque[Unit]) -> list[Unit]:
        """Take over what a unit did, and put what it left unanswered in front of all others."""
        left = unit.indexes[len(unit.answers) :]
        if left and unit.answers:
            waiting.appendleft(self._neighbours(list(left)))
        else:  # not even the first fitted: each by itself
            waiting.extendleft(self._alone(index) for index in reversed(left))
        if not unit.answers:
            return []
        self._whole.absorb(unit.tx)
        self._writings += unit.unsent
        return [unit]

    def _flushed(self) -> list[Writing]:
        """All that is to be written by now, counts included."""
        self._whole.flush()
        writings, self._writings = self._writings, []
        return writings

    def _ask(self, blocked: list[Unit], writings: list[Writing]) -> None:
        """One request for all that they want to know, behind what earlier ones wrote."""
        statements = _statements(writings)
        number = len(statements)
        for unit in blocked:
            statements += _statements(unit.unsent)
            statements += unit.asked
        found = self._store.ask(statements)
        self._trips += 1
        _tell(writings, found[:number])
        _share(blocked, found[number:])


def _answered(done: Sequence[Unit]) -> list[int]:
    """The commands that have an answer by now."""
    return [index for unit in done for index in unit.indexes[: len(unit.answers)]]


def _statements(writings: Sequence[Writing]) -> list[Statement]:
    return [each for writing in writings for each in writing.statements]


def _tell(writings: Sequence[Writing], found: Sequence[list[Row]]) -> None:
    at = 0
    for writing in writings:
        if writing.told is not None:
            writing.told(list(found[at : at + len(writing.statements)]))
        at += len(writing.statements)


def _share(blocked: Sequence[Unit], found: list[list[Row]]) -> None:
    """Each its part of what was returned, in the order in which it was sent."""
    at = 0
    for unit in blocked:
        written: list[list[list[Row]]] = []
        for writing in unit.unsent:
            written.append(found[at : at + len(writing.statements)])
            at += len(writing.statements)
        unit.learn(written, found[at : at + len(unit.asked)])
        at += len(unit.asked)


def _never(_: Sequence[Statement]) -> list[list[Row]]:
    raise AssertionError("the whole asks nothing, its units do")


def _never_many(_: str, __: object) -> list[Row]:
    raise AssertionError("the whole asks nothing, its units do")
