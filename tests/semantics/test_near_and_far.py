"""What a claim takes is the same in a file and in a remote store, which is asked otherwise."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import ext, limits, wire
from mqlite_actor.contract.errors import QueueNotFound
from mqlite_actor.contract.wire import Message, QueueConfig
from mqlite_actor.engine.group import run_group
from tests.conformance import asking
from tests.remote.afar import afar
from tests.storage.writer import Writer, writing

LANES = QueueConfig(dead_letter_on_expire=True)
LINE = QueueConfig(ordering_mode="strict_fifo", dead_letter_on_expire=True)

_numbers = itertools.count(1)


@pytest.fixture(scope="module", params=["near", "far"])
def writer(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Writer]:
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "far":
        with afar(folder) as place:
            yield place.writer
    else:
        with writing(folder / "q.db", clock=ManualClock()) as opened:
            yield opened
            opened.check()


@pytest.fixture
def queue() -> str:
    return f"q{next(_numbers)}"


def send(writer: Writer, queue: str, *lines: tuple[str, int], size: int = 1) -> list[int]:
    """Messages by group and time to live; their numbers."""
    batch = [Message(body=b"x" * size, group_id=group, ttl_ms=ttl) for group, ttl in lines]
    return writer.ask(wire.SendRequest(queue=queue, messages=batch)).seq_numbers or []


def drain(writer: Writer, queue: str, number: int, *, attempt: str = "") -> list[int]:
    request = wire.ReceiveRequest(
        queue=queue, max_messages=number, receive_mode=1, receive_attempt_id=attempt
    )
    return [message.seq_number for message in writer.ask(request).messages]


def drained(writer: Writer, queue: str) -> list[int]:
    """All that can be taken now, call by call."""
    found: list[int] = []
    while some := drain(writer, queue, 10):
        found += some
        assert len(set(found)) == len(found), "each only once"
    return found


def dead(writer: Writer, queue: str) -> list[int]:
    page = writer.ask(wire.PeekRequest(queue=queue, state="dead_lettered", max=100))
    return [message.seq_number for message in page.messages]


@pytest.mark.parametrize("attempt", ["", "a"])
@pytest.mark.parametrize(("config", "group"), [(LANES, "g"), (LINE, ""), (LANES, "")])
def test_what_is_overdue_at_the_front_is_buried_and_who_stands_behind_comes(
    writer: Writer, queue: str, config: QueueConfig, group: str, attempt: str
) -> None:
    writer.create(queue, config)
    lines = [(group, 5), (group, 0), ("", 5), ("", 0), (group, 0)]
    first, second, third, fourth, fifth = send(writer, queue, *lines)
    writer.clock.advance(5)
    found = drain(writer, queue, 10, attempt=attempt)
    assert dead(writer, queue) == [first, third]
    assert found[0] == second
    if attempt:
        assert drain(writer, queue, 10, attempt=attempt) == found, "and it can be repeated"
    assert found + drained(writer, queue) == [second, fourth, fifth]


def test_who_comes_forward_when_the_front_is_buried_wakes_one(writer: Writer, queue: str) -> None:
    writer.create(queue, LANES)
    _, second, _ = send(writer, queue, ("g", 5), ("g", 0), ("g", 0))
    writer.clock.advance(5)
    request = wire.ReceiveRequest(queue=queue, max_messages=9, receive_attempt_id="a")
    result = run_group(writer.store, writer.table, [request], writer.clock)
    assert [m.seq_number for m in result.outcomes[0].unwrap().messages] == [second]
    assert result.wakes == {queue: 1}
    assert result.events == {(queue, "dead_lettered"): 1, (queue, "delivered"): 1}


def test_a_message_whose_time_ends_now_is_over_and_one_whose_does_later_is_not(
    writer: Writer, queue: str
) -> None:
    writer.create(queue, LANES)
    over, alive = send(writer, queue, ("", 5), ("", 6))
    writer.clock.advance(5)
    assert drained(writer, queue) == [alive]
    assert dead(writer, queue) == [over]


@pytest.mark.parametrize("config", [LANES, LINE])
def test_a_drain_keeps_the_order_of_a_lane_among_others(
    writer: Writer, queue: str, config: QueueConfig
) -> None:
    writer.create(queue, config)
    sent = send(writer, queue, ("g", 0), ("", 0), ("g", 0), ("h", 0), ("g", 0), ("", 0), ("h", 0))
    assert drained(writer, queue) == sent


@pytest.mark.parametrize(("config", "group"), [(LANES, "g"), (LINE, "")])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_drain_takes_as_many_of_a_lane_as_it_was_asked_and_counts_them(
    writer: Writer, queue: str, config: QueueConfig, group: str, number: int
) -> None:
    writer.create(queue, config)
    sent = send(writer, queue, *[(group, 0)] * 3)
    request = wire.ReceiveRequest(queue=queue, max_messages=number, receive_mode=1)
    result = run_group(writer.store, writer.table, [request], writer.clock)
    found = [message.seq_number for message in result.outcomes[0].unwrap().messages]
    assert found == sent[:number]
    assert result.events == {(queue, "receive_deleted"): number, (queue, "delivered"): number}
    assert drained(writer, queue) == sent[number:]


@pytest.mark.parametrize("config", [LANES, LINE])
def test_a_drain_stops_where_a_life_ends_now(
    writer: Writer, queue: str, config: QueueConfig
) -> None:
    writer.create(queue, config)
    first, second, third = send(writer, queue, ("g", 0), ("g", 5), ("g", 0))
    writer.clock.advance(5)
    assert drained(writer, queue) == [first, third]
    assert dead(writer, queue) == [second]


def test_who_is_overdue_behind_the_front_is_not_taken_when_others_are_buried_first(
    writer: Writer, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAINTENANCE_ROWS", 1)
    writer.create(queue, LANES)
    over, first, second = send(writer, queue, ("", 4), ("g", 0), ("g", 5))
    writer.clock.advance(5)
    assert drained(writer, queue) == [first]
    assert dead(writer, queue) == [over, second]


@pytest.mark.parametrize("ends", ["complete", "defer"])
def test_a_drain_takes_nobody_who_is_held_behind_the_front(
    writer: Writer, queue: str, ends: str
) -> None:
    writer.create(queue, LANES)
    first, second, third = send(writer, queue, ("g", 0), ("g", 0), ("g", 0))
    (message,) = writer.take(queue)
    writer.ask(wire.RejectRequest(**asking.lease(queue, message)))
    (held,) = writer.take(queue)
    if ends == "defer":
        writer.ask(wire.DeferRequest(**asking.lease(queue, held)))
    writer.ask(ext.ResubmitRequest(queue=queue, seq_number=first))
    assert drained(writer, queue) == [first]
    if ends == "defer":
        (held,) = writer.ask(wire.ReceiveDeferredRequest(queue, [second])).messages
    writer.ask(wire.CompleteRequest(**asking.lease(queue, held)))
    assert drained(writer, queue) == [third]


@pytest.mark.parametrize("config", [LANES, LINE])
def test_a_drain_holds_little_more_than_fills_a_page(
    writer: Writer, queue: str, monkeypatch: pytest.MonkeyPatch, config: QueueConfig
) -> None:
    writer.create(queue, config)
    monkeypatch.setattr(writer.store.ledger, "_page_bytes", 10)
    sent = send(writer, queue, *[("g", 0)] * 4, size=6)
    found = drain(writer, queue, 9)
    assert found == sent[: len(found)]
    assert 6 * len(found) < 10 + 6
    assert found + drained(writer, queue) == sent


def test_claims_that_fill_a_page_together_leave_nobody_without(
    writer: Writer, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.create(queue)
    monkeypatch.setattr(writer.store.ledger, "_page_bytes", 10)
    sent = send(writer, queue, *[("", 0)] * 5, size=5)
    claims = [wire.ReceiveRequest(queue=queue, max_messages=number) for number in (1, 1, 2, 1, 1)]
    found = [
        [message.seq_number for message in outcome.unwrap().messages]
        for outcome in writer.group(*claims)
    ]
    assert found == [sent[:1], sent[1:2], sent[2:4], sent[4:], []]


def test_a_claim_says_when_its_leases_end_and_is_counted(writer: Writer, queue: str) -> None:
    writer.create(queue, QueueConfig(lock_duration_ms=7))
    claim = wire.ReceiveRequest(queue=queue, max_messages=2)
    send(writer, queue, ("", 0), ("", 0))
    for number in (2, 0):
        result = run_group(writer.store, writer.table, [claim], writer.clock)
        assert result.dues == ({"locks": writer.clock.now_ms() + 7} if number else {})
        assert result.events == ({(queue, "delivered"): number} if number else {})


@pytest.mark.parametrize("mode", [0, 1])
def test_where_no_queue_is_nobody_can_receive(writer: Writer, queue: str, mode: int) -> None:
    asked = [wire.ReceiveRequest(queue=queue, receive_mode=mode)] * 2
    for outcome in writer.group(*asked):
        with pytest.raises(QueueNotFound):
            outcome.unwrap()


def test_a_drain_leaves_what_stands_behind_somebody_who_is_held(writer: Writer, queue: str) -> None:
    writer.create(queue, LANES)
    held, _, other = send(writer, queue, ("g", 0), ("g", 0), ("", 0))
    assert [message.seq_number for message in writer.take(queue)] == [held]
    assert drained(writer, queue) == [other]


def deferred(writer: Writer, queue: str, *sizes: int) -> list[int]:
    """Messages of these sizes, set aside."""
    for size in sizes:
        send(writer, queue, ("", 0), size=size)
    taken = writer.take(queue, len(sizes))
    for message in taken:
        writer.ask(wire.DeferRequest(**asking.lease(queue, message)))
    return [message.seq_number for message in taken]


def recalled(writer: Writer, queue: str, *numbers: int) -> list[int]:
    request = wire.ReceiveDeferredRequest(queue=queue, seq_numbers=[*numbers])
    return [message.seq_number for message in writer.ask(request).messages]


@pytest.mark.parametrize(
    ("sizes", "number"), [((4, 5, 1, 1), 3), ((4, 6, 1, 1), 2), ((4, 5, 2, 1), 3), ((11, 1), 1)]
)
def test_a_page_of_deferred_messages_ends_with_the_one_that_fills_it(
    writer: Writer, queue: str, monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, ...], number: int
) -> None:
    writer.create(queue)
    numbers = deferred(writer, queue, *sizes)
    monkeypatch.setattr(writer.store.ledger, "_page_bytes", 10)
    assert recalled(writer, queue, *numbers) == numbers[:number]
    assert recalled(writer, queue, *numbers) == numbers[number:]


@pytest.mark.parametrize(
    ("sizes", "number"), [((4, 5, 1, 1), 3), ((4, 6, 1), 2), ((4, 5, 2, 1), 3), ((11, 1), 1)]
)
def test_a_page_that_is_looked_at_ends_with_the_one_that_fills_it(
    writer: Writer, queue: str, monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, ...], number: int
) -> None:
    writer.create(queue)
    numbers = [send(writer, queue, ("", 0), size=size)[0] for size in sizes]
    monkeypatch.setattr(writer.store.ledger, "_page_bytes", 10)
    page = writer.ask(wire.PeekRequest(queue=queue, max=100)).messages
    assert [message.seq_number for message in page] == numbers[:number]


def test_only_what_is_deferred_here_can_be_recalled(writer: Writer, queue: str) -> None:
    writer.create(queue)
    writer.create(f"{queue}-other")
    (mine,) = deferred(writer, queue, 1)
    (elsewhere,) = deferred(writer, f"{queue}-other", 1)
    (active,) = send(writer, queue, ("", 0))
    assert recalled(writer, queue, elsewhere, active, 10**9, mine, mine) == [mine]
    assert recalled(writer, queue, mine) == [], "and only once"


@pytest.mark.parametrize("delay_ms", [1, 2])
def test_the_shortest_delay_is_a_delay(writer: Writer, queue: str, delay_ms: int) -> None:
    writer.create(queue)
    send(writer, queue, ("", 0))
    (message,) = writer.take(queue)
    writer.ask(wire.AbandonRequest(**asking.lease(queue, message), delay_ms=delay_ms))
    assert writer.take(queue) == []
    stats = writer.ask(wire.StatsRequest(queue=queue))
    assert (stats.active, stats.scheduled) == (0, 1)
