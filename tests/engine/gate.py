"""Hands on a running engine: stop its writer at a known place, wait for what must happen.

`Gate` puts a command into the engine's table that waits inside the storage thread until the test
lets it go on; meanwhile everything else gathers in the mailbox, in a known order. `until` waits for
a condition, `bounded` ends a test that hangs. Nothing here waits for time to pass.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import trio
import trio.testing

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import MqliteError
from mqlite_actor.engine import outbox
from mqlite_actor.engine.engine import Engine
from mqlite_actor.semantics.operations import Operation
from mqlite_actor.storage.database import Transaction
from tests.engine.local import local

PATIENCE = 15.0
"""Seconds until a test gives up; none of them comes near unless something is wrong."""


STEP = 0.05
"""Seconds of one step of `pass_time`: finer than every period, coarser than the pause of a pass."""


class Hold(wire.Request[wire.EmptyResponse], frozen=True):
    """The command that waits for its stop to be released."""

    number: int = 0


class Custom(wire.Request[wire.EmptyResponse], frozen=True):
    """A command whose operation a test brings along."""


class Stop:
    """One place where the writer waits."""

    def __init__(self) -> None:
        self.entered = trio.Event()
        self._token = trio.lowlevel.current_trio_token()
        self._may_go_on = threading.Event()

    def release(self) -> None:
        """Let the writer go on."""
        self._may_go_on.set()

    def wait(self) -> None:
        """In the storage thread: say that it is here, then wait."""
        self._token.run_sync_soon(self.entered.set)
        assert self._may_go_on.wait(PATIENCE), "nobody released the writer"


class Gate:
    """Stops the writer of an engine. The nursery keeps the callers of the stops."""

    def __init__(self, engine: Engine, nursery: trio.Nursery) -> None:
        self._engine = engine
        self._nursery = nursery
        self._stops: list[Stop] = []
        teach(engine, Hold, self._hold)

    async def stop(self) -> Stop:
        """The writer is inside a command of ours and stays there."""
        stop = self.later()
        with bounded():
            await stop.entered.wait()
        return stop

    def later(self) -> Stop:
        """The writer will stop when it comes to what is in the mailbox now."""
        stop = Stop()
        self._stops.append(stop)
        self._nursery.start_soon(self._engine.call, Hold(number=len(self._stops) - 1))
        return stop

    def release_all(self) -> None:
        """Let the writer go on, past every stop so far."""
        for stop in self._stops:
            stop.release()

    def _hold(self, _tx: object, request: Hold, _now_ms: int) -> wire.EmptyResponse:
        self._stops[request.number].wait()
        return wire.EmptyResponse()


class Stuck:
    """An operation that waits in its thread until it is told to go on."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.may_go_on = threading.Event()
        self.inside = 0

    def __call__(self, _tx: Transaction, _request: object, _now_ms: int) -> wire.MessagesResponse:
        self.inside += 1
        assert self.may_go_on.wait(PATIENCE)
        return wire.MessagesResponse(messages=[])


def teach(engine: Engine, kind: type[Any], operation: Operation) -> None:
    """Serve requests of this type with this operation."""
    engine._table[kind] = operation


def in_loop(function: Callable[[], object]) -> Callable[[], object]:
    """What calls the function in this loop when the storage thread calls it, and waits for it."""
    token = trio.lowlevel.current_trio_token()
    return lambda: trio.from_thread.run_sync(function, trio_token=token)


def bounded() -> AbstractContextManager[trio.CancelScope]:
    """A block that fails when it takes longer than anything honest takes."""
    return trio.fail_after(PATIENCE)


def empty_caches(engine: Engine) -> None:
    """Whatever is read from now on comes from the disk."""
    store = local(engine)
    for connection in (store.connection, *(each._connection for each in store._readers._idle)):
        connection.pragma("shrink_memory")


async def settled() -> None:
    """Return when every other task waits for something."""
    await trio.testing.wait_all_tasks_blocked()


async def until(condition: Callable[[], object]) -> None:
    """Return when the condition holds."""
    with bounded():
        while not condition():
            await settled()


async def parked(engine: Engine, queue: str, number: int) -> None:
    """Return when so many receives wait in this queue."""
    await until(lambda: engine.statistics()["waiters"].get(queue, 0) == number)


async def pass_time(
    engine: Engine, clock: ManualClock, mock_clock: trio.testing.MockClock, seconds: float
) -> None:
    """Let time pass on both clocks in steps, and whatever falls due run to its end."""
    for _ in range(round(seconds / STEP)):
        clock.advance(round(STEP * 1000))
        mock_clock.jump(STEP)
        await settled()
        while is_busy(engine):
            await settled()


def is_busy(engine: Engine) -> bool:
    """Whether commands wait or run."""
    waiting: int = engine.statistics()["mailbox_commands"]
    running = [
        each for each in engine._actor.busy_with if not isinstance(each.request, outbox.Hold)
    ]
    return bool(waiting or running or engine._actor._others.borrowed_tokens)


async def rest(engine: Engine) -> None:
    """Everybody waits for time or for another's word."""
    await settled()
    while is_busy(engine):
        await settled()


class Call:
    """A call in its own task and scope, and how it went."""

    def __init__(self, engine: Engine, request: wire.Request[Any]) -> None:
        self.engine = engine
        self.request = request
        self.scope = trio.CancelScope()
        self.ended = trio.Event()
        self.reply: Any = None
        self.error: MqliteError | None = None

    async def run(self) -> None:
        with self.scope:
            try:
                self.reply = await self.engine.call(self.request)
            except MqliteError as error:
                self.error = error
        self.ended.set()

    @property
    def was_cancelled(self) -> bool:
        return self.scope.cancelled_caught


# -- short ways to say things ----------------------------------------------------------------------


async def create(engine: Engine, *queues: str, config: wire.QueueConfig | None = None) -> None:
    """Create queues."""
    for queue in queues:
        await engine.call(wire.CreateQueueRequest(name=queue, config=config or wire.QueueConfig()))


def sending(queue: str, *bodies: bytes, group_id: str = "") -> wire.SendRequest:
    """A send of these bodies."""
    batch = [wire.Message(body=body, group_id=group_id) for body in bodies]
    return wire.SendRequest(queue=queue, messages=batch)


def taking(queue: str, number: int = 1, *, wait_ms: int = 0) -> wire.ReceiveRequest:
    """A receive under leases."""
    return wire.ReceiveRequest(queue=queue, max_messages=number, wait_time_ms=wait_ms)


def completing(queue: str, message: wire.Message) -> wire.CompleteRequest:
    """The settlement of a message in hand."""
    return wire.CompleteRequest(
        queue=queue, seq_number=message.seq_number, lock_token=message.lock_token
    )


async def take(engine: Engine, queue: str, number: int = 1) -> list[wire.Message]:
    """Receive at once what is there."""
    return (await engine.call(taking(queue, number))).messages


async def bodies(engine: Engine, queue: str, state: str = "") -> list[bytes]:
    """Bodies stored in a queue, in order."""
    request = wire.PeekRequest(queue=queue, state=state, max=limits.PEEK_MAX)
    return [message.body for message in (await engine.call(request)).messages]
