"""A receiver for programs without a loop: it runs in a trio thread, the handlers in threads.

Made by `SyncHandle.receiver`; built on `receiver` and `background`. Rule: signals arrive in the
main thread, which waits in `run` meanwhile; so they are caught there and passed on, and the
program's own handlers come back when `run` ends.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from types import FrameType
from typing import Any

from mqlite_actor.contract.errors import InvalidArgument
from mqlite_actor.sdk.background import Background
from mqlite_actor.sdk.receiver import Receiver, SyncHandler, is_for_loop
from mqlite_actor.sdk.receiving import ReceiverOptions, settings_of
from mqlite_actor.sdk.stopping import StopSignals, check_signals

NOT_PLAIN = "handler: a plain function here; coroutines need connect() or open_embedded()"
"""Said of a handler that only a loop could run."""


class SyncReceiver:
    """A consumer of one queue. `run` it once; `stop` it from any thread."""

    __slots__ = ("_background", "_lend", "_options", "_queue", "_receiver", "_signals", "_stopped")

    def __init__(
        self,
        lend: Callable[[], AbstractContextManager[Background[Any]]],
        queue: str,
        options: ReceiverOptions,
    ) -> None:
        self._signals: Sequence[signal.Signals] = settings_of(options).stop_signals
        self._options: ReceiverOptions = {**options, "stop_signals": ()}
        self._lend = lend
        self._queue = queue
        self._background: Background[Any] | None = None
        self._receiver: Receiver | None = None
        self._stopped = False

    def run(self, handler: SyncHandler) -> None:
        """Handle messages until stopped, interrupted, or a permanent error, which is raised.

        As `Receiver.run`, but it blocks. After KeyboardInterrupt nothing more is claimed, running
        handlers are waited for and their messages settled, and it is raised on.
        """
        if is_for_loop(handler):
            raise InvalidArgument(NOT_PLAIN)
        if self._receiver is not None:
            raise InvalidArgument("a receiver runs once; make another one")
        check_signals(self._signals)
        with self._lend() as background:
            self._background = background
            self._receiver = background.call(partial(_made, background, self._queue, self._options))
            if self._stopped:
                background.post(self._receiver.stop)
            with self._heeding(self._receiver):
                background.call(partial(self._receiver.run, handler))

    @property
    def is_stopping(self) -> bool:
        """Whether no more is claimed, so that a long handler can come to its end."""
        return self._receiver is not None and self._receiver.stopping.is_set()

    def stop(self) -> None:
        """Claim no more, let running handlers finish within the limit, return from `run`."""
        self._stopped = True
        if self._background is not None and self._receiver is not None:
            self._background.post(self._receiver.stop)

    @contextmanager
    def _heeding(self, receiver: Receiver) -> Iterator[None]:
        seen: list[int] = []
        signals = StopSignals()

        def heed(number: int, _frame: FrameType | None) -> None:
            assert self._background is not None
            if signals.is_echo():
                return
            self._background.post(receiver.cut if seen else receiver.stop)
            seen.append(number)

        before = {each: signal.signal(each, heed) for each in self._signals}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)


async def _made(background: Background[Any], queue: str, options: ReceiverOptions) -> Receiver:
    receiver: Receiver = background.inner.receiver(queue, **options)
    return receiver
