"""The front-end processes of one writer: started, watched, started again, stopped in order.

`serve.py` hands over bound listeners and an open engine. Each worker is a process (`front.py`) that
gets the same listeners and one end of a socket pair; the other end is a `ServedLink` here, which
gives back what a dead worker held for clients (rulings R7, R42 and R47). Rules: this process never
accepts a connection itself; a worker that dies is replaced with a growing pause, except at the
first start, where its failure is the start's; at the stop the listeners close here first.
"""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import trio

from mqlite_actor.contract import limits
from mqlite_actor.contract.calls import CALLS
from mqlite_actor.contract.errors import OpenError
from mqlite_actor.engine.beside import file_of
from mqlite_actor.engine.engine import Engine
from mqlite_actor.link.server import ServedLink
from mqlite_actor.logs import logger
from mqlite_broker import logs
from mqlite_broker.front import CUT, READY, Orders
from mqlite_broker.settings import Settings
from mqlite_broker.tally import TOPIC, Sums

_log = logger("mqlite.broker")

PAUSE_SECONDS: Final = 0.1
PAUSE_SECONDS_MAX: Final = 5.0
"""Before a dead worker is replaced, doubled each time."""

PROVEN_SECONDS: Final = 10.0
"""A worker that lived so long died of something new: the pause begins anew."""

START_SECONDS: Final = 30.0
"""From its start to accepting connections; half a second on an idle machine."""

NO_PROCESS: Final = -1
"""Exit code of a process that could not be made."""

END_SECONDS: Final = limits.GRACE_SECONDS + 3.0
"""From SIGTERM to SIGKILL. After the grace of its requests a worker needs some milliseconds, on a
machine that is busy elsewhere a second or two; who needs longer is stuck."""


class Workers:
    """The workers of one broker. After `run`: `cut` requests stayed unanswered, and `failure` tells
    why it never got ready, if it did not."""

    __slots__ = (
        "_engine", "_listeners", "_orders", "_processes", "_stopping", "_sums", "cut", "failure",
    )  # fmt: skip

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        listeners: Sequence[trio.SocketListener],
        *,
        sums: Sums,
        stopping: trio.Event,
    ) -> None:
        served = [call.name for call in CALLS if call.request in engine.served]
        self._engine = engine
        self._listeners = listeners
        share = -(-settings.connections_max // max(1, settings.workers))
        each = msgspec.structs.replace(settings, connections_max=share, db_auth_token="")
        self._orders = msgspec.msgpack.encode(Orders(each, served, file_of(engine)))
        self._processes: dict[int, trio.Process] = {}
        self._stopping = stopping
        self._sums = sums
        self.cut = 0
        self.failure: OpenError | None = None

    async def run(
        self, number: int, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Keep `number` workers until the stop, or until one cannot even begin.

        Started when each accepts connections, or the stop has come first. Cancelled, all are
        killed; what they held for clients is given back either way.
        """
        async with trio.open_nursery() as nursery:
            with trio.move_on_after(START_SECONDS) as patience:
                async with trio.open_nursery() as around:
                    around.start_soon(self._heed_early_stop, patience)
                    async with trio.open_nursery() as starting:
                        for slot in range(number):
                            starting.start_soon(nursery.start, self._keep, slot)
                    around.cancel_scope.cancel()
            if patience.cancelled_caught and not self._stopping.is_set():
                self.failure = OpenError(f"a worker was not ready within {START_SECONDS:.0f} s")
            task_status.started()
            if self.failure is None:
                await self._stopping.wait()
            for listener in self._listeners:
                await listener.aclose()
            self._terminate()
            nursery.cancel_scope.deadline = trio.current_time() + END_SECONDS

    async def _heed_early_stop(self, patience: trio.CancelScope) -> None:
        """A stop while workers start waits for none of them to get ready. The listeners stay open
        meanwhile: a process that is just being made inherits them."""
        await self._stopping.wait()
        patience.deadline = trio.current_time() + END_SECONDS
        self._terminate()

    def _terminate(self) -> None:
        for process in list(self._processes.values()):
            process.terminate()

    async def _keep(self, slot: int, *, task_status: trio.TaskStatus[None]) -> None:
        """One worker after the other, until the stop."""
        worker = Worker(slot, self._sums, task_status.started)
        pause = PAUSE_SECONDS
        while not self._stopping.is_set():
            began = trio.current_time()
            await self._live(worker)
            if self._stopping.is_set() or self.failure is not None:
                break
            logs.line(_log, logging.WARNING, "worker ended", *worker.fields, ("code", worker.code))
            if not worker.has_started:
                self.failure = OpenError(f"a worker ended at its start with code {worker.code}")
                break
            pause = PAUSE_SECONDS if trio.current_time() > began + PROVEN_SECONDS else pause
            with trio.move_on_after(pause):
                await self._stopping.wait()
                break
            pause = min(2 * pause, PAUSE_SECONDS_MAX)
        worker.start()

    async def _live(self, worker: Worker) -> None:
        """One process, from its start to the return of what it held."""
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                try:
                    process = await self._spawn(theirs)
                except OSError as error:  # no descriptors or processes left: later, perhaps
                    _log.error("a worker cannot be started: %s", error.strerror)
                    worker.code = NO_PROCESS
                    return
            self._processes[worker.slot] = process
            worker.pid = process.pid
            if self._stopping.is_set():  # meanwhile, so nobody else tells it
                process.terminate()
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._serve, ours, worker)
                    nursery.start_soon(_order, process, self._orders)
                    await process.wait()
            finally:
                del self._processes[worker.slot]
                if process.returncode is None:
                    # At least one: it is stuck in something.
                    self.cut += worker.has_started and not worker.has_ended
                    process.kill()
                    with trio.CancelScope(shield=True):
                        await process.wait()
                worker.code = process.returncode or 0
                self.cut, worker.cut = self.cut + worker.cut, 0

    async def _serve(self, ours: socket.socket, worker: Worker) -> None:
        """The engine's end of a worker's link. An error here closes it, which ends the worker."""
        link = ServedLink(
            ours,
            self._engine,
            stopping=trio.Event(),  # the worker decides when its link ends
            completed=self._sums.completed,
            noted=worker.noted,
            hello_seconds=START_SECONDS,
        )
        try:
            await link.run()
        except Exception:  # noqa: BLE001  # logged, and the other workers serve on (faults B96)
            _log.exception("an error ended the link of worker %d", worker.slot)

    async def _spawn(self, link: socket.socket) -> trio.Process:
        """A process with one end of a link and the listeners."""
        numbers = [link.fileno(), *(each.socket.fileno() for each in self._listeners)]
        return await trio.lowlevel.open_process(
            # -m alone would import what lies in the current folder before what is installed
            [sys.executable, "-P", "-m", "mqlite_broker.front", *map(str, numbers)],
            stdin=subprocess.PIPE,
            pass_fds=numbers,
            process_group=0,  # a terminal's Ctrl-C is for the writer to judge
        )


class Worker:
    """What is known of the process in one slot."""

    __slots__ = ("_sums", "_tell_started", "code", "cut", "has_ended", "has_started", "pid", "slot")

    def __init__(self, slot: int, sums: Sums, tell_started: Callable[[], None]) -> None:
        self._sums = sums
        self._tell_started = tell_started
        self.slot = slot
        self.pid = 0
        self.code = 0
        self.cut = 0
        self.has_ended = False  # in order: it told its `cut`
        self.has_started = False

    def start(self) -> None:
        """Nobody needs to wait for the first process any longer."""
        if not self.has_started:
            self.has_started = True
            self._tell_started()

    @property
    def fields(self) -> tuple[logs.Field, ...]:
        """Who it is, for a line of the log."""
        return ("worker", self.slot), ("pid", self.pid)

    def noted(self, topic: str, content: msgspec.Raw) -> None:
        """Take a note of the process in."""
        if topic == TOPIC:
            self._sums.add(content)
        elif topic == CUT:
            self.cut, self.has_ended = msgspec.msgpack.decode(content, type=int), True
        elif topic == READY:
            logs.line(_log, logging.INFO, "worker ready", *self.fields)
            self.start()


async def _order(process: trio.Process, orders: bytes) -> None:
    assert process.stdin is not None
    async with process.stdin as stream:
        try:
            await stream.send_all(orders)
        except trio.BrokenResourceError:
            _log.debug("worker %d ended before it read its orders", process.pid)
