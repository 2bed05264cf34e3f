"""Transactions of the embedding program: its rows and our messages commit together, or not at all.

The writer is held for one transaction at a time, and everything else waits; so there is a limit of
seconds, after which it is rolled back whatever it does (ruling R43). `UserTransaction` is the
synchronous core and lives in the storage thread; `Hold` lends it to a task of the embedding
program, statement by statement. The clock is read once, when it begins. Wake-ups and counters come
true with the commit. If SQLite rolls back by itself (disk full), every later statement would commit
alone: that is noticed after each one, and the rest is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import timedelta
from time import perf_counter
from typing import Any, Final, TypeVar, cast

import trio
from outcome import Error

from mqlite_actor.clock import Clock
from mqlite_actor.contract import limits, mistakes
from mqlite_actor.contract.errors import (
    CallerError,
    InvalidArgument,
    MqliteError,
    OutcomeUnknown,
    SchemaVersionMismatch,
    StorageFailed,
    StorageFull,
    TxTimeout,
    Unavailable,
)
from mqlite_actor.engine import admission, disk
from mqlite_actor.engine.commands import JudgedSend
from mqlite_actor.engine.filtering import Inquiry
from mqlite_actor.engine.interrupts import uninterrupted
from mqlite_actor.engine.outcomes import Answer, Done, GroupResult
from mqlite_actor.logs import logger
from mqlite_actor.semantics.operations import Operation
from mqlite_actor.semantics.routing import Undecided, Verdicts
from mqlite_actor.storage.database import Row, Value
from mqlite_actor.storage.failures import is_constraint, mapped
from mqlite_actor.storage.store import Backend, Store

T = TypeVar("T")

Seconds = float | timedelta

_log = logger("mqlite.engine")

inside: ContextVar[Hold | None] = ContextVar("mqlite_inside_tx", default=None)
"""The transaction that this task holds, inherited by its children: while it is open, an engine call
from there would wait for itself."""


_LEFT: Final = InvalidArgument("the transaction was left, or took too long")
"""How a transaction that its holder did not commit is counted: as refused to the caller."""


def _open_anew(store: Store) -> None:
    """As for any other command: a file that cannot be opened now is storage that failed."""
    try:
        store.reopen()
    except MqliteError as error:
        raise StorageFailed(error.message) from error


class UserTransaction:
    """An open transaction, for the storage thread. Ends with `commit` or `roll_back`."""

    __slots__ = (
        "_began", "_changes", "_clock", "_ends_at", "_failure", "_now_ms", "_reason", "_store",
        "_table", "_tx", "is_committed", "is_over", "result",
    )  # fmt: skip

    def __init__(
        self,
        store: Store,
        table: dict[type[Any], Operation],
        clock: Clock,
        seconds: float,
    ) -> None:
        self._store = store
        self._table = table
        self._clock = clock
        self._reason = ""  # why nothing more can be done with it
        self._failure: MqliteError | None = None  # of storage, if that is why
        self.is_over = self.is_committed = False
        self.result = GroupResult(0)
        try:
            disk.prepare(store)
            if not store.healthy:
                _open_anew(store)
                disk.look_at_disk(store)
            self._changes = store.changes
            self._tx = store.begin()
        except Exception as error:
            raise mapped(error) from error
        self._began = perf_counter()
        self._ends_at = clock.monotonic() + seconds  # `tx_seconds` has seen it: nothing fails here
        self._now_ms = clock.now_ms()

    def execute(self, sql: str, arguments: Sequence[Value] = ()) -> list[Row]:
        """Run one statement of the caller's own; its rows."""
        self._check()

        def run() -> list[Row]:
            self._store.room.permit(admission.WHOLE)
            return self._store.user_sql.run(sql, arguments, self._is_late)

        return self._guarded(run)

    def call(self, request: Any) -> Any:  # noqa: ANN401  # the table pairs the types
        """Run a verb of the queue inside this transaction."""
        self._check()
        request = mistakes.check(request)
        room = self._store.room
        if isinstance(request, disk.SENDS) and not room.has_room(lambda: admission.weigh(request)):
            raise disk.nearly_full()
        changes, began = self._store.changes, perf_counter()
        refusal: CallerError | None = None
        try:
            reply = self._guarded(lambda: self._run(request))
        except CallerError as error:
            refusal = error
            raise
        finally:
            if self._failure is None:
                operation = "read" if self._store.changes == changes else "write"
                self._note(operation, refusal, began)
        return reply

    def commit(self) -> None:
        """Make everything true, and `result` what is to be published.

        InvalidArgument for a deferred constraint of the caller's; OutcomeUnknown if nobody can
        tell.
        """
        self._check()
        self._guarded(self._tx.flush)
        has_changed = self._store.changes != self._changes
        self._guarded(lambda: self._store.room.check(has_changed=has_changed))
        self._check()
        try:
            self._store.commit()
        except Exception as error:
            failure = self._commit_failure(error)
            self.roll_back(failure)
            raise failure from error
        self.is_over = self.is_committed = True
        self._reason = "it was committed"
        self._note("transaction", None, self._began)
        self.result.publish(self._tx)

    def roll_back(self, failure: MqliteError | None = None) -> None:
        """Make nothing of it true; harmless when it is over. Never raises.

        Without the `failure` of storage that led to it, it was the caller's own doing.
        """
        if self.is_over:
            return
        self.is_over = True
        self._note("transaction", failure or self._failure or _LEFT, self._began)
        self._reason = self._reason or ("it took too long" if self._is_late() else "it was left")
        try:
            self._store.rollback()
        except Exception:  # noqa: BLE001  # whatever it was: the connection is of no use any more
            _log.exception("rollback failed; the database will be opened again")
            self._store.doubt()
            return
        if isinstance(failure or self._failure, StorageFull):
            disk.take_back(self._store)
            disk.cut_log(self._store, waits=True)  # for the next: this cannot be run again

    def _note(self, operation: str, error: MqliteError | None, began: float) -> None:
        self.result.timings.append((operation, error, perf_counter() - began, 1))

    def _commit_failure(self, error: Exception) -> MqliteError:
        if is_constraint(error):
            return InvalidArgument(f"your rows break a constraint at the commit: {error}")
        failure = mapped(error)
        is_told = isinstance(error, MqliteError) and not isinstance(error, StorageFailed)
        if is_told or isinstance(failure, StorageFull | Unavailable):
            return failure  # the store knows that it was rolled back, or itself that nobody does
        self._store.doubt()
        self.result.is_doubtful = True
        _log.error("a commit failed, its outcome is unknown: %s", failure.message, exc_info=error)
        return OutcomeUnknown(
            f"the commit failed ({failure.message}) and may or may not be on disk"
        )

    def _run(self, request: Any) -> Any:  # noqa: ANN401  # the table pairs the types
        self._store.room.permit(admission.kept(request))
        reply = self._table[type(request)](self._tx, request, self._now_ms)
        if not isinstance(reply, Undecided):
            return reply
        known: Verdicts = {}
        inquiry = Inquiry(request, reply, known, self._now_ms)
        while inquiry.is_open:  # the writer is ours anyway, so the filters are asked here
            inquiry.go_on()
            self._check()
        command = JudgedSend(request, known)
        return self._table[JudgedSend](self._tx, command, self._now_ms)

    def _is_late(self) -> bool:
        return self._clock.monotonic() > self._ends_at

    def _check(self) -> None:
        if self.is_over:
            raise TxTimeout(f"the transaction is over: {self._reason}")
        if self._is_late():
            raise TxTimeout("the transaction took too long and will be rolled back")
        if self._reason:
            raise StorageFailed(f"the transaction cannot go on: {self._reason}")

    def _guarded(self, step: Callable[[], T]) -> T:
        try:
            return step()
        except SchemaVersionMismatch as error:
            self._reason = error.message
            raise InvalidArgument(f"refused inside tx(): {error.message}") from error
        except MqliteError:
            raise
        except Exception as error:
            failure = mapped(error)
            self._reason, self._failure = failure.message, failure
            if isinstance(failure, StorageFailed):
                self._store.doubt()
            _log.error("a step of a transaction failed: %s", failure.message, exc_info=error)
            raise failure from error
        finally:
            if not self._store.in_transaction:
                self._reason = self._reason or "SQLite rolled it back"


@uninterrupted
class Hold:
    """The writer, lent to one task. Made by `Engine.hold`; `end` gives it back."""

    __slots__ = ("_ended", "_in_thread", "_make", "_transaction", "seconds")

    def __init__(
        self,
        make: Callable[[float], UserTransaction],
        in_thread: Callable[..., Any],
        seconds: float,
    ) -> None:
        self._make = make
        self._in_thread = in_thread
        self._ended = trio.Event()
        self._transaction: UserTransaction | None = None
        self.seconds = seconds

    @property
    def is_open(self) -> bool:
        """Whether it still holds the writer."""
        return not self._ended.is_set()

    @property
    def is_committed(self) -> bool:
        """Whether what was done in it is true."""
        return self._transaction is not None and self._transaction.is_committed

    # -- for the actor -----------------------------------------------------------------------------

    async def lend(self, answer: Callable[[Answer], None]) -> GroupResult:
        """Begin, tell the holder, and wait for the end of it, at most its seconds."""
        try:
            self._transaction = await self._in_thread(self._make, self.seconds)
        except Exception as error:  # noqa: BLE001  # the others' engine must not end of it
            failure = _not_begun(error)
            answer(Error(failure))
            refused = GroupResult(0)
            refused.timings.append(("transaction", failure, 0.0, 1))
            return refused
        answer(Done(self))
        with trio.move_on_after(self.seconds):
            await self._ended.wait()
        assert self._transaction is not None
        if not self._transaction.is_over:  # too late, or its holder was interrupted while it ended
            await self._roll_back()  # a statement stops by its own clock
        self._ended.set()
        return self._transaction.result

    # -- for the holder ----------------------------------------------------------------------------

    async def execute(self, sql: str, arguments: Sequence[Value]) -> list[Row]:
        """Run one statement of the caller's own."""
        rows: list[Row] = await self._step("execute", sql, arguments)
        return rows

    async def call(self, request: Any) -> Any:  # noqa: ANN401  # the table pairs the types
        """Run a verb inside the transaction."""
        return await self._step("call", request)

    async def run(self, function: Callable[[UserTransaction], T]) -> T:
        """Run a plain function on the transaction in the storage thread."""
        assert self._transaction is not None
        token = inside.set(self)
        try:
            with trio.CancelScope(shield=True):
                return cast("T", await self._in_thread(function, self._transaction))
            raise AssertionError("a shield swallows nothing")
        finally:
            inside.reset(token)

    async def end(self, *, is_commit: bool) -> None:
        """Commit or roll back, then let the writer go on. Shielded: it is never left half done."""
        assert self._transaction is not None
        with trio.CancelScope(shield=True):
            try:
                if is_commit:
                    await self._in_thread(self._transaction.commit)
            finally:
                try:
                    await self._roll_back()
                finally:
                    self._ended.set()  # else `lend` rolls it back: an interrupt passes the shield

    async def _roll_back(self) -> None:
        assert self._transaction is not None
        try:
            await self._in_thread(self._transaction.roll_back)
        except RuntimeError:  # no thread can be started: rather hold the loop up than the writer
            self._transaction.roll_back()

    async def _step(self, name: str, *arguments: Any) -> Any:  # noqa: ANN401  # passes them on
        """A step that has begun ends in its thread, shielded, before a cancellation shows."""
        assert self._transaction is not None
        await trio.lowlevel.checkpoint_if_cancelled()
        with trio.CancelScope(shield=True):
            return await self._in_thread(getattr(self._transaction, name), *arguments)


def _not_begun(error: Exception) -> MqliteError:
    """What its holder is told. A thread that cannot be started is no fault of storage's."""
    if isinstance(error, MqliteError):
        return error
    _log.error("a transaction could not begin", exc_info=error)
    return Unavailable(f"the transaction could not begin ({error}); repeat after a pause")


def tx_seconds(seconds: Seconds, backend: Backend) -> float:
    """How long a transaction may take, if it may take so long on this kind of store."""
    most = limits.TX_SECONDS if backend.is_remote else limits.TX_SECONDS_MAX
    length = seconds.total_seconds() if isinstance(seconds, timedelta) else seconds
    if not isinstance(length, int | float):
        raise InvalidArgument(f"seconds: a number or a timedelta, not {type(seconds).__name__}")
    if not 0 < length <= most:
        raise InvalidArgument(f"seconds: more than 0 and at most {most:.0f}")
    return length


@contextmanager
def inside_of(hold: Hold) -> Iterator[None]:
    """A block of whoever holds the writer.

    It may be left in another context than it was entered in: a framework runs the two halves of a
    dependency with a yield, or of a fixture, in copies of one. Then there is nothing to reset, and
    nothing may stand in the way of the transaction's end."""
    token = inside.set(hold)
    try:
        yield
    finally:
        with suppress(ValueError):  # it "was created in a different Context"
            inside.reset(token)


def check_outside() -> None:
    """Refuse an engine call from the task that holds the writer, or its children."""
    hold = inside.get()
    if hold is not None and hold.is_open:
        raise InvalidArgument(
            "an engine call inside tx() would wait for itself, and one to another engine could wait"
            " for whoever waits here; use the transaction's own methods"
        )
