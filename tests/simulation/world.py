"""A world in which an engine lives the same life each time: its chance comes from a seed.

`run` is trio.run with three things replaced. The order in which ready tasks get their turn is drawn
from the seed. A function for a thread runs in the turn of whoever asked for it, some turns or some
time later, as the dice fall; trio's rules of cancellation for threads hold. Time stands still while
anybody can go on, and then jumps to the next deadline. So a run is repeated by its seed alone, and
takes as long as its work, whatever it waits for.
"""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final, TypeVar
from unittest.mock import patch

import trio
import trio._core._run as scheduler
import trio.testing

from mqlite_actor.contract import limits
from mqlite_actor.engine.thread import StorageThread

T = TypeVar("T")

START_MS: Final = 1_800_000_000_000

TURNS: Final = (0, 0, 0, 1, 1, 2, 5)
"""How many turns of the loop a thread takes to begin, and again to report."""

SLOW: Final = 0.06
"""How often a thread also takes time: a disk that is busy."""

SLOW_SECONDS: Final = (0.0005, 0.02, 0.3, 1.5)


class SimulatedClock:
    """The engine's clock, which goes with the loop's."""

    __slots__ = ()

    def now_ms(self) -> int:
        return START_MS + int(trio.current_time() * 1000)

    def monotonic(self) -> float:
        return trio.current_time()


class Threads:
    """trio.to_thread, and the engine's own thread, without threads."""

    __slots__ = ("_dice",)

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice

    async def run_sync(
        self,
        function: Callable[..., T],
        *arguments: object,
        abandon_on_cancel: bool = False,
        limiter: trio.CapacityLimiter | None = None,
    ) -> T:
        """What `function` returns. Once it has a thread, it is not cancelled but by consent."""
        await trio.lowlevel.checkpoint_if_cancelled()
        async with limiter or contextlib.nullcontext():
            with trio.CancelScope(shield=not abandon_on_cancel):
                await self._pause()
                result = function(*arguments)
                await self._pause()
        return result

    async def _pause(self) -> None:
        for _ in range(self._dice.choice(TURNS)):
            await trio.lowlevel.checkpoint()
        if self._dice.random() < SLOW:
            await trio.sleep(self._dice.choice(SLOW_SECONDS))


class Interruption(trio.abc.Instrument):
    """Does something once: so many turns of anybody after the n-th place where one task waits.

    With no turn in between the task stands exactly there; with some, what it waits for is under
    way, or has just been done.
    """

    def __init__(self, at: int = 0, turns: int = 0) -> None:
        self._at = at
        self._turns = turns
        self._task: trio.lowlevel.Task | None = None
        self._act: Callable[[], object] = int
        self.places = 0

    def watch(self, act: Callable[[], object]) -> None:
        """Count the calling task's places from here on, and `act` when it is time."""
        self._task = trio.lowlevel.current_task()
        self._act = act

    def stop(self) -> None:
        """Count no more."""
        self._task = None

    @property
    def has_acted(self) -> bool:
        return self._at > 0 and self._turns < 0

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if self._task is None:
            return
        self.places += task is self._task
        if self._at and self.places >= self._at and self._turns >= 0:
            self._turns -= 1
            if self._turns < 0:
                self._act()


@contextlib.contextmanager
def _seeded(seed: str) -> Iterator[None]:
    """Trio's own switch for repeatable tests, and its dice."""
    dice = random.Random(seed)
    threads = Threads(dice)
    with (
        patch.object(scheduler, "_ALLOW_DETERMINISTIC_SCHEDULING", True),
        patch.object(scheduler, "_r", random.Random(dice.random())),
        patch.object(trio.to_thread, "run_sync", threads.run_sync),
        patch.object(StorageThread, "run", threads.run_sync),
        patch.object(limits, "INLINE_SECONDS", math.inf),  # it is measured in true time
    ):
        yield


def run(seed: str, main: Callable[[], Awaitable[T]], interruption: Interruption) -> T:
    """What `main` returns in the world of this seed."""
    clock = trio.testing.MockClock(autojump_threshold=0)
    with _seeded(seed):
        result: Any = trio.run(main, clock=clock, instruments=[interruption])
    return result  # type: ignore[no-any-return]  # trio.run loses the type through Awaitable
