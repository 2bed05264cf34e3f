"""One evaluation: the message's facts, the variables, and what may still be spent.

Made by compile.py for each message and handed to every piece of code. Two budgets bound it: steps
(time) and elements (memory). Code that loops, copies or scans pays before it does the work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mqlite_actor.filters.faults import FilterFailed

if TYPE_CHECKING:
    from mqlite_actor.filters.environment import Facts
    from mqlite_actor.filters.values import Value

STEPS_MAX: Final = 1_000_000
"""Evaluation steps of one run (decision 16): some tenths of a second at the very worst."""

ELEMENTS_MAX: Final = 1_000_000
"""Elements and bytes that one run may make; the total must stay below."""

STEP_BYTES_BITS: Final = 5
"""A step pays for 32 bytes that a string function writes: no run can make more than 32 MB."""

FREE_BYTES: Final = 1024
"""Looking through less costs nothing worth counting."""

SCAN_BITS: Final = 7
"""A step pays for 128 bytes that are searched or compared. Comparing is ten times faster, but the
same long text can be compared again and again."""


class Run:
    """`cells` holds lets and loop pointers, each at the place that the code generator chose."""

    __slots__ = ("cells", "elements", "facts", "steps")

    def __init__(self, facts: Facts, cells: int) -> None:
        self.facts = facts
        self.cells: list[Value] = [None] * cells
        self.steps = STEPS_MAX
        self.elements = ELEMENTS_MAX

    def spend(self, steps: int) -> None:
        """Pay for work. Raises FilterFailed when the steps are used up."""
        self.steps -= steps
        if self.steps < 0:
            raise FilterFailed("budget", f"more than {STEPS_MAX:,} steps")

    def write(self, size: int) -> None:
        """Pay for a string of `size` bytes."""
        self.spend((size >> STEP_BYTES_BITS) + 1)

    def scan(self, size: int) -> None:
        """Pay for looking through `size` bytes once."""
        if size > FREE_BYTES:
            self.spend(size >> SCAN_BITS)

    def make(self, elements: int) -> None:
        """Pay for elements of a new list or map. Raises FilterFailed when memory is used up."""
        self.elements -= elements
        if self.elements <= 0:
            raise FilterFailed("budget", f"{ELEMENTS_MAX:,} elements or more")
