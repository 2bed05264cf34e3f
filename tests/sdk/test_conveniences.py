"""What people expect on top of the verbs: JSON, typed queues, iteration, questions, batches."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

import anyio
import msgspec
import pytest

import mqlite_actor as mq
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.wire import Message
from mqlite_actor.sdk import requesting, requests
from mqlite_actor.sdk.handle import Handle
from mqlite_actor.testing.broker import running_broker
from tests.sdk.loops import both_loops, run

R = TypeVar("R")


class Order(msgspec.Struct):
    item: str
    count: int = 1


class Losing(Handle):
    """A handle that loses the reply to the first call of each kind, which was done."""

    def __init__(self, q: Handle, errors: dict[type, mq.MqliteError]) -> None:
        self._q = q
        self.errors = dict(errors)

    async def call(self, request: wire.Request[R]) -> R:
        reply = await self._q.call(request)
        is_idle = isinstance(reply, wire.MessagesResponse) and not reply.messages
        if type(request) in self.errors and not is_idle:
            raise self.errors.pop(type(request))
        return reply


@dataclass
class Parcel:
    grams: int


@dataclass
class Price:
    euros: float


class Weight(msgspec.Struct):
    grams: float


BODIES: dict[str, tuple[Any, bytes, str]] = {
    "bytes": (b"\xff", b"\xff", ""),
    "a buffer": (memoryview(b"ab"), b"ab", ""),
    "text": ("é", "é".encode(), ""),
    "a dict": ({"a": [1, None]}, b'{"a":[1,null]}', "application/json"),
    "a list": ([1, "b"], b'[1,"b"]', "application/json"),
    "a struct": (Order("tea", 2), b'{"item":"tea","count":2}', "application/json"),
    "a dataclass": (Parcel(5), b'{"grams":5}', "application/json"),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_body_goes_as_bytes_text_or_json_with_its_content_type(name: str) -> None:
    body, content, content_type = BODIES[name]
    with mq.open_embedded_sync(":memory:") as q:
        q.create_queue("q")
        q.send_one("q", body)
        q.send("q", [body, Message(body=b"as it is")])
        with q.tx() as tx:
            tx.send_one("q", body)
        first, second, plain, third = q.peek("q")
        for message in (first, second, third):
            assert (message.body, message.content_type) == (content, content_type)
        assert plain.content_type == ""
        q.send_one("q", body, content_type="mine")
        assert q.peek("q")[-1].content_type == "mine"


@pytest.mark.parametrize(
    "body",
    [5, 1.5, None, True, {1, 2}, Message()],
    ids=["int", "float", "None", "bool", "set", "Message"],
)
def test_a_body_that_is_probably_a_mistake_is_refused(
    body: Any,  # noqa: ANN401  # wrong on purpose
) -> None:
    with mq.open_embedded_sync(":memory:") as q:
        q.create_queue("q")
        with pytest.raises(mq.InvalidArgument, match="body: give bytes, str"):
            q.send_one("q", body)


@pytest.mark.parametrize(
    "held",
    [object(), math.nan, [{"b": (None, -math.inf)}], Price(math.inf), Weight(math.nan)],
    ids=["object", "nan", "deep", "dataclass", "struct"],
)
def test_what_json_cannot_hold_is_refused(
    held: Any,  # noqa: ANN401  # wrong on purpose
) -> None:
    with mq.open_embedded_sync(":memory:") as q:
        q.create_queue("q")
        with pytest.raises(mq.InvalidArgument, match="JSON"):
            q.send_one("q", {"a": held})
        q.send_one("q", {"a": [None, 1.5, "null", "nan"]})
        q.send_one("q", {"a": msgspec.Raw(b"[null]")})
        assert [each.body for each in q.peek("q", max_messages=2)] == [
            b'{"a":[null,1.5,"null","nan"]}',
            b'{"a":[null]}',
        ]


def test_a_single_body_in_place_of_a_list_is_refused() -> None:
    with mq.open_embedded_sync(":memory:") as q, pytest.raises(mq.InvalidArgument, match="a list"):
        q.send("q", "ab")


def test_a_received_body_is_read_as_json_or_as_a_type() -> None:
    with mq.open_embedded_sync(":memory:") as q:
        q.create_queue("q")
        q.send("q", [Order("tea"), "no json"])
        good, bad = q.receive("q", max_messages=2)
        assert good.json() == {"item": "tea", "count": 1}
        assert good.decode(Order) == Order("tea")
        for read in (bad.json, lambda: good.decode(Parcel)):
            with pytest.raises(mq.InvalidArgument, match="body:"):
                read()


@both_loops
def test_a_typed_queue_takes_and_gives_values(backend: str) -> None:
    async def main() -> None:
        async with mq.open_embedded(":memory:") as q:
            await q.create_queue("orders")
            orders = q.queue("orders", Order)
            await orders.send_one(Order("tea"), message_id="m")
            await orders.send([Order("salt", 2), Order("oil")])
            ((value, message),) = await orders.receive()
            assert (value, message.message_id) == (Order("tea"), "m")
            await message.complete()
            await q.send_one("orders", {"wrong": 1})
            seen: list[Order] = []
            receiver = orders.receiver()

            async def handle(order: Order, _: mq.HeldMessage) -> None:
                seen.append(order)
                if order.item == "stop":
                    receiver.stop()

            await orders.send_one(Order("stop"))
            await receiver.run(handle)
            assert [each.item for each in seen] == ["salt", "oil", "stop"]
            (dead,) = await q.peek("orders", state="dead_lettered")
            assert dead.dead_letter_reason == "unfit body"
            await q.send_one("orders", "no json")
            assert await orders.receive(max_messages=9) == []
            assert (await q.stats("orders")).dead_lettered == 2
            await q.send("orders", ["no json", '{"item":"tea"}'])
            losing = Losing(q, {wire.RejectRequest: mq.Unavailable("away")})
            found = await losing.queue("orders", Order).receive(max_messages=9)
            assert [order.item for order, _ in found] == ["tea"]

    run(backend, main)


def test_a_typed_queue_of_a_blocking_program() -> None:
    with mq.open_embedded_sync(":memory:") as q:
        q.create_queue("orders")
        orders = q.queue("orders", Order)
        orders.send_one(Order("tea"))
        ((value, message),) = orders.receive()
        message.abandon()
        q.send_one("orders", "no json")
        seen: list[Order] = []
        receiver = orders.receiver()

        def handle(order: Order, _: mq.SyncHeldMessage) -> None:
            seen.append(order)
            if order.item == "stop":
                receiver.stop()

        orders.send([Order("stop")])
        receiver.run(handle)
        assert seen == [value, Order("stop")]
        assert q.stats("orders").dead_lettered == 1


@both_loops
def test_consuming_in_a_loop_claims_one_message_at_a_time(backend: str) -> None:
    async def main() -> None:
        async with mq.open_embedded(":memory:") as q:
            await q.create_queue("q")
            await q.send("q", ["a", "b", "c"])
            seen: list[str] = []
            async for message in q.consume("q", wait=0, until_empty=True):
                assert (await q.stats("q")).locked == 1
                seen.append(message.text)
                await message.complete()
            assert seen == ["a", "b", "c"]

    run(backend, main)


def test_consuming_in_a_blocking_loop() -> None:
    with mq.open_embedded_sync(":memory:") as q:
        q.create_queue("q")
        q.send("q", ["a", "b", "c"])
        for message in q.consume("q"):
            message.complete()
            if message.text == "b":
                break
        assert [m.text for m in q.consume("q", wait=0, until_empty=True)] == ["c"]


@both_loops
def test_questions_get_their_own_answers(backend: str) -> None:
    async def main() -> None:
        async with mq.open_embedded(":memory:") as q:
            for name in ("sums", "answers"):
                await q.create_queue(name)
            server = q.receiver("sums", concurrency=3)

            async def answer(question: mq.HeldMessage) -> None:
                if question.text != "nobody":
                    await q.reply(question, {"sum": sum(question.json())})

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(server.run, answer)
                async with mq.requester(q, "sums", reply_to="answers") as sums:
                    found: dict[int, int] = {}

                    async def ask(number: int) -> None:
                        reply = await sums.ask([number, 1])
                        found[number] = reply.json()["sum"]

                    async with anyio.create_task_group() as asking:
                        for number in range(5):
                            asking.start_soon(ask, number)
                    assert found == {number: number + 1 for number in range(5)}
                    with pytest.raises(mq.Unavailable, match="no answer from sums"):
                        await sums.ask("nobody", seconds=0.05)
                server.stop()
            assert (await q.stats("answers")).total == 0
            with pytest.raises(mq.InvalidArgument, match="no reply_to"):
                await q.reply(q.message("q", 1, "t"))

    run(backend, main)


@both_loops
@pytest.mark.parametrize(
    "errors",
    [
        {wire.ReceiveRequest: mq.OutcomeUnknown("lost")},
        {wire.CompleteBatchRequest: mq.OutcomeUnknown("lost")},
        {wire.CompleteBatchRequest: mq.PermissionDenied("no")},
    ],
    ids=["its claim", "its completion", "its completion is denied"],
)
def test_an_answer_is_not_lost_with_the_reply_to(
    backend: str, errors: dict[type, mq.MqliteError], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requesting, "PAUSE_SECONDS", 0.0)

    async def main() -> None:
        async with mq.open_embedded(":memory:") as q:
            for name in ("sums", "answers"):
                await q.create_queue(name)
            losing = Losing(q, errors)
            async with mq.requester(losing, "sums", reply_to="answers") as sums:

                async def answer() -> None:
                    (question,) = await q.receive("sums", wait=20)
                    await q.reply(question, "yes")

                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(answer)
                    assert (await sums.ask("a")).text == "yes"
            assert not losing.errors
            assert (await q.stats("answers")).total == 0

    run(backend, main)


@both_loops
def test_a_requester_without_its_queue_says_so_and_asks_no_more(backend: str) -> None:
    async def main() -> None:
        async with mq.open_embedded(":memory:") as q:
            await q.create_queue("sums")
            async with mq.requester(q, "sums", reply_to="nowhere") as sums:
                for _ in range(2):
                    with pytest.raises(mq.QueueNotFound):
                        await sums.ask("a")
            assert (await q.stats("sums")).total == 1

    run(backend, main)


@pytest.mark.parametrize("where", ["embedded", "http"])
def test_blocking_questions_from_several_threads_get_their_own_answers(where: str) -> None:
    with ExitStack() as stack:
        if where == "embedded":
            q: mq.SyncHandle = stack.enter_context(mq.open_embedded_sync(":memory:"))
        else:
            broker = stack.enter_context(running_broker(":memory:"))
            q = stack.enter_context(mq.connect_sync(broker.url, token=broker.token))
        for name in ("sums", "answers"):
            q.create_queue(name)
        server = q.receiver("sums", concurrency=3)

        def answer(question: mq.SyncHeldMessage) -> None:
            if question.text != "nobody":
                q.reply(question, {"sum": sum(question.json())})

        with ThreadPoolExecutor() as pool:
            serving_them = pool.submit(server.run, answer)
            with mq.requester_sync(q, "sums", reply_to="answers") as sums:

                def ask(number: int) -> int:
                    return int(sums.ask([number, 1]).json()["sum"])

                assert list(pool.map(ask, range(5))) == [1, 2, 3, 4, 5]
                with pytest.raises(mq.Unavailable, match="no answer from sums"):
                    sums.ask("nobody", seconds=0.05)
            server.stop()
            serving_them.result()
        assert q.stats("answers").total == 0


def test_many_messages_go_in_as_many_calls_as_they_need() -> None:
    with mq.open_embedded_sync(":memory:") as q:
        q.create_queue("q")
        assert q.send_all("q", [str(number) for number in range(2500)]) == list(range(1, 2501))
        assert q.send_all("q", []) == []


def test_parts_fit_a_request_and_lose_nothing() -> None:
    bodies = [b"x" * (3 * 1024 * 1024)] * 5 + [b"y"] * 1500 + [b"z" * (40 * 1024 * 1024)]
    parts = list(requests.parts(bodies))
    assert [message.body for part in parts for message in part] == bodies
    assert [len(part) for part in parts] == [2, 2, 1000, 501, 1]
    wide = mq.Message(properties={"k": "\0" * 1_000_000})
    texts = [wide] * 7 + [mq.Message(subject="\0" * 5_000_000)]
    parts = list(requests.parts(texts))
    assert [len(part) for part in parts] == [4, 3, 1]
    for part in parts:
        assert len(msgspec.json.encode(part)) < limits.REQUEST_BYTES_MAX


@pytest.mark.parametrize("ms", [0, 1, 1000])
def test_the_beginning_of_1970_is_long_ago_and_not_no_time(ms: int) -> None:
    zeroed = datetime.fromtimestamp(ms / 1000, UTC)
    with mq.open_embedded_sync(":memory:") as q:
        q.create_queue("q")
        with pytest.raises(mq.InvalidArgument):
            q.send_one("q", b"x", at=zeroed)
        with pytest.raises(mq.InvalidArgument):
            q.create_key("0" * 32, name="n", permissions=["send"], expires_at=zeroed)
        q.send_one("q", b"x")
        assert q.search("q", enqueued_before=zeroed) == []
        assert len(q.search("q", enqueued_from=zeroed)) == 1


def test_half_a_surrogate_pair_is_said_to_be_no_text() -> None:
    with pytest.raises(mq.InvalidArgument, match="surrogate"):
        requests.payload("caf\ud800")
