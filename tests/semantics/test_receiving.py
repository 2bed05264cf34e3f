"""What receives take, up to the last byte and message, and what is counted and foreseen by them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import LockLost
from mqlite_actor.contract.wire import Message, QueueConfig
from mqlite_actor.engine.group import run_group
from mqlite_actor.engine.outcomes import GroupResult
from mqlite_actor.semantics import settle
from tests.conformance import asking
from tests.storage.writer import Writer, writing

LOCK_MS = 60_000

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def writer() -> Iterator[Writer]:
    with writing(":memory:") as writer:
        yield writer


@pytest.fixture
def queue(writer: Writer) -> str:
    name = f"q{next(_numbers)}"
    writer.create(name, QueueConfig(lock_duration_ms=LOCK_MS))
    return name


def send(writer: Writer, queue: str, *messages: tuple[str, int]) -> list[int]:
    """Messages by group and size; their numbers."""
    batch = [Message(body=b"x" * size, group_id=group) for group, size in messages]
    return writer.ask(wire.SendRequest(queue=queue, messages=batch)).seq_numbers or []


def run(writer: Writer, request: object) -> GroupResult:
    return run_group(writer.store, writer.table, [request], writer.clock)


def receive(writer: Writer, queue: str, number: int, *, mode: int = 0) -> list[int]:
    request = wire.ReceiveRequest(queue=queue, max_messages=number, receive_mode=mode)
    return [message.seq_number for message in writer.ask(request).messages]


@pytest.mark.parametrize(("group", "mode"), [("", 0), ("", 1), ("g", 1)])
@pytest.mark.parametrize(
    ("sizes", "number"), [((4, 5, 1, 1), 3), ((4, 6, 1), 2), ((4, 5, 2, 1), 3), ((11, 1), 1)]
)
def test_a_page_ends_with_the_message_that_fills_it(
    writer: Writer,
    queue: str,
    monkeypatch: pytest.MonkeyPatch,
    group: str,
    mode: int,
    sizes: tuple[int, ...],
    number: int,
) -> None:
    sent = send(writer, queue, *((group, size) for size in sizes))
    texts = limits.TEXT_FACTOR * len(group) * number
    monkeypatch.setattr(writer.store.ledger, "_page_bytes", 10 + texts)
    assert receive(writer, queue, 9, mode=mode) == sent[:number]


def test_a_drain_takes_as_many_as_it_was_asked_for_however_many_rounds_it_needs(
    writer: Writer, queue: str
) -> None:
    sent = send(writer, queue, ("g", 1), ("", 1), ("", 1), ("", 1))
    assert receive(writer, queue, 2, mode=1) == sent[:2]


def test_what_is_delivered_again_is_counted_as_such(writer: Writer, queue: str) -> None:
    send(writer, queue, ("", 1), ("", 1))
    once, again = {(queue, "delivered"): 2}, {(queue, "delivered"): 2, (queue, "redelivered"): 2}
    for events in (once, again, again):
        result = run(writer, wire.ReceiveRequest(queue=queue, max_messages=2))
        assert result.events == events
        for message in result.outcomes[0].unwrap().messages:
            writer.ask(wire.AbandonRequest(**asking.lease(queue, message)))


def test_a_lease_on_a_deferred_message_is_known_to_fall_due(writer: Writer, queue: str) -> None:
    (number,) = send(writer, queue, ("", 1))
    (message,) = writer.take(queue)
    writer.ask(wire.DeferRequest(**asking.lease(queue, message)))
    result = run(writer, wire.ReceiveDeferredRequest(queue=queue, seq_numbers=[number]))
    assert result.dues == {"locks": writer.clock.now_ms() + LOCK_MS}


def test_a_rejection_is_repeated_by_the_same_words_alone(writer: Writer, queue: str) -> None:
    send(writer, queue, ("", 1))
    lease = asking.lease(queue, writer.take(queue)[0])

    def reject(reason: str, description: str) -> wire.OkResponse:
        return writer.ask(
            wire.RejectRequest(
                **lease, dead_letter_reason=reason, dead_letter_description=description
            )
        )

    for _ in range(2):
        assert reject("a", "bc").ok
    for reason, description in (("ab", "c"), ("a", "bd"), ("abc", "")):
        with pytest.raises(LockLost):
            reject(reason, description)


def test_the_digest_of_a_receipt_is_what_files_hold_from_before() -> None:
    digest = "3fafa1cf2f19a7c1129beb20cf0983f73a489a221fc0dd2f16d1be292d089205"
    assert settle._digest("a", "bc").hex() == digest
