"""Lists of access keys through every handle: two orders, pages, cursors, and what is refused."""

from __future__ import annotations

import hashlib

import pytest
import trio

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import InvalidArgument
from mqlite_actor.contract.keys import (
    AccessKey,
    ListKeysRequest,
    ListKeysResponse,
    RevokeKeyRequest,
)
from mqlite_actor.sdk.handle import Handle
from tests.conformance.key_calls import create, neighbours, page, pages_of

NOBODY = "0" * 32
SORTS = ("", "id_asc", "created_desc")


@pytest.mark.promise("W54")
async def test_pages_by_id_follow_each_other_to_the_end(handle: Handle) -> None:
    at = neighbours()
    made = [(await create(handle, at(number))).key for number in (5, 1, 3)]
    by_id = sorted(made, key=lambda key: key.id)
    for sort in ("", "id_asc"):
        first = await page(handle, at(0), 2, sort)
        assert first == ListKeysResponse(keys=by_id[:2], next_after_id=at(3))
        assert (await page(handle, at(3), 1, sort)).keys == by_id[2:]
        assert (await page(handle, at(2), 1, sort)).keys == [by_id[1]], "a cursor need not exist"
    last = await page(handle, "f" * 32)
    assert last == ListKeysResponse(keys=[])


@pytest.mark.promise("W54")
async def test_newest_first_pages_follow_each_other_from_an_existing_key(handle: Handle) -> None:
    made = [(await create(handle)).key for _ in range(5)]
    newest = sorted(made, key=lambda key: (key.created_at_ms, key.id), reverse=True)
    first = await page(handle, "", 2, "created_desc")
    assert first == ListKeysResponse(keys=newest[:2], next_after_id=newest[1].id)
    assert (await page(handle, newest[1].id, 2, "created_desc")).keys == newest[2:4]


CURSORS_REFUSED: dict[str, tuple[ListKeysRequest, str]] = {
    "a limit below 0": (ListKeysRequest(limit=-1), "limit"),
    "a limit above 1000": (ListKeysRequest(limit=1001), "limit"),
    "the greatest integer": (ListKeysRequest(limit=limits.INT64_MAX), "limit"),
    "the smallest integer": (ListKeysRequest(limit=limits.INT64_MIN), "limit"),
    "an unknown sort": (ListKeysRequest(sort="created_asc"), "'created_asc'"),
    "a capital": (ListKeysRequest(sort="ID_ASC"), "'ID_ASC'"),
    **{
        f"{what} in the order {sort!r}": (ListKeysRequest(after_id=cursor, sort=sort), "after_id")
        for sort in SORTS
        for what, cursor in (
            ("a short cursor", "a" * 31),
            ("a cursor in capitals", "A" * 32),
            ("a name for a cursor", "billing"),
            ("a space for a cursor", " "),
            ("a long cursor", "a" * 32 + "\n"),
        )
    },
    "an unknown cursor": (ListKeysRequest(after_id=NOBODY, sort="created_desc"), "after_id"),
}


@pytest.mark.promise("W54")
async def test_a_page_that_cannot_be_is_refused_by_the_name_of_its_field(handle: Handle) -> None:
    for what, (request, words) in CURSORS_REFUSED.items():
        with pytest.raises(InvalidArgument) as caught:
            await handle.call(request)
        assert words in caught.value.message, what


@pytest.mark.needs_clock
@pytest.mark.promise("W54")
async def test_the_whole_list_is_paged_once_in_either_order(
    handle: Handle, clock: ManualClock
) -> None:
    """Keys of the same millisecond are ordered by their ids, so that no page loses or repeats."""
    assert await page(handle) == ListKeysResponse(keys=[])
    assert await page(handle, sort="created_desc") == ListKeysResponse(keys=[])
    made: list[AccessKey] = []
    for number in range(12):
        clock.advance(1 if number % 4 == 0 else 0)
        made.append((await create(handle)).key)
    await handle.call(RevokeKeyRequest(id=made[0].id))
    expected = {
        "id_asc": sorted(key.id for key in made),
        "created_desc": [
            key.id for key in sorted(made, key=lambda k: (k.created_at_ms, k.id), reverse=True)
        ],
    }
    for sort, ids in expected.items():
        for limit in (1, 5, 11, 12, 1000):
            pages = await pages_of(handle, limit, sort)
            assert [key.id for each in pages for key in each.keys] == ids, (sort, limit)
            assert [len(each.keys) for each in pages[:-1]] == [limit] * (len(pages) - 1)
            assert pages[-1].keys, "the last page that a cursor names is not empty"


@pytest.mark.needs_clock
@pytest.mark.promise("W54")
async def test_a_page_has_100_keys_unless_told_otherwise_and_1000_at_most(handle: Handle) -> None:
    at = neighbours()
    async with trio.open_nursery() as nursery:
        for number in range(1001):
            nursery.start_soon(create, handle, at(number))
    for sort in SORTS:
        for limit, size in ((0, 100), (100, 100), (1, 1), (1000, 1000)):
            found = await page(handle, "", limit, sort)
            assert len(found.keys) == size
            assert found.next_after_id == found.keys[-1].id
    assert len((await page(handle, at(0), 1000)).keys) == 1000
    assert (await page(handle, at(0), 1000)).next_after_id == ""


async def test_whoever_has_a_token_finds_its_key_and_nobody_else_does(handle: Handle) -> None:
    made = await create(handle)
    await create(handle)
    digest = hashlib.sha256(made.token.encode()).hexdigest()
    found = await handle.call(ListKeysRequest(token_sha256=digest))
    assert found == ListKeysResponse(keys=[made.key])
    assert await handle.call(ListKeysRequest(token_sha256="0" * 64)) == ListKeysResponse(keys=[])
    for wrong in (digest[1:], digest.upper(), made.key.id):
        with pytest.raises(InvalidArgument, match="token_sha256"):
            await handle.call(ListKeysRequest(token_sha256=wrong))
