"""What time it is where a command goes: by that clock a duration becomes a moment, and is over.

Called by the commands that take "30m from now" or "an hour ago", or tell what has ended. A broker's
answers bound its time to about a second (`http_clock`), so there is an earliest and a latest: what
must not come too soon goes by the latest, what must not be chosen too soon by the earliest. Where
answers name no time, and for a store, whose engine is in this process, this machine's clock counts.
A `question` is asked for the time of its answer alone: something cheap that the key may ask.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from mqlite_actor.clock import SystemClock
from mqlite_actor.contract.errors import NotFound, PermissionDenied
from mqlite_actor.contract.wire import Request
from mqlite_cli.invocation import Caller, Invocation

R = TypeVar("R")

Now = Callable[[], int]
"""Milliseconds since 1970. May ask, and so raise the contract's errors."""


def earliest(run: Invocation, question: Request[R]) -> Now:
    """The time that it is there at least."""
    return lambda: _told(run, question, lambda caller: caller.reached_ms())


def latest(run: Invocation, question: Request[R]) -> Now:
    """The time that it is there at most."""
    return lambda: _told(run, question, lambda caller: caller.now_ms())


def reached_ms(caller: Caller, question: Request[R]) -> int:
    """The earliest, where a caller is at hand; it asks unless an answer has told it before."""
    if (told := caller.reached_ms()) is None:
        _ask(caller, question)
        told = caller.reached_ms()
    return SystemClock().now_ms() if told is None else told


def likely_ms(caller: Caller, question: Request[R]) -> int:
    """For what has ended or is old by now, where a caller is at hand: this machine's time, or the
    earliest that it can be. It asks unless an answer has told it before."""
    if caller.reached_ms() is None:
        _ask(caller, question)
    return _near(caller, lambda caller: caller.reached_ms())


def _told(run: Invocation, question: Request[R], bound: Callable[[Caller], int | None]) -> int:
    def work(caller: Caller) -> int:
        _ask(caller, question)
        return _near(caller, bound)

    return SystemClock().now_ms() if run.is_local else run.session(work)


def _near(caller: Caller, bound: Callable[[Caller], int | None]) -> int:
    """This machine's time where it may well be the broker's, for it is finer than what is told."""
    here_ms, least, most = SystemClock().now_ms(), caller.reached_ms(), caller.now_ms()
    if least is None or most is None or least <= here_ms <= most:
        return here_ms
    return bound(caller) or here_ms


def _ask(caller: Caller, question: Request[R]) -> None:
    with suppress(NotFound, PermissionDenied):  # a topic; a key that may only send
        caller.call(question)  # such an answer has the time all the same
