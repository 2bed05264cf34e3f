"""Search: messages that are all of what is asked, page by page, at a bounded cost each."""

from __future__ import annotations

from typing import Any

import msgspec
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


FOUND: list[tuple[dict[str, Any], list[int]]] = [
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
    ({"filter": 'properties.a == "1"'}, [0, 2]),
    ({"filter": 'subject == "s" or message_id == "1"', "group_id": "g"}, [0]),
    ({"filter": "body_size > 100"}, [4]),
    ({"filter": 'body_text contains "tea"'}, [0, 3]),
    ({"filter": 'body_text contains "tea"', "body_text": "two", "subject": ""}, [0]),
    ({"filter": "any(subject_parts, # == 'S')"}, [4]),
    ({"filter": " "}, [0, 1, 2, 3, 4]),
    ({"filter": "false"}, []),
    ({"newest_first": True}, [4, 3, 2, 1, 0]),
    ({"newest_first": True, "subject": "s"}, [2, 1]),
    ({"newest_first": True, "filter": 'group_id == "g"', "max_messages": 1}, [3]),
    ({"dead_letter_reason": "why"}, []),
]
"""What is asked of a queue with BATCH in it, and which of them are found."""


async def test_what_is_found_is_all_of_what_is_asked(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    sent = await asking.send(handle, queue, *BATCH)
    for asked, places in FOUND:
        found = await handle.search(queue, **asked)
        assert numbers(found) == [sent[place] for place in places], asked
        assert [each.body_bytes for each in found] == [len(BATCH[place].body) for place in places]
        assert {each.message.body for each in found} <= {b""}, asked


async def test_bodies_come_to_whoever_asks_for_them(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    await asking.send(handle, queue, *BATCH)
    for filter_ in ("", 'body_text contains ""', "body_size >= 0"):
        found = await handle.search(queue, include_bodies=True, filter=filter_)
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
    assert numbers(await handle.search(queue, dead_letter_reason="why")) == [sent[2]]
    assert await handle.search(queue, dead_letter_reason="wh") == []
    assert (await handle.search(queue, state="locked"))[0].message.locked_until_ms == (
        locked.locked_until_ms
    )


async def test_numbers_bound_a_search_on_both_sides(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    sent = await asking.send_bodies(handle, queue, *[b"x"] * 5)
    assert numbers(await handle.search(queue, from_seq=sent[1], to_seq=sent[3])) == sent[1:4]
    assert numbers(await handle.search(queue, to_seq=sent[0])) == sent[:1]
    assert numbers(await handle.search(queue, from_seq=sent[4] + 1)) == []
    downwards = await handle.search(queue, from_seq=sent[1], to_seq=sent[3], newest_first=True)
    assert numbers(downwards) == sent[3:0:-1]


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
    wanted = [seq for n, seq in enumerate(sent) if n % 3 == 1]
    both: list[dict[str, Any]] = [{"subject": "1"}, {"filter": 'subject == "1"'}]
    for asked in both:
        for newest_first, expected in ((False, wanted), (True, wanted[::-1])):
            request = ext.SearchRequest(queue=queue, max=4, newest_first=newest_first, **asked)
            pages = await all_pages(handle, request)
            assert [seq for page in pages for seq in numbers(page.messages)] == expected
            assert [len(page.messages) for page in pages] == [4, 4, 4, 4, 1]
            assert sum(page.scanned for page in pages) == len(sent)


async def all_pages(handle: Handle, request: ext.SearchRequest) -> list[ext.SearchResponse]:
    pages = [await handle.call(request)]
    while token := pages[-1].next_page_token:
        pages.append(await handle.call(msgspec.structs.replace(request, page_token=token)))
    return pages


async def test_a_page_looks_at_a_bounded_number_and_says_where_to_go_on(
    handle: Handle, queue: str
) -> None:
    await asking.make(handle, queue)
    batch = [Message()] * (2 * limits.SEARCH_ROWS) + [Message(subject="here")]
    sent = await asking.send(handle, queue, *batch)
    both: list[dict[str, Any]] = [{"subject": "here"}, {"filter": 'subject == "here"'}]
    for asked in both:
        page = await handle.call(ext.SearchRequest(queue=queue, **asked))
        assert (page.messages, page.scanned) == ([], limits.SEARCH_ROWS)
        assert page.next_page_token
        assert numbers(await handle.search(queue, **asked)) == sent[-1:]


async def test_a_message_that_the_filter_fails_on_is_not_found_but_counted(
    handle: Handle, queue: str
) -> None:
    await asking.make(handle, queue)
    sent = await asking.send(
        handle, queue, *(Message(properties={"n": text}) for text in ("3", "x", "4", "y"))
    )
    page = await handle.call(ext.SearchRequest(queue=queue, filter="int(properties.n) > 3"))
    assert (numbers(page.messages), page.scanned, page.failed) == ([sent[2]], 4, 2)
    assert "int" in page.failure


async def test_what_is_no_filter_is_refused_with_its_place(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    with pytest.raises(InvalidArgument, match="invalid filter at line 1, column 9"):
        await handle.search(queue, filter="subject = 's'")


async def test_a_page_looks_into_a_bounded_number_of_body_bytes(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    sent = [await asking.send_one(handle, queue, bytes(limits.MIB)) for _ in range(6)]
    last = await asking.send_one(handle, queue, bytes(limits.MIB - 1) + b"x")
    both: list[dict[str, Any]] = [{"body_text": "x"}, {"filter": 'body_text contains "x"'}]
    for asked in both:
        page = await handle.call(ext.SearchRequest(queue=queue, **asked))
        assert (page.messages, page.scanned) == ([], limits.SEARCH_BYTES // limits.MIB)
        assert numbers(await handle.search(queue, **asked)) == [last]
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


BAD: list[dict[str, Any]] = [
    {"state": "asleep"},
    {"page_token": "x"},
    {"page_token": "-1"},
    {"page_token": "1" * 20},
    {"page_token": "1", "newest_first": True},
    {"page_token": "--1", "newest_first": True},
    {"from_seq": -1},
    {"to_seq": -1},
    {"enqueued_from_ms": -1},
    {"enqueued_before_ms": -1},
    {"max": -1},
]


async def test_what_cannot_be_meant_is_refused_by_the_name_of_the_field(
    handle: Handle, queue: str
) -> None:
    await asking.make(handle, queue)
    for bad in BAD:
        with pytest.raises(InvalidArgument, match=next(iter(bad))):
            await handle.call(ext.SearchRequest(queue=queue, **bad))


async def test_an_unknown_queue_is_not_found(handle: Handle, queue: str) -> None:
    for filter_ in ("", "true"):
        with pytest.raises(NotFound):
            await handle.search(queue, filter=filter_)
