"""SIGTERM and SIGHUP for a command that tells what it has done when Ctrl-C ends it.

Called by `feeding` and `redriving`, whose work may be ended anywhere: what is sent or moved stays
so, and the words that name it are for whoever goes on. `timeout`, systemd and a closed terminal
send other signals than Ctrl-C, and are told the same. Commands that hold leases have `supervision`.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from mqlite_actor.sdk.stopping import StopSignals
from mqlite_cli.refusals import Interrupted

_SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


@contextmanager
def stops_interrupt() -> Iterator[None]:
    """Within the block these signals raise KeyboardInterrupt where Ctrl-C would, and out of it
    comes Interrupted with their number. A second one ends the process where it stands; one that
    only repeats the first (`StopSignals`) does not, behind the block neither.

    Nothing is changed outside the main thread, nor where Ctrl-C means something else than usual:
    whoever runs a command in a shell's background has switched that off.
    """
    is_usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if threading.current_thread() is not threading.main_thread() or not is_usual:
        yield
        return
    signals = StopSignals()
    seen: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        is_echo = signals.is_echo()
        if seen:
            if not is_echo:
                os._exit(128 + number)
            return
        seen.append(number)
        # By now it may be that of a loop, which lets an interrupt come only where it may.
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler):
            handler(signal.SIGINT, frame)

    before = {}
    try:
        for number in _SIGNALS:
            # Whoever started us with a signal ignored (nohup) meant it.
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, interrupt)
        yield
    except KeyboardInterrupt as error:
        if not seen:
            raise
        raise Interrupted(seen[0]) from error
    finally:
        if not seen:  # else the process ends, and says by which signal
            for number, handler in before.items():
                signal.signal(number, handler)
