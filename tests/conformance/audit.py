"""What must be true of every store after every test, whatever the test did to it.

`audit` reads a store as rows and names every disagreement: kept counts against counted messages,
lanes, leases, numbers, the file itself. The fixtures of tests/conftest.py run it after each
engine is closed; a test may run it in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import apsw

from mqlite_actor.storage import counts
from mqlite_actor.storage.database import Row, Statement, Stored

Execute = Callable[[Statement], list[Row]]

QUEUES: Final = "SELECT id, name, ordering_mode FROM queues"
MESSAGES: Final = """
SELECT id, state, group_id, locked_until, lock_token, dead_letter_reason FROM messages
WHERE queue_id = ? ORDER BY id"""
STRAYS: Final = "SELECT id FROM messages WHERE queue_id NOT IN (SELECT id FROM queues)"
CHECK: Final = "PRAGMA quick_check"


def audit_file(path: Path) -> list[str]:
    """Every disagreement in the store at `path`; the file must be closed."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return list(audit(lambda statement: connection.execute(*statement).fetchall()))
    finally:
        connection.close()


def audit(execute: Execute) -> Iterator[str]:
    """Every disagreement in the store that `execute` reads."""
    problems = [row[0] for row in execute((CHECK, ()))]
    yield from (problem for problem in problems if problem != "ok")
    yield from (f"message {row[0]} has no queue" for row in execute((STRAYS, ())))
    for queue_id, name, ordering in execute((QUEUES, ())):
        kept = counts.six(execute(counts.read(queue_id))[0])
        true = counts.six(execute(counts.true_counts(queue_id))[0])
        if kept != true:
            yield f"queue {name!r} keeps counts {kept}, its messages say {true}"
        rows = execute((MESSAGES, (queue_id,)))
        yield from _leases(name, rows)
        yield from _lanes(name, rows, is_strict=ordering == "strict_fifo")


def _leases(queue: str, rows: Sequence[Row]) -> Iterator[str]:
    """A token and a deadline belong to locked rows alone, a reason to dead letters alone."""
    for seq, state, _, locked_until, token, reason in rows:
        is_locked = state == Stored.LOCKED
        if (token is not None, locked_until != 0) != (is_locked, is_locked):
            yield f"{queue!r} {seq}: {Stored(state).name} with a token or deadline that is not its"
        if (reason is not None) != (state == Stored.DEAD):
            yield f"{queue!r} {seq}: {Stored(state).name} with reason {reason!r}"


def _lanes(queue: str, rows: Sequence[Row], *, is_strict: bool) -> Iterator[str]:
    """An active row is READY exactly if no earlier row of its lane lives."""
    occupied: set[str] = set()
    for seq, state, group_id, *_ in rows:
        if state == Stored.DEAD:
            continue
        lane = "" if is_strict else group_id
        is_behind = lane is not None and lane in occupied
        if lane is not None:
            occupied.add(lane)
        if state in (Stored.READY, Stored.WAITING) and is_behind != (state == Stored.WAITING):
            yield f"{queue!r} {seq}: {Stored(state).name}, but behind others is {is_behind}"
