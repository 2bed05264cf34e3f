"""An engine in this process for programs without a loop: it runs in a background trio thread.

`open_embedded_sync` for a block. Any number of threads may share the handle; a handle that nobody
closed closes with the program. Built on `blocking` (the verbs) and `background` (the thread).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any, TypeVar, Unpack

from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.wire import Message
from mqlite_actor.engine.outbox import Hold, check_outside, inside_of
from mqlite_actor.sdk.background import DONE, Background
from mqlite_actor.sdk.blocking import SyncHandle
from mqlite_actor.sdk.durations import Duration
from mqlite_actor.sdk.embedded import Embedded, opener_of
from mqlite_actor.sdk.handing import undo_of
from mqlite_actor.sdk.message import settled_if_committed
from mqlite_actor.sdk.opening_options import EmbeddedOptions
from mqlite_actor.sdk.transaction import SyncTx

R = TypeVar("R")
T = TypeVar("T")


class SyncEmbedded(SyncHandle):
    """A blocking handle over an engine of this program."""

    __slots__ = ("_background",)

    def __init__(self, background: Background[Embedded]) -> None:
        inner = background.inner
        super().__init__(self._ask, now_ms=inner.now_ms, give_back=self._return)
        self._background = background

    @contextmanager
    def tx(self, *, seconds: Duration = limits.TX_SECONDS) -> Iterator[SyncTx]:
        """A transaction of your rows and our messages; commits when the block ends well.

        An exception rolls back; one that a signal handler raises during the commit comes behind it,
        with a note that says so. Everything else in the engine waits meanwhile, so keep it short:
        after `seconds` (at most 30) it is rolled back and TxTimeout raised. Prefer `run_tx`, whose
        statements need no way between threads.
        """
        check_outside()
        kept: list[Hold] = []  # filled where the writer is taken, so that no interrupt loses it
        is_commit = False
        try:
            with settled_if_committed() as settled:
                hold = self._background.call(partial(_take, self._engine, seconds, kept))
                try:
                    with inside_of(hold):
                        yield SyncTx(_DistantHold(self._background, hold), settled)
                    is_commit = True
                finally:
                    self._background.call(partial(hold.end, is_commit=is_commit), is_late=True)
        except BaseException as error:
            for each in kept:
                if each.is_open:  # an interrupt came before its end was asked for
                    self._background.call(partial(each.end, is_commit=False), is_late=True)
                if each.is_committed and DONE not in getattr(error, "__notes__", ()):
                    error.add_note(DONE)
            raise

    def run_tx(
        self, function: Callable[[SyncTx], T], *, seconds: Duration = limits.TX_SECONDS
    ) -> T:
        """Run a plain function inside a transaction in the storage thread; its result.

        Commits when it returns, rolls back when it raises. An exception that a signal handler
        raises meanwhile rolls back, or comes behind the commit with a note that says so.
        """
        check_outside()
        inner = self._background.inner
        running = partial(inner.run_tx, function, seconds=seconds)
        return self._background.call(running, is_noted=True)

    def compact(self, *, is_full: bool = False) -> None:
        """Shrink the file: by its free pages, or (full) by writing it anew, which needs its size
        again as free space and lets everybody wait."""
        check_outside()
        self._background.call(partial(self._background.inner.compact, is_full=is_full))

    @wraps(Embedded.serve)
    def serve(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401  # passed on
        check_outside()
        self._background.call(partial(self._background.inner.serve, *arguments, **options))

    def run_maintenance(self) -> None:
        """Run every pass once, on the engine's clock: ended leases, schedules, expiry,
        retention."""
        check_outside()
        self._background.call(self._background.inner.run_maintenance)

    @contextmanager
    def _lend(self) -> Iterator[Background[Any]]:
        check_outside()
        yield self._background

    def close(self) -> None:
        """End the engine and release the file; `open_embedded_sync`'s block does it for you."""
        check_outside()
        self._background.close()

    @property
    def _engine(self) -> Any:  # noqa: ANN401  # the engine's class is known to `embedded` alone
        return self._background.inner.engine

    def _ask(self, request: wire.Request[R]) -> R:
        check_outside()
        inner = self._background.inner
        undo = undo_of(inner, request)
        return self._background.call(partial(inner.call, request), undo=undo, is_noted=undo is None)

    def _return(self, queue: str, messages: Sequence[Message], *, attempt_id: str) -> None:
        inner = self._background.inner
        self._background.call(partial(inner.give_back, queue, messages, attempt_id=attempt_id))


async def _take(
    engine: Any,  # noqa: ANN401  # an Engine
    seconds: Duration,
    kept: list[Hold],
) -> Hold:
    """The writer, and a note of it for whoever has to give it back."""
    hold: Hold = await engine.hold(seconds)
    kept.append(hold)
    return hold


class _DistantHold:
    """A transaction in the background thread, for the verbs of `SyncTx`."""

    __slots__ = ("_background", "_hold")

    def __init__(self, background: Background[Embedded], hold: Hold) -> None:
        self._background = background
        self._hold = hold

    def execute(self, sql: str, arguments: Sequence[Any]) -> list[Any]:
        return self._background.call(partial(self._hold.execute, sql, arguments), is_late=True)

    def call(self, request: Any) -> Any:  # noqa: ANN401  # the verbs of SyncTx pair the types
        return self._background.call(partial(self._hold.call, request), is_late=True)


@contextmanager
def open_embedded_sync(store: str, **options: Unpack[EmbeddedOptions]) -> Iterator[SyncEmbedded]:
    """An engine for the length of a block, for a program without a loop.

    `store` is `file:PATH` or `:memory:`. Options and errors as for `open_embedded`. Leaving the
    block lets running calls end, then closes the file.
    """
    background = Background(opener_of(store, **options))
    background.start()
    try:
        yield SyncEmbedded(background)
    finally:
        background.close()
