"""What SQL of one's own may do in a transaction: everything with one's own tables, and read ours.

Each row of ALLOWED works, beside a message of the same transaction, and is still there after the
file was opened again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.engine.engine import Engine
from mqlite_actor.sdk.embedded import Embedded
from tests.conformance.handles import opened
from tests.engine.gate import bodies
from tests.engine.outbox_scene import ORDER, READ_LAYOUT, look, numbered_shop


@pytest.fixture
async def q(engine: Engine) -> Embedded:
    return await numbered_shop(engine)


class Allowed(NamedTuple):
    """Statements of one's own, and the rows of all of them."""

    statements: list[str]
    rows: list[tuple[Any, ...]] = []

    @property
    def sql(self) -> str:
        return "; ".join(self.statements)


ALLOWED = {
    "a table": Allowed(
        ["CREATE TABLE mine (x)", "INSERT INTO mine VALUES (1) RETURNING x"], [(1,)]
    ),
    "an index": Allowed(["CREATE INDEX mine ON orders (item) WHERE id > 3"]),
    "an upsert": Allowed(
        [
            "INSERT INTO orders VALUES (1, 'a')",
            "INSERT INTO orders VALUES (1, 'b') ON CONFLICT DO UPDATE SET item = excluded.item",
            "SELECT * FROM orders",
        ],
        [(1, "b")],
    ),
    "a replacement": Allowed(
        ["REPLACE INTO orders VALUES (1, 'c')", "SELECT * FROM orders"], [(1, "c")]
    ),
    "a trigger": Allowed(
        [
            "CREATE TRIGGER t AFTER INSERT ON orders BEGIN INSERT INTO numbered VALUES (7); END",
            "INSERT INTO orders VALUES (1, 'a')",
            "SELECT * FROM numbered",
        ],
        [(7,)],
    ),
    "a view": Allowed(
        ["CREATE VIEW mine AS SELECT count(*) FROM messages", "SELECT * FROM mine"], [(1,)]
    ),
    "reading": Allowed(
        ["SELECT body, name FROM messages JOIN queues ON queue_id = queues.id"], [(b"m", "q")]
    ),
    "a copy": Allowed(["CREATE TABLE messages_copy AS SELECT id, body FROM messages"]),
    "a name in another case": Allowed(["CREATE TABLE Messages2 (x)", "DROP TABLE messages2"]),
    "a generated column": Allowed(
        [
            "CREATE TABLE mine (x, y AS (x * 2) STORED)",
            "INSERT INTO mine VALUES (4)",
            "SELECT y FROM mine",
        ],
        [(8,)],
    ),
    "a numbered table": Allowed(["INSERT INTO numbered DEFAULT VALUES RETURNING id"], [(1,)]),
    "a strict table": Allowed(["CREATE TABLE mine (x TEXT PRIMARY KEY) STRICT, WITHOUT ROWID"]),
    "a full text index": Allowed(
        [
            "CREATE VIRTUAL TABLE mine USING fts5 (x)",
            "INSERT INTO mine VALUES ('tea and milk')",
            "SELECT x FROM mine WHERE mine MATCH 'milk'",
        ],
        [("tea and milk",)],
    ),
    "a foreign key": Allowed(
        [
            "CREATE TABLE mine (o REFERENCES orders (id) ON DELETE CASCADE)",
            "INSERT INTO orders VALUES (1, 'a')",
            "INSERT INTO mine VALUES (1)",
            "DELETE FROM orders",
            "SELECT count(*) FROM mine",
        ],
        [(0,)],
    ),
    "a new column": Allowed(
        ["ALTER TABLE orders ADD COLUMN price INTEGER", "SELECT price FROM orders"]
    ),
    "a new name": Allowed(["ALTER TABLE numbered RENAME TO mine", "SELECT * FROM mine"]),
    "a new column name": Allowed(["ALTER TABLE numbered RENAME COLUMN id TO number"]),
    "a column less": Allowed(["CREATE TABLE mine (x, y)", "ALTER TABLE mine DROP COLUMN y"]),
    "a table less": Allowed(["DROP TABLE numbered"]),
    "a reading pragma": Allowed(["PRAGMA user_version"], [(0,)]),
    "a pragma's table": Allowed(
        ["SELECT name FROM pragma_table_info('orders')"], [("id",), ("item",)]
    ),
    "a recursive query": Allowed(
        ["WITH RECURSIVE c (x) AS (SELECT 1 UNION SELECT x + 1 FROM c LIMIT 3) SELECT * FROM c"],
        [(1,), (2,), (3,)],
    ),
    "no statement": Allowed(["-- nothing"]),
}


@pytest.mark.parametrize("what", ALLOWED)
async def test_what_is_ones_own_is_allowed(q: Embedded, what: str) -> None:
    await q.send_one("q", b"m")
    async with q.tx() as tx:
        assert await tx.execute(ALLOWED[what].sql) == ALLOWED[what].rows
        await tx.send_one("q", b"after")
    assert await bodies(q.engine, "q") == [b"m", b"after"]


@pytest.mark.parametrize("what", ALLOWED)
async def test_what_one_defined_is_there_after_reopening_and_disturbs_nobody(
    store: Path, clock: ManualClock, what: str
) -> None:
    async with opened(store, clock) as engine:
        q = await numbered_shop(engine)
        await q.send_one("q", b"m")
        async with q.tx() as tx:
            await tx.execute(ALLOWED[what].sql)
    made = look(store, READ_LAYOUT)
    async with opened(store, clock) as engine:
        q = Embedded(engine)
        await (await q.receive("q"))[0].complete()
        await q.send_one("q", b"n")
        assert await bodies(engine, "q") == [b"n"]
    assert look(store, READ_LAYOUT) == made


async def test_values_come_back_as_they_went(q: Embedded) -> None:
    values = (None, -(2**63), 1.5, "täglich\0☕", b"\x00\xff", "")
    async with q.tx() as tx:
        assert await tx.execute("SELECT ?, ?, ?, ?, ?, ?", values) == [values]


async def test_arguments_go_to_the_statements_of_a_text_in_order(q: Embedded) -> None:
    async with q.tx() as tx:
        await tx.execute(f"{ORDER}; {ORDER}", (1, "tea", 2, "milk"))
        assert await tx.execute("SELECT item FROM orders") == [("tea",), ("milk",)]
