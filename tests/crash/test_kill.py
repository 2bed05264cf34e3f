"""Killed twenty times at random, an engine has kept every promise that it made.

MQLITE_CRASH_KILLS raises the number, MQLITE_CRASH_SEED repeats a run's choices (not its timing,
which is the machine's). Both are printed.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from pathlib import Path
from subprocess import PIPE

import msgspec
import pytest
import trio

from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import LockLost
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine
from tests.conformance.audit import audit_file
from tests.crash.history import Ending, History
from tests.crash.parts import parts
from tests.crash.worker import QUEUES, Note
from tests.figures import record
from tests.storage.child import ROOT
from tests.warm.process import Popen

KILLS = int(os.environ.get("MQLITE_CRASH_KILLS", "20"))
SEED = int(os.environ.get("MQLITE_CRASH_SEED") or random.SystemRandom().randrange(2**32))

NOTES_MIN, NOTES_MAX = 60, 900
"""Notes of a process before its kill: the first proves that it works, the last is half a second."""

decode = msgspec.json.Decoder(Note).decode


def run_and_kill(path: Path, history: History, *, synchronous: str, seed: int, notes: int) -> None:
    """One life of a worker: until so many notes were read, and then what was still in the pipe."""
    command = [sys.executable, "-m", "tests.crash.worker", str(path), synchronous, str(seed)]
    again = "\n".join(history.begin()).encode()
    with Popen[bytes](command, cwd=ROOT, stdin=PIPE, stdout=PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(again)
        process.stdin.close()
        read = 0
        for line in process.stdout:
            history.read(decode(line))
            read += 1
            if read == notes:
                process.kill()
    assert read >= notes, "the worker died by itself"
    assert process.returncode == -signal.SIGKILL


async def examine(path: Path, history: History) -> None:
    """Open the file as the next program would, and hold it against the history."""
    async with open_engine(str(path), EngineOptions(background=False)) as engine:
        history.judge({queue: await everything(engine, queue) for queue in QUEUES})
        for ending in history.completed[-20:]:
            assert await is_remembered(engine, ending), "a completion without its receipt"
        for ending in history.completing.values():
            is_gone = ending.item.seq in history.gone
            assert await is_remembered(engine, ending) is is_gone, "a receipt without its effect"


async def everything(engine: Engine, queue: str) -> list[wire.Message]:
    """All messages of a queue."""
    found: list[wire.Message] = []
    while True:
        start = found[-1].seq_number + 1 if found else 0
        page = (
            await engine.call(wire.PeekRequest(queue=queue, from_seq=start, max=limits.PEEK_MAX))
        ).messages
        if not page:
            return found
        found += page


async def is_remembered(engine: Engine, ending: Ending) -> bool:
    """Whether the identical completion succeeds again, by its receipt."""
    request = wire.CompleteRequest(
        queue=ending.queue, seq_number=ending.item.seq, lock_token=ending.token
    )
    try:
        await engine.call(request)
    except LockLost:
        return False
    return True


@pytest.mark.promise("E19", "E33", "E60", "E63", "E88", "E107", "E141", "E158")
@pytest.mark.parametrize("kills", parts(KILLS), ids=str)
def test_twenty_kills_break_no_promise(tmp_path: Path, kills: range) -> None:
    print(f"MQLITE_CRASH_SEED={SEED} MQLITE_CRASH_KILLS={KILLS}")
    history = live_and_die(tmp_path / "q.db", kills)
    assert history.deaths == len(kills)
    assert len(history.gone) > 10 * len(kills)
    record("killed processes", seed=SEED, kills=len(kills), messages=len(history.sent))


def live_and_die(path: Path, kills: range) -> History:
    """A store of its own, through so many deaths."""
    history = History()
    for kill in kills:
        dice = random.Random(f"{SEED} {kill}")
        run_and_kill(
            path,
            history,
            synchronous=dice.choice(("NORMAL", "FULL")),
            seed=kill,
            notes=dice.randint(NOTES_MIN, NOTES_MAX),
        )
        trio.run(examine, path, history)
        assert audit_file(path) == []
    print(f"{len(history.sent)} sends, {len(history.gone)} ends, {len(history.counts)} delivered")
    return history
