"""Killed at chosen places of a commit, an answer or a checkpoint, a process leaves all or nothing.

Every deed dies at every place in a program with an engine in it; over the real socket, in a broker,
CI tries a part of the pairs and MQLITE_CRASH_POINTS=all every one, also with worker processes.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

import mqlite_actor as mq
from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import LockLost, WorldError
from mqlite_actor.sdk.embedded import Embedded, open_embedded
from tests.conformance.audit import audit_file
from tests.crash.fatal_vfs import AFTER_CHECKPOINT, MARK, POINTS
from tests.crash.fatal_worker import DEEDS, marked_reject, marked_send
from tests.figures import record
from tests.services.broker_process import TOKEN, started_by
from tests.storage.child import ROOT
from tests.warm.process import run

IS_WHOLE = os.environ.get("MQLITE_CRASH_POINTS") == "all"
BOUND_SECONDS = 60.0
PROGRAM = (sys.executable, "-m", "tests.crash.fatal_worker")


def pairs() -> Iterator[tuple[str, str]]:
    """Deeds and the places at which they can die."""
    for deed in DEEDS:
        for point in POINTS:
            if (point in AFTER_CHECKPOINT) is (deed == "send_on"):
                yield deed, point


PAIRS = [*pairs()]
EMBEDDED = [pair for pair in PAIRS if pair[1] != "answer"]
WORKERS = ("0", "1") if IS_WHOLE else ("0",)
SERVED = PAIRS if IS_WHOLE else PAIRS[::3]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed file with a message to hold, and a topic with two subscriptions."""
    path = tmp_path_factory.mktemp("template") / "mq.db"

    async def make() -> None:
        async with open_embedded(f"file:{path}", background=False) as q:
            for name in ("q", "held", "padding"):
                await q.create_queue(name)
            for name in ("sub1", "sub2"):
                await q.call(wire.SubscribeRequest(topic="topic", name=name))
            await q.send_one("held", b"held")

    trio.run(make)
    return path


def synchronous(point: str) -> str:
    return "FULL" if point == "sync of the log" else "NORMAL"


async def judge(path: Path, deed: str, lease: wire.SettleItem | None, *, stands: bool) -> None:
    """Look at what the dead process left, and ask again for what it had been asked."""
    assert audit_file(path) == []
    async with open_embedded(f"file:{path}", background=False) as q:
        if deed in ("send", "send_on"):
            assert await bodies(q, "q") == [MARK.encode()] * stands
            await q.call(marked_send())
            assert await bodies(q, "q") == [MARK.encode()], "its repetition is the same send"
        elif deed == "publish":
            for name in ("sub1", "sub2"):
                assert await bodies(q, name) == [MARK.encode()] * stands
        elif deed == "receive":
            (message,) = await q.receive("held")
            assert message.delivery_count == 1 + stands
        else:
            assert lease is not None
            await judge_reject(q, lease, stands=stands)


async def judge_reject(q: Embedded, lease: wire.SettleItem, *, stands: bool) -> None:
    (message,) = await q.peek("held")
    if stands:
        assert (message.state, message.dead_letter_reason) == ("dead_lettered", MARK)
        await q.call(marked_reject(lease))
    else:
        assert message.state == "active", "its lease ended with it"
        with pytest.raises(LockLost):
            await q.call(marked_reject(lease))


async def bodies(q: Embedded, queue: str) -> list[bytes]:
    return [message.body for message in await q.peek(queue)]


@pytest.mark.promise("E88", "E141")
@pytest.mark.parametrize(("deed", "point"), EMBEDDED)
async def test_a_program_killed_at_a_chosen_place_leaves_all_or_nothing(
    tmp_path: Path, template: Path, deed: str, point: str
) -> None:
    path = shutil.copy(template, tmp_path)
    command = [*PROGRAM, point, str(path), synchronous(point), deed]
    done = await trio.to_thread.run_sync(
        lambda: run(command, cwd=ROOT, env=os.environ, timeout=BOUND_SECONDS)
    )
    assert done.returncode == -signal.SIGKILL
    words = done.stdout.decode().split()
    lease = wire.SettleItem(int(words[0]), words[1]) if words else None
    await judge(Path(path), deed, lease, stands=POINTS[point])
    record("killed at chosen places", kills=1)


@pytest.mark.promise("E88", "E141", "W119")
@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize(("deed", "point"), SERVED)
async def test_a_broker_killed_at_a_chosen_place_leaves_all_or_nothing(
    tmp_path: Path, template: Path, deed: str, point: str, workers: str
) -> None:
    path = shutil.copy(template, tmp_path)
    environ = {"MQLITE_SYNC": synchronous(point), "MQLITE_WORKERS": workers,
               "PYTHONPATH": os.pathsep.join(sys.path)}  # fmt: skip
    leases: list[wire.SettleItem] = []
    with started_by((*PROGRAM, point), tmp_path, **environ) as broker:
        async with mq.connect(broker.url, token=TOKEN) as q, trio.open_nursery() as nursery:

            async def ask() -> None:
                with pytest.raises(WorldError):
                    await DEEDS[deed](q, leases.append)

            nursery.start_soon(ask)
            assert await trio.to_thread.run_sync(broker.ended) == -signal.SIGKILL
    await judge(Path(path), deed, leases[0] if leases else None, stands=POINTS[point])
    record("killed at chosen places", kills=1)
