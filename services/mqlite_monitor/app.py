"""`mqlite top`: the program.

`run` is called by the command line (`mqlite_cli.launch`) alone. On a terminal that can be drawn on
it is a screen with keys; elsewhere, and with `--once`, it is plain text. Four tasks: one asks
(`watching`), one reads keys, one hears signals, and one draws when another has news. Rules: every
way out gives the terminal back first, also a crash and a stop by Ctrl-Z; nothing but Observe
is asked without a key.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import trio
from rich.text import Text

from mqlite_actor import InvalidArgument
from mqlite_actor.contract.errors import MqliteError
from mqlite_monitor import terminal as screens
from mqlite_monitor.frame import Scene
from mqlite_monitor.keys import Keyboard
from mqlite_monitor.options import TopOptions
from mqlite_monitor.record import Recorder, Replay
from mqlite_monitor.sampling import Sampler
from mqlite_monitor.snapshot import Snapshot
from mqlite_monitor.steering import INTERVALS_MS, SORTS, Steering, press
from mqlite_monitor.terminal import Terminal
from mqlite_monitor.view import frame, plain
from mqlite_monitor.watching import Live, Recorded, Watch, ask

STDIN, STDOUT = 0, 1

ESCAPE_SECONDS = 0.05
"""Within this the rest of a key's sequence follows its escape, also through a slow connection."""

READ_BYTES = 1024

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
CARED_FOR = (*ENDING, signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH)


def run(options: TopOptions) -> int:
    """Watch until the viewer has enough; the exit code: 0, or 128 and the signal's number.

    Raises InvalidArgument for options that make no sense, and the contract's error when the first
    question is refused. The terminal is as it was before, whatever happens.
    """
    _check(options)
    with _replay(options) as replay, _recorder(options) as recorder:
        if options.is_once:
            return trio.run(_once, options, replay)
        watch: Watch = Recorded(replay) if replay else Live(options, recorder=recorder)
        if not screens.is_screen(STDOUT, options.environ):
            return trio.run(Pages(options, watch).run)
        terminal = Terminal(stdin=STDIN, stdout=STDOUT, environ=options.environ)
        try:
            return trio.run(Top(options, watch, terminal).run)
        finally:
            terminal.leave()


def _check(options: TopOptions) -> None:
    if not INTERVALS_MS[0] <= options.interval_ms <= INTERVALS_MS[-1]:
        raise InvalidArgument("--interval: between 250ms and 1m")
    if options.sort not in SORTS:
        raise InvalidArgument(f"--sort: one of {', '.join(SORTS)}")
    if options.record and (options.replay or options.is_once):
        raise InvalidArgument("--record goes with neither --replay nor --once")


@contextmanager
def _replay(options: TopOptions) -> Iterator[Replay | None]:
    if not options.replay:
        yield None
        return
    replay = Replay(options.replay)
    try:
        yield replay
    finally:
        replay.close()


@contextmanager
def _recorder(options: TopOptions) -> Iterator[Recorder | None]:
    if not options.record:
        yield None
        return
    recorder = Recorder(options.record, source=options.source)
    try:
        yield recorder
    finally:
        recorder.close()


# -- plain text ------------------------------------------------------------------------------------


async def _once(options: TopOptions, replay: Replay | None) -> int:
    """One frame; of a recording the last. 1 when the queues could not be read."""
    if replay is not None:
        replay.go_to(len(replay) - 1)
        snapshot, stale = replay.snapshot, replay.failure
    else:
        snapshot, stale = await _first_snapshot(options), ""
    if options.document is not None and snapshot is not None:
        options.document(snapshot.observed)
    else:
        options.write(_plain(_start(options), options, snapshot, stale=stale))
    return 0 if snapshot is not None and snapshot.queues is not None else 1


async def _first_snapshot(options: TopOptions) -> Snapshot:
    async with options.opening() as handle:
        sampler = Sampler()
        snapshot = sampler.take(await ask(handle))
        if options.has_interval:
            await trio.sleep(options.interval_ms / 1000)
            snapshot = sampler.take(await ask(handle))
    return snapshot


class Pages:
    """A page a tick, one below the other, until a signal, the end of a recording, or a reader who
    has gone."""

    __slots__ = ("_failure", "_news", "_options", "_signal", "_state", "_watch")

    def __init__(self, options: TopOptions, watch: Watch) -> None:
        self._options = options
        self._watch = watch
        self._state = _start(options)
        self._news = trio.Event()
        self._signal: int = 0
        self._failure: Exception | None = None

    async def run(self) -> int:
        """Until the end; what ended it is raised, or 128 and the number of the signal."""
        with trio.open_signal_receiver(*ENDING) as signals:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._hear, signals)
                nursery.start_soon(self._watched)
                await self._print()
                nursery.cancel_scope.cancel()
        if self._failure is not None:
            raise self._failure
        return 128 + self._signal if self._signal else 0

    async def _print(self) -> None:
        if self._watch.snapshot is not None:
            self._news.set()
        while True:
            await self._news.wait()
            self._news = trio.Event()
            if self._failure is not None or self._signal:
                return
            watch = self._watch
            page = _plain(self._state, self._options, watch.snapshot, stale=watch.stale)
            try:
                self._options.write(f"{page}\n")
            except Exception as error:  # noqa: BLE001 - raised by `run`, outside of the nursery
                self._failure = error
                return
            if isinstance(watch, Recorded) and watch.is_over:
                return

    async def _hear(self, signals: AsyncIterator[int]) -> None:
        async for number in signals:
            self._signal = number
            self._news.set()

    async def _watched(self) -> None:
        try:
            await self._watch.run(lambda: self._state, self._changed)
        except MqliteError as error:
            self._failure = error
            self._changed()

    def _changed(self) -> None:
        self._news.set()


def _plain(state: Steering, options: TopOptions, snapshot: Snapshot | None, *, stale: str) -> str:
    scene = Scene(snapshot=snapshot, state=state, source=options.source, stale=stale)
    lines = plain(scene, width=screens.width_of(STDOUT, options.environ))
    return "".join(f"{line.plain.rstrip()}\n" for line in lines)


def _start(options: TopOptions) -> Steering:
    return Steering(interval_ms=options.interval_ms, sort=options.sort, search=options.search)


# -- the screen ------------------------------------------------------------------------------------


class Top:
    """The screen while it runs."""

    __slots__ = ("_failure", "_news", "_options", "_signal", "_state", "_terminal", "_watch")

    def __init__(self, options: TopOptions, watch: Watch, terminal: Terminal) -> None:
        self._options = options
        self._watch = watch
        self._terminal = terminal
        self._state = _start(options)
        self._news = trio.Event()
        self._signal: int = 0
        self._failure: MqliteError | OSError | None = None

    async def run(self) -> int:
        """Until a key, a signal or a failure ends it."""
        with trio.open_signal_receiver(*CARED_FOR) as signals:
            self._terminal.enter()
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._hear, signals)
                    nursery.start_soon(self._watched)
                    nursery.start_soon(self._read)
                    await self._draw_until_the_end()
                    nursery.cancel_scope.cancel()
            finally:
                self._terminal.leave()
        if self._failure is not None:
            raise self._failure
        return 128 + self._signal if self._signal else 0

    @property
    def _has_ended(self) -> bool:
        return self._state.has_quit or bool(self._signal) or self._failure is not None

    async def _draw_until_the_end(self) -> None:
        while not self._has_ended:
            try:
                width, height = self._terminal.size()
                self._terminal.draw(self._frame(width, height), width=width)
            except OSError:
                self._signal = signal.SIGHUP  # the terminal is gone, and says so in its own time
                return
            await self._news.wait()
            self._news = trio.Event()

    def _frame(self, width: int, height: int) -> list[Text]:
        watch = self._watch
        scene = Scene(
            snapshot=watch.snapshot,
            state=self._state,
            source=self._options.source,
            stale=watch.stale,
            note=watch.note,
            detail=watch.detail,
        )
        return frame(scene, width=width, height=height)

    def _changed(self) -> None:
        self._news.set()

    async def _watched(self) -> None:
        try:
            await self._watch.run(lambda: self._state, self._changed)
        except MqliteError as error:
            self._failure = error
            self._changed()

    async def _read(self) -> None:
        descriptor = self._terminal.stdin
        if descriptor is None:
            return
        keyboard = Keyboard()
        while True:
            bound = ESCAPE_SECONDS if keyboard.is_waiting else float("inf")
            with trio.move_on_after(bound) as wait:
                await trio.lowlevel.wait_readable(descriptor)
            if wait.cancelled_caught:
                self._press(keyboard.settle())
                continue
            try:
                data = os.read(descriptor, READ_BYTES)
            except OSError:
                data = b""
            if not data:
                self._signal = signal.SIGHUP
                self._changed()
                return
            self._press(keyboard.feed(data))

    def _press(self, keys: list[str]) -> None:
        snapshot = self._watch.snapshot
        rows = (snapshot.queues if snapshot else None) or []
        for key in keys:
            self._state = press(self._state, key, rows)
        self._watch.nudge()
        self._changed()

    async def _hear(self, signals: AsyncIterator[int]) -> None:
        async for number in signals:
            if number in ENDING:
                self._signal = number
            elif number == signal.SIGTSTP:
                self._stop()
            else:  # resized, or continued after a stop that nobody announced
                self._terminal.forget()
            self._changed()

    def _stop(self) -> None:
        """Ctrl-Z: the shell gets its terminal back, and here it goes on when it is continued."""
        self._terminal.leave()
        ours = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        try:
            os.kill(os.getpid(), signal.SIGTSTP)
        finally:
            signal.signal(signal.SIGTSTP, ours)
        self._terminal.enter()
