"""A search whose filter takes long: it holds up nobody, and its pages end when it had its time."""

from __future__ import annotations

import msgspec
import pytest
import trio

from mqlite_actor.contract import ext, limits
from mqlite_actor.contract.wire import Message
from mqlite_actor.engine.engine import Engine
from mqlite_actor.sdk.embedded import Embedded
from tests.conformance import asking
from tests.engine.gate import Gate, bounded, create

SEARCH = ext.SearchRequest(queue="q", filter="any(subject_parts, # == 'here')")


@pytest.fixture
async def furnished(engine: Engine) -> list[int]:
    """The numbers of nine messages, the last of which is sought."""
    await create(engine, "q")
    return await asking.send(engine, "q", *[Message()] * 8, Message(subject="here"))


async def test_a_page_ends_when_its_filter_was_asked_long_enough(
    engine: Engine, furnished: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SEARCH_SECONDS", 1e-9)
    for newest_first in (False, True):
        request = msgspec.structs.replace(SEARCH, newest_first=newest_first)
        pages = [await engine.call(request)]
        while token := pages[-1].next_page_token:
            pages.append(await engine.call(msgspec.structs.replace(request, page_token=token)))
        assert [page.scanned for page in pages] == [1] * len(furnished)
        assert [each.message.seq_number for page in pages for each in page.messages] == [
            furnished[-1]
        ]


async def test_a_filtered_search_answers_while_the_writer_stands(
    engine: Engine, furnished: list[int], nursery: trio.Nursery
) -> None:
    stop = await Gate(engine, nursery).stop()
    with bounded():
        found = await Embedded(engine).search("q", filter=SEARCH.filter)
    assert [each.message.seq_number for each in found] == furnished[-1:]
    stop.release()


async def test_a_transaction_of_the_program_searches_with_its_filter(
    engine: Engine, furnished: list[int]
) -> None:
    page = await engine.run_tx(lambda tx: tx.call(SEARCH))
    assert [each.message.seq_number for each in page.messages] == furnished[-1:]
