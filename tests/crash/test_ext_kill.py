"""Killed in the middle of moving, mending, sending or a backup, nothing is lost, doubled or half.

MQLITE_CRASH_KILLS raises the number, MQLITE_CRASH_SEED repeats a run's choices (not its timing,
which is the machine's).
"""

from __future__ import annotations

import os
import random
import signal
import sys
from pathlib import Path
from subprocess import PIPE

import pytest

from mqlite_actor.contract import limits, wire
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine
from tests.conformance.audit import audit_file
from tests.crash.ext_worker import BATCH, QUEUES, body, sending
from tests.crash.parts import parts
from tests.figures import record
from tests.storage.child import ROOT
from tests.warm.process import Popen

KILLS = int(os.environ.get("MQLITE_CRASH_KILLS", "6"))
SEED = int(os.environ.get("MQLITE_CRASH_SEED") or random.SystemRandom().randrange(2**32))


def run_and_kill(path: Path, first: int, lines: int) -> int:
    """One life of a worker: until so many sends were acknowledged. The next number to send."""
    command = [sys.executable, "-m", "tests.crash.ext_worker", str(path), str(first)]
    with Popen[bytes](command, cwd=ROOT, stdout=PIPE) as process:
        assert process.stdout is not None
        read, last = 0, first - BATCH
        for line in process.stdout:
            last = int(line)
            read += 1
            if read == lines:
                process.kill()
    assert read >= lines, "the worker died by itself"
    assert process.returncode == -signal.SIGKILL
    return last + BATCH


async def all_messages(engine: Engine) -> list[wire.Message]:
    found: list[wire.Message] = []
    for queue in QUEUES:
        start = 0
        while True:
            request = wire.PeekRequest(queue=queue, from_seq=start, max=limits.PEEK_MAX)
            page = (await engine.call(request)).messages
            if not page:
                break
            found += page
            start = page[-1].seq_number + 1
    return found


async def judge(path: Path, following: int) -> int:
    """Every number that was acknowledged is there once, whole; the next ones once or not at all.

    The highest revision, to see that there was mending.
    """
    async with open_engine(f"file:{path}", EngineOptions(background=False)) as engine:
        found = await all_messages(engine)
        numbers = sorted(int(each.properties["n"]) for each in found)
        assert numbers in (list(range(following)), list(range(following + BATCH)))
        for each in found:
            revision = int(each.properties["revision"])
            assert each.body == body(int(each.properties["n"]), revision), "half an edit"
        for _ in range(2):  # whether or not it was there: it is now, once
            await engine.call(sending(following))
        again = sorted(int(each.properties["n"]) for each in await all_messages(engine))
        assert again == list(range(following + BATCH))
        return max(int(each.properties["revision"]) for each in found)


def judge_backups(folder: Path, path: Path) -> int:
    """Whatever has its own name is a sound store; what was cut off says so. How many are whole."""
    whole = 0
    for each in folder.iterdir():
        if each.suffix == ".db":
            assert audit_file(each) == []
            whole += 1
        else:
            assert each.name.endswith((".partial", "-journal", "-wal", "-shm")), each
    assert audit_file(path) == []
    return whole


@pytest.mark.parametrize("kills", parts(KILLS), ids=str)
async def test_after_every_kill_each_message_is_there_once_and_whole(
    tmp_path: Path, kills: range
) -> None:
    print(f"MQLITE_CRASH_SEED={SEED}")
    dice = random.Random(f"{SEED} {kills.start}")
    path = tmp_path / "mq.db"
    following = revision = 0
    for _ in kills:
        following = run_and_kill(path, following, dice.randint(5, 60))
        revision = max(revision, await judge(path, following))
        following += BATCH
    assert judge_backups(tmp_path / "backups", path) > 0
    assert revision > 0
    record("killed processes", seed=SEED, kills=len(kills), messages=following)
