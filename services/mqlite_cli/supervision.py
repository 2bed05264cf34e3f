"""Signals for a command that holds something: it is told, and gets to put it back.

Called by `invocation` for commands that hold leases. The work runs in a thread, the main thread
waits for its end or for a signal, whichever comes first; so a work that is stuck, in a write to a
pipe that nobody reads or on a broker that does not answer, cannot keep the signal away. The first
signal calls `leave`, a second wish ends the process where it stands, and first `at_once` what must
not outlive it.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Generic, TypeVar

from mqlite_actor.sdk.stopping import StopSignals
from mqlite_cli.refusals import Interrupted

T = TypeVar("T")

LEAVE_SECONDS = 2.0
"""What the work gets to end in after it was told: well over a round trip, short for a person."""

_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
_ENDED = b"\0"  # no signal has this number


class _Work(Generic[T]):
    """The work in its thread, and what came of it."""

    __slots__ = ("_function", "_socket", "error", "result", "thread")

    def __init__(self, function: Callable[[], T], sock: socket.socket) -> None:
        self._function = function
        self._socket = sock
        self.result: list[T] = []
        self.error: BaseException | None = None
        # A daemon, so that one that is stuck does not outlive the main thread's decision to end.
        self.thread = threading.Thread(target=self._run, name="work", daemon=True)

    def _run(self) -> None:
        try:
            self.result.append(self._function())
        except BaseException as error:  # noqa: BLE001 - raised again in the main thread
            self.error = error
        finally:
            self._socket.send(_ENDED)

    def outcome(self) -> T:
        """Its result, or its error raised."""
        if self.error is not None:
            raise self.error
        return self.result[0]


def supervised(
    function: Callable[[], T],
    *,
    leave: Callable[[], None],
    at_once: Callable[[], None] | None = None,
) -> T:
    """Run `function` in a thread and return or raise what it does; for the main thread.

    After a signal: `leave` in the main thread, LEAVE_SECONDS for `function` to end, Interrupted.
    At a second one `at_once`, which runs in the midst of anything and may wait for nothing.
    """
    here, there = socket.socketpair()
    with here, there:
        there.setblocking(False)
        work = _Work(function, there)
        with _signals_as_bytes(there, at_once):
            work.thread.start()
            number = here.recv(1)[0]
            if not number:
                return work.outcome()
            leave()
            work.thread.join(LEAVE_SECONDS)
            raise Interrupted(number)


@contextmanager
def _signals_as_bytes(sock: socket.socket, at_once: Callable[[], None] | None) -> Iterator[None]:
    """Each signal is written into `sock` as its number; the second wish ends the process."""
    seen: list[int] = []
    signals = StopSignals()

    def note(number: int, _: FrameType | None) -> None:
        if signals.is_echo():
            return
        seen.append(number)
        if len(seen) > 1:
            try:
                if at_once is not None:
                    at_once()
            finally:
                os._exit(128 + number)

    before = {}
    wakeup = signal.set_wakeup_fd(sock.fileno(), warn_on_full_buffer=False)
    try:
        for number in _SIGNALS:
            # Whoever started us with a signal ignored (nohup, a shell's background) meant it.
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, note)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(wakeup)
