"""The shapes of running code.

Filled by code_*.py, assembled here. Every node is evaluated first child first, so a tree is a spine
(that chain of first children, walked without recursion) with side branches: `Code` gives a value
from nothing, `Step` carries on from the value so far. A chain of operators, members or pipes thus
runs in one frame however long it is. Real nesting needs one Python frame a level and no more: a
step's arguments are evaluated in the frame of its spine, and a step that chooses what to evaluate
next returns that as a `Tail` instead of calling it. Only loops call their predicate themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from mqlite_actor.filters.faults import FilterFailed
from mqlite_actor.filters.run import Run
from mqlite_actor.filters.values import NILS, Value

Code: TypeAlias = Callable[[Run], Value]
Work: TypeAlias = Callable[..., Value]
"""Takes the run, the value so far, and the arguments."""


class Tail:
    """What a step wants evaluated next, as its result. Made while compiling, once for each arm."""

    __slots__ = ("code",)

    def __init__(self, code: Code) -> None:
        self.code = code


class Step(NamedTuple):
    """`jump` is where to go on with nil when the value so far is nil (0: nowhere)."""

    at: int
    work: Work
    args: tuple[Code, ...] = ()
    jump: int = 0


def constant(value: Value) -> Code:
    """Code that gives always the same."""
    return lambda run: value


def failing(at: int, failure: FilterFailed) -> Code:
    """Code that was wrong from the start, but not looked at by the checker."""
    kind, text = failure.kind, failure.text

    def code(_: Run) -> Value:
        failed = FilterFailed(kind, text)
        failed.locate(at)
        raise failed

    return code


def assembled(base: Code, steps: Sequence[Step]) -> Code:
    """The base and the steps as one piece of code."""
    if not steps:
        return base
    if len(steps) > 1 or steps[0].jump or len(steps[0].args) > 1:
        return _straight(base, tuple(steps))
    at, work, args, _ = steps[0]
    return _one_argument(base, at, work, args[0]) if args else _alone(base, at, work)


def _alone(base: Code, at: int, work: Work) -> Code:
    """The common shape: one step that needs nothing but the value so far."""

    def code(run: Run) -> Value:
        try:
            value = work(run, base(run))
        except FilterFailed as failed:
            failed.locate(at)
            raise
        return value.code(run) if type(value) is Tail else value

    return code


def _one_argument(base: Code, at: int, work: Work, arg: Code) -> Code:
    """The other common shape: a binary operator."""

    def code(run: Run) -> Value:
        try:
            return work(run, base(run), arg(run))
        except FilterFailed as failed:
            failed.locate(at)
            raise

    return code


def _straight(base: Code, steps: tuple[Step, ...]) -> Code:
    """Any number of steps, jumps of `?.` among them."""

    def code(run: Run) -> Value:
        place, at = 0, steps[0].at
        try:
            value = base(run)
            while place < len(steps):
                at, work, args, jump = steps[place]
                place += 1
                if jump and type(value) in NILS:
                    value, place = None, jump
                elif not args:
                    value = work(run, value)
                    if type(value) is Tail:
                        value = value.code(run)
                elif len(args) == 1:
                    value = work(run, value, args[0](run))
                else:
                    given = []
                    for arg in args:  # a comprehension would be a frame of its own
                        given.append(arg(run))  # noqa: PERF401 - see above
                    value = work(run, value, *given)
            return value
        except FilterFailed as failed:
            failed.locate(at)
            raise

    return code


def charged(code: Code, steps: int) -> Code:
    """Code that is reached from two places pays each time, or nested ones would never end."""

    def paying(run: Run, _: Value) -> Value:
        run.spend(steps)
        return tail

    tail = Tail(code)
    return _alone(constant(None), -1, paying)
