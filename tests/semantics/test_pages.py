"""A page of messages ends by all that they weigh, wherever the weight is and whoever asks."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import InvalidArgument
from mqlite_actor.contract.ext import ExplainRequest, SearchRequest
from mqlite_actor.contract.wire import Message, QueueConfig
from mqlite_actor.engine.group import run_group
from mqlite_actor.semantics.receive import NAMED_FACTOR
from mqlite_actor.storage import messages, rows, taking
from tests.conformance import asking
from tests.remote.afar import afar
from tests.storage.writer import Writer, writing

PAGE = 1000
HEAVY: dict[str, Message] = {
    "body": Message(body=b"x" * 600),
    "properties": Message(properties={"a": "x" * 300, "b": "é" * 150}),
    "subject": Message(subject="x" * (600 // limits.TEXT_FACTOR)),
    "some of each": Message(body=b"x" * 300, correlation_id="é" * 25, reply_to="x"),
}
"""Two of one kind fill a page, one does not."""

UNKNOWN = 99_999
"""A number that no message has."""

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
def queue(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"q{next(_numbers)}"
    writer.create(name)
    monkeypatch.setattr(writer.store.ledger, "_page_bytes", PAGE)
    return name


def numbers(found: list[Message]) -> list[int]:
    return [message.seq_number for message in found]


def taken(writer: Writer, queue: str) -> list[int]:
    return numbers(writer.take(queue, 9))


def removed(writer: Writer, queue: str) -> list[int]:
    request = wire.ReceiveRequest(queue=queue, max_messages=9, receive_mode=1)
    return numbers(writer.ask(request).messages)


def taken_by_attempt(writer: Writer, queue: str) -> list[int]:
    attempt = str(next(_numbers))
    request = wire.ReceiveRequest(queue=queue, max_messages=9, receive_attempt_id=attempt)
    return numbers(writer.ask(request).messages)


def looked_at(writer: Writer, queue: str) -> list[int]:
    return numbers(writer.ask(wire.PeekRequest(queue=queue)).messages)


def found(writer: Writer, queue: str) -> list[int]:
    request = SearchRequest(queue=queue, include_bodies=True)
    return [each.message.seq_number for each in writer.ask(request).messages]


def recalled(writer: Writer, queue: str) -> list[int]:
    wanted = [message.seq_number for message in asking_all(writer, queue)]
    request = wire.ReceiveDeferredRequest(queue=queue, seq_numbers=wanted)
    return numbers(writer.ask(request).messages)


def asking_all(writer: Writer, queue: str) -> list[Message]:
    """Every message of the queue, one by one."""
    all_of_them: list[Message] = []
    while page := writer.ask(wire.PeekRequest(queue=queue, from_seq=_after(all_of_them))).messages:
        all_of_them += page
    return all_of_them


def _after(seen: list[Message]) -> int:
    return seen[-1].seq_number + 1 if seen else 0


def defer_all(writer: Writer, queue: str) -> None:
    while batch := writer.take(queue, 9):
        for message in batch:
            writer.ask(wire.DeferRequest(**asking.lease(queue, message)))


WAYS: dict[str, Callable[[Writer, str], list[int]]] = {
    "receive": taken,
    "remove": removed,
    "attempt": taken_by_attempt,
    "peek": looked_at,
    "search": found,
    "deferred": recalled,
}


@pytest.mark.promise("E50", "W98")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("heavy", HEAVY)
def test_whatever_is_heavy_fills_a_page(writer: Writer, queue: str, way: str, heavy: str) -> None:
    request = wire.SendRequest(queue=queue, messages=[HEAVY[heavy]] * 5)
    sent = writer.ask(request).seq_numbers or []
    if way == "deferred":
        defer_all(writer, queue)
    assert WAYS[way](writer, queue) == sent[:2]


def test_a_deferred_message_that_is_named_again_is_looked_up_once(
    writer: Writer, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = writer.ask(wire.SendRequest(queue=queue, messages=[Message()] * 2)).seq_numbers or []
    defer_all(writer, queue)
    asked: list[int] = []
    for module, name in ((messages, "row"), (taking, "weighed")):
        monkeypatch.setattr(module, name, noted(getattr(module, name), asked))
    named = [*([sent[1], UNKNOWN] * 1000), sent[0], sent[1]]
    request = wire.ReceiveDeferredRequest(queue=queue, seq_numbers=named)
    assert numbers(writer.ask(request).messages) == [sent[1], sent[0]]
    assert set(asked) == {*sent, UNKNOWN}
    assert len(asked) < 50, "some turns for each, as a far store takes, and none for repetitions"


def noted(question: Callable[[int], Any], asked: list[int]) -> Callable[[int], Any]:
    def ask(seq: int) -> Any:  # noqa: ANN401  # as the question's own
        asked.append(seq)
        return question(seq)

    return ask


def test_more_numbers_than_a_call_may_name_are_refused_before_anything_else(
    writer: Writer, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = f"{NAMED_FACTOR * limits.RECALLED_MAX:,}"
    assert told in (wire.ReceiveDeferredRequest.__doc__ or "")
    monkeypatch.setattr(limits, "RECALLED_MAX", 3)
    sent = writer.ask(wire.SendRequest(queue=queue, messages=[Message()] * 2)).seq_numbers or []
    defer_all(writer, queue)
    for named in (range(1000, 1007), sent[:1] * 7):
        for place in (queue, "nowhere"):
            request = wire.ReceiveDeferredRequest(queue=place, seq_numbers=list(named))
            with pytest.raises(InvalidArgument, match=r"seq_numbers has 7 items.* at most 6"):
                writer.ask(request)
    request = wire.ReceiveDeferredRequest(queue=queue, seq_numbers=[UNKNOWN] * 5 + sent[:1])
    assert numbers(writer.ask(request).messages) == sent[:1]


@pytest.mark.parametrize("heavy", ["dead_letter_reason", "dead_letter_description"])
def test_why_a_message_was_rejected_fills_a_page_too(
    writer: Writer, queue: str, heavy: str
) -> None:
    sent = writer.ask(wire.SendRequest(queue=queue, messages=[Message()] * 5)).seq_numbers or []
    why = "x" * (600 // limits.TEXT_FACTOR)
    for message in writer.take(queue, 9):
        lease = wire.RejectRequest(**asking.lease(queue, message))
        writer.ask(msgspec.structs.replace(lease, **{heavy: why}))
    assert looked_at(writer, queue) == found(writer, queue) == sent[:2]


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("include_bodies", [False, True])
def test_a_search_goes_on_where_texts_ended_its_page(
    writer: Writer, queue: str, *, newest_first: bool, include_bodies: bool
) -> None:
    request = wire.SendRequest(queue=queue, messages=[HEAVY["properties"]] * 5)
    sent = writer.ask(request).seq_numbers or []
    pages: list[list[int]] = []
    token = ""
    while token or not pages:
        search = SearchRequest(
            queue=queue,
            newest_first=newest_first,
            include_bodies=include_bodies,
            properties={"b": "é" * 150},
            page_token=token,
        )
        page = writer.ask(search)
        pages.append([each.message.seq_number for each in page.messages])
        token = page.next_page_token
    assert [len(page) for page in pages] == [2, 2, 1]
    assert list(itertools.chain(*pages)) == (sent[::-1] if newest_first else sent)


def test_a_search_without_bodies_is_not_ended_by_them(writer: Writer, queue: str) -> None:
    sent = writer.ask(wire.SendRequest(queue=queue, messages=[HEAVY["body"]] * 5)).seq_numbers
    page = writer.ask(SearchRequest(queue=queue))
    assert [each.message.seq_number for each in page.messages] == sent
    assert page.next_page_token == ""


@pytest.mark.parametrize(("mode", "named"), [("group_fifo", 2), ("strict_fifo", 1)])
def test_an_explanation_names_as_many_lines_as_their_names_leave_room_for(
    writer: Writer, queue: str, mode: str, named: int
) -> None:
    writer.create(queue, QueueConfig(ordering_mode=mode))
    groups = [letter * (300 // 2 // limits.TEXT_FACTOR) for letter in "abc"]
    batch = [Message(group_id=group) for group in groups] * 2
    writer.ask(wire.SendRequest(queue=queue, messages=batch))
    held = len(writer.take(queue, 9))
    answer = writer.ask(ExplainRequest(queue=queue))
    assert [each.group_id for each in answer.blocked] == (groups[:2] if held == 3 else [""])
    assert len(answer.blocked) == named
    assert answer.has_more is (held == 3)
    assert sum(each.waiting for each in answer.blocked) == (2 if held == 3 else 5)


def test_claims_side_by_side_get_what_they_would_get_one_by_one(writer: Writer, queue: str) -> None:
    request = wire.SendRequest(queue=queue, messages=[HEAVY["properties"]] * 5)
    sent = writer.ask(request).seq_numbers or []
    claims = [wire.ReceiveRequest(queue=queue) for _ in range(6)]
    replies = [each.unwrap().messages for each in writer.group(*claims)]
    assert [numbers(each) for each in replies] == [[seq] for seq in sent] + [[]]


@pytest.mark.parametrize("how", [{}, {"receive_mode": 1}, {"receive_attempt_id": "a"}])
@pytest.mark.parametrize("sent", [1, 2, 3])
def test_a_claim_that_bytes_ended_passes_its_wake_on(
    writer: Writer, queue: str, how: dict[str, Any], sent: int
) -> None:
    writer.ask(wire.SendRequest(queue=queue, messages=[HEAVY["properties"]] * sent))
    request = wire.ReceiveRequest(queue=queue, max_messages=9, **how)
    result = run_group(writer.store, writer.table, [request], writer.clock)
    assert len(result.outcomes[0].unwrap().messages) == min(sent, 2)
    if sent != 2:  # a full page may be all that there was
        assert result.wakes == ({} if sent == 1 else {queue: 9})


@pytest.mark.parametrize("size", [0, 10, limits.INLINE_BYTES_MAX + 1])
@pytest.mark.parametrize("text", ["", "plain", '\x01"\\é€😀'])
def test_a_row_weighs_the_same_in_the_store_and_here(
    writer: Writer, queue: str, text: str, size: int
) -> None:
    message = Message(
        body=b"x" * size,
        message_id=text,
        correlation_id=text * 2,
        reply_to=text * 3,
        content_type=text * 4,
        subject=text * 5,
        group_id=text * 6,
        properties={text: text, "k": "v"} if text else {},
    )
    (seq,) = writer.ask(wire.SendRequest(queue=queue, messages=[message])).seq_numbers or []
    (claimed,) = writer.take(queue)
    lease = asking.lease(queue, claimed)
    writer.ask(
        wire.RejectRequest(**lease, dead_letter_reason=text * 7, dead_letter_description=text * 8)
    )
    tx = writer.store.begin()
    (row,), ((*_, weight),) = tx.run([messages.row(seq), taking.weighed(seq)])
    writer.store.rollback()
    assert rows.weight(row) == weight
    octets = len(text.encode())
    properties = len(row[15].encode()) if text else 0
    reason = 0 if text else len(row[16].encode())  # the word for a rejection without one
    assert weight == size + properties + limits.TEXT_FACTOR * (36 * octets + reason)
