"""A listener whose queue of newcomers is full: a broker that hangs, or has more links than room."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import Unavailable
from mqlite_actor.engine.engine import Engine
from mqlite_actor.sdk.connect import connect_sync
from mqlite_actor.sdk.linked import open_link
from tests.conformance.handles import served_links
from tests.engine.gate import create, until
from tests.link.peer import short_path


@contextmanager
def full(path: str) -> Iterator[None]:
    """Somebody listens at `path` and takes nobody."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(0)
        waiting = [socket.socket(socket.AF_UNIX) for _ in range(4)]
        taken = 0
        for each in waiting:
            each.setblocking(False)
            taken += not each.connect_ex(path)
        assert taken < len(waiting)
        yield
        for each in waiting:
            each.close()
    Path(path).unlink()


async def test_it_is_nobody_to_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LINK_HELLO_SECONDS", 0.02)
    with short_path() as path, full(path):
        with pytest.raises(Unavailable, match="it takes no more connections"):
            async with open_link(path):
                pass
        with pytest.raises(Unavailable, match="it takes no more connections"):
            connect_sync(f"unix:{path}").__enter__()


async def test_a_link_that_finds_it_tries_on_until_a_sound_engine_is_back(
    engine: Engine, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create(engine, "q")

    async def serve(task_status: trio.TaskStatus[trio.CancelScope]) -> None:
        with trio.CancelScope() as scope:
            async with served_links(engine, path):
                task_status.started(scope)
                await trio.sleep_forever()

    with short_path() as path:
        serving = await nursery.start(serve)
        async with open_link(path) as linked:
            monkeypatch.setattr(limits, "LINK_HELLO_SECONDS", 0.02)
            serving.cancel()
            await until(lambda: not Path(path).exists())
            with full(path):
                await until(lambda: "no more connections" in linked._reason)
            monkeypatch.undo()
            serving = await nursery.start(serve)
            assert (await linked.call(wire.StatsRequest(queue="q"))).total == 0
        serving.cancel()
