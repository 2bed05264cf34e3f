"""What a store holds, as one value per state; and the judge of what a power cut left.

`state_of` reads every table of an open store. A life (life.py) keeps the state after each of its
transactions. `examine` puts rebuilt files into a folder, opens them with the product, and names the
transaction after which they are: FULL allows none before the last acknowledged one, NORMAL an
earlier one too, but only as a whole and no earlier than the last moment that made everything safe.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path

import msgspec

from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import MqliteError
from mqlite_actor.engine import commands
from mqlite_actor.storage.sqlite import SqliteStore
from tests.power.disk import Disk
from tests.storage.writer import Writer, writing

STORE = "q.db"

TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name"
ROWS = 'SELECT * FROM "{}" ORDER BY rowid'

State = bytes
"""A digest of every row of every table."""


class Violation(AssertionError):
    """A disk after a cut that breaks a promise."""


def state_of(store: SqliteStore) -> State:
    """Everything that the store holds now."""
    digest = hashlib.blake2b(digest_size=16)
    names = [row[0] for row in store.run([(TABLES, ())])[0]]
    for name, rows in zip(names, store.run([(ROWS.format(n), ()) for n in names]), strict=True):
        digest.update(msgspec.msgpack.encode((name, rows)))
    return digest.digest()


class Record:
    """The states of a life: `known[state]` are the numbers of the transactions that led to it."""

    def __init__(self, synchronous: str) -> None:
        self.synchronous = synchronous
        self.known: dict[State, list[int]] = {}

    def add(self, number: int, state: State) -> None:
        self.known.setdefault(state, []).append(number)

    def judge(self, disk: Disk, found: State) -> int:
        """The transaction after which a rebuilt file is; Violation if that may not be."""
        low = disk.acknowledged if self.synchronous == "FULL" else disk.safe
        numbers = self.known.get(found)
        if numbers is None:
            raise Violation("the file is in a state that never was")
        allowed = [number for number in numbers if low <= number <= disk.begun]
        if not allowed:
            raise Violation(
                f"the file is as after transaction {numbers}; {low} is the first it may be,"
                f" {disk.begun} the last (acknowledged: {disk.acknowledged})"
            )
        return allowed[-1]


def laid_out(folder: Path, files: Mapping[str, bytes]) -> Path:
    """An empty folder with these files in it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder / STORE


Known = dict[bytes, State]
"""The states of remains that were opened, by a digest of their bytes."""


def examine(
    folder: Path, files: Mapping[str, bytes], disk: Disk, record: Record, known: Known
) -> int:
    """Start the product on what a cut left, as after the power is back; the transaction after which
    the file is. Violation if it does not open, is not whole, or is in a state it may not be in.

    Of remains that are `known`, to the last byte, only that is asked again: what the product makes
    of them it has shown.
    """
    digest = digest_of(files)
    if digest in known:
        return record.judge(disk, known[digest])
    path = laid_out(folder, files)
    try:
        # Nothing here is cut again, so nothing needs to be synced.
        with writing(path, synchronous="OFF") as writer:
            found = state_of(writer.store)
            number = record.judge(disk, found)
            goes_on(writer)
    except MqliteError as error:
        raise Violation(f"the file does not open or work: {error}") from error
    known[digest] = found
    return number


def digest_of(files: Mapping[str, bytes]) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for name, content in sorted(files.items()):
        digest.update(f"{name} {len(content)} ".encode())
        digest.update(content)
    return digest.digest()


def goes_on(writer: Writer) -> None:
    """Recover as the engine does, hold the file against itself, and use it."""
    writer.group(commands.Recover())[0].unwrap()
    writer.check()
    writer.create("after the cut")
    numbers = writer.send("after the cut", b"works")
    (message,) = writer.take("after the cut")
    assert [message.seq_number] == numbers
    done = wire.CompleteRequest(
        queue="after the cut", seq_number=message.seq_number, lock_token=message.lock_token
    )
    assert writer.ask(done).ok
