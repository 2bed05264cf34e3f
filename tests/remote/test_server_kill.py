"""The database itself is killed under load and comes back: what was acknowledged is there, once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

import pytest
import trio

from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import OutcomeUnknown, StorageFailed, Unavailable
from mqlite_actor.engine.engine import Engine
from mqlite_actor.engine.opening import open_engine
from tests.conformance.audit import audit
from tests.conformance.remote_engines import read_remotely
from tests.hrana.sqld import running_sqld
from tests.hrana.tursodb import running_tursodb
from tests.remote.test_kill import ROUND_SECONDS, Running

PRODUCERS: Final = 4
BEFORE: Final = 30
AFTER: Final = 30
"""Acknowledged sends before the kill, and after it."""


class Sent:
    """What the producers know."""

    def __init__(self) -> None:
        self.acknowledged: set[str] = set()
        self.doubtful: set[str] = set()
        self.enough = {BEFORE: trio.Event(), BEFORE + AFTER: trio.Event()}

    def note(self, body: str) -> None:
        """This one is answered."""
        self.doubtful.discard(body)
        self.acknowledged.add(body)
        for number, event in self.enough.items():
            if len(self.acknowledged) >= number:
                event.set()


async def produce(engine: Engine, sent: Sent, name: int) -> None:
    number = 0
    while True:
        number += 1
        body = f"{name}.{number}"
        sent.doubtful.add(body)
        message = wire.Message(body=body.encode())
        try:
            await engine.call(wire.SendRequest(queue="q", messages=[message]))
        except (OutcomeUnknown, StorageFailed, Unavailable):
            continue
        sent.note(body)


@pytest.mark.parametrize("running", [running_tursodb, running_sqld], ids=["tursodb", "sqld"])
async def test_what_was_acknowledged_is_there_once_when_it_is_back(
    tmp_path: Path, running: Running
) -> None:
    sent = Sent()
    with running(tmp_path) as server:
        async with open_engine(server.url) as engine:
            await engine.call(wire.CreateQueueRequest(name="q"))
            with trio.fail_after(ROUND_SECONDS):
                async with trio.open_nursery() as nursery:
                    for name in range(PRODUCERS):
                        nursery.start_soon(produce, engine, sent, name)
                    await sent.enough[BEFORE].wait()
                    await trio.to_thread.run_sync(server.kill)
                    await trio.to_thread.run_sync(server.restart)
                    await sent.enough[BEFORE + AFTER].wait()
                    nursery.cancel_scope.cancel()
            page = await engine.call(wire.PeekRequest(queue="q", max=limits.PEEK_MAX))
        problems = list(audit(read_remotely(server.url)))
    stored = Counter(message.body.decode() for message in page.messages)
    assert max(stored.values()) == 1, "a send that was run again is stored once"
    assert sent.acknowledged <= set(stored) <= sent.acknowledged | sent.doubtful
    assert problems == []
