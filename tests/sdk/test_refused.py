"""A batch in which messages are refused: the sender learns of each, whatever it may read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

import mqlite_actor as mq
from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import ext, wire
from mqlite_actor.contract.wire import Message
from mqlite_actor.sdk import requests
from mqlite_actor.sdk.handle import Handle
from mqlite_actor.testing.broker import Broker
from tests.sdk.receiving_scene import Failing

R = TypeVar("R")


async def watched(q: Handle, *names: str) -> None:
    """Queues that detect duplicates, and have message "used" already."""
    for name in names:
        await q.create_queue(name, dedup_window=600)
        await q.send_one(name, b"first", message_id="used")


def used(body: str) -> Message:
    return Message(body=body.encode(), message_id="used")


async def test_a_refused_message_stops_no_other_of_send_all_and_its_index_counts_over_the_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(requests, "PART_MESSAGES", 3)
    async with mq.open_embedded(":memory:") as q:
        await watched(q, "q")
        # Parts of three: [0 1 2] [3 4 5] [6 7 8] and the last, which is a single message.
        bodies = [used(str(n)) if n in (1, 4, 5, 9) else f"m{n}" for n in range(10)]
        with pytest.raises(mq.DedupConflict, match=r"\[1, 4, 5, 9\] .*'used' was sent") as caught:
            await q.send_all("q", bodies)
        assert caught.value.seq_numbers == [2, 0, 3, 4, 0, 0, 5, 6, 7, 0]
        assert [m.text for m in await q.receive("q", max_messages=20)] == [
            "first", "m0", "m2", "m3", "m6", "m7", "m8",
        ]  # fmt: skip


async def test_an_error_in_a_later_part_names_what_was_refused_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(requests, "PART_MESSAGES", 2)
    async with mq.open_embedded(":memory:", message_bytes_max=10) as q:
        await watched(q, "q")
        with pytest.raises(mq.MessageTooLarge) as caught:
            await q.send_all("q", ["a", used("other"), "x" * 11, "b"])
        assert caught.value.__notes__[0].startswith("messages [1] of the batch are not stored")
        assert (await q.stats("q")).total == 2


async def test_a_key_that_may_only_send_learns_of_a_refused_message(
    broker: Broker, queue: str
) -> None:
    async with mq.connect(broker.url, token=broker.token) as q:
        await watched(q, queue)
        await q.subscribe(f"{queue}-topic", "red", filter='subject == "red"')
        key = await q.create_key(mq.generate_key_id(), name="sender", permissions=["send"])
        async with mq.connect(broker.url, token=key.token) as sender:
            with pytest.raises(mq.DedupConflict, match=r"\[0\]") as caught:
                await sender.send(queue, [used("other"), "new"])
            assert caught.value.seq_numbers is not None
            assert [bool(n) for n in caught.value.seq_numbers] == [False, True]
            # To a topic 0 says that nobody wanted the message, which is no error.
            unwanted = Message(message_id="used", subject="blue")
            wanted = Message(message_id="used", subject="red")
            numbers = await sender.send(f"{queue}-topic", [unwanted, wanted, "plain"])
            assert [bool(n) for n in numbers] == [False, True, False]
        assert (await q.stats(queue)).total == 2


class Then(Handle):
    """A handle with which something happens behind each call."""

    def __init__(self, q: Handle, happen: Callable[[], object]) -> None:
        self._q = q
        self._happen = happen

    async def call(self, request: wire.Request[R]) -> R:
        reply = await self._q.call(request)
        self._happen()
        return reply


async def test_an_error_behind_the_answer_does_not_hide_that_the_others_are_stored() -> None:
    async with mq.open_embedded(":memory:") as q:
        await watched(q, "q")
        losing = Failing(q, ext.SendResultRequest, [mq.Unavailable("gone")])
        with pytest.raises(mq.DedupConflict, match=r"\[0\] .*the others are: .*gone") as caught:
            await losing.send("q", [used("other"), "new"])
        assert caught.value.seq_numbers == [0, 2]
        assert (await q.stats("q")).total == 2


async def test_an_older_broker_is_asked_about_one_message_after_the_other() -> None:
    async with mq.open_embedded(":memory:") as q:
        await watched(q, "q")
        older = Failing(q, ext.SendResultRequest, [mq.Unsupported("no such path")])
        with pytest.raises(mq.DedupConflict, match=r"\[1\] .*'used' was sent") as caught:
            await older.send("q", ["new", used("other")])
        assert caught.value.seq_numbers == [2, 0]
        losing = Failing(q, ext.SendResultRequest, [mq.Unsupported("no such path")])
        lost = Failing(losing, wire.SendRequest, [])
        with pytest.raises(mq.DedupConflict, match="gone"):
            await Then(lost, lambda: lost.errors.append(mq.Unavailable("gone"))).send(
                "q", [used("other"), "newer"]
            )
        assert (await q.stats("q")).total == 3


async def test_messages_that_nobody_wants_are_asked_about_at_most_once_in_all() -> None:
    async with mq.open_embedded(":memory:") as q:
        await q.subscribe("t", "red", filter='subject == "red"')
        red, blue = Message(subject="red"), Message(subject="blue")
        named = [Message(subject="blue", message_id=f"{number}") for number in range(9)]
        counted = Counting(q)
        assert await counted.send("t", [red, blue, blue]) == [1, 0, 0]
        assert counted.calls == ["SendRequest"], "without an id nothing can have been refused"
        assert await counted.send("t", [red, *named]) == [2, *[0] * 9]
        assert counted.calls == ["SendRequest", "SendRequest", "SendResultRequest"]


class Counting(Handle):
    """A handle that remembers what it was asked for."""

    def __init__(self, q: Handle) -> None:
        self._q = q
        self.calls: list[str] = []

    async def call(self, request: wire.Request[R]) -> R:
        self.calls.append(type(request).__name__)
        return await self._q.call(request)


async def test_a_message_whose_id_became_free_meanwhile_is_stored_after_all(
    clock: ManualClock,
) -> None:
    async with mq.open_embedded(":memory:", clock=clock, background=False) as q:
        await watched(q, "q")
        waiting = Then(q, lambda: clock.advance(601_000))
        assert await waiting.send("q", [used("other"), "new"]) == [3, 2]
