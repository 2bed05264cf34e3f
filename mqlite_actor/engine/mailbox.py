"""The writer's mailbox: what waits, how much of it, and who may come in.

Used by the actor, filled by `Engine.call`. Bounded in number and bytes; a caller beyond the bounds
waits for room in order of arrival. A job leaves it in one of two ways: taken by the actor, or
withdrawn by its own caller, in which case it certainly never ran. What the actor took and came not
to is put back in front, beyond the bounds if need be: it was inside before.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Any, NoReturn

import msgspec
import trio

from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import MqliteError
from mqlite_actor.engine.outcomes import Answer

Command = Any
"""A struct that the engine's table has a function for: a request of the wire or of `commands`."""


class Where(IntEnum):
    """Where a job is; all but TAKEN may be withdrawn by its caller."""

    LINED = 1  # outside, waiting for room
    QUEUED = 2
    PARKED = 3
    TAKEN = 4


class Job(msgspec.Struct, eq=False):
    """A command and the task that waits for its outcome. A struct, since one is made per call."""

    request: Command
    weight: int
    """Bytes it holds while it waits."""
    until: float = 0.0
    """Trio time at which an empty receive is answered; 0: at once."""
    is_alone: bool = False
    """In no group with others, and in no transaction."""
    task: trio.lowlevel.Task | None = None
    answer: Answer | None = None
    where: Where = Where.QUEUED
    poll: trio.CancelScope | None = None
    """Ends the wait of a parked receive."""
    leave: Callable[[], NoReturn] | None = None
    """Its caller was cancelled after it was taken: raises that. Never park it, nor put it back."""
    has_waited: bool = False
    """Parked before, so its place is in front of newer ones."""

    def taken(self) -> Answer:
        """The answer, out of it. An error that is raised holds its caller's frame, and that the
        job: one that stayed in here would keep all three until the collector comes."""
        answer, self.answer = self.answer, None
        assert answer is not None
        return answer


class Mailbox:
    """FIFO of jobs; woken receives come in at the front."""

    __slots__ = ("_bytes", "_filled", "_jobs", "_line", "closed_with", "is_asleep", "waits")

    def __init__(self) -> None:
        self._jobs: OrderedDict[int, Job] = OrderedDict()  # by identity: withdrawing is one look-up
        self._bytes = 0
        self._filled = trio.Event()
        self.is_asleep = False
        """Whether the actor waits for work: nothing is in here, and nothing runs."""
        self._line: OrderedDict[int, tuple[Job, trio.CancelScope]] = OrderedDict()
        self.closed_with: MqliteError | None = None
        self.waits = 0

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def bytes(self) -> int:
        """Bytes that the waiting commands hold."""
        return self._bytes

    def has_room(self, weight: int) -> bool:
        """Whether a job of this weight may be put now; nobody passes those in line."""
        return not self._line and self._fits(weight)

    def line_up(self, job: Job, patience: trio.CancelScope) -> None:
        """Let a job wait outside for room, in order of arrival, so that light commands do not pass
        a heavy one for ever; `patience` loses its deadline when the job comes in."""
        self.waits += 1
        job.where = Where.LINED
        self._line[id(job)] = job, patience

    def put(self, job: Job) -> None:
        """Add at the end."""
        self._jobs[id(job)] = job
        self._bytes += job.weight
        job.where = Where.QUEUED
        if self.is_asleep:
            self.is_asleep = False
            self._filled.set()

    def put_first(self, jobs: Iterable[Job]) -> None:
        """Add at the front, in their order."""
        for job in reversed(list(jobs)):
            self.put(job)
            self._jobs.move_to_end(id(job), last=False)

    def withdraw(self, job: Job) -> None:
        """Remove a job that its caller no longer wants."""
        if job.where is Where.LINED:
            del self._line[id(job)]
        else:
            del self._jobs[id(job)]
            self._bytes -= job.weight
        self._make_room()

    async def take(self) -> list[Job]:
        """Wait for work, then take one group of it. Empty when closed and drained."""
        while not self._jobs:
            if self.closed_with is not None:
                return []
            self._filled = trio.Event()
            self.is_asleep = True
            await self._filled.wait()
        group: list[Job] = []
        size = 0
        while self._jobs and len(group) < limits.GROUP_COMMANDS_MAX:
            key, job = self._jobs.popitem(last=False)
            if group and (job.is_alone or size + job.weight > limits.GROUP_BYTES_MAX):
                self._jobs[key] = job
                self._jobs.move_to_end(key, last=False)
                break
            size += job.weight
            job.where = Where.TAKEN
            group.append(job)
            if job.is_alone:
                break
        self._bytes -= size
        if self._line:
            self._make_room()
        return group

    def drain(self) -> list[Job]:
        """Take everything without running it, when the loop is broken."""
        jobs = list(self._jobs.values())
        self._jobs.clear()
        self._bytes = 0
        return jobs

    def close(self, error: MqliteError) -> list[Job]:
        """Let nobody in any more; returns who stood outside. What is inside is still taken."""
        self.closed_with = error
        self._filled.set()
        outside = [job for job, _ in self._line.values()]
        self._line.clear()
        return outside

    def _fits(self, weight: int) -> bool:
        if not self._jobs:
            return True  # one that is heavier than all the room there is goes alone
        return (
            len(self._jobs) < limits.MAILBOX_COMMANDS_MAX
            and self._bytes + weight <= limits.MAILBOX_BYTES_MAX
        )

    def _make_room(self) -> None:
        while self._line:
            job, patience = next(iter(self._line.values()))
            if not self._fits(job.weight):
                return
            del self._line[id(job)]
            patience.deadline = float("inf")
            self.put(job)
