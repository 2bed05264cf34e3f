"""Killed four times inside a transaction and four times anywhere, rows and messages still match.

An order is a row and a message of one transaction; handling one is a row and a completion. So at
any time the orders are exactly the messages together with the orders handled, each once, whoever
died when. MQLITE_OUTBOX_SEED repeats a run's choices; it is printed.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import apsw
import pytest
import trio

from mqlite_actor.sdk.embedded import open_embedded
from tests.conformance.audit import audit_file
from tests.crash.outbox_worker import ORDERS_BEFORE_STOP
from tests.crash.parts import parts
from tests.figures import record
from tests.storage.child import ROOT
from tests.warm.process import Popen

SEED = int(os.environ.get("MQLITE_OUTBOX_SEED") or random.SystemRandom().randrange(2**32))
KILLS = int(os.environ.get("MQLITE_CRASH_KILLS", "4"))

LINES_MAX = 400
"""Lines of a life before its random kill; a fraction of a second."""


class Life:
    """One process, and what it has told us."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self.stdin: IO[str] = process.stdin
        self.stdout: IO[str] = process.stdout
        self.told: dict[str, set[str]] = {}

    def read(self) -> tuple[str, str]:
        """One more line: what happened, and to which order."""
        line = self.stdout.readline()
        assert line, "the worker died by itself"
        return self._take(line)

    def read_until(self, kind: str, word: str = "") -> str:
        """Read on to a line of this kind; its word."""
        while True:
            found, argument = self.read()
            if found == kind and word in ("", argument):
                return argument

    def kill(self) -> None:
        """End it, and read what it had still told."""
        self.process.kill()
        for line in self.stdout:
            if line.endswith("\n"):
                self._take(line)
        assert self.process.wait() == -signal.SIGKILL

    def _take(self, line: str) -> tuple[str, str]:
        kind, _, word = line.strip().partition(" ")
        self.told.setdefault(kind, set()).add(word)
        return kind, word


@contextmanager
def living(path: Path, *, seed: int, synchronous: str, mode: str = "") -> Iterator[Life]:
    command = [sys.executable, "-m", "tests.crash.outbox_worker", str(path), synchronous, str(seed)]
    with Popen[str](
        [*command, mode], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            life = Life(process)
            life.read_until("ready")
            yield life
        finally:
            process.kill()


class Ledger:
    """What was acknowledged over all lives, and what the file must therefore hold."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ordered: set[str] = set()
        self.handled: set[str] = set()

    def add(self, life: Life) -> None:
        self.ordered |= life.told.get("ordered", set())
        self.handled |= life.told.get("handled", set())

    def judge(self) -> set[str]:
        """Hold the file against it; the orders that are there."""
        orders, handled, messages = self.read()
        for name, words in (("orders", orders), ("handled", handled), ("messages", messages)):
            assert len(words) == len(set(words)), f"twice among {name}"
        assert not set(messages) & set(handled), "handled, and delivered again"
        assert set(messages) | set(handled) == set(orders), "rows and messages do not match"
        assert self.ordered <= set(orders), "acknowledged and lost"
        assert self.handled <= set(handled), "acknowledged and undone"
        return set(orders)

    def read(self) -> tuple[list[str], list[str], list[str]]:
        """Orders, orders handled, and messages, each by its nonce."""
        bodies = trio.run(drained, self.path)
        assert audit_file(self.path) == []
        connection = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            orders = [str(row[0]) for row in connection.execute("SELECT nonce FROM orders")]
            handled = [str(row[0]) for row in connection.execute("SELECT nonce FROM handled")]
        finally:
            connection.close()
        return orders, handled, [body.decode().strip() for body in bodies]


async def drained(path: Path) -> list[bytes]:
    """The bodies of all messages, seen by the next program; the file stays as it is."""
    found: list[bytes] = []
    async with open_embedded(f"file:{path}", background=False) as q:
        start = 0
        while page := await q.peek("q", from_seq=start, max_messages=1_000):
            assert {message.state for message in page} == {"active"}
            found += [message.body for message in page]
            start = page[-1].seq_number + 1
    return found


@pytest.mark.promise("E146")
@pytest.mark.parametrize("kills", parts(KILLS), ids=str)
def test_killed_inside_a_transaction_nothing_of_it_is_there(tmp_path: Path, kills: range) -> None:
    ledger = Ledger(tmp_path / "q.db")
    for seed in kills:
        synchronous = ("NORMAL", "FULL")[seed % 2]
        with living(ledger.path, seed=seed, synchronous=synchronous, mode="stop") as life:
            nonce = life.read_until("inside")
            life.kill()
        ledger.add(life)
        assert nonce not in ledger.judge()
    assert len(ledger.ordered) == len(kills) * ORDERS_BEFORE_STOP
    record("killed processes", kills=len(kills), messages=len(ledger.ordered))


@pytest.mark.promise("E146")
@pytest.mark.parametrize("kills", parts(KILLS), ids=str)
def test_killed_anywhere_rows_and_messages_match(tmp_path: Path, kills: range) -> None:
    print(f"MQLITE_OUTBOX_SEED={SEED}")
    dice = random.Random(f"{SEED} {kills.start}")
    ledger = Ledger(tmp_path / "q.db")
    for kill in kills:
        synchronous = dice.choice(("NORMAL", "FULL"))
        with living(ledger.path, seed=kill, synchronous=synchronous) as life:
            challenge = f"{dice.randrange(2**32)}"
            life.stdin.write(f"{challenge}\n")
            life.stdin.flush()
            life.read_until("alive", challenge)
            for _ in range(2):
                life.read_until("ordered")
            for _ in range(dice.randrange(LINES_MAX)):
                life.read()
            life.kill()
        ledger.add(life)
        ledger.judge()
    assert len(ledger.ordered) >= 2 * len(kills)
    record("killed processes", seed=SEED, kills=len(kills), messages=len(ledger.ordered))
    print(f"{len(ledger.ordered)} orders, {len(ledger.handled)} handled")
