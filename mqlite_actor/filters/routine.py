"""Deep recursion without a deep stack.

Parser, checker and code generator descend as far as a filter nests, several Python frames a level,
and a caller may already stand deep in its own. So their functions are generators that `yield` the
call they want to make and get its result back; `complete` runs them on a stack of its own. An error
raised in the depth ends the whole run.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from mqlite_actor.filters.faults import Refused

T = TypeVar("T")

if TYPE_CHECKING:
    Routine: TypeAlias = Generator["Routine[T]", T, T]
else:
    Routine = Generator  # an alias of itself exists for a type checker only
"""A function in progress: yields routines, is sent their results, returns its own."""

WAITING_MAX: Final = 10_000
"""More than any filter of 1000 nodes can need; a loop of our own would end here."""


def complete(start: Routine[T], *, levels_max: int = WAITING_MAX) -> T:
    """Run a routine and all that it asks for. Raises Refused when more than `levels_max` wait."""
    waiting: list[Routine[T]] = []
    current = start
    answer: T | None = None
    while True:
        try:
            asked = current.send(answer)  # type: ignore[arg-type] # None starts a generator
        except StopIteration as end:
            result: T = end.value
            if not waiting:
                return result
            current, answer = waiting.pop(), result
        else:
            waiting.append(current)
            if len(waiting) > levels_max:
                raise Refused(-1, "nested too deeply")
            current, answer = asked, None
