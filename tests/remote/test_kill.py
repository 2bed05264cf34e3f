"""A broker on the real remote database is killed under load; the next knows all it answered."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Final

import pytest
import trio

from tests.conformance.audit import audit
from tests.conformance.remote_engines import read_remotely
from tests.crash.test_broker_kill import QUEUE, Ledger, call, drain, load, settle_doubts
from tests.hrana.real_server import RealServer
from tests.hrana.sqld import running_sqld
from tests.hrana.tursodb import running_tursodb
from tests.services.broker_process import BrokerProcess, started
from tests.services.door_client import Client

Running = Callable[[Path], AbstractContextManager[RealServer]]

SENDS = 60
ROUND_SECONDS = 60.0
"""A round takes about one; this is for a machine that is busy elsewhere."""

SERVERS: Final[dict[str, Running]] = {"tursodb": running_tursodb, "sqld": running_sqld}


@pytest.mark.promise("W119", "E88")
async def test_what_a_killed_broker_had_answered_is_true_in_the_next(tmp_path: Path) -> None:
    """One test, because each next broker waits for the rest of the lease that the dead one had on
    its database, ten seconds: here all of them wait at the same time."""
    with ExitStack() as stack:
        servers: dict[Path, RealServer] = {}
        lacking: list[str] = []
        for name, running in SERVERS.items():
            folder = tmp_path / name
            folder.mkdir()
            try:
                servers[folder] = stack.enter_context(running(folder))
            except pytest.skip.Exception as reason:  # the others are tried all the same
                lacking.append(f"{name}: {reason}")
        async with trio.open_nursery() as nursery:
            for folder, server in servers.items():
                nursery.start_soon(killed_and_followed, folder, server)
    if lacking:
        pytest.skip("; ".join(lacking))


async def killed_and_followed(folder: Path, server: RealServer) -> None:
    """One of them; whatever fails says which."""
    try:
        await one_round(folder, server)
    except Exception as error:
        error.add_note(f"with {folder.name}")
        raise


async def one_round(folder: Path, server: RealServer) -> None:
    """A broker dies under load, and the next one is asked."""
    ledger = Ledger()
    with started(folder, MQLITE_DB=server.url) as broker:
        async with await ready(broker) as client:
            await call(client, "AdminService/CreateQueue", QUEUE)
        ledger.begin(SENDS)
        with trio.fail_after(ROUND_SECONDS):
            async with load(broker, ledger):
                await ledger.enough.wait()
                broker.process.kill()
    with started(folder, MQLITE_DB=server.url) as broker:
        async with await ready(broker) as client:
            await settle_doubts(client, ledger)
            left = await drain(client, ledger)
            _, stats = await call(client, "Stats", {"queue": "q"})
            _, status = await call(client, "AdminService/Status", {})
        await trio.to_thread.run_sync(broker.stop)
    problems = await trio.to_thread.run_sync(lambda: list(audit(read_remotely(server.url))))
    assert ledger.faults == []
    assert stats["total"] == 0
    assert left.keys().isdisjoint(ledger.completed)
    assert set(ledger.sent) <= left.keys() | ledger.completed.keys(), "an answered send was lost"
    assert problems == []
    assert (status["backend"], status["remote"]) == ("remote libSQL/Turso", True)
    assert status["location"] == "libsql://***"


async def ready(broker: BrokerProcess) -> Client:
    """A connection to a broker when it is ready; the other tasks go on meanwhile."""
    await trio.to_thread.run_sync(lambda: broker.port)
    return await broker.connect()
