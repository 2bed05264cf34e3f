"""`--workers 2` on a remote store: the writer asks the database for all, whichever worker dies."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Final

import trio

from mqlite_broker.settings import read_settings
from tests.conformance.audit import audit
from tests.conformance.remote_engines import read_remotely
from tests.hrana.tursodb import running_tursodb
from tests.services.broker_process import started
from tests.services.door_client import Client
from tests.services.test_workers import (
    LOST,
    ask,
    connected,
    message,
    once,
    pids,
    stored_texts,
    until_ready,
)

ENOUGH: Final = 40
"""Acknowledged sends before the kill; some of them are under way at any time."""


async def test_a_killed_worker_loses_nothing_acknowledged(tmp_path: Path) -> None:
    acknowledged: set[str] = set()
    doubtful: set[str] = set()
    enough = trio.Event()

    async def produce(client: Client, name: int) -> None:
        async with client:
            for number in range(ENOUGH):
                text = f"{name}.{number}"
                doubtful.add(text)
                try:
                    await ask(client, "Send", message(text))
                except LOST:
                    return
                doubtful.discard(text)
                acknowledged.add(text)
                if len(acknowledged) >= ENOUGH:
                    enough.set()

    with running_tursodb(tmp_path) as server:
        with started(tmp_path, "--workers", "2", MQLITE_DB=server.url) as broker:
            assert broker.url
            victim, survivor = pids(broker)
            await once(broker, "AdminService/CreateQueue", {"name": "q"})
            async with (
                connected(broker, victim) as one,
                connected(broker, survivor) as other,
                trio.open_nursery() as nursery,
            ):
                for name, client in enumerate((one, other)):
                    nursery.start_soon(produce, client, name)
                for name in range(2, 6):
                    nursery.start_soon(produce, await broker.connect(), name)
                await enough.wait()
                os.kill(victim, signal.SIGKILL)
            await until_ready(broker, 3)
            stored = await stored_texts(broker)
            broker.stop()
        problems = list(audit(read_remotely(server.url)))
    assert acknowledged <= stored <= acknowledged | doubtful
    assert problems == []


def test_a_remote_store_has_no_workers_unless_they_are_asked_for() -> None:
    """Ruling R14: one process waits for the network as well as many."""
    far = {"MQLITE_DB": "libsql://queue.example.com", "MQLITE_TOKENS": "t"}
    assert read_settings({}, far).workers == 0
    assert read_settings({"workers": "2"}, far).workers == 2
