"""A transaction on a Hrana server: begun by its first request, on one stream, ended by its last.

Called by `hrana.py`. A transaction that needs no rows first is one request without a baton; any
other keeps a stream for as long as it lasts, and nothing is kept between two of them (ruling R3).
Every statement depends on the one before it, and a failure rolls back in the same request, but only
if the BEGIN was ours. On a server that shares one connection among all clients (tursodb) a request
that comes late must not run outside of its transaction: there each later request begins with a
BEGIN that has to fail.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

import msgspec

from mqlite_actor.storage import hrana_wire as wire
from mqlite_actor.storage.database import Row, Statement
from mqlite_actor.storage.hrana_http import Link, Lost, NotRun
from mqlite_actor.storage.hrana_wire import BEGIN, COMMIT, ROLLBACK, Reply, Step, StepFailure


class StepError(Exception):
    """A statement failed; what was open is rolled back, unless it was to be kept. `place`: which,
    -1 for BEGIN, and the number of statements for COMMIT."""

    def __init__(self, failure: StepFailure, place: int) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.place = place
        self.said = f"{failure.code or ''} {failure.message}"

    @property
    def is_constraint(self) -> bool:
        """The rows, and not the statement."""
        return "CONSTRAINT" in self.said or "constraint failed" in self.said

    @property
    def is_busy(self) -> bool:
        """It may do better later, from the beginning."""
        return any(word in self.said for word in _BUSY) or self.is_inside

    @property
    def is_inside(self) -> bool:
        """A BEGIN on a shared connection met somebody's open transaction."""
        return self.place < 0 and "within a transaction" in self.said

    @property
    def is_full(self) -> bool:
        """No room left over there."""
        return "SQLITE_FULL" in self.said or "disk is full" in self.said

    @property
    def is_refused(self) -> bool:
        """The database takes no writes: a quota, or a replica."""
        return any(word in self.said for word in ("BLOCKED", "READONLY", "readonly"))


_BUSY: Final = (
    "SQLITE_BUSY", "SQLITE_LOCKED", "TRANSACTION_BUSY", "TRANSACTION_TIMEOUT", "STREAM_EXPIRED",
    "database is locked", "Database is busy", "database is busy", "no transaction is active",
    "timed out",
)  # fmt: skip


class Stream:
    """At most one open transaction. `is_shared`: the server has one connection for everybody."""

    __slots__ = ("_base_url", "_baton", "_link", "is_begun", "is_shared")

    def __init__(self, link: Link) -> None:
        self._link = link
        self._baton: str | None = None
        self._base_url: str | None = None
        self.is_begun = False
        self.is_shared = False

    @property
    def cut(self) -> threading.Event:
        """Set when nothing more is to be asked (`Link.cut`)."""
        return self._link.is_cut

    def ask(self, statements: Sequence[Statement], *, is_kept: bool = False) -> list[list[Row]]:
        """Each one's rows; the transaction stays open. `is_kept`: also if one of them fails, but
        for a failure that made the database roll back (`is_begun` is False then).

        Raises StepError, NotRun or Lost; after all but a StepError that is kept nothing is open
        any more, as far as anybody can say.
        """
        steps, first = self._opening(statements)
        last = len(steps) - 1
        if is_kept:
            # A BEGIN has to fail inside of the transaction. If it does not, that one is gone.
            steps.append(Step(BEGIN, (), wire.failed(last)))
            steps.append(Step(ROLLBACK, (), wire.ok(last + 1)))
        else:
            steps.append(Step(ROLLBACK, (), self._undoing(last)))
        has_canary = self._has_canary
        reply = self._send(steps, is_last=False)
        if reply.baton is None and not self.is_shared:
            self.forget()
            raise NotRun("the remote database has closed the stream")
        self.is_begun = True
        try:
            return _rows(reply, first, len(statements), has_canary=has_canary)
        except StepError as error:
            if not is_kept or error.place < 0 or _did_well(reply, last + 1):
                self.forget()
            raise

    def finish(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Run these and commit. Lost: nobody knows whether it did."""
        steps, first = self._opening(statements)
        last = len(steps) - 1
        steps.append(Step(COMMIT, (), wire.ok(last)))
        steps.append(Step(ROLLBACK, (), self._undoing(last + 1)))
        has_canary = self._has_canary
        try:
            reply = self._send(steps, is_last=True)
            return _rows(reply, first, len(statements) + 1, has_canary=has_canary)[:-1]
        finally:
            self.forget()

    def roll_back(self) -> None:
        """Undo what is open. Whatever goes wrong, the server does it itself, in some seconds."""
        if not self.is_begun:
            return
        try:
            self._send([Step(ROLLBACK)], is_last=True)
        except NotRun:
            return
        finally:
            self.forget()

    def free(self) -> None:
        """End whatever transaction a shared connection is in: its owner is gone, or was us."""
        self.forget()
        if self.is_shared:
            self._send([Step(ROLLBACK)], is_last=True)

    def steps(self, steps: Sequence[Step]) -> Reply:
        """Steps outside of any transaction of ours, in a stream of their own."""
        self.forget()
        try:
            return self._send(steps, is_last=True)
        finally:
            self.forget()

    def forget(self) -> None:
        """The next request begins anew."""
        self._baton = self._base_url = None
        self.is_begun = False

    @property
    def _has_canary(self) -> bool:
        """Whether the next request begins with a BEGIN that has to fail."""
        return self.is_begun and self.is_shared

    def _opening(self, statements: Sequence[Statement]) -> tuple[list[Step], int]:
        """The steps up to the last statement, and the place of the first statement."""
        if not self.is_begun:
            return [Step(BEGIN), *wire.chained(statements, 1, wire.ok(0))], 1
        if self._has_canary:
            return [Step(BEGIN), *wire.chained(statements, 1, wire.failed(0))], 1
        return wire.chained(statements, 0, None), 0

    def _undoing(self, last: int) -> wire.Condition:
        """When to roll back: something failed, and the transaction is ours."""
        if not self.is_begun:
            return wire.all_of(wire.ok(0), wire.failed(last))
        if self.is_shared:
            return wire.any_of(wire.ok(0), wire.failed(last))
        return wire.failed(last)

    def _send(self, steps: Sequence[Step], *, is_last: bool) -> Reply:
        body = wire.request(steps, self._baton, is_last=is_last and not self.is_shared)
        try:
            found = self._link.pipeline(body, self._base_url)
            reply = wire.reply(found)
        except msgspec.DecodeError as error:
            self.forget()
            raise Lost("the answer of the remote database makes no sense") from error
        except Exception:
            self.forget()
            raise
        self._baton, self._base_url = reply.baton, reply.base_url or self._base_url
        return reply


def _did_well(reply: Reply, step: int) -> bool:
    return reply.batch is not None and reply.batch.step_results[step] is not None


def _rows(reply: Reply, first: int, number: int, *, has_canary: bool) -> list[list[Row]]:
    """What `number` steps from `first` on returned; StepError for the first that did not do well,
    the opening included."""
    batch = reply.batch
    if batch is None:
        assert reply.failure is not None, "one of the two"
        raise StepError(reply.failure, -1)
    for place in range(first if has_canary else 0, first + number):
        failure = batch.step_errors[place]
        if failure is not None:
            raise StepError(failure, place - first)
        if batch.step_results[place] is None:
            raise StepError(StepFailure("no transaction is active"), place - first)
    return [wire.rows(batch.step_results[first + place]) for place in range(number)]
