"""What one slice of a pass says it found, and when it has to be run again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import DedupConflict, InvalidArgument
from mqlite_actor.contract.wire import Message, QueueConfig
from mqlite_actor.engine import commands
from mqlite_actor.semantics.sweep import OFF_MS, Swept
from tests.conformance import asking
from tests.storage.writer import Writer, writing


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    with writing(tmp_path / "q.db", clock=ManualClock()) as opened:
        yield opened
        opened.check()


def swept(writer: Writer, command: commands.Slice) -> Swept:
    (outcome,) = writer.group(command)
    found = outcome.unwrap()
    assert isinstance(found, Swept)
    return found


def send(writer: Writer, *, after_ms: int = 0, ttl_ms: int = 0, message_id: str = "") -> int:
    at = writer.clock.now_ms() + after_ms if after_ms else 0
    message = Message(body=b"x", ttl_ms=ttl_ms, message_id=message_id)
    request = wire.SendRequest(queue="q", messages=[message], scheduled_enqueue_time_ms=at)
    return (writer.ask(request).seq_numbers or [])[0]


def _a_lease(writer: Writer, after_ms: int) -> None:
    writer.create("q", QueueConfig(lock_duration_ms=after_ms))
    send(writer)
    assert writer.take("q")


def _a_time(writer: Writer, after_ms: int) -> None:
    send(writer, after_ms=after_ms)


def _an_end(writer: Writer, after_ms: int) -> None:
    send(writer, ttl_ms=after_ms)


PASSES: dict[str, tuple[commands.Slice, Callable[[Writer, int], None]]] = {
    "reap": (commands.Reap(), _a_lease),
    "activate": (commands.Activate(), _a_time),
    "expire": (commands.Expire(), _an_end),
}


@pytest.mark.parametrize(("command", "make"), PASSES.values(), ids=PASSES.keys())
def test_a_slice_says_how_many_it_found_and_when_the_next_is_due(
    writer: Writer, command: commands.Slice, make: Callable[[Writer, int], None]
) -> None:
    writer.create("q")
    assert swept(writer, command) == Swept(0, 0), "nothing waits"
    start = writer.clock.now_ms()
    make(writer, 1000)
    assert swept(writer, command) == Swept(0, start + 1000), "one waits"
    make(writer, 3000)
    writer.clock.advance(999)
    assert swept(writer, command) == Swept(0, start + 1000)
    writer.clock.advance(1)
    assert swept(writer, command) == Swept(1, start + 3000), "and after it the next"
    writer.clock.advance(2000)
    assert swept(writer, command) == Swept(1, 0)
    assert swept(writer, command) == Swept(0, 0)


def test_where_no_queue_is_a_pass_finds_nothing(writer: Writer) -> None:
    for command in (commands.PruneDuplicates(), commands.PruneReceipts(), commands.Retain()):
        assert swept(writer, command).found == 0


@pytest.mark.promise("E121")
def test_receipts_of_a_clock_that_was_ahead_do_not_hold_up_the_others(writer: Writer) -> None:
    def settle(number: int) -> None:
        for _ in range(number):
            send(writer)
            (message,) = writer.take("q")
            writer.ask(wire.CompleteRequest(**asking.lease("q", message)))

    def pruned(*, after_ms: int) -> int:
        writer.clock.advance(after_ms)
        while swept(writer, commands.PruneReceipts(limit=3)).found >= 3:
            pass
        return kept - len(writer.store.run([("SELECT id FROM receipts", ())])[0])

    writer.create("q")
    year = 365 * 86_400_000
    writer.clock.advance(year)
    settle(10)
    writer.clock.advance(-year)
    settle(5)
    kept = 15
    assert pruned(after_ms=0) == 0, "each lives for its time"
    assert pruned(after_ms=limits.RECEIPT_MS) == 0
    assert pruned(after_ms=1) == 15, "and not for longer"
    settle(4)
    kept = 4
    assert pruned(after_ms=limits.RECEIPT_MS + 1) == 4


@pytest.mark.promise("E121")
def test_attempts_of_a_clock_that_was_ahead_are_remembered_for_their_time(writer: Writer) -> None:
    lock, year = limits.REQUEST_ID_MS + 1000, 365 * 86_400_000

    def attempt() -> list[int]:
        request = wire.ReceiveRequest(queue="q", receive_attempt_id="a", max_messages=9)
        return [message.seq_number for message in writer.ask(request).messages]

    writer.create("q", QueueConfig(lock_duration_ms=lock))
    writer.clock.advance(year)
    seq = send(writer)
    assert attempt() == [seq]
    writer.clock.advance(-year)
    swept(writer, commands.PruneDuplicates())
    new = send(writer)
    assert attempt() == [seq]
    writer.clock.advance(lock)
    assert attempt() == [new]


@pytest.mark.promise("E33")
def test_a_key_outlives_a_clock_that_is_set_back_and_forth(writer: Writer) -> None:
    writer.create("q", QueueConfig(dedup_window_ms=60_000))
    seq = send(writer, message_id="once")
    for hours in (-2, 2):
        writer.clock.advance(hours * 3_600_000)
        swept(writer, commands.PruneDuplicates())
    assert send(writer, message_id="once") == seq
    writer.clock.advance(60_001)
    swept(writer, commands.PruneDuplicates())
    assert send(writer, message_id="once") > seq


@pytest.mark.promise("E121")
def test_a_window_that_is_turned_off_and_on_again_has_forgotten_nothing(writer: Writer) -> None:
    once = QueueConfig(dedup_window_ms=60_000)
    writer.create("q", once)
    seq = send(writer, message_id="once")
    writer.create("q")  # which resets what it is not told
    swept(writer, commands.PruneDuplicates())
    writer.clock.advance(30_000)
    writer.create("q", once)
    assert send(writer, message_id="once") == seq
    writer.create("q")
    writer.clock.advance(OFF_MS)
    swept(writer, commands.PruneDuplicates())
    writer.create("q", QueueConfig(dedup_window_ms=10 * OFF_MS))
    assert send(writer, message_id="once") > seq, "nothing is kept for ever"


def test_a_slice_takes_no_more_than_its_limit(writer: Writer) -> None:
    writer.create("q")
    for _ in range(3):
        send(writer, after_ms=1)
    writer.clock.advance(1)
    assert swept(writer, commands.Activate(limit=2)) == Swept(2, writer.clock.now_ms())
    assert swept(writer, commands.Activate(limit=2)) == Swept(1, 0)


def test_only_leases_that_are_held_are_given_back_and_counted(writer: Writer) -> None:
    writer.create("q")
    for _ in range(3):
        send(writer)
    first, second, third = writer.take("q", 3)
    writer.ask(wire.CompleteRequest(**asking.lease("q", second)))
    leases = [(m.seq_number, bytes.fromhex(m.lock_token)) for m in (first, second, third)]
    spoilt = (third.seq_number, bytes(16))

    def released(queue: str, *chosen: tuple[int, bytes]) -> object:
        (outcome,) = writer.group(commands.Release(queue, chosen))
        return outcome.unwrap()

    assert released("none", *leases) == 0
    assert released("q") == 0
    assert released("q", leases[0], leases[1], spoilt, (10**9, bytes(16))) == 1
    assert released("q", *leases) == 1
    assert [m.delivery_count for m in writer.take("q", 3)] == [1, 1]


# -- the smallest and the largest ------------------------------------------------------------------


def test_a_message_can_be_scheduled_for_the_last_instant_and_not_beyond(writer: Writer) -> None:
    writer.create("q")
    last = limits.INSTANT_MS_MAX
    request = wire.SendRequest(queue="q", messages=[Message()], scheduled_enqueue_time_ms=last)
    assert writer.ask(request).seq_numbers == [1]
    beyond = wire.SendRequest(queue="q", messages=[Message()], scheduled_enqueue_time_ms=last + 1)
    with pytest.raises(InvalidArgument):
        writer.ask(beyond)


def test_a_window_of_one_millisecond_is_a_window(writer: Writer) -> None:
    writer.create("q", QueueConfig(dedup_window_ms=1))
    first = send(writer, message_id="m")
    assert send(writer, message_id="m") == first
    writer.clock.advance(2)
    assert send(writer, message_id="m") > first


def test_a_lone_duplicate_with_another_body_is_refused_and_one_of_several_is_not(
    writer: Writer,
) -> None:
    writer.create("q", QueueConfig(dedup_window_ms=60_000))
    send(writer, message_id="m")
    other = Message(body=b"other", message_id="m")
    with pytest.raises(DedupConflict):
        writer.ask(wire.SendRequest(queue="q", messages=[other]))
    both = wire.SendRequest(queue="q", messages=[other, Message(body=b"y")])
    assert writer.ask(both).seq_numbers == [0, 2]
    twice = wire.SendRequest(queue="q", messages=[other, other])
    assert writer.ask(twice).seq_numbers == [0, 0]
    assert writer.bodies("q") == [b"x", b"y"]


@pytest.mark.parametrize(("own", "ceiling"), [(1, 0), (0, 1), (5, 1), (1, 5)])
def test_the_shortest_life_is_a_life(writer: Writer, own: int, ceiling: int) -> None:
    writer.create("q", QueueConfig(default_ttl_ms=ceiling))
    send(writer, ttl_ms=own)
    (message,) = writer.ask(wire.PeekRequest(queue="q", max=1)).messages
    assert message.expires_at_ms == writer.clock.now_ms() + 1
    writer.clock.advance(1)
    assert writer.take("q") == []


def test_a_life_of_the_message_goes_before_that_of_the_call(writer: Writer) -> None:
    writer.create("q")
    batch = [Message(ttl_ms=1), Message(ttl_ms=0)]
    writer.ask(wire.SendRequest(queue="q", messages=batch, ttl_ms=9))
    page = writer.ask(wire.PeekRequest(queue="q", max=2)).messages
    assert [m.expires_at_ms - writer.clock.now_ms() for m in page] == [1, 9]


def test_a_filter_sees_the_time_at_which_a_message_becomes_visible(writer: Writer) -> None:
    now = writer.clock.now_ms()
    for name, expr in (("now", "visible_at == enqueued_at"), ("later", "visible_at > enqueued_at")):
        request = wire.SubscribeRequest(topic="t", name=name, filter=wire.Filter(expr=expr))
        writer.ask(request)
    writer.ask(wire.SendRequest(queue="t", messages=[Message(body=b"1")]))
    later = wire.SendRequest(
        queue="t", messages=[Message(body=b"2")], scheduled_enqueue_time_ms=now + 5
    )
    writer.ask(later)
    assert writer.bodies("now") == [b"1"]
    assert writer.bodies("later") == [b"2"]
