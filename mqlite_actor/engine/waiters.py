"""Receives that wait for a message: a line per queue, first come first served.

Used by the actor only. A receive is parked when its round found nothing and its time is not over; a
commit that made something claimable sends the front of the line back to the mailbox. A receive asks
for as many as a claim may take and no more (`receive.bounded`). The rule that
nothing is missed: while anybody is parked for a queue, either nothing is claimable there, or a job
that will look is in the mailbox (spec/engine.md 3.3, faults B22).
"""

from __future__ import annotations

from collections import OrderedDict

import trio

from mqlite_actor.contract import limits
from mqlite_actor.engine.mailbox import Job, Where


class Waiters:
    """Parked receives by queue name."""

    __slots__ = ("_lines", "number")

    def __init__(self) -> None:
        self._lines: dict[str, OrderedDict[int, Job]] = {}
        self.number = 0

    def park(self, jobs: list[Job]) -> list[Job]:
        """Put receives in line; those woken in vain return to the front, in their old order.

        Returns those that were not parked because their time is over or too many wait.
        """
        again = [job for job in reversed(jobs) if job.has_waited]
        new = [job for job in jobs if not job.has_waited]
        return [job for job in again + new if not self._park(job)]

    def _park(self, job: Job) -> bool:
        if job.until <= trio.current_time() or self.number >= limits.WAITERS_MAX:
            return False
        assert job.poll is not None
        line = self._lines.setdefault(job.request.queue, OrderedDict())
        line[id(job)] = job
        if job.has_waited:
            line.move_to_end(id(job), last=False)
        job.has_waited = True
        job.where = Where.PARKED
        job.poll.deadline = job.until
        self.number += 1
        return True

    def withdraw(self, job: Job) -> None:
        """Remove a receive whose caller left or whose time is over."""
        line = self._lines[job.request.queue]
        del line[id(job)]
        self._unparked(job, line)

    def wake(self, queue: str, claimable: int) -> list[Job]:
        """Take from the front as many receives as `claimable` messages can serve."""
        line = self._lines.get(queue)
        woken: list[Job] = []
        while line and claimable > 0:
            _, job = line.popitem(last=False)
            claimable -= max(1, job.request.max_messages)
            self._unparked(job, line)
            woken.append(job)
        return woken

    def take_all(self) -> list[Job]:
        """Empty every line, for shutdown."""
        jobs = [job for line in list(self._lines.values()) for job in line.values()]
        for job in jobs:
            self.withdraw(job)
        return jobs

    def counts(self) -> dict[str, int]:
        """How many wait, by queue."""
        return {queue: len(line) for queue, line in self._lines.items()}

    def _unparked(self, job: Job, line: OrderedDict[int, Job]) -> None:
        assert job.poll is not None
        job.poll.deadline = float("inf")
        self.number -= 1
        if not line:
            del self._lines[job.request.queue]
