"""A broker on the real remote database is killed under load; the next knows all it answered."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import trio

from tests.conformance.audit import audit
from tests.conformance.remote_engines import read_remotely
from tests.crash.test_broker_kill import QUEUE, Ledger, call, drain, load, settle_doubts
from tests.hrana.real_server import RealServer
from tests.hrana.sqld import running_sqld
from tests.hrana.tursodb import running_tursodb
from tests.services.broker_process import started

Running = Callable[[Path], AbstractContextManager[RealServer]]

SENDS = 60
ROUND_SECONDS = 60.0
"""A round takes about one; this is for a machine that is busy elsewhere."""


@pytest.mark.promise("W119", "E88")
@pytest.mark.parametrize("running", [running_tursodb, running_sqld], ids=["tursodb", "sqld"])
async def test_what_a_killed_broker_had_answered_is_true_in_the_next(
    tmp_path: Path, running: Running
) -> None:
    """The next one waits for the rest of the lease that the dead one had on the database."""
    ledger = Ledger()
    with running(tmp_path) as server:
        with started(tmp_path, MQLITE_DB=server.url) as broker:
            async with await broker.connect() as client:
                await call(client, "AdminService/CreateQueue", QUEUE)
            ledger.begin(SENDS)
            with trio.fail_after(ROUND_SECONDS):
                async with load(broker, ledger):
                    await ledger.enough.wait()
                    broker.process.kill()
        with started(tmp_path, MQLITE_DB=server.url) as broker:
            async with await broker.connect() as client:
                await settle_doubts(client, ledger)
                left = await drain(client, ledger)
                _, stats = await call(client, "Stats", {"queue": "q"})
                _, status = await call(client, "AdminService/Status", {})
            broker.stop()
        problems = list(audit(read_remotely(server.url)))
    assert ledger.faults == []
    assert stats["total"] == 0
    assert left.keys().isdisjoint(ledger.completed)
    assert set(ledger.sent) <= left.keys() | ledger.completed.keys(), "an answered send was lost"
    assert problems == []
    assert (status["backend"], status["remote"]) == ("remote libSQL/Turso", True)
    assert status["location"] == "libsql://***"
