"""What a call leaves behind is free as soon as it is answered, and waits for no collector.

A refusal is raised through frames that hold what holds it, if nobody takes care; a mailbox full of
them was a hundred megabytes, until Python's collector came by, minutes later.
"""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any, Final

import pytest
import trio

from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import MqliteError
from mqlite_actor.engine.engine import Engine
from mqlite_actor.sdk.linked import open_link
from tests.conformance.handles import served_links
from tests.engine.gate import create, sending
from tests.link.peer import short_path

CALLS: Final = 100

Call = Callable[[wire.Request[Any]], Awaitable[object]]

ASKED: Final[dict[str, wire.Request[Any]]] = {
    "a send": sending("q", b"x"),
    "a claim": wire.ReceiveRequest(queue="q"),
    "a claim of nothing": wire.ReceiveRequest(queue="empty"),
    "a wait for nothing": wire.ReceiveRequest(queue="empty", wait_time_ms=1),
    "a lease that nobody has": wire.CompleteRequest("q", 1, "0" * 32),
    "a queue that is not there": wire.ReceiveRequest(queue="none"),
    "a look": wire.PeekRequest(queue="q"),
    "a look at a queue that is not there": wire.StatsRequest(queue="none"),
}


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Nothing is collected within the test, but by itself; and of what was there before, nothing
    is looked at, which would take longer than the test."""
    gc.disable()
    gc.freeze()
    yield
    gc.unfreeze()
    gc.enable()


async def left_by(call: Call, request: wire.Request[Any], *, at_once: bool) -> int:
    """How many objects only the collector frees, after so many calls."""

    async def ask() -> None:
        with suppress(MqliteError):
            await call(request)

    await ask()  # what is made once is made now
    gc.collect()
    if at_once:
        async with trio.open_nursery() as nursery:
            for _ in range(CALLS):
                nursery.start_soon(ask)
    else:
        for _ in range(CALLS):
            await ask()
    return gc.collect()


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("what", ASKED)
async def test_an_answer_or_a_refusal_leaves_nothing_for_the_collector(
    engine: Engine, what: str
) -> None:
    await create(engine, "q", "empty")
    left = {n: await left_by(engine.call, ASKED[what], at_once=n > 0) for n in (0, 1)}
    assert max(left.values()) < CALLS, left


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("what", ["a send", "a lease that nobody has"])
async def test_an_answer_at_the_link_leaves_nothing_for_the_collector(
    engine: Engine, what: str
) -> None:
    await create(engine, "q")
    with short_path() as path:
        async with served_links(engine, path), open_link(path) as q:
            left = {n: await left_by(q.call, ASKED[what], at_once=n > 0) for n in (0, 1)}
    assert max(left.values()) < CALLS, left
