"""What a question about a lease will be answered, guessed from when the lease was given out.

Called by `unit.py`, for a store where asking costs a round trip. Whoever owns the database gave the
leases out itself, so it mostly knows what a settlement will find, and can send the whole
transaction at once. A guess is never believed: with it goes a statement that fails unless the row
is exactly as guessed, which undoes everything, and the group is run again without guessing
(`storage/hrana.py`). So what is remembered needs no care, only a bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from mqlite_actor.storage import messages
from mqlite_actor.storage.database import Ledger, Row, Statement, Stored
from mqlite_actor.storage.rows import Held, held

LEASES_MAX: Final = 100_000
"""Leases remembered, some 300 bytes each; with more of them settlements ask."""


class Guess(NamedTuple):
    """Statements that do what was asked, or fail; and the rows that they return if they do not.
    `is_check`: they change nothing."""

    statements: list[Statement]
    rows: list[list[Row]]
    is_check: bool


def guess(ledger: Ledger, statements: Sequence[Statement]) -> Guess | None:
    """For statements that all settle, renew or look at leases that are remembered; else None.

    A lease that is settled, or looked at in order to be settled, is forgotten.
    """
    leases = ledger.leases
    if not leases:
        return None
    if len(leases) > LEASES_MAX:
        leases.clear()
        return None
    sent: list[Statement] = []
    rows: list[list[Row]] = []
    seen: set[int] = set()
    for sql, arguments in statements:
        find = _FORESEEN.get(sql)
        if find is None:
            return None
        seq = arguments[find]
        row = leases.get(seq) if isinstance(seq, int) and seq not in seen else None
        if row is None:
            return None
        seen.add(row[0])
        made = _made(sql, held(row), arguments)
        if made is None:
            return None
        sent.append(messages.certify(row))
        if sql != messages.HELD:
            sent.append((sql, arguments))
        rows.append([made])
    for sql, arguments in statements:
        if sql == messages.RENEW:
            _extend(leases, arguments)
        else:
            leases.pop(_number(arguments[_FORESEEN[sql]]), None)
    return Guess(sent, rows, is_check=all(sql == messages.HELD for sql, _ in statements))


# Where the number stands among the arguments of each statement.
_FORESEEN: Final = {messages.HELD: 0, messages.COMPLETE: 0, messages.RENEW: 1}


def _made(sql: str, known: Held, arguments: Sequence[object]) -> Row | None:
    """What the statement returns; None where the fence would refuse it."""
    if sql == messages.HELD:
        return _row(known)
    until, fence = None, arguments
    if sql == messages.RENEW:
        until, *fence = arguments
    seq, queue_id, token, now_ms = fence
    assert isinstance(now_ms, int)
    if (known.id, known.queue_id, known.lock_token) != (seq, queue_id, token):
        return None
    if known.state != Stored.LOCKED or known.locked_until <= now_ms:
        return None
    if sql == messages.COMPLETE:
        return known.id, known.lock_token, known.group_id, known.is_body_apart
    assert isinstance(until, int)
    return (max(known.locked_until, until),)


def _row(known: Held) -> Row:
    return tuple(getattr(known, name) for name in Held.__struct_fields__)


def _extend(leases: dict[int, Row], arguments: Sequence[object]) -> None:
    until, seq = _number(arguments[0]), _number(arguments[1])
    row = leases[seq]
    leases[seq] = (*row[:4], max(row[4], until), *row[5:])


def _number(value: object) -> int:
    assert isinstance(value, int)
    return value
