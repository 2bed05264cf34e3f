"""What a plain function raises that is no Exception is its program's, and the engine goes on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import anyio.from_thread
import pytest

import mqlite_actor as mq
from tests.sdk.loops import BOUND_SECONDS, both_loops
from tests.sdk.receiving_scene import on_queue


class Outcome(BaseException):
    """As test frameworks and libraries for time limits have theirs."""


def cut_by_somebody() -> None:
    """A loop of its own, in which a task is cancelled that was awaited."""

    async def main() -> None:
        task = asyncio.ensure_future(asyncio.Event().wait())
        task.cancel()
        await task

    asyncio.run(main())


@pytest.mark.parametrize("error", [SystemExit, Outcome])
@pytest.mark.parametrize("face", ["receiver", "typed receiver", "run_tx"])
def test_a_blocking_program_gets_what_its_function_raised_and_keeps_its_engine(
    face: str, error: type[BaseException]
) -> None:
    def leave(*_: object) -> None:
        raise error(3)

    with mq.open_embedded_sync(":memory:") as q:
        q.create_queue("q")
        q.queue("q", int).send_one(1)
        runs: dict[str, Callable[[], object]] = {
            "receiver": lambda: q.receiver("q").run(leave),
            "typed receiver": lambda: q.queue("q", int).receiver().run(leave),
            "run_tx": lambda: q.run_tx(leave),
        }
        with pytest.raises(error):
            runs[face]()
        (message,) = q.receive("q")
        message.complete()


def test_a_function_that_is_awaited_on_asyncio_keeps_its_engine_too() -> None:
    def leave(_: mq.SyncTx) -> None:
        raise Outcome

    async def main() -> None:
        async with mq.open_embedded(":memory:") as q:
            await q.create_queue("q")
            with pytest.raises(Outcome):
                await q.run_tx(leave)
            assert await q.send_one("q", "a") == 1

    asyncio.run(asyncio.wait_for(main(), BOUND_SECONDS))


def test_a_cancellation_in_a_blocking_handlers_own_loop_is_a_failure_of_the_handler() -> None:
    with mq.open_embedded_sync(":memory:") as q:
        q.create_queue("q")
        q.send_one("q", "a")
        receiver = q.receiver("q")
        deliveries: list[int] = []

        def handle(message: mq.SyncHeldMessage) -> None:
            deliveries.append(message.delivery_count)
            if len(deliveries) == 1:
                cut_by_somebody()
            receiver.stop()

        receiver.run(handle)
        assert deliveries == [1, 2]
        assert q.stats("q").total == 0


@both_loops
def test_so_it_is_in_a_plain_handler_of_a_program_with_a_loop(backend: str) -> None:
    async def body(q: mq.Embedded) -> None:
        await q.queue("q", int).send_one(1)
        receiver = q.queue("q", int).receiver()
        deliveries: list[int] = []

        def handle(_: int, message: mq.SyncHeldMessage) -> None:
            deliveries.append(message.delivery_count)
            if len(deliveries) == 1:
                cut_by_somebody()
            anyio.from_thread.run_sync(receiver.stop)

        await receiver.run(handle)
        assert deliveries == [1, 2]
        assert (await q.stats("q")).total == 0

    on_queue(backend, body)


def test_what_runs_in_a_nursery_when_its_handle_is_closed_is_told_just_that() -> None:
    """Trio packs its own cancellations there, and they are nobody's outcome."""

    class Told:
        """A task's status, from the engine's thread."""

        def __init__(self) -> None:
            self.is_started = threading.Event()

        def started(self, _: object) -> None:
            self.is_started.set()

    told, raised = Told(), list[BaseException]()

    def serve(q: Any) -> None:  # noqa: ANN401  # mypy takes its `serve` for that of another class
        try:
            q.serve("127.0.0.1:0", task_status=told)
        except BaseException as error:  # noqa: BLE001  # it is looked at below
            raised.append(error)

    with mq.open_embedded_sync(":memory:") as q:
        serving = threading.Thread(target=serve, args=(q,))
        serving.start()
        assert told.is_started.wait(BOUND_SECONDS)
    serving.join(BOUND_SECONDS)
    assert [type(error) for error in raised] == [mq.Closed]
