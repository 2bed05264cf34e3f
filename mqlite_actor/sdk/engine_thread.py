"""The threads that engines run in, seen from any thread of the program.

Used by `background`. Rules: an engine's thread is no daemon, yet it keeps no program going; whoever
waits for it must not be what it waits for.
"""

from __future__ import annotations

import threading

import trio


class EngineThread(threading.Thread):
    """One of ours: it keeps no program going."""


def is_program_over() -> bool:
    """Whether no thread is left that the interpreter waits for, but ours. The main one may end
    long before those that it started."""
    return not any(
        each.is_alive() and not each.daemon and not isinstance(each, EngineThread)
        for each in threading.enumerate()
    )


def is_waited_for_by(thread: threading.Thread, token: trio.lowlevel.TrioToken | None) -> bool:
    """Whether this thread is that one, or one that its trio run has lent to a plain function, such
    as a receiver's handler, which it waits for."""
    if threading.get_ident() == thread.ident:
        return True
    try:
        lender = trio.from_thread.run_sync(trio.lowlevel.current_trio_token)
    except RuntimeError:  # no trio run has lent it, or one that is over
        return False
    return lender is token
