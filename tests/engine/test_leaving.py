"""The end of an engine hurries a database that is far away, and nothing else does.

The server is real and stands still where a test wants it to; time passes when a test says so.
tests/remote/test_leaving.py has programs and brokers that end in real time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import trio
import trio.testing

import mqlite_actor as mq
from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import OutcomeUnknown
from mqlite_actor.engine.engine import Engine
from mqlite_actor.engine.leaving import close_store
from mqlite_actor.storage.hrana_opening import open_remote
from mqlite_actor.storage.sqlite import open_store
from tests.engine.gate import PATIENCE, Call, create, sending, settled
from tests.hrana.faults import Hold
from tests.hrana.server import HranaServer, running_hrana
from tests.remote.afar import TXN_SECONDS, sends

SLOW = limits.LEAVE_SECONDS + 1
assert SLOW < limits.TX_SECONDS
OWNER = "SELECT value FROM meta WHERE key = 'owner'"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[HranaServer]:
    with running_hrana(tmp_path, txn_seconds=TXN_SECONDS) as server:
        yield server


@pytest.fixture
async def q(server: HranaServer) -> AsyncIterator[mq.Embedded]:
    async with mq.open_embedded(server.dsn, background=False) as q:
        await create(q.engine, "q")
        yield q


async def reached(hold: Hold) -> None:
    assert await trio.to_thread.run_sync(hold.reached.wait, PATIENCE)


class Slow:
    """A send that the server holds."""

    def __init__(self, server: HranaServer, q: mq.Embedded) -> None:
        self._hold = Hold(after=False)
        server.faults.add(self._hold, when=sends)
        self.call = Call(q.engine, sending("q", b"a"))

    async def begin(self, nursery: trio.Nursery) -> None:
        nursery.start_soon(self.call.run)
        await reached(self._hold)

    async def end(self) -> None:
        self._hold.released.set()
        await self.call.ended.wait()


@pytest.mark.parametrize("end", [Engine.stop_waiting, Engine.close])
async def test_a_group_that_takes_long_is_cut_off_by_the_end_and_by_nothing_else(
    server: HranaServer,
    q: mq.Embedded,
    nursery: trio.Nursery,
    mock_clock: trio.testing.MockClock,
    end: Callable[[Engine], None],
) -> None:
    for is_ending in (False, True):
        slow = Slow(server, q)
        await slow.begin(nursery)
        mock_clock.jump(SLOW)
        await settled()
        assert not slow.call.ended.is_set()
        if is_ending:
            end(q.engine)
            await slow.call.ended.wait()
        await slow.end()
        assert isinstance(slow.call.error, OutcomeUnknown) is is_ending


async def test_whoever_is_cancelled_does_not_wait_for_it_either(
    server: HranaServer, nursery: trio.Nursery, mock_clock: trio.testing.MockClock
) -> None:
    with trio.CancelScope() as scope:
        async with mq.open_embedded(server.dsn, background=False) as q:
            await create(q.engine, "q")
            slow = Slow(server, q)
            await slow.begin(nursery)
            mock_clock.jump(SLOW)
            scope.cancel()
    assert isinstance(slow.call.error, OutcomeUnknown)
    await slow.end()


async def test_whoever_opens_does_not_wait_for_it_once_cancelled(
    server: HranaServer, nursery: trio.Nursery, mock_clock: trio.testing.MockClock
) -> None:
    hold, scope, ended = Hold(after=False), trio.CancelScope(), trio.Event()
    server.faults.add(hold, times=10)

    async def opening() -> None:
        with scope:
            async with mq.open_embedded(server.dsn):
                raise AssertionError
        ended.set()

    nursery.start_soon(opening)
    await reached(hold)
    scope.cancel()
    await settled()
    assert not ended.is_set(), "a database that is well gets to its end"
    mock_clock.jump(SLOW)
    await ended.wait()
    assert scope.cancelled_caught
    hold.released.set()


def test_a_program_on_asyncio_does_not_wait_for_it_either(
    server: HranaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LEAVE_SECONDS", 0)
    hold = Hold(after=False)
    server.faults.add(hold, times=10)

    async def opening() -> None:
        async with mq.open_embedded(server.dsn):
            raise AssertionError

    async def main() -> None:
        task = asyncio.ensure_future(opening())
        await asyncio.to_thread(hold.reached.wait, PATIENCE)
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=PATIENCE)
        assert done, "it waits for the silent database"
        assert task.cancelled()

    asyncio.run(main())
    hold.released.set()


async def test_the_end_leaves_a_group_what_is_left_of_its_time(
    server: HranaServer, q: mq.Embedded, nursery: trio.Nursery, mock_clock: trio.testing.MockClock
) -> None:
    mock_clock.jump(100)
    slow = Slow(server, q)
    await slow.begin(nursery)
    mock_clock.jump(limits.LEAVE_SECONDS - 0.5)
    q.engine.close()
    await settled()
    assert not slow.call.ended.is_set()
    await slow.end()
    assert slow.call.error is None


async def test_the_end_leaves_a_transaction_of_the_program_all_that_any_may_take(
    server: HranaServer, q: mq.Embedded, mock_clock: trio.testing.MockClock
) -> None:
    async with q.tx() as tx:
        await tx.send_one("q", b"a")
        q.engine.close()
        await settled()
        mock_clock.jump(limits.LEAVE_SECONDS + 1)
        await settled()
        assert await tx.execute("SELECT 1") == [(1,)]
    assert server.look("SELECT count(*) FROM messages") == [(1,)]


async def test_a_store_is_closed_by_whoever_is_cancelled(
    server: HranaServer, tmp_path: Path
) -> None:
    near, far = open_store(str(tmp_path / "near.db")), open_remote(server.url)
    assert server.look(OWNER) != [("",)]
    with trio.CancelScope() as scope:
        scope.cancel()
        await close_store(near)
        await close_store(far)
    assert server.look(OWNER) == [("",)]
    open_store(str(tmp_path / "near.db")).close()


async def test_a_good_bye_that_is_not_heard_has_a_moment(
    server: HranaServer, nursery: trio.Nursery, mock_clock: trio.testing.MockClock
) -> None:
    far, hold, closed = open_remote(server.url), Hold(after=False), trio.Event()
    server.faults.add(hold)

    async def close() -> None:
        await close_store(far)
        closed.set()

    nursery.start_soon(close)
    await reached(hold)
    mock_clock.jump(limits.GOODBYE_SECONDS - 0.5)
    await settled()
    assert not closed.is_set()
    mock_clock.jump(1)
    await closed.wait()
    hold.released.set()
