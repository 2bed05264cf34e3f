"""The end does not wait for a database that is silent, whoever ends: a broker or a program."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

import mqlite_actor as mq
from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import OutcomeUnknown
from mqlite_actor.engine.engine import EngineOptions
from mqlite_actor.engine.opening import open_engine
from tests.conformance.broker import BOUND_SECONDS
from tests.crash.test_broker_kill import call
from tests.engine.gate import rest, settled, until
from tests.hrana.faults import Hold, Request
from tests.hrana.server import HranaServer, running_hrana
from tests.remote.afar import TXN_SECONDS, sends
from tests.services.broker_process import BEARER, started
from tests.services.broker_scene import path, raw

assert limits.GRACE_SECONDS + limits.LEAVE_SECONDS + limits.GOODBYE_SECONDS < limits.CLOSE_SECONDS


@pytest.fixture
def server(tmp_path: Path) -> Iterator[HranaServer]:
    with running_hrana(tmp_path, txn_seconds=TXN_SECONDS) as server:
        yield server


@contextmanager
def silent_from(server: HranaServer, first: Callable[[Request], bool]) -> Iterator[Hold]:
    """From the first request that is so the server says nothing more, until the block ends."""
    hold = Hold(after=False)
    is_silent = False

    def from_then_on(request: Request) -> bool:
        nonlocal is_silent
        is_silent = is_silent or first(request)
        return is_silent

    server.faults.add(hold, times=1000, when=from_then_on)
    try:
        yield hold
    finally:
        server.faults.clear()
        hold.released.set()


def leaves(request: Request) -> bool:
    """Whether an owner gives the database up."""
    return any(text.startswith("UPDATE meta SET value = ''") for text in request.statements)


async def reached(hold: Hold) -> None:
    """A request stands still now."""
    assert await trio.to_thread.run_sync(hold.reached.wait, BOUND_SECONDS)


@asynccontextmanager
async def in_time() -> AsyncIterator[None]:
    """Sooner than a dead database would be given up; the promise itself is shorter."""
    with trio.fail_after(limits.REMOTE_ANSWER_SECONDS):
        yield


async def test_a_broker_ends_although_its_database_is_silent(
    server: HranaServer, tmp_path: Path
) -> None:
    with started(tmp_path, MQLITE_DB=server.dsn) as broker:
        async with await broker.connect() as client:
            await call(client, "AdminService/CreateQueue", {"name": "q"})
            with silent_from(server, sends) as hold:
                await client.send(
                    raw(path("Send"), b'{"queue":"q","messages":[{}]}', fields=(BEARER,))
                )
                await reached(hold)
                async with in_time():
                    broker.signal(signal.SIGTERM)
                    code = await trio.to_thread.run_sync(broker.ended)
        said = "\n".join(broker.err.to_the_end())
    # Its grace and the patience of the send end in the same moment: whoever is first.
    assert (code, "cut=1" in said, "cut=0" in said) in ((1, True, False), (0, False, True)), said


async def test_a_program_ends_although_its_database_is_silent(server: HranaServer) -> None:
    told: list[Exception] = []

    async def send(q: mq.Embedded) -> None:
        try:
            await q.send_one("q", b"a")
        except OutcomeUnknown as error:
            told.append(error)

    with silent_from(server, sends) as hold:
        async with (
            in_time(),
            trio.open_nursery() as nursery,
            # A pass in the same group would make two requests of it, and the first commits nothing.
            mq.open_embedded(server.dsn, background=False) as q,
        ):
            await q.create_queue("q")
            nursery.start_soon(send, q)
            await reached(hold)
    assert len(told) == 1


@pytest.mark.parametrize("said", ["SELECT", "locked_until <="], ids=["first words", "recovery"])
async def test_a_cancelled_opening_ends_although_its_database_is_silent(
    server: HranaServer, said: str
) -> None:
    async with mq.open_embedded(server.dsn, background=False) as q:
        await q.create_queue("q")

    def asks(request: Request) -> bool:
        return any(said in text for text in request.statements)

    with silent_from(server, asks) as hold:
        async with in_time(), trio.open_nursery() as nursery:

            async def opening() -> None:
                async with mq.open_embedded(server.dsn):
                    raise AssertionError("nobody answered")

            nursery.start_soon(opening)
            await reached(hold)
            nursery.cancel_scope.cancel()
        assert nursery.cancel_scope.cancelled_caught


async def test_nobody_waits_for_the_good_bye_to_be_heard(server: HranaServer) -> None:
    with silent_from(server, leaves) as hold:
        async with in_time(), mq.open_embedded(server.dsn) as q:
            await q.create_queue("q")
        assert hold.reached.is_set()


async def test_an_owner_that_does_nothing_says_that_it_is_there_every_few_seconds(
    server: HranaServer, mock_clock: trio.testing.MockClock
) -> None:
    """Otherwise a successor takes the database from it after ten seconds."""

    seen: list[object] = []

    def is_told() -> bool:
        return server.look("SELECT value FROM meta WHERE key = 'owner'") != seen[-1]

    async with open_engine(server.url, EngineOptions(background=False)) as engine:
        for _ in range(2):
            await settled()
            seen.append(server.look("SELECT value FROM meta WHERE key = 'owner'"))
            mock_clock.jump(limits.OWNER_STAY_SECONDS - 0.1)
            await rest(engine)
            assert not is_told()
            mock_clock.jump(0.1)
            await until(is_told)
            await rest(engine)
