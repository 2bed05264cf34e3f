"""A search whose filter takes long: it holds up nobody, and its pages end when it had its time."""

from __future__ import annotations

import threading

import msgspec
import pytest
import trio

from mqlite_actor.contract import ext, limits, wire
from mqlite_actor.contract.wire import Message
from mqlite_actor.engine import filtering
from mqlite_actor.engine.engine import Engine
from mqlite_actor.sdk.embedded import Embedded
from mqlite_actor.semantics import routing, trial
from mqlite_actor.semantics.sifting import Sieve
from tests.conformance import asking
from tests.engine.gate import PATIENCE, Call, Gate, bounded, create, until
from tests.engine.local import local

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


async def test_no_reader_is_held_while_the_filter_of_a_search_is_asked(
    engine: Engine, furnished: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_use: list[int] = []
    go_on = Sieve.go_on

    def asking_on(sieve: Sieve) -> None:
        in_use.append(local(engine)._readers.in_use)
        go_on(sieve)

    monkeypatch.setattr(Sieve, "go_on", asking_on)
    page = await engine.call(SEARCH)
    assert [each.message.seq_number for each in page.messages] == furnished[-1:]
    assert set(in_use) == {0}


async def test_a_search_without_a_filter_finds_all(engine: Engine, furnished: list[int]) -> None:
    page = await engine.call(ext.SearchRequest(queue="q"))
    assert [each.message.seq_number for each in page.messages] == furnished


async def test_filters_of_several_callers_are_asked_one_at_a_time(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery
) -> None:
    """Each takes a whole thread for itself, and there is one interpreter for all."""
    inside, may_go_on = 0, threading.Event()

    def waiting(request: wire.TestFilterRequest, now_ms: int) -> wire.TestFilterResponse:
        nonlocal inside
        inside += 1
        assert may_go_on.wait(PATIENCE)
        return trial.test_filter(request, now_ms)

    monkeypatch.setattr(filtering, "test_filter", waiting)
    calls = [Call(engine, wire.TestFilterRequest(expr="true")) for _ in range(2)]
    for call in calls:
        nursery.start_soon(call.run)
    for _ in range(5):
        await until(lambda: inside)
        await trio.to_thread.run_sync(int)
    assert inside == 1
    may_go_on.set()
    await until(lambda: all(call.ended.is_set() for call in calls))
    assert inside == 2


async def test_a_subscription_is_compiled_before_it_comes_to_the_writer(
    engine: Engine, nursery: trio.Nursery
) -> None:
    stop = await Gate(engine, nursery).stop()
    before = routing.compiled.cache_info().misses
    request = wire.SubscribeRequest(
        topic="t", name="s", filter=wire.Filter(expr="subject == 'of this test alone'")
    )
    nursery.start_soon(engine.call, request)
    await until(lambda: routing.compiled.cache_info().misses > before)
    stop.release()
