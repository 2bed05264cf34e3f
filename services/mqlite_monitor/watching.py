"""Where snapshots come from, tick by tick: a broker or a file that is asked, or a recording.

Run by `app`. `Live` makes exactly one Observe call a tick, and none while it is paused; only the
page of a queue asks more (`drilling`). Rules: after a failure the handle is opened anew at the next
tick, for as long as it takes; what will not mend itself (a wrong credential, no such file) ends the
monitor when it is the first thing that happens, and is a banner later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import trio

from mqlite_actor import Handle, MqliteError, Unavailable
from mqlite_actor.contract.observe import ObserveRequest, ObserveResponse
from mqlite_monitor.cells import span
from mqlite_monitor.drilling import Drill
from mqlite_monitor.options import TopOptions
from mqlite_monitor.record import Recorder, Replay
from mqlite_monitor.sampling import Sampler
from mqlite_monitor.snapshot import Detail, Snapshot
from mqlite_monitor.steering import Steering, View

ANSWER_SECONDS = 10.0
"""A snapshot of hundreds of queues takes tens of milliseconds; after this nobody is there."""


class Watch(Protocol):
    """What the screen shows, and the task that keeps it new."""

    @property
    def snapshot(self) -> Snapshot | None:
        """The newest, or None before the first."""

    @property
    def detail(self) -> Detail | None:
        """Of the queue that is looked into, if it is known."""

    @property
    def stale(self) -> str:
        """Why there is nothing newer, or ""."""

    @property
    def note(self) -> str:
        """A word for the footer, or ""."""

    async def run(self, state: Callable[[], Steering], changed: Callable[[], None]) -> None:
        """Until cancelled: ask, and call `changed` whenever there is something new to draw."""

    def nudge(self) -> None:
        """The state has changed; a wait may be over, or shorter."""


async def ask(handle: Handle) -> ObserveResponse:
    """One Observe call with a bound. Raises the contract's errors."""
    with trio.move_on_after(ANSWER_SECONDS):
        return await handle.call(ObserveRequest())
    raise Unavailable(f"no answer within {ANSWER_SECONDS:.0f} s")


class Nudged:
    """A wait that a change of state may end."""

    __slots__ = ("_nudge",)

    def __init__(self) -> None:
        self._nudge = trio.Event()

    def nudge(self) -> None:
        """End the wait that is going on."""
        self._nudge.set()
        self._nudge = trio.Event()

    async def until(self, time: float) -> bool:
        """Wait for `time` of trio's clock or for a nudge; whether it was a nudge."""
        with trio.move_on_at(time):
            await self._nudge.wait()
            return True
        return False


class Live:
    """A broker or a file."""

    __slots__ = (
        "_drill", "_failed_since", "_nudged", "_options", "_reason", "_recorder", "_sampler",
        "detail", "snapshot",
    )  # fmt: skip

    def __init__(self, options: TopOptions, *, recorder: Recorder | None) -> None:
        self._options = options
        self._recorder = recorder
        self._sampler = Sampler()
        self._nudged = Nudged()
        self._drill = Drill("")
        self._reason = ""
        self._failed_since = 0.0
        self.snapshot: Snapshot | None = None
        self.detail: Detail | None = None

    @property
    def stale(self) -> str:
        """Why there is nothing newer, and for how long."""
        if not self._reason:
            return ""
        ago = span((trio.current_time() - self._failed_since) * 1000)
        return f"for {ago}, trying again: {self._reason}"

    @property
    def note(self) -> str:
        """The recording."""
        if self._recorder is None:
            return ""
        return self._recorder.fault or f"recording, {self._recorder.ticks} ticks"

    def nudge(self) -> None:
        """Look at the state again."""
        self._nudged.nudge()

    async def run(self, state: Callable[[], Steering], changed: Callable[[], None]) -> None:
        """Ask until cancelled. Raises what the first question met, unless time may mend it."""
        while True:
            try:
                async with self._options.opening() as handle:
                    while await self._tick(handle, state, changed):
                        pass
            except MqliteError as error:
                self._fail(error)
            changed()
            await self._rest(None, state, changed)

    async def _tick(
        self, handle: Handle, state: Callable[[], Steering], changed: Callable[[], None]
    ) -> bool:
        """Ask once and wait for the next time; False when the handle has failed."""
        try:
            observed = await ask(handle)
        except MqliteError as error:
            self._fail(error)
            return False
        self._reason = ""
        self.snapshot = self._sampler.take(observed)
        if self._recorder is not None:
            self._recorder.answer(observed)
        await self._look(handle, state())
        changed()
        await self._rest(handle, state, changed)
        return True

    def _fail(self, error: MqliteError) -> None:
        if self.snapshot is None and not isinstance(error, Unavailable):
            raise error
        if not self._reason:
            self._failed_since = trio.current_time()
        self._reason = error.message
        if self._recorder is not None:
            self._recorder.failure(error.message)

    async def _look(self, handle: Handle, state: Steering) -> None:
        if state.view is not View.QUEUE:
            return
        if self._drill.queue != state.selected:
            self._drill = Drill(state.selected)
        with trio.move_on_after(ANSWER_SECONDS):
            self.detail = await self._drill.look(handle)

    async def _rest(
        self, handle: Handle | None, state: Callable[[], Steering], changed: Callable[[], None]
    ) -> None:
        """Wait out the interval, however it changes, and any pause; a queue that is opened
        meanwhile is looked into at once."""
        began = trio.current_time()
        while True:
            until = float("inf") if state().is_paused else began + state().interval_ms / 1000
            if not await self._nudged.until(until):
                return
            now = state()
            if handle and now.view is View.QUEUE and self._drill.queue != now.selected:
                await self._look(handle, now)
                changed()


class Recorded:
    """A recording, an entry a tick."""

    __slots__ = ("_nudged", "_replay", "detail")

    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        self._nudged = Nudged()
        self.detail: Detail | None = None

    @property
    def snapshot(self) -> Snapshot | None:
        """That of the entry, or the last before it."""
        return self._replay.snapshot

    @property
    def stale(self) -> str:
        """What was wrong then."""
        return self._replay.failure

    @property
    def note(self) -> str:
        """Where in the recording this is."""
        return f"replay {self._replay.at + 1}/{len(self._replay)}"

    @property
    def is_over(self) -> bool:
        """Whether this is the last entry."""
        return self._replay.at + 1 >= len(self._replay)

    def nudge(self) -> None:
        """Look at the state again."""
        self._nudged.nudge()

    async def run(self, state: Callable[[], Steering], changed: Callable[[], None]) -> None:
        """Go on entry by entry until cancelled; the last one stays."""
        began = trio.current_time()
        while True:
            now = state()
            is_still = now.is_paused or self.is_over
            until = float("inf") if is_still else began + now.interval_ms / 1000
            if await self._nudged.until(until):
                step = state().step
                if not step:
                    continue
            else:
                step = 1
            self._replay.go_to(self._replay.at + step)
            began = trio.current_time()
            changed()
