"""The first moments of `mqlite serve --workers N`, when none of its processes is ready yet."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import trio

from mqlite_actor.engine.engine import Engine
from mqlite_broker.settings import read_settings
from mqlite_broker.tally import Sums
from mqlite_broker.workers import Workers
from tests.services.door_client import PATIENCE


def begun(folder: Path) -> int:
    """How many workers run so far."""
    return len(list(folder.glob("began*")))


@pytest.mark.parametrize("running", [0, 2], ids=["before", "while they start"])
async def test_a_stop_waits_for_no_worker_to_get_ready(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, running: int
) -> None:
    program = tmp_path / "never-ready"
    program.write_text(f"#!/bin/sh\necho > {tmp_path}/began$$\nexec tail -f /dev/null\n")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    settings, stopping = read_settings({}, {"MQLITE_TOKENS": "t"}), trio.Event()
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    workers = Workers(engine, settings, listeners, sums=Sums(engine.meter), stopping=stopping)
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(workers.run, 2)
            while begun(tmp_path) < running:
                await trio.lowlevel.checkpoint()
            stopping.set()
    assert (workers.failure, workers.cut) == (None, 0)
    assert listeners[0].socket.fileno() == -1, "the address is free again"
