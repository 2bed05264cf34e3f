"""What is looked up and told: depths, descriptions, explanations and searches, to the last word."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import ext, limits, wire
from mqlite_actor.contract.observe import QueueDepth
from mqlite_actor.contract.wire import Message, QueueConfig
from mqlite_actor.engine import commands
from tests.conformance import asking
from tests.storage.writer import Writer, writing

LOCK_MS = 2000
LATER = 4_000_000_000_000

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Writer]:
    with writing(tmp_path_factory.mktemp("looks") / "q.db", clock=ManualClock()) as opened:
        yield opened
        opened.check()


@pytest.fixture
def queue(writer: Writer) -> str:
    name = f"q{next(_numbers)}"
    writer.create(name, QueueConfig(lock_duration_ms=LOCK_MS))
    return name


def send(writer: Writer, queue: str, *groups: str) -> list[int]:
    batch = [Message(group_id=group) for group in groups]
    return writer.ask(wire.SendRequest(queue=queue, messages=batch)).seq_numbers or []


# -- how many, and how old -------------------------------------------------------------------------


def of_each_state(writer: Writer, queue: str) -> None:
    """One active message, two locked, and so on in the order of the reply."""
    writer.send(queue, *[b"x"] * 10)
    for place, message in enumerate(writer.take(queue, 9)):
        lease = asking.lease(queue, message)
        if place >= 5:
            writer.ask(wire.RejectRequest(**lease))
        elif place >= 2:
            writer.ask(wire.DeferRequest(**lease))
    later = wire.SendRequest(queue=queue, messages=[Message()] * 5, scheduled_enqueue_time_ms=LATER)
    writer.ask(later)


COUNTED = {"active": 1, "locked": 2, "deferred": 3, "scheduled": 5, "dead_lettered": 4, "total": 15}


def test_depths_are_told_for_each_state_and_together(writer: Writer, queue: str) -> None:
    of_each_state(writer, queue)
    writer.clock.advance(7)
    (outcome,) = writer.group(commands.Collect())
    rows: list[QueueDepth] = outcome.unwrap().rows
    (row,) = [each for each in rows if each.queue == queue]
    described = writer.ask(ext.DescribeQueueRequest(name=queue))
    for found in (row, writer.ask(wire.StatsRequest(queue=queue)), described):
        assert {name: getattr(found, name) for name in COUNTED} == COUNTED
        assert found.oldest_message_age_ms == 7
    assert (described.oldest_dead_letter_age_ms, described.dead_letter_bytes) == (7, 4)
    wanted = sum(each.kind == "queue" for each in rows), 0
    assert writer.group(commands.CountEntities())[0].unwrap() == wanted


def test_where_nothing_is_nothing_is_old_and_what_was_just_sent_is_not(
    writer: Writer, queue: str
) -> None:
    for _ in range(2):
        (row,) = [
            each
            for each in writer.group(commands.Collect())[0].unwrap().rows
            if each.queue == queue
        ]
        described = writer.ask(ext.DescribeQueueRequest(name=queue))
        assert row.oldest_message_age_ms == described.oldest_message_age_ms == 0
        assert described.oldest_dead_letter_age_ms == 0
        writer.send(queue, b"x", b"y")
        (message,) = writer.take(queue)
        writer.ask(wire.RejectRequest(**asking.lease(queue, message)))


def test_a_page_of_one_is_one(writer: Writer, queue: str) -> None:
    writer.send(queue, b"1", b"2")
    (message,) = writer.ask(wire.PeekRequest(queue=queue, max=1)).messages
    assert message.body == b"1"


def test_an_update_that_makes_no_queue_says_so(writer: Writer, queue: str) -> None:
    patch = ext.QueuePatch(default_ttl_ms=5)
    made = QueueConfig()
    for name, create, created in (
        (queue, None, False),
        (queue, made, False),
        (f"{queue}-new", made, True),
        (f"{queue}-new", made, False),
    ):
        request = (
            ext.UpdateQueueRequest(name, patch, create=create)
            if create
            else ext.UpdateQueueRequest(name, patch)
        )
        reply = writer.ask(request)
        assert re.fullmatch("[0-9a-f]{32}", reply.generation)
        assert (reply.created, reply.config.default_ttl_ms) == (created, 5)


def test_a_subscription_shows_its_filter_and_a_queue_without_one_none(
    writer: Writer, queue: str
) -> None:
    for expr in ("", "1 == 1"):
        request = wire.SubscribeRequest(f"{queue}-t", f"{queue}-s", wire.Filter(expr=expr))
        writer.ask(request)
        (found,) = writer.ask(ext.DescribeQueueRequest(name=f"{queue}-s")).subscriptions
        assert found == wire.SubscriptionInfo(f"{queue}-t", f"{queue}-s", expr)
    assert writer.ask(ext.DescribeQueueRequest(name=queue)).subscriptions == []


# -- why nothing comes -----------------------------------------------------------------------------


def explained(writer: Writer, queue: str, seq: int = 0) -> ext.ExplainResponse:
    return writer.ask(ext.ExplainRequest(queue=queue, seq_number=seq))


HELD = "it is being handled: delivery 1 of at most 10, under a lease that ends in"


def test_the_lines_that_stand_still_are_counted_and_their_first_is_explained(
    writer: Writer, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "EXPLAIN_LANES", 2)
    first, _ = send(writer, queue, "a", "b")
    writer.take(queue, 2)
    writer.clock.advance(LOCK_MS - 1000)
    assert explained(writer, queue).explanation == f"message {first} is next: {HELD} 1.0 s"
    (waiting,) = send(writer, queue, "a")
    writer.clock.advance(1)
    reply = explained(writer, queue)
    held = f"the first message is {first}: {HELD} 999 ms"
    assert (reply.explanation, reply.has_more) == (f"a line stands still; {held}", False)
    send(writer, queue, "b")
    reply = explained(writer, queue)
    assert (reply.explanation, reply.has_more) == (f"2 lines stand still; {held}", True)
    assert [each.group_id for each in reply.blocked] == ["a", "b"]
    monkeypatch.setattr(limits, "EXPLAIN_LANES", 3)
    for rows, has_more in ((2, True), (3, False)):
        monkeypatch.setattr(limits, "EXPLAIN_ROWS", rows)
        assert explained(writer, queue).has_more is has_more
    reply = explained(writer, queue, waiting)
    assert reply.explanation == f"it waits for message {first}, the first of its group"
    assert isinstance(reply.message, ext.Finding)
    assert reply.message.ahead == 1, "others do not count"
    assert isinstance(reply.blocker, ext.Finding)
    assert (reply.blocker.seq_number, reply.blocker.group_id) == (first, "a")


def test_what_can_be_taken_is_told_before_what_is_held_in_front_of_it(
    writer: Writer, queue: str
) -> None:
    _, second, _ = send(writer, queue, "", "", "g")
    writer.take(queue)
    reply = explained(writer, queue)
    taken = "the next receive that comes to it takes it"
    assert reply.explanation == f"message {second} is next: {taken}"
    assert isinstance(reply.message, ext.Finding)
    assert (reply.message.ahead, reply.message.group_id) == (0, "")
    assert explained(writer, queue, second).message == reply.message
    writer.take(queue, 2)
    send(writer, queue, "g")
    writer.send(queue, b"free")
    reply = explained(writer, queue)
    assert (reply.reason, len(reply.blocked)) == (ext.Reason.DELIVERABLE, 1)


def test_in_a_strict_queue_each_waits_for_the_first_whatever_its_group(
    writer: Writer, queue: str
) -> None:
    writer.create(queue, QueueConfig(ordering_mode="strict_fifo"))
    first, second, third = send(writer, queue, "a", "b", "b")
    reply = explained(writer, queue, third)
    told = f"it waits for message {first}, the first of the queue, which is strict"
    assert reply.explanation == told
    assert isinstance(reply.message, ext.Finding)
    assert (reply.message.blocked_by, reply.message.ahead) == (first, 2)
    assert explained(writer, queue, second).explanation == told


def test_a_dead_letter_says_what_it_died_of(writer: Writer, queue: str) -> None:
    send(writer, queue, "", "")
    for message, reason, told in zip(
        writer.take(queue, 2), ("because", ""), ("because", "AppRequested"), strict=True
    ):
        lease = asking.lease(queue, message)
        writer.ask(
            wire.RejectRequest(
                **lease, dead_letter_reason=reason, dead_letter_description=reason and "told"
            )
        )
        reply = explained(writer, queue, message.seq_number)
        assert isinstance(reply.message, ext.Finding)
        shown = reply.message.dead_letter_reason, reply.message.dead_letter_description
        assert shown == (told, reason and "told")
        assert reply.explanation == (
            f"it is a dead letter because of '{told}'; redrive or resubmit it"
        )
    assert "it has 2 dead letters" in explained(writer, queue).explanation


def test_a_life_that_ends_now_is_over_and_a_time_that_comes_now_has_come(
    writer: Writer, queue: str
) -> None:
    now = writer.clock.now_ms()
    (short,) = (
        writer.ask(wire.SendRequest(queue=queue, messages=[Message()], ttl_ms=5)).seq_numbers or []
    )
    (later,) = (
        writer.ask(
            wire.SendRequest(queue=queue, messages=[Message()], scheduled_enqueue_time_ms=now + 5)
        ).seq_numbers
        or []
    )
    for reasons in (
        (ext.Reason.DELIVERABLE, ext.Reason.SCHEDULED),
        (ext.Reason.EXPIRED, ext.Reason.DUE),
    ):
        found = explained(writer, queue, short), explained(writer, queue, later)
        assert tuple(each.reason for each in found) == reasons
        writer.clock.advance(5)


# -- what is sought --------------------------------------------------------------------------------


def sought(
    writer: Writer,
    queue: str,
    **asked: Any,  # noqa: ANN401  # any field
) -> ext.SearchResponse:
    return writer.ask(ext.SearchRequest(queue=queue, **asked))


def seen(page: ext.SearchResponse) -> tuple[list[int], int, str]:
    return [each.message.seq_number for each in page.messages], page.scanned, page.next_page_token


def test_a_filter_is_asked_about_all_that_a_page_may_look_at(
    writer: Writer, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = send(writer, queue, "a", "b", "c", "b", "c")
    page = sought(writer, queue, filter='group_id == "b"', max=1)
    assert seen(page) == ([numbers[1]], 2, str(numbers[1] + 1))
    page = sought(writer, queue, filter='group_id == "b"', max=2)
    assert seen(page) == ([numbers[1], numbers[3]], 4, str(numbers[3] + 1))
    monkeypatch.setattr(limits, "SEARCH_ROWS", 3)
    page = sought(writer, queue, filter='group_id == "b"')
    assert seen(page) == ([numbers[1]], 3, str(numbers[2] + 1))


SIZES = (2, 3, 1, 4, 0)


@pytest.mark.parametrize(
    ("asked", "scanned"),
    [
        ({"include_bodies": True}, 2),
        ({"include_bodies": True, "newest_first": True}, 3),
        ({"include_bodies": True, "filter": "true"}, 2),
        ({"filter": "true"}, 5),
        ({}, 5),
    ],
)
def test_a_page_ends_with_the_message_that_fills_it(
    writer: Writer,
    queue: str,
    monkeypatch: pytest.MonkeyPatch,
    asked: dict[str, Any],
    scanned: int,
) -> None:
    for size in SIZES:
        writer.send(queue, bytes(size))
    monkeypatch.setattr(writer.store.ledger, "_page_bytes", 5)
    assert sought(writer, queue, **asked).scanned == scanned
    assert sought(writer, queue, **asked, max=1).scanned == 1


@pytest.mark.parametrize(
    ("asked", "scanned"),
    [
        ({"body_text": "x"}, (2, 3)),
        ({"filter": 'body_text contains "x"'}, (2, 3)),
        ({"filter": "body_size >= 0"}, (5, 5)),
        ({"include_bodies": True}, (5, 5)),
        ({}, (5, 5)),
    ],
)
def test_bodies_are_looked_into_up_to_a_sum(
    writer: Writer,
    queue: str,
    monkeypatch: pytest.MonkeyPatch,
    asked: dict[str, Any],
    scanned: tuple[int, int],
) -> None:
    for size in SIZES:
        writer.send(queue, bytes(size))
    for most, number in zip((5, 6), scanned, strict=True):
        monkeypatch.setattr(limits, "SEARCH_BYTES", most)
        assert sought(writer, queue, **asked).scanned == number


def test_a_page_without_bodies_is_filled_by_texts(
    writer: Writer, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = [Message(body=b"a body", subject="x" * size) for size in SIZES]
    writer.ask(wire.SendRequest(queue=queue, messages=batch))
    for most, number in ((5, 2), (6, 3)):
        monkeypatch.setattr(writer.store.ledger, "_page_bytes", most * limits.TEXT_FACTOR)
        assert sought(writer, queue).scanned == number


def test_a_page_says_where_the_next_begins(
    writer: Writer, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SEARCH_ROWS", 2)
    _, second, third, fourth = send(writer, queue, "a", "b", "c", "d")
    assert sought(writer, queue).next_page_token == str(second + 1)
    assert sought(writer, queue, newest_first=True).next_page_token == f"-{third - 1}"
    assert sought(writer, queue, max=1).next_page_token == str(second)
    last = sought(writer, queue, page_token=str(third), max=1)
    assert seen(last) == ([third], 1, str(fourth))
    assert seen(sought(writer, queue, from_seq=third, to_seq=third)) == ([third], 1, "")


def test_a_search_asks_for_properties_and_for_the_time_that_a_filter_sees(
    writer: Writer, queue: str
) -> None:
    batch = [Message(properties={"a": value}) for value in "12"]
    first, second = writer.ask(wire.SendRequest(queue=queue, messages=batch)).seq_numbers or []
    later = writer.ask(
        wire.SendRequest(queue=queue, messages=[Message()], scheduled_enqueue_time_ms=LATER)
    ).seq_numbers
    for asked, numbers in (
        ({"properties": {"a": "2"}}, [second]),
        ({"filter": "visible_at == enqueued_at"}, [first, second]),
        ({"filter": "visible_at > enqueued_at"}, later),
    ):
        assert seen(sought(writer, queue, **asked))[0] == numbers
