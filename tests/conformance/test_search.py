"""Search: messages that are all of what is asked, page by page, at a bounded cost each."""

from __future__ import annotations

from typing import Any

import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import ext, limits
from mqlite_actor.contract.errors import InvalidArgument, NotFound
from mqlite_actor.contract.wire import Message
from mqlite_actor.sdk.handle import Handle
from mqlite_actor.sdk.instants import to_datetime
from tests.conformance import asking

BATCH = [
    Message(body=b"tea for two", message_id="1", group_id="g", properties={"a": "1", "b": "2"}),
    Message(body=b"coffee", message_id="2", correlation_id="c", subject="s"),
    Message(body="süß".encode(), subject="s", properties={"a": "1"}),
    Message(body=b"\xff\0tea\0", group_id="g", properties={"a": "2"}),
    Message(body=b"x" * 5000 + b"needle", subject="S"),
]


def numbers(found: list[ext.FoundMessage]) -> list[int]:
    return [each.message.seq_number for each in found]


@pytest.mark.parametrize(
    ("asked", "places"),
    [
        ({}, [0, 1, 2, 3, 4]),
        ({"message_id": "2"}, [1]),
        ({"message_id": "3"}, []),
        ({"group_id": "g"}, [0, 3]),
        ({"correlation_id": "c"}, [1]),
        ({"subject": "s"}, [1, 2]),
        ({"properties": {"a": "1"}}, [0, 2]),
        ({"properties": {"a": "1", "b": "2"}}, [0]),
        ({"properties": {"a": ""}}, []),
        ({"body_text": "tea"}, [0, 3]),
        ({"body_text": "ü"}, [2]),
        ({"body_text": "needle"}, [4]),
        ({"body_text": "Tea"}, []),
        ({"body_text": "tea", "group_id": "g", "properties": {"a": "2"}}, [3]),
        ({"subject": "'; --"}, []),
        ({"body_text": "%"}, []),
    ],
)
async def test_what_is_found_is_all_of_what_is_asked(
    handle: Handle, queue: str, asked: dict[str, Any], places: list[int]
) -> None:
    await asking.make(handle, queue)
    sent = await asking.send(handle, queue, *BATCH)
    found = await handle.search(queue, **asked)
    assert numbers(found) == [sent[place] for place in places]
    assert [each.body_bytes for each in found] == [len(BATCH[place].body) for place in places]
    assert {each.message.body for each in found} <= {b""}


async def test_bodies_come_to_whoever_asks_for_them(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    await asking.send(handle, queue, *BATCH)
    found = await handle.search(queue, include_bodies=True)
    assert [each.message for each in found] == await asking.look(handle, queue)


async def test_each_state_can_be_asked_for(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    sent = await asking.send_bodies(handle, queue, b"l", b"d", b"r", b"a")
    locked, deferred, rejected = await asking.take(handle, queue, 3)
    await asking.defer(handle, queue, deferred)
    await asking.reject(handle, queue, rejected, reason="why")
    later = await asking.send_one(handle, queue, at=4_000_000_000_000)
    of_state = {
        "locked": [sent[0]],
        "deferred": [sent[1]],
        "dead_lettered": [sent[2]],
        "active": [sent[3]],
        "scheduled": [later],
    }
    for state, expected in of_state.items():
        found = await handle.search(queue, state=state)
        assert numbers(found) == expected
        assert {each.message.state for each in found} == {state}
        assert {each.message.lock_token for each in found} == {""}
    (dead,) = await handle.search(queue, state="dead_lettered")
    assert dead.message.dead_letter_reason == "why"
    assert (await handle.search(queue, state="locked"))[0].message.locked_until_ms == (
        locked.locked_until_ms
    )


async def test_numbers_bound_a_search_on_both_sides(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    sent = await asking.send_bodies(handle, queue, *[b"x"] * 5)
    assert numbers(await handle.search(queue, from_seq=sent[1], to_seq=sent[3])) == sent[1:4]
    assert numbers(await handle.search(queue, to_seq=sent[0])) == sent[:1]
    assert numbers(await handle.search(queue, from_seq=sent[4] + 1)) == []


@pytest.mark.needs_clock
async def test_times_bound_a_search_the_end_not_included(
    handle: Handle, queue: str, clock: ManualClock
) -> None:
    await asking.make(handle, queue)
    sent, at = [], []
    for _ in range(3):
        sent.append(await asking.send_one(handle, queue))
        at.append(to_datetime(clock.now_ms()))
        clock.advance(1000)
    found = await handle.search(queue, enqueued_from=at[1], enqueued_before=at[2])
    assert numbers(found) == sent[1:2]


async def test_pages_follow_each_other_without_gap_or_repetition(
    handle: Handle, queue: str
) -> None:
    await asking.make(handle, queue)
    sent = await asking.send(handle, queue, *[Message(subject=str(n % 3)) for n in range(50)])
    found: list[int] = []
    token = ""
    pages = 0
    while True:
        page = await handle.call(
            ext.SearchRequest(queue=queue, subject="1", max=4, page_token=token)
        )
        assert len(page.messages) <= 4
        found += numbers(page.messages)
        pages += 1
        token = page.next_page_token
        if not token:
            break
    assert found == [seq for n, seq in enumerate(sent) if n % 3 == 1]
    assert pages == 5


async def test_a_page_looks_at_a_bounded_number_and_says_where_to_go_on(
    handle: Handle, queue: str
) -> None:
    await asking.make(handle, queue)
    batch = [Message()] * (2 * limits.SEARCH_ROWS) + [Message(subject="here")]
    sent = await asking.send(handle, queue, *batch)
    page = await handle.call(ext.SearchRequest(queue=queue, subject="here"))
    assert (page.messages, page.scanned) == ([], limits.SEARCH_ROWS)
    assert page.next_page_token
    assert numbers(await handle.search(queue, subject="here")) == sent[-1:]


async def test_a_page_looks_into_a_bounded_number_of_body_bytes(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    sent = [await asking.send_one(handle, queue, bytes(limits.MIB)) for _ in range(6)]
    last = await asking.send_one(handle, queue, bytes(limits.MIB - 1) + b"x")
    page = await handle.call(ext.SearchRequest(queue=queue, body_text="x"))
    assert (page.messages, page.scanned) == ([], limits.SEARCH_BYTES // limits.MIB)
    assert numbers(await handle.search(queue, body_text="x")) == [last]
    page = await handle.call(ext.SearchRequest(queue=queue))
    assert page.scanned == len(sent) + 1, "without looking into bodies their size costs nothing"


async def test_a_full_page_that_ends_the_queue_says_so_or_leads_to_an_empty_one(
    handle: Handle, queue: str
) -> None:
    await asking.make(handle, queue)
    await asking.send_bodies(handle, queue, b"1", b"2")
    page = await handle.call(ext.SearchRequest(queue=queue, max=2))
    assert (len(page.messages), page.next_page_token) == (2, "")
    page = await handle.call(ext.SearchRequest(queue=queue, max=1))
    assert page.next_page_token


async def test_the_list_ends_at_its_number(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    sent = await asking.send_bodies(handle, queue, *[b"x"] * 9)
    assert numbers(await handle.search(queue, max_messages=4)) == sent[:4]
    with pytest.raises(InvalidArgument, match="max_messages"):
        await handle.search(queue, max_messages=0)


@pytest.mark.parametrize(
    "bad",
    [
        {"state": "asleep"},
        {"page_token": "x"},
        {"page_token": "-1"},
        {"page_token": "1" * 20},
        {"from_seq": -1},
        {"to_seq": -1},
        {"enqueued_from_ms": -1},
        {"enqueued_before_ms": -1},
        {"max": -1},
    ],
)
async def test_what_cannot_be_meant_is_refused_by_the_name_of_the_field(
    handle: Handle, queue: str, bad: dict[str, Any]
) -> None:
    await asking.make(handle, queue)
    with pytest.raises(InvalidArgument, match=next(iter(bad))):
        await handle.call(ext.SearchRequest(queue=queue, **bad))


async def test_an_unknown_queue_is_not_found(handle: Handle, queue: str) -> None:
    with pytest.raises(NotFound):
        await handle.search(queue)
