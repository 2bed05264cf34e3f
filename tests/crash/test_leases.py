"""Killed and reopened at random under short leases, an engine broke no promise of order or lease.

MQLITE_HISTORY_SECONDS is how long the program runs in all, MQLITE_HISTORY_SEED repeats a run's
choices (not its timing, which is the machine's). Both are printed. Above a minute or two pytest
needs `-o faulthandler_timeout=…` as well. The rules stand in tests/crash/lease_rules.py, and are
tested in test_lease_rules.py.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import trio

from mqlite_actor.sdk.embedded import open_embedded
from tests.conformance.audit import audit_file
from tests.crash.lease_rules import breaches
from tests.crash.timeline import QUEUES, STEP_MS, Event, Timeline
from tests.figures import record
from tests.storage.child import ROOT
from tests.warm.process import Popen

SECONDS = float(os.environ.get("MQLITE_HISTORY_SECONDS", "3"))
SEED = int(os.environ.get("MQLITE_HISTORY_SEED") or random.SystemRandom().randrange(2**32))

LIFE_MS = (300, 1_300)
"""From one to five leases long."""

decode = msgspec.json.Decoder(Event).decode


# -- the program -----------------------------------------------------------------------------------


def live(path: Path, timeline: Timeline, dice: random.Random, *, is_last: bool) -> int:
    """One life of the worker, ended by a kill or in order; its milliseconds.

    Every third one begins with a clock that was set back; it is set forth amid that life, or after.
    """
    timeline.begin()
    synchronous = dice.choice(("NORMAL", "FULL"))
    life_ms = dice.randint(*LIFE_MS)
    is_killed = is_last or dice.random() < 0.7
    offset = -STEP_MS if timeline.life % 3 == 2 else 0
    step_at = life_ms // 2 if offset and dice.random() < 0.5 else life_ms
    command = [sys.executable, "-m", "tests.crash.lease_worker", str(path), synchronous]
    with Popen[bytes](
        [*command, str(dice.randrange(2**32)), str(timeline.life), str(offset)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        began = 0
        for line in process.stdout:
            event = decode(line)
            began = began or event.at
            timeline.read(event)
            if began + step_at <= event.at < began + life_ms:
                process.stdin.write(b"%d\n" % STEP_MS)
                process.stdin.flush()
                began, step_at = began + STEP_MS, life_ms
            if began + life_ms <= event.at:
                process.kill() if is_killed else process.stdin.close()
                break
        for line in process.stdout:
            if line.endswith(b"\n"):
                timeline.read(decode(line))
        process.wait()
    assert process.returncode == (-signal.SIGKILL if is_killed else 0)
    return life_ms


async def find(path: Path, timeline: Timeline) -> None:
    """What is left in the file, for the next program."""
    async with open_embedded(f"file:{path}", background=False) as q:
        for queue in QUEUES:
            start, found = 0, timeline.found.setdefault(queue, [])
            while page := await q.peek(queue, from_seq=start, max_messages=1_000):
                found += page
                start = page[-1].seq_number + 1


@pytest.mark.promise("E33", "E52", "E60", "E107")
def test_sixteen_tasks_over_many_lives_see_no_promise_broken(tmp_path: Path) -> None:
    print(f"MQLITE_HISTORY_SEED={SEED} MQLITE_HISTORY_SECONDS={SECONDS}")
    dice = random.Random(SEED)
    path = tmp_path / "q.db"
    timeline = Timeline()
    lived = 0
    while lived < SECONDS * 1_000:
        lived += live(path, timeline, dice, is_last=False)
        assert audit_file(path) == []
    live(path, timeline, dice, is_last=True)
    timeline.begin()
    trio.run(find, path, timeline)
    assert breaches(timeline) == []
    assert timeline.life > 3, "the clock was set back and forth"
    record("histories", seed=SEED, lives=timeline.life - 1, claims=len(timeline.claims))
    print(tally(timeline))


def tally(timeline: Timeline) -> str:
    """What the run was made of: each of these should be there in any run of some seconds."""
    asks = [ask for claim in timeline.claims for ask in claim.asks]
    numbers = {
        "lives": timeline.life - 1,
        "sends": len(timeline.sends),
        "conflicts": sum(send.is_conflict for send in timeline.sends),
        "claims": len(timeline.claims),
        "again": sum(claim.item.count > 1 for claim in timeline.claims),
        "lost": sum(ask.is_ok is False for ask in asks),
        "dead": sum(m.state == "dead_lettered" for each in timeline.found.values() for m in each),
    }
    return ", ".join(f"{name} {number}" for name, number in numbers.items())
