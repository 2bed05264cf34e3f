"""The writer without trio: a store, the table of commands, and groups run in the test's thread.

For tests of what one group leaves in the file. `snapshot` and `killed_copy` look at the files
themselves.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar, cast

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits, wire
from mqlite_actor.engine import commands
from mqlite_actor.engine.group import run_group
from mqlite_actor.engine.outcomes import NOT_RUN, Answer
from mqlite_actor.storage import queues
from mqlite_actor.storage.sqlite import SqliteStore, open_store
from tests.conformance.audit import audit

R = TypeVar("R")

DEFAULTS = wire.QueueConfig()

STRAY_BODIES = """
SELECT id FROM bodies WHERE id NOT IN (SELECT id FROM messages WHERE body IS NULL)
UNION ALL
SELECT id FROM messages WHERE body IS NULL AND id NOT IN (SELECT id FROM bodies)"""


class Writer:
    """A store and what runs groups on it."""

    def __init__(self, store: SqliteStore, clock: ManualClock) -> None:
        self.store = store
        self.clock = clock
        self.table = commands.table(message_bytes_max=limits.MESSAGE_BYTES_DEFAULT)

    def group(self, *requests: object) -> list[Answer]:
        """Run these commands as one group, and what it came not to as the next; an outcome for
        each."""
        outcomes = run_group(self.store, self.table, requests, self.clock).outcomes
        left = [place for place, each in enumerate(outcomes) if each is NOT_RUN]
        if left:
            rest = self.group(*[requests[place] for place in left])
            for place, each in zip(left, rest, strict=True):
                outcomes[place] = each
        return outcomes

    def ask(self, request: wire.Request[R]) -> R:
        """Run one command alone; its response, or its error raised."""
        return cast("R", self.group(request)[0].unwrap())

    def create(self, queue: str, config: wire.QueueConfig = DEFAULTS) -> None:
        """Create or reconfigure a queue."""
        self.ask(wire.CreateQueueRequest(name=queue, config=config))

    def send(self, queue: str, *bodies: bytes) -> list[int]:
        """Store these bodies in one call; their numbers."""
        batch = [wire.Message(body=body) for body in bodies]
        return self.ask(wire.SendRequest(queue=queue, messages=batch)).seq_numbers or []

    def take(self, queue: str, number: int = 1) -> list[wire.Message]:
        """Claim up to `number` messages."""
        return self.ask(wire.ReceiveRequest(queue=queue, max_messages=number)).messages

    def bodies(self, queue: str, state: str = "") -> list[bytes]:
        """Bodies in the queue, by number."""
        page = self.ask(wire.PeekRequest(queue=queue, state=state, max=limits.PEEK_MAX))
        return [message.body for message in page.messages]

    def check(self) -> None:
        """The file is whole and says the same thing everywhere."""
        run = self.store.run
        assert run([("PRAGMA integrity_check", ())])[0] == [("ok",)]
        assert list(audit(lambda statement: run([statement])[0])) == []
        assert run([(STRAY_BODIES, ())])[0] == []

    def queue_id(self, name: str) -> int:
        """The row id of a queue."""
        found: int = self.store.run([(queues.FIND, (name,))])[0][0][0]
        return found


@contextmanager
def writing(
    path: Path | str, *, synchronous: str = "NORMAL", clock: ManualClock | None = None
) -> Iterator[Writer]:
    """A Writer on a file, closed afterwards."""
    store = open_store(str(path), synchronous=synchronous)
    try:
        yield Writer(store, clock or ManualClock())
    finally:
        store.close()


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file of a folder with its bytes. Of a log's index only the name: it holds no data."""
    return {
        path.name: b"" if path.name.endswith("-shm") else path.read_bytes()
        for path in sorted(folder.iterdir())
        if path.is_file()
    }


def killed_copy(path: Path, to: Path) -> Path:
    """The files as they would be found if the process that has `path` open died now.

    Reading them here costs this process its locks on them (guard.py); nobody else is at these.
    """
    to.mkdir()
    for suffix in ("", "-wal"):
        source = path.with_name(path.name + suffix)
        if source.exists():
            shutil.copyfile(source, to / source.name)
    return to / path.name
