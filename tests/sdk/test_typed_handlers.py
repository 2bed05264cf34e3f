"""Handlers of values: each kind of function runs as what it is; none is taken for done unrun."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from functools import partial
from typing import Annotated, Any

import anyio
import anyio.from_thread
import msgspec
import pytest

import mqlite_actor as mq
from tests.sdk.loops import both_loops
from tests.sdk.receiving_scene import Stopping, on_queue


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, not to be told by its looks."""

    @functools.wraps(function)
    def outer(*given: object) -> Any:  # noqa: ANN401  # what the inner one returns
        return function(*given)

    return outer


def run_apart(function: Callable[..., Any]) -> Callable[..., Any]:
    """A plain function that runs a coroutine function in a loop of its own."""

    @functools.wraps(function)
    def outer(*given: object) -> Any:  # noqa: ANN401  # what the inner one gives
        return asyncio.run(function(*given))

    return outer


class Wrapper:
    """An object whose call returns what is to be awaited."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *given: object) -> Any:  # noqa: ANN401  # what the inner one returns
        return self.function(*given)


@both_loops
@pytest.mark.parametrize(
    "kind",
    [
        *("plain", "plain lambda", "plain around a coroutine", "plain decorated"),
        *("coroutine", "decorated", "lambda", "object", "method"),
    ],
)
def test_a_typed_receiver_runs_a_handler_of_any_kind_once(backend: str, kind: str) -> None:
    async def body(q: mq.Embedded) -> None:
        await q.queue("q", str).send(["first", "stop"])
        receiver = q.queue("q", str).receiver()
        seen: list[tuple[str, bool]] = []
        here = threading.get_ident()

        async def handle(value: str, message: mq.HeldMessage) -> None:
            seen.append((value, threading.get_ident() == here))
            await message.complete()
            if value == "stop":
                receiver.stop()

        def plain(value: str, message: mq.SyncHeldMessage) -> None:
            seen.append((value, threading.get_ident() == here))
            message.complete()
            if value == "stop":
                anyio.from_thread.run_sync(receiver.stop)

        async def work(value: str, message: mq.SyncHeldMessage) -> None:
            plain(value, message)  # it blocks a loop, but only its own

        handlers: dict[str, Any] = {
            "plain around a coroutine": run_apart(work),
            "plain decorated": decorated(plain),
            "plain": plain,
            "plain lambda": lambda *given: plain(*given),  # noqa: PLW0108  # that is the question
            "coroutine": handle,
            "decorated": decorated(handle),
            "lambda": lambda *given: handle(*given),  # noqa: PLW0108  # that is the question
            "object": Wrapper(handle),
            "method": Wrapper(handle).__call__,
        }
        await receiver.run(handlers[kind])
        is_here = not kind.startswith("plain")
        assert seen == [("first", is_here), ("stop", is_here)]
        assert (await q.stats("q")).total == 0

    on_queue(backend, body)


@both_loops
def test_what_works_and_then_returns_an_awaitable_works_once_for_each_message(backend: str) -> None:
    async def body(q: mq.Embedded) -> None:
        await q.queue("q", int).send(range(6))
        receiver = q.queue("q", int).receiver(concurrency=3)
        charged: list[int] = []
        told: list[int] = []

        async def tell(value: int, message: mq.HeldMessage) -> None:
            await message.renew()
            told.append(value)
            if len(told) == 6:
                receiver.stop()

        def charge(value: int, message: mq.HeldMessage) -> Awaitable[None]:
            charged.append(value)
            return tell(value, message)

        await receiver.run(charge)
        assert sorted(charged) == sorted(told) == [0, 1, 2, 3, 4, 5]
        assert (await q.stats("q")).total == 0

    on_queue(backend, body)


async def coroutine(*_: object) -> None:
    raise AssertionError("no loop runs it")


def generator(*_: object) -> Iterator[None]:
    yield


async def async_generator(*_: object) -> AsyncIterator[None]:
    yield


def future(*_: object) -> concurrent.futures.Future[None]:
    """As a pool gives one; its work is not done."""
    return concurrent.futures.Future()


class Later:
    """What can be awaited and is no coroutine, as the queries of some libraries are."""

    def __init__(self, *_: object) -> None:
        return

    def __await__(self) -> Iterator[None]:
        raise AssertionError("nobody awaits it")


@pytest.mark.parametrize("handle", [coroutine, generator, async_generator, future, Later])
@pytest.mark.parametrize("face", ["plain", "typed"])
def test_a_blocking_program_never_completes_what_no_handler_ran_for(
    face: str, handle: Callable[..., object]
) -> None:
    def hidden(*given: object) -> object:
        return handle(*given)

    with mq.open_embedded_sync(":memory:") as q:
        q.create_queue("q", max_delivery_count=1)
        q.queue("q", str).send_one("paid")
        heard = Stopping()
        if face == "typed":
            heard.receiver = q.queue("q", str).receiver(hooks=heard)
        else:
            heard.receiver = q.receiver("q", hooks=heard)
        heard.receiver.run(hidden)
        assert heard.verdicts == [(1, mq.Retry())]
        assert q.stats("q").dead_lettered == 1


def in_a_plain_one(handle: Callable[..., object]) -> Callable[..., object]:
    return lambda *given: handle(*given)  # noqa: PLW0108  # it hides it


def in_a_coroutine(handle: Callable[..., object]) -> Callable[..., object]:
    """An `await` is forgotten there."""

    async def outer(*given: object) -> object:
        return handle(*given)

    return outer


@pytest.mark.parametrize(
    ("hidden", "handle"),
    [
        *((in_a_plain_one, each) for each in (generator, async_generator, future)),
        *((in_a_coroutine, each) for each in (generator, async_generator, future)),
        *((in_a_coroutine, each) for each in (coroutine, Later)),
    ],
)
@both_loops
def test_a_handler_that_returns_what_has_not_run_is_not_taken_for_done(
    backend: str,
    hidden: Callable[[Callable[..., object]], Callable[..., Any]],
    handle: Callable[..., object],
) -> None:
    async def body(q: mq.Embedded) -> None:
        await q.send("q", ["1", "2", "3"])
        looks = (hidden(handle), hidden(handle), decorated(hidden(handle)))
        typed = q.queue("q", int).receiver
        faces: tuple[Callable[..., Any], ...] = (partial(q.receiver, "q"), typed, typed)
        for receiver, handler in zip(faces, looks, strict=True):
            heard = Stopping()
            heard.receiver = receiver(hooks=heard, on_failure=mq.reject())
            await heard.receiver.run(handler)
        reasons = [each.dead_letter_reason for each in await q.peek("q")]
        assert reasons == ["InvalidArgument"] * 3

    on_queue(backend, body)


class Moody(msgspec.Struct):
    """A type with an opinion."""

    number: int

    def __post_init__(self) -> None:
        if self.number == 2:
            raise KeyError(self.number)


@both_loops
def test_a_type_that_fails_on_one_message_keeps_the_others_and_puts_that_one_aside(
    backend: str,
) -> None:
    async def body(q: mq.Embedded) -> None:
        await q.send("q", ['{"number":1}', '{"number":2}', "unfit", '{"number":3}'])
        found = await q.queue("q", Moody).receive(max_messages=9)
        assert [value.number for value, _ in found] == [1, 3]
        counts = await q.stats("q")
        assert (counts.locked, counts.active, counts.dead_lettered) == (2, 1, 1)

    on_queue(backend, body)


@both_loops
def test_a_typed_receive_that_is_cancelled_while_it_puts_one_aside_gives_back_the_rest(
    backend: str,
) -> None:
    async def body(q: mq.Embedded) -> None:
        await q.send("q", ['{"number":1}', "unfit", '{"number":3}', "unfit"])
        scope = anyio.CancelScope()

        class Leaving(msgspec.Struct):
            number: int

            def __post_init__(self) -> None:
                scope.cancel()

        with scope:
            await q.queue("q", Leaving).receive(max_messages=9)
        assert scope.cancelled_caught
        again = await q.receive("q", max_messages=9)
        found = {message.body: message.delivery_count for message in again}
        assert (found[b'{"number":1}'], found[b'{"number":3}']) == (1, 1)
        rejected = (await q.stats("q")).dead_lettered  # on asyncio one may be under way by then
        assert len(again) + rejected == 4
        assert rejected <= 1

    on_queue(backend, body)


@both_loops
def test_a_coroutine_function_in_place_of_a_plain_one_commits_nothing(backend: str) -> None:
    async def body(q: mq.Embedded) -> None:
        for work in (coroutine, generator, async_generator):

            def half(tx: mq.SyncTx, work: Callable[..., object] = work) -> object:
                tx.send_one("q", b"x")
                return work(tx)

            with pytest.raises(mq.InvalidArgument, match="function: "):
                await q.run_tx(half)
        assert (await q.stats("q")).total == 0

    on_queue(backend, body)
    with mq.open_embedded_sync(":memory:") as q:
        with pytest.raises(mq.InvalidArgument, match="plain"):
            q.run_tx(coroutine)  # type: ignore[unused-coroutine]  # it gives none
        rows = q.run_tx(lambda tx: (row for row in tx.execute("VALUES (1), (2)")))
        assert list(rows) == [(1,), (2,)]


class Plain:
    """What no JSON becomes."""


@pytest.mark.parametrize("kind", [Plain, list[Plain], dict[str, Plain], complex, "Plain"])
def test_a_type_that_no_json_becomes_is_refused_before_it_rejects_every_message(
    kind: type[object],
) -> None:
    with mq.open_embedded_sync(":memory:") as q, pytest.raises(mq.InvalidArgument, match="kind: "):
        q.queue("q", kind)


@pytest.mark.parametrize(
    "kind", [object, dict[str, object], list[object], Iterable[int], Annotated[int, {}], Any]
)
def test_a_type_that_some_json_is_already_is_taken(kind: type[object]) -> None:
    with mq.open_embedded_sync(":memory:") as q:
        for _ in range(2):
            assert q.queue("q", kind).kind is kind


@both_loops
def test_the_letters_of_one_text_are_not_sent_as_messages(backend: str) -> None:
    async def body(q: mq.Embedded) -> None:
        ways: list[Callable[[Any], Any]] = [
            partial(q.send, "q"), partial(q.send_all, "q"), q.queue("q", str).send
        ]  # fmt: skip
        for one in ("abc", b"abc", {"a": 1}):
            for send in ways:
                with pytest.raises(mq.InvalidArgument, match="give a list"):
                    await send(one)
        assert (await q.stats("q")).total == 0

    on_queue(backend, body)


@both_loops
def test_a_typed_receiver_tells_of_its_stop_and_can_be_cut(backend: str) -> None:
    async def body(q: mq.Embedded) -> None:
        await q.queue("q", str).send_one("x")
        receiver = q.queue("q", str).receiver()
        ended: list[str] = []

        async def handle(value: str, _: mq.HeldMessage) -> None:
            assert not receiver.stopping.is_set()
            receiver.stop()
            await receiver.stopping.wait()
            ended.append(value)
            receiver.cut()
            await anyio.sleep_forever()

        await receiver.run(handle)
        assert ended == ["x"]
        (message,) = await q.peek("q")
        assert (message.state, message.delivery_count) == ("active", 1), "it was abandoned"

    on_queue(backend, body)


def test_a_blocking_typed_receiver_tells_of_its_stop() -> None:
    with mq.open_embedded_sync(":memory:") as q:
        q.create_queue("q")
        q.queue("q", str).send_one("x")
        receiver = q.queue("q", str).receiver()
        told = [receiver.is_stopping]

        def handle(_: str, __: mq.SyncHeldMessage) -> None:
            told.append(receiver.is_stopping)
            receiver.stop()
            while not receiver.is_stopping:
                q.status()

        receiver.run(handle)
        assert [*told, receiver.is_stopping] == [False, False, True]
        assert q.stats("q").total == 0
