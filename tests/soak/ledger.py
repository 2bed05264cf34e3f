"""What the clients of a soak were told, in numbers and texts; judged when everything has ended.

An answer that did not come leaves a doubt: a send may be there or not, a completion may have
happened or not. Nothing else is forgiven.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass
class Ledger:
    """Everything by body, which no two messages share."""

    sent: set[str] = field(default_factory=set)
    doubtful: set[str] = field(default_factory=set)
    """Sends without an answer."""
    completed: set[str] = field(default_factory=set)
    maybe_completed: set[str] = field(default_factory=set)
    rejected: set[str] = field(default_factory=set)
    """Somebody tried to reject it, so a purge may have taken it."""
    purged: int = 0
    purges_in_doubt: int = 0
    faults: list[str] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    deeds: Counter[str] = field(default_factory=Counter)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def bodies(self, number: int) -> list[str]:
        """Bodies that nobody has sent."""
        fresh = [f"{next(self._numbers)}" for _ in range(number)]
        self.doubtful.update(fresh)
        return fresh

    def were_sent(self, bodies: Iterable[str]) -> None:
        self.doubtful.difference_update(bodies)
        self.sent.update(bodies)

    def were_refused(self, bodies: Iterable[str]) -> None:
        """They are certainly not there: if one is delivered, nobody sent it."""
        self.doubtful.difference_update(bodies)

    def was_delivered(self, body: str) -> None:
        if body in self.completed:
            self.faults.append(f"{body} came back after it was completed")
        if body not in self.sent and body not in self.doubtful:
            self.faults.append(f"{body} was delivered, and never stored")

    def judge(self, left: list[str]) -> list[str]:
        """`left`: every body that is still stored, dead letters too."""
        found = list(self.faults)
        there = set(left)
        if len(there) != len(left):
            found.append("a message is there twice")
        found += [f"{body} is there after its completion" for body in there & self.completed]
        missing = self.sent - there - self.completed - self.maybe_completed
        found += [f"{body} is lost" for body in missing - self.rejected]
        gone = len(missing & self.rejected)
        if gone > self.purged and not self.purges_in_doubt:
            found.append(f"purges said {self.purged}, and {gone} are gone")
        return found
