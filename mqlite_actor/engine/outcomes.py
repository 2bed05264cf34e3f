"""What becomes of a group of commands: an answer for each, and what came true with them.

Filled by the executors (`group.py` for a store of this process, `waves.py` for one at the end of a
network), read by the actor, which answers and publishes. Nothing of it is shown before its COMMIT.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import msgspec
from outcome import Error

from mqlite_actor.contract.errors import MqliteError, Unavailable
from mqlite_actor.engine.meters import forget_queue
from mqlite_actor.storage.database import Transaction


class Done(msgspec.Struct):
    """A command's response; what outcome.Value is, at a fraction of its price."""

    value: Any

    def unwrap(self) -> Any:  # noqa: ANN401  # as the table pairs them
        """The response."""
        return self.value


Answer: TypeAlias = Done | Error
"""How a command ended; `unwrap` returns its response or raises its error."""


NOT_RUN: Final = Error(Unavailable("not run"))
"""Stands for the outcome of a command that a group came not to; it is to be run with the next."""


class GroupResult:
    """One outcome per command, in their order (NOT_RUN: none yet), and what became true."""

    __slots__ = (
        "commits", "deleted", "dues", "events", "filter_failures", "given", "is_doubtful",
        "outcomes", "timings", "wakes",
    )  # fmt: skip

    def __init__(self, number: int) -> None:
        self.outcomes: list[Answer] = [NOT_RUN] * number
        self.wakes: dict[str, int] = {}
        self.events: dict[tuple[str, str], int] = {}
        self.deleted: set[str] = set()  # queues whose earlier events are nobody's any more
        self.filter_failures: dict[tuple[str, str], int] = {}
        self.dues: dict[str, int] = {}  # by maintenance task, the earliest
        # storage calls: what kind, how it ended, seconds each, and how many took so long
        self.timings: list[tuple[str, BaseException | None, float, int]] = []
        self.commits = 0
        self.given = 0  # weight of the messages in the outcomes (`given.py`)
        self.is_doubtful = False  # a commit of unknown outcome may have made anything claimable

    def publish(self, tx: Transaction) -> None:
        """Take over what the committed transaction made true."""
        self.commits += 1
        if self.commits == 1 and not tx.deleted:  # nearly always the only one of its group
            self.wakes, self.events, self.dues = tx.wakes, tx.events, tx.dues
            self.filter_failures = tx.filter_failures
            return
        for name in tx.deleted:
            forget_queue(name, self.events, self.filter_failures)
        self.deleted |= tx.deleted
        for queue, number in tx.wakes.items():
            self.wakes[queue] = self.wakes.get(queue, 0) + number
        for key, number in tx.events.items():
            self.events[key] = self.events.get(key, 0) + number
        for key, number in tx.filter_failures.items():
            self.filter_failures[key] = self.filter_failures.get(key, 0) + number
        for task, at_ms in tx.dues.items():
            self.dues[task] = min(at_ms, self.dues.get(task, at_ms))


class _Ended(Exception):
    """A transaction that was not seen to commit; `indexes` are the commands that were in it. The
    cause is attached."""

    def __init__(self, indexes: Sequence[int]) -> None:
        super().__init__()
        self.indexes = indexes

    @property
    def cause(self) -> Exception:
        """What ended it."""
        cause = self.__cause__
        assert isinstance(cause, Exception), "raised from it"
        return cause


class NotBegun(_Ended):
    """No transaction could be started; nothing ran."""


class Broken(_Ended):
    """The transaction is rolled back; nothing of it happened."""


class Unknown(_Ended):
    """COMMIT failed in a way that leaves the outcome open."""


def copy(error: MqliteError) -> MqliteError:
    """One exception object per caller: each gets its own traceback."""
    twin = type(error)(error.message)
    twin.origin = error.origin
    return twin
