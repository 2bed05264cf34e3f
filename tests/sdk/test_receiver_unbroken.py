"""Who cancels every task of asyncio cuts no plain handler, none of its verbs, and no settlement.

`asyncio.run` does that at its end, and programs do when they shut down. It reaches the tasks inside
of a receiver, through every shield of anyio.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import anyio
import anyio.from_thread
import anyio.lowlevel
import pytest

import mqlite_actor as mq
from mqlite_actor.contract import ext, wire
from mqlite_actor.sdk import held as held_module
from mqlite_actor.sdk import receiver as receiver_module
from mqlite_actor.sdk.handle import Handle
from mqlite_actor.sdk.unbroken import in_thread
from tests.conformance.broker import Broker
from tests.sdk.loops import BOUND_SECONDS, run
from tests.sdk.receiving_scene import Heard, nothing, on_queue

R = TypeVar("R")

TIMES = [1, 3]
"""How often all tasks are cancelled: programs do so again where the first time did not do."""


async def turns(number: int) -> None:
    for _ in range(number):
        await anyio.lowlevel.checkpoint()


async def cancel_all(times: int) -> list[asyncio.Task[Any]]:
    """Cancel all tasks but this one, so many times; which were there."""
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for _ in range(times):
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await turns(5)
    return others


async def ended(tasks: Sequence[asyncio.Task[Any]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)


class Waiting(Handle):
    """A handle whose calls of one kind wait at a gate. What is cancelled there was not done."""

    def __init__(self, q: Handle, kind: type) -> None:
        self._q = q
        self._kind = kind
        self.reached = asyncio.Event()
        self.gate = asyncio.Event()
        self.times = 0

    async def call(self, request: wire.Request[R]) -> R:
        if isinstance(request, self._kind):
            self.times += 1
            self.reached.set()
            await self.gate.wait()
        return await self._q.call(request)


class Handled(Heard):
    """Says when a handler has ended, which is just before its message is settled."""

    def __init__(self) -> None:
        super().__init__()
        self.is_over = asyncio.Event()

    def handled(self, message: mq.Received, seconds: float, error: Exception | None) -> None:
        super().handled(message, seconds, error)
        self.is_over.set()


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("face", ["plain", "typed"])
def test_a_plain_handler_is_waited_for_and_what_became_of_it_counts(
    face: str, times: int, *, fails: bool
) -> None:
    async def body(q: mq.Embedded) -> None:
        await q.send_one("q", "1")
        begun, may_end, done = threading.Event(), threading.Event(), list[int]()
        heard = Heard()

        def handle(*given: Any) -> None:  # noqa: ANN401  # with or without a value
            begun.set()
            assert may_end.wait(BOUND_SECONDS)
            done.append(given[-1].delivery_count)
            if fails:
                raise KeyError

        made = q.queue("q", int).receiver if face == "typed" else partial(q.receiver, "q")
        running = asyncio.create_task(made(hooks=heard, on_failure=mq.reject()).run(handle))
        assert await asyncio.to_thread(begun.wait, BOUND_SECONDS)
        others = await cancel_all(times)
        assert (running.done(), done) == (False, [])
        assert (await q.stats("q")).locked == 1, "nobody else has it meanwhile"
        may_end.set()
        await ended(others)
        assert running.cancelled()
        assert (done, heard.verdicts) == ([1], [(1, mq.DeadLetter("KeyError") if fails else None)])
        counts = await q.stats("q")
        assert (counts.total, counts.dead_lettered) == ((1, 1) if fails else (0, 0))

    on_queue("asyncio", body)


class Renewing(Handle):
    """Counts renewals from a moment on, and says when there were two."""

    def __init__(self, q: Handle) -> None:
        self._q = q
        self.is_counting = False
        self.number = 0
        self.were_two = threading.Event()

    async def call(self, request: wire.Request[R]) -> R:
        reply = await self._q.call(request)
        if isinstance(request, wire.RenewBatchRequest) and self.is_counting:
            self.number += 1
            if self.number == 2:
                self.were_two.set()
        return reply


@pytest.mark.parametrize(
    ("backend", "is_native"), [("trio", False), ("asyncio", False), ("asyncio", True)]
)
def test_the_lease_of_a_plain_handler_that_is_waited_for_is_kept(
    backend: str, *, is_native: bool
) -> None:
    async def body(q: mq.Embedded) -> None:
        await q.create_queue("short", lock_duration=1)
        await q.send_one("short", "a")
        renewing, begun, deliveries = Renewing(q), anyio.Event(), list[int]()

        def handle(message: mq.SyncHeldMessage) -> None:
            anyio.from_thread.run_sync(begun.set)
            assert renewing.were_two.wait(BOUND_SECONDS)
            deliveries.append(message.delivery_count)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(renewing.receiver("short", auto_renew=True).run, handle)
            await begun.wait()
            await anyio.lowlevel.checkpoint()
            renewing.is_counting = True
            if is_native:
                await ended(await cancel_all(1))
            tasks.cancel_scope.cancel()
        assert deliveries == [1]
        assert (await q.stats("short")).total == 0

    on_queue(backend, body)


@pytest.mark.parametrize("times", TIMES)
def test_the_verbs_of_a_plain_handler_are_not_cut_in_its_thread(times: int) -> None:
    async def body(q: mq.Embedded) -> None:
        await q.send_one("q", "a")
        waiting = Waiting(q, wire.RenewRequest)
        done: list[str] = []

        def handle(message: mq.SyncHeldMessage) -> None:
            message.renew()
            done.append("renewed")
            message.complete()
            done.append("completed")

        running = asyncio.create_task(waiting.receiver("q").run(handle))
        await waiting.reached.wait()
        others = await cancel_all(times)
        assert (running.done(), done) == (False, [])
        waiting.gate.set()
        await ended(others)
        assert done == ["renewed", "completed"]
        assert (await q.stats("q")).total == 0

    on_queue("asyncio", body)


@pytest.mark.parametrize("times", TIMES)
def test_a_settlement_that_waits_for_the_writer_is_not_withdrawn(times: int) -> None:
    async def body(q: mq.Embedded) -> None:
        await q.send_one("q", "a")
        heard, begun, may_end = Handled(), asyncio.Event(), asyncio.Event()

        async def handle(_: object) -> None:
            begun.set()
            await may_end.wait()

        running = asyncio.create_task(q.receiver("q", hooks=heard).run(handle))
        await begun.wait()
        async with q.tx():
            may_end.set()
            await heard.is_over.wait()
            others = await cancel_all(times)
            assert not running.done()
        await ended(others)
        assert running.cancelled()
        assert heard.verdicts == [(1, None)]
        assert (await q.stats("q")).total == 0

    on_queue("asyncio", body)


TURNS = [*range(12), 15, 20, 30, 50, 100, 200, 400, 800]


def plain(_: object) -> None:
    return


async def cancelled_behind_each_handler(q: Handle, queue: str, handler: Callable[..., Any]) -> None:
    for number in TURNS:
        await q.send_one(queue, "a")
        heard = Handled()
        running = asyncio.create_task(q.receiver(queue, hooks=heard).run(handler))
        await heard.is_over.wait()
        await turns(number)
        await ended(await cancel_all(1))
        assert running.cancelled()
        assert (await q.stats(queue)).total == 0, f"handled and not settled, {number} turns later"


@pytest.mark.parametrize("handler", [nothing, plain])
def test_what_was_handled_is_settled_whenever_the_tasks_are_cancelled(
    handler: Callable[..., Any],
) -> None:
    on_queue("asyncio", partial(cancelled_behind_each_handler, queue="q", handler=handler))


# Of a task that is cancelled before it begins anyio leaves the coroutine lying: that of a new poll.
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.parametrize("handler", [nothing, plain])
def test_over_http_it_is_as_well(handler: Callable[..., Any], broker: Broker, queue: str) -> None:
    async def main() -> None:
        async with mq.connect(broker.url, token=broker.token) as q:
            await q.create_queue(queue, lock_duration=900)
            await cancelled_behind_each_handler(q, queue, handler)

    run("asyncio", main)


def test_a_settlement_that_gets_no_answer_ends_however_often_its_task_is_cancelled(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(receiver_module, "SETTLE_SECONDS", 0.05)

    async def body(q: mq.Embedded) -> None:
        await q.send_one("q", "a")
        waiting = Waiting(q, wire.CompleteRequest)
        running = asyncio.create_task(waiting.receiver("q").run(nothing))
        await waiting.reached.wait()
        while not running.done():
            await cancel_all(1)
        assert running.cancelled()
        assert (await q.stats("q")).locked == 1
        assert "could not be settled" in caplog.text

    on_queue("asyncio", body)


@pytest.mark.parametrize("verb", ["complete", "renew"])
def test_a_verb_that_gets_no_answer_ends_however_often_its_task_is_cancelled(
    verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_module, "VERB_SECONDS", 0.05)

    async def body(q: mq.Embedded) -> None:
        await q.send_one("q", "a")
        heard = Heard()
        waiting = Waiting(q, wire.CompleteRequest if verb == "complete" else wire.RenewRequest)

        def handle(message: mq.SyncHeldMessage) -> None:
            getattr(message, verb)()

        running = asyncio.create_task(waiting.receiver("q", hooks=heard).run(handle))
        await waiting.reached.wait()
        while not running.done():
            await cancel_all(1)
        assert running.cancelled()
        ((_, error),) = heard.ended
        assert isinstance(error, mq.OutcomeUnknown)
        assert waiting.times <= 2, "it floods nobody"
        assert (await q.stats("q")).active == 1, "it comes again"

    on_queue("asyncio", body)


@pytest.mark.parametrize("times", TIMES)
def test_what_no_handler_saw_goes_back_all_the_same(times: int) -> None:
    async def body(q: mq.Embedded) -> None:
        class Late(Waiting):
            """The answer to the claim and the stop come together."""

            async def call(self, request: wire.Request[R]) -> R:
                reply = await super().call(request)
                if isinstance(request, wire.ReceiveRequest):
                    receiver.stop()
                return reply

        await q.send("q", ["a", "b"])
        late = Late(q, ext.ReleaseRequest)
        receiver = late.receiver("q", concurrency=2)
        running = asyncio.create_task(receiver.run(nothing))
        await late.reached.wait()
        others = await cancel_all(times)
        assert not running.done()
        late.gate.set()
        await ended(others)
        counts = await q.stats("q")
        assert (counts.active, counts.locked) == (2, 0)
        assert [m.delivery_count for m in await q.receive("q", max_messages=9)] == [1, 1]

    on_queue("asyncio", body)


def test_a_function_that_has_not_begun_in_its_thread_never_does() -> None:
    async def main() -> None:
        limiter, ran = anyio.CapacityLimiter(1), list[str]()
        async with limiter:
            waiting = asyncio.create_task(in_thread(lambda: ran.append("first"), limiter))
            await turns(5)
            waiting.cancel()
            await ended([waiting])
        assert waiting.cancelled()
        await in_thread(lambda: ran.append("second"), limiter)
        assert ran == ["second"]

    run("asyncio", main)
