"""Handlers made of the tasks of asyncio: what they return, and decorators that need its loop."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import anyio.from_thread
import pytest
import trio

import mqlite_actor as mq
from tests.sdk.loops import BOUND_SECONDS
from tests.sdk.receiving_scene import Heard, Stopping, on_queue


class Broken(Exception):
    """What a task failed with."""


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        *(("done", ""), ("failed", "Broken")),
        *((state, "InvalidArgument") for state in ("cancelled", "not done")),
    ],
)
def test_a_task_that_a_coroutine_function_returns_counts_as_what_became_of_it(
    state: str, reason: str
) -> None:
    async def body(q: mq.Embedded) -> None:
        await q.send("q", ["1", "2"])
        tasks: list[asyncio.Future[None]] = []

        async def handle(*_: object) -> asyncio.Future[None]:
            task = asyncio.get_running_loop().create_future()
            tasks.append(task)
            if state == "done":
                task.set_result(None)
            elif state == "failed":
                task.set_exception(Broken())
            elif state == "cancelled":
                task.cancel()
            return task

        for receiver in (partial(q.receiver, "q"), q.queue("q", int).receiver):
            heard = Stopping()
            heard.receiver = receiver(hooks=heard, on_failure=mq.reject())
            await heard.receiver.run(handle)
        assert len(tasks) == 2, "each was handled once"
        reasons = [each.dead_letter_reason for each in await q.peek("q")]
        assert reasons == ([reason] * 2 if reason else [])

    on_queue("asyncio", body)


def before_it(need: Callable[[], object], coroutine: Any) -> Any:  # noqa: ANN401  # either one
    need()
    return coroutine


NEEDY: dict[str, Callable[[Any], Any]] = {
    "asyncio shield": asyncio.shield,
    "asyncio task": asyncio.create_task,
    "asyncio future": asyncio.ensure_future,
    "asyncio loop": partial(before_it, asyncio.get_running_loop),
    "asyncio anyio": partial(before_it, anyio.current_time),
    "trio anyio": partial(before_it, anyio.current_time),
    "trio time": partial(before_it, trio.current_time),
    "trio token": partial(before_it, trio.lowlevel.current_trio_token),
}
"""What decorators do with a coroutine, or before they return it, that needs the running loop."""


@pytest.mark.parametrize("kind", NEEDY)
def test_a_decorator_may_need_the_loop_before_it_returns(kind: str) -> None:
    async def body(q: mq.Embedded) -> None:
        await q.queue("q", int).send(range(3))
        heard = Heard()
        receiver = q.queue("q", int).receiver(hooks=heard)
        here = threading.get_ident()
        seen: list[tuple[int, int, bool]] = []

        async def handle(value: int, message: mq.HeldMessage) -> None:
            await message.renew()
            seen.append((value, message.delivery_count, threading.get_ident() == here))
            if value == 2:
                receiver.stop()

        @functools.wraps(handle)
        def outer(*given: Any) -> Any:  # noqa: ANN401  # whatever the decorator makes of it
            return NEEDY[kind](handle(*given))

        await receiver.run(outer)
        assert seen == [(0, 1, True), (1, 1, True), (2, 1, True)]
        assert heard.verdicts == [(1, None), (2, None), (3, None)]

    on_queue(kind.split(maxsplit=1)[0], body)


def handed_over(work: Any, app: asyncio.AbstractEventLoop) -> Any:  # noqa: ANN401  # as above
    return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, app))


def handed_over_and_begun(
    begun: threading.Event,
    work: Any,  # noqa: ANN401  # as above
    app: asyncio.AbstractEventLoop,
) -> Any:  # noqa: ANN401  # as above
    app.call_soon_threadsafe(app.create_task, work)
    assert begun.wait(BOUND_SECONDS)
    asyncio.get_running_loop()


@pytest.mark.parametrize("is_future", [True, False])
def test_what_a_decorator_began_in_a_loop_elsewhere_is_not_cut_and_not_begun_again(
    *, is_future: bool
) -> None:
    async def body(q: mq.Embedded, app: asyncio.AbstractEventLoop) -> None:
        await q.queue("q", int).send([0, 1])
        heard = Heard()
        receiver = q.queue("q", int).receiver(hooks=heard, on_failure=mq.reject())
        begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()
        seen: list[tuple[str, int]] = []

        async def handle(value: int, _: mq.HeldMessage) -> None:
            seen.append(("begun", value))
            begun.set()
            await asyncio.to_thread(may_end.wait, BOUND_SECONDS)
            seen.append(("ended", value))
            ended.set()

        @functools.wraps(handle)
        def outer(value: int, message: mq.HeldMessage) -> Any:  # noqa: ANN401  # a future, or none
            if value == 1:
                receiver.stop()
                return None
            if is_future:
                return handed_over(handle(value, message), app)
            return handed_over_and_begun(begun, handle(value, message), app)

        await receiver.run(outer)
        may_end.set()
        assert await asyncio.to_thread(ended.wait, BOUND_SECONDS)
        assert seen == [("begun", 0), ("ended", 0)]
        (_, failed), second = heard.verdicts
        assert isinstance(failed, mq.DeadLetter)
        assert (failed.reason, second) == ("RuntimeError", (2, None))

    app = asyncio.new_event_loop()
    thread = threading.Thread(target=app.run_forever)
    thread.start()
    try:
        on_queue("asyncio", partial(body, app=app))
    finally:
        app.call_soon_threadsafe(app.stop)
        thread.join(BOUND_SECONDS)
        app.close()


@pytest.mark.parametrize("error", [RuntimeError("no running event loop"), RuntimeError("other")])
@pytest.mark.parametrize("backend", ["trio", "asyncio"])
def test_what_fails_in_a_loop_of_its_own_stays_in_its_thread(
    backend: str, error: RuntimeError
) -> None:
    async def body(q: mq.Embedded) -> None:
        await q.queue("q", int).send(range(2))
        receiver = q.queue("q", int).receiver(on_failure=mq.reject())
        here = threading.get_ident()
        seen: list[tuple[int, bool]] = []

        async def handle(value: int, _: mq.SyncHeldMessage) -> None:
            seen.append((value, threading.get_ident() == here))
            raise error

        @functools.wraps(handle)
        def outer(value: int, message: mq.SyncHeldMessage) -> None:
            if value == 1:
                anyio.from_thread.run_sync(receiver.stop)
            asyncio.run(handle(value, message))

        await receiver.run(outer)
        assert seen == [(0, False), (1, False)]
        assert (await q.stats("q")).dead_lettered == 2

    on_queue(backend, body)
