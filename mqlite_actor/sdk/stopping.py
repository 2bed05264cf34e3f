"""Whether a stop signal is a second wish, or the first one heard twice.

`timeout` tells its program and then the whole group, a supervisor tells what the terminal has told
already: one wish comes twice within a moment, and nobody wants to have cut what a first signal lets
come to its end. Used by the receivers, the broker and the command line, each of which decides what
a second signal does. Rule: it may be asked inside of a signal handler, so it takes no lock.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from signal import Signals
from typing import Final

from mqlite_actor.clock import Clock, SystemClock
from mqlite_actor.contract.errors import InvalidArgument

ECHO_SECONDS: Final = 0.5
"""Two signals that are closer are one wish: far more than there is between two that one cause has
sent, and no longer than a person needs to see that the first one did not do."""


def check_signals(signals: Sequence[Signals]) -> None:
    """InvalidArgument where a receiver that is to heed them would hear nothing of them."""
    if signals and threading.current_thread() is not threading.main_thread():
        raise InvalidArgument("stop_signals: signals arrive in the main thread; run it there")


class StopSignals:
    """The stop signals of one run, in the order of their coming."""

    __slots__ = ("_clock", "_first_at")

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._first_at: float | None = None

    def is_echo(self) -> bool:
        """Whether the signal that has come now repeats what the first one has said. To be asked
        once for each."""
        now = self._clock.monotonic()
        if self._first_at is None:
            self._first_at = now
            return False
        return now - self._first_at < ECHO_SECONDS
