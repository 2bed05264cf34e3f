"""Rows in blocks: what is written is what one row after another would have written."""

from __future__ import annotations

import apsw
import pytest

from mqlite_actor.storage import blocks, messages, receipts, schema
from mqlite_actor.storage.blocks import BLOCK_ROWS
from mqlite_actor.storage.database import Value

TEXTS = ("g", None, "c", None, None, "subject", '{"a":"b"}')
SIZES = (0, 1, BLOCK_ROWS - 1, BLOCK_ROWS, BLOCK_ROWS + 1, 2 * BLOCK_ROWS, 5 * BLOCK_ROWS + 3)


def _rows(number: int) -> list[tuple[Value, ...]]:
    return [
        messages.ready_row(seq, 1, 1000 + seq, 2000 + seq, TEXTS, bytes([seq % 256]) * seq)
        for seq in range(1, number + 1)
    ]


def _memory() -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    connection.execute(schema.script())
    return connection


@pytest.mark.parametrize("number", SIZES)
def test_blocks_store_what_single_rows_store(number: int) -> None:
    one_by_one, in_blocks = _memory(), _memory()
    for row in _rows(number):
        one_by_one.execute(messages.INSERT, row)
    blocks.write_many(in_blocks, messages.INSERT, _rows(number))
    everything = "SELECT * FROM messages ORDER BY id"
    assert in_blocks.execute(everything).fetchall() == one_by_one.execute(everything).fetchall()
    assert in_blocks.total_changes() == one_by_one.total_changes() == number


@pytest.mark.parametrize("number", SIZES)
def test_what_is_no_insert_runs_once_for_each_row(number: int) -> None:
    connection = _memory()
    blocks.write_many(connection, messages.INSERT, _rows(number))
    leases = [(9000, bytes(16), seq) for seq in range(1, number + 1)]
    blocks.write_many(connection, messages.LOCK, leases)
    ((locked,),) = connection.execute("SELECT count(*) FROM messages WHERE state = 3").fetchall()
    assert locked == number


def test_a_row_that_is_refused_in_a_block_fails_the_statement() -> None:
    connection = _memory()
    rows = _rows(2 * BLOCK_ROWS)
    rows[-1] = rows[0]
    with pytest.raises(apsw.ConstraintError):
        blocks.write_many(connection, messages.INSERT, rows)


@pytest.mark.parametrize("sql", [messages.INSERT, receipts.INSERT])
def test_the_inserts_of_a_busy_queue_are_widened(sql: str) -> None:
    wide = blocks.widened(sql)
    assert wide is not None
    assert wide.count("?") == BLOCK_ROWS * sql.count("?")


@pytest.mark.parametrize(
    "sql", [messages.INSERT_IN_GROUP, messages.INSERT_IN_QUEUE, messages.LOCK, messages.CERTIFY]
)
def test_what_returns_or_decides_is_left_alone(sql: str) -> None:
    assert blocks.widened(sql) is None
