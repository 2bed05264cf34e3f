"""The edges of a lease: its last millisecond, its last delivery, and what no lease covers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import GenerationConflict, LockLost, QueueNotFound
from mqlite_actor.contract.ext import (
    DeleteSubscriptionRequest,
    DescribeQueueRequest,
    MessagePatch,
    ReleaseRequest,
    ResubmitRequest,
    SearchRequest,
)
from mqlite_actor.contract.wire import Message, QueueConfig
from mqlite_actor.engine import commands
from mqlite_actor.engine.group import run_group
from tests.conformance import asking
from tests.storage.writer import Writer, writing

LOCK_MS = 1000


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    with writing(tmp_path / "q.db", clock=ManualClock()) as opened:
        opened.create("q", QueueConfig(lock_duration_ms=LOCK_MS))
        yield opened
        opened.check()


def held(writer: Writer) -> Message:
    writer.send("q", b"x")
    (message,) = writer.take("q")
    return message


def _batch(writer: Writer, message: Message, kind: type[Any], queue: str = "q") -> bool:
    item = wire.SettleItem(seq_number=message.seq_number, lock_token=message.lock_token)
    try:
        (result,) = writer.ask(kind(queue=queue, messages=[item])).results
    except QueueNotFound:
        return False
    ok: bool = result.ok
    return ok


def _single(writer: Writer, message: Message, kind: type[Any], queue: str = "q") -> bool:
    try:
        writer.ask(kind(**asking.lease(queue, message)))
    except (LockLost, QueueNotFound):
        return False
    return True


def _hand_back(writer: Writer, message: Message, kind: type[Any], queue: str = "q") -> bool:
    lease = message.seq_number, bytes.fromhex(message.lock_token)
    (outcome,) = writer.group(kind(queue, (lease,)))
    return bool(outcome.unwrap())


Deed = Callable[[Writer, Message, type[Any], str], bool]

DEEDS: dict[str, tuple[Deed, type[Any]]] = {
    "complete": (_single, wire.CompleteRequest),
    "abandon": (_single, wire.AbandonRequest),
    "reject": (_single, wire.RejectRequest),
    "defer": (_single, wire.DeferRequest),
    "renew": (_single, wire.RenewRequest),
    "complete batch": (_batch, wire.CompleteBatchRequest),
    "renew batch": (_batch, wire.RenewBatchRequest),
    "release": (_batch, ReleaseRequest),
    "hand back": (_hand_back, commands.Release),
}


@pytest.mark.parametrize(("deed", "kind"), DEEDS.values(), ids=DEEDS.keys())
def test_a_lease_holds_to_its_last_millisecond_and_no_longer(
    writer: Writer, deed: Deed, kind: type[Any]
) -> None:
    first = held(writer)
    writer.clock.advance(LOCK_MS - 1)
    assert deed(writer, first, kind, "q")
    second = held(writer) if kind is not commands.Release else writer.take("q")[0]
    writer.clock.advance(LOCK_MS)
    assert not deed(writer, second, kind, "q"), "a lease that ends now has ended"


@pytest.mark.parametrize(("deed", "kind"), DEEDS.values(), ids=DEEDS.keys())
def test_a_lease_is_one_of_its_own_queue(writer: Writer, deed: Deed, kind: type[Any]) -> None:
    message = held(writer)
    writer.create("other")
    for queue in ("other", "none"):
        assert not deed(writer, message, kind, queue)
    assert deed(writer, message, kind, "q")


@pytest.mark.parametrize("delay_ms", [0, 1, 500])
def test_the_last_delivery_ends_among_the_dead_however_it_is_delayed(
    writer: Writer, delay_ms: int
) -> None:
    writer.create("q", QueueConfig(lock_duration_ms=LOCK_MS, max_delivery_count=2))
    writer.send("q", b"x")
    states = []
    for _ in range(2):
        (message,) = writer.take("q")
        writer.ask(wire.AbandonRequest(**asking.lease("q", message), delay_ms=delay_ms))
        (left,) = writer.ask(wire.PeekRequest(queue="q", max=1)).messages
        states.append(left.state)
        writer.clock.advance(delay_ms)
        writer.group(commands.Activate())
    assert states == ["scheduled" if delay_ms else "active", "dead_lettered"]


@pytest.mark.parametrize("mode", [0, 1])
def test_an_attempt_that_got_nothing_is_not_remembered(writer: Writer, mode: int) -> None:
    again = wire.ReceiveRequest(queue="q", receive_attempt_id="a", receive_mode=mode)
    assert writer.ask(again).messages == []
    writer.send("q", b"x")
    (message,) = writer.ask(again).messages
    assert message.body == b"x"
    assert writer.ask(again).messages == [message]
    plain = wire.ReceiveRequest(queue="q", receive_mode=mode)
    assert writer.ask(plain).messages == []


def test_a_renewal_runs_from_now(writer: Writer) -> None:
    message = held(writer)
    item = wire.SettleItem(seq_number=message.seq_number, lock_token=message.lock_token)
    for step in (0, 7):
        writer.clock.advance(step)
        (result,) = writer.ask(wire.RenewBatchRequest(queue="q", messages=[item])).results
        assert result.ok
        assert result.locked_until_ms == writer.clock.now_ms() + LOCK_MS


# -- dead letters and filters ----------------------------------------------------------------------


def test_a_dead_letter_that_lives_for_ever_does_so_when_it_is_revived(writer: Writer) -> None:
    writer.ask(wire.RejectRequest(**asking.lease("q", held(writer))))
    writer.create("q", QueueConfig(lock_duration_ms=LOCK_MS, default_ttl_ms=5))
    outcome, end = writer.group(commands.LastDeadLetter("q"), commands.LastDeadLetter("q", "none"))
    with pytest.raises(QueueNotFound):
        end.unwrap()
    chunk = commands.RedriveChunk("q", "", 0, outcome.unwrap(), 2**62, 10)
    assert writer.group(chunk)[0].unwrap()[0] == 1
    assert writer.group(commands.LastDeadLetter("q"))[0].unwrap() == 0, "none is left"
    writer.clock.advance(LOCK_MS)
    assert [m.body for m in writer.take("q")] == [b"x"]


@pytest.mark.parametrize("life_ms", [0, 1])
def test_a_dead_letter_whose_life_is_over_gets_that_of_its_queue(
    writer: Writer, life_ms: int
) -> None:
    writer.ask(wire.SendRequest(queue="q", messages=[Message()], ttl_ms=1))
    (message,) = writer.take("q")
    writer.ask(wire.RejectRequest(**asking.lease("q", message)))
    writer.create("q", QueueConfig(lock_duration_ms=LOCK_MS, default_ttl_ms=life_ms))
    writer.clock.advance(1)
    chunk = commands.RedriveChunk("q", "", 0, message.seq_number, 2**62, 10)
    assert writer.group(chunk)[0].unwrap() == (1, message.seq_number)
    (left,) = writer.ask(wire.PeekRequest(queue="q", max=1)).messages
    assert left.expires_at_ms == (writer.clock.now_ms() + 1 if life_ms else 0)


def test_within_its_bounds_nothing_goes_and_what_goes_is_counted(writer: Writer) -> None:
    for body in (b"1", b"2", b"3"):
        writer.send("q", body)
        writer.ask(wire.RejectRequest(**asking.lease("q", *writer.take("q"))))
        writer.clock.advance(10)
    for bounds, found in (
        ({}, 0),
        ({"max_age_ms": 30, "max_count": 3, "max_bytes": 3}, 0),
        ({"max_age_ms": 29}, 1),
        ({"max_count": 1}, 1),
        ({"max_bytes": 0, "max_count": 1}, 0),
    ):
        (outcome,) = writer.group(commands.Retain(**bounds))
        assert outcome.unwrap().found == found, bounds
    assert writer.bodies("q") == [b"3"]
    writer.create("empty", QueueConfig(dlq_max_count=1))
    for _ in range(2):
        writer.send("empty", b"")
        writer.ask(wire.RejectRequest(**asking.lease("empty", *writer.take("empty"))))
    assert writer.group(commands.Retain())[0].unwrap().found == 1, "they weigh nothing, and count"


def test_an_edited_body_leaves_nothing_of_the_one_before(writer: Writer) -> None:
    bodies = [bytes(limits.INLINE_BYTES_MAX + more) for more in (0, 1)]
    (seq,) = writer.send("q", bodies[1])
    for body in (b"short", *bodies, bodies[1][1:], b"x" * len(bodies[1])):
        (message,) = writer.take("q")
        writer.ask(wire.RejectRequest(**asking.lease("q", message)))
        patch = MessagePatch(body=body)
        writer.ask(ResubmitRequest(queue="q", seq_number=seq, message=patch))
        assert writer.bodies("q") == [body]
        writer.check()


def test_a_filter_that_does_not_compile_any_more_lets_nothing_through(writer: Writer) -> None:
    request = wire.SubscribeRequest(topic="t", name="s", filter=wire.Filter(expr="1 == 1"))
    writer.ask(request)
    writer.store.run([("UPDATE subscriptions SET expr = 'no such'", ())])
    writer.store.ledger.forget()
    for place in range(2):
        sending = wire.SendRequest(queue="t", messages=[Message(body=b"x")])
        result = run_group(writer.store, writer.table, [sending], writer.clock)
        assert result.outcomes[0].unwrap().seq_numbers == [0]
        assert result.filter_failures == ({} if place else {("s", "compile"): 1})
    assert writer.bodies("s") == []


def test_as_many_filters_are_known_as_there_are_subscriptions(writer: Writer) -> None:
    """A consumer may set another filter for each of its sessions, or begin another one."""
    known = writer.store.ledger.filters

    def end(name: str) -> None:
        listed = writer.ask(wire.ListQueuesRequest()).queues
        (generation,) = [each.generation for each in listed if each.name == name]
        request = DeleteSubscriptionRequest(topic="t", name=name, generation=generation)
        writer.group(commands.EndSubscription(request))[0].unwrap()

    for session in range(5):
        filter_ = wire.Filter(expr=f'correlation_id == "{session}"')
        writer.ask(wire.SubscribeRequest(topic="t", name="s", filter=filter_))
        writer.ask(wire.SubscribeRequest(topic="t", name=f"s{session}", filter=filter_))
        writer.ask(wire.SendRequest(queue="t", messages=[Message(body=b"x")]))
        assert [text for text, _ in known.values()] == [filter_.expr] * 2
        end(f"s{session}")
    end("s")
    assert not known


def test_a_clearing_stops_where_the_queue_is_another_of_its_name(writer: Writer) -> None:
    writer.send("q", b"x")
    end = 2**62
    for chunk in (
        commands.PurgeActiveChunk("q", "another", 0, end, end, 10),
        commands.DiscardChunk("q", "another", 10),
    ):
        with pytest.raises(GenerationConflict):
            writer.group(chunk)[0].unwrap()
    assert writer.bodies("q") == [b"x"]
    assert writer.group(commands.DiscardChunk("none", "another", 10))[0].unwrap() == (0, True)


def test_a_clearing_of_one_takes_the_first_and_goes_on_behind_it(writer: Writer) -> None:
    first, second = writer.send("q", b"1", b"2")
    end = 2**62
    chunk = commands.PurgeActiveChunk("q", "", 0, second, end, 1)
    assert writer.group(chunk)[0].unwrap() == (1, first)
    chunk = commands.PurgeActiveChunk("q", "", first, second, end, 1)
    assert writer.group(chunk)[0].unwrap() == (1, second)
    assert writer.bodies("q") == []


def test_a_clearing_goes_on_behind_those_that_it_leaves(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CHORE_ROWS", 2)
    writer.clock.advance(5)
    _, second = writer.send("q", b"young", b"young")
    writer.clock.advance(-5)  # a clock may be put back
    (third,) = writer.send("q", b"old")
    before = writer.clock.now_ms() + 1
    after = 0
    for number, looked_at in ((0, second), (1, third)):
        chunk = commands.PurgeActiveChunk("q", "", after, third, before, 2)
        result = run_group(writer.store, writer.table, [chunk], writer.clock)
        assert result.outcomes[0].unwrap() == (number, looked_at)
        assert result.events.get(("q", "purged"), 0) == number
        after = looked_at
    assert writer.bodies("q") == [b"young", b"young"]


def test_the_end_of_a_subscription_can_be_repeated(writer: Writer) -> None:
    writer.ask(wire.SubscribeRequest(topic="t", name="s"))
    (generation,) = [
        each.generation for each in writer.ask(wire.ListQueuesRequest()).queues if each.name == "s"
    ]
    request = DeleteSubscriptionRequest(topic="t", name="s", generation=generation)
    for wakes in ({"s": limits.INT64_MAX}, {}):  # whoever waits for its messages learns of it
        ending = commands.EndSubscription(request)
        result = run_group(writer.store, writer.table, [ending], writer.clock)
        assert (result.outcomes[0].unwrap(), result.wakes) == (("", 0), wakes)


def test_the_end_of_a_queue_wakes_whoever_waits_for_its_messages(writer: Writer) -> None:
    generation = writer.ask(DescribeQueueRequest(name="q")).generation
    request = wire.DeleteQueueRequest(name="q", generation=generation)
    for wakes in ({"q": limits.INT64_MAX}, {}):
        result = run_group(writer.store, writer.table, [request], writer.clock)
        assert (result.outcomes[0].unwrap().ok, result.wakes) == (True, wakes)


def test_a_page_that_ends_with_the_first_of_all_is_the_last(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SEARCH_ROWS", 1)
    assert writer.send("q", b"x", b"y") == [1, 2]
    request = SearchRequest(queue="q", newest_first=True)
    assert writer.ask(request).next_page_token == "-1"
    assert writer.ask(msgspec.structs.replace(request, page_token="-1")).next_page_token == ""


# -- what changes under messages -------------------------------------------------------------------


def test_a_queue_that_becomes_a_line_gives_out_its_first_and_one_that_no_longer_is_all(
    writer: Writer,
) -> None:
    first, second, third = writer.send("q", b"1", b"2", b"3")
    writer.create("q", QueueConfig(ordering_mode="strict_fifo"))
    (held_one, *others) = writer.take("q", 3)
    assert (held_one.seq_number, others) == (first, [])
    writer.ask(wire.CompleteRequest(**asking.lease("q", held_one)))
    plain = wire.CreateQueueRequest(name="q", config=QueueConfig())
    result = run_group(writer.store, writer.table, [plain], writer.clock)
    assert result.wakes["q"] >= 2
    assert [m.seq_number for m in writer.take("q", 3)] == [second, third]


def test_a_line_begins_behind_what_is_held(writer: Writer) -> None:
    writer.send("q", b"1", b"2")
    (first,) = writer.take("q")
    writer.create("q", QueueConfig(ordering_mode="strict_fifo"))
    assert writer.take("q", 2) == []
    writer.ask(wire.AbandonRequest(**asking.lease("q", first)))
    assert [m.body for m in writer.take("q", 2)] == [b"1"]


@pytest.mark.parametrize("is_chosen", [True, False])
def test_a_chosen_dead_letter_that_goes_back_is_counted_and_wakes_one(
    writer: Writer, *, is_chosen: bool
) -> None:
    message = held(writer)
    writer.ask(wire.RejectRequest(**asking.lease("q", message)))
    seq = message.seq_number
    request = (
        commands.RedriveSelectedChunk("q", "", (seq, seq))
        if is_chosen
        else ResubmitRequest(queue="q", seq_number=seq, message=MessagePatch())
    )
    result = run_group(writer.store, writer.table, [request], writer.clock)
    result.outcomes[0].unwrap()
    assert result.wakes == {"q": 1}
    assert result.events[("q", "redriven")] == 1
