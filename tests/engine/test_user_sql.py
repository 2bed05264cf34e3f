"""What SQL of one's own may not do in a transaction: touch what is the engine's, or end it.

DENIED is refused at preparation and leaves the transaction usable. What no list of statements can
say is said by its outcome: whatever was defined, the engine's statements go on to mean the engine's
tables, and only they write them. What is allowed stands in test_user_sql_allowed.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract.errors import InvalidArgument, MqliteError, SchemaVersionMismatch
from mqlite_actor.engine.engine import Engine
from mqlite_actor.sdk.embedded import Embedded
from mqlite_actor.storage import queues, schema
from mqlite_actor.storage.database import WRITE_COUNTER
from tests.conformance.handles import opened
from tests.engine.gate import bodies
from tests.engine.outbox_scene import (
    ORDER,
    READ_LAYOUT,
    held,
    is_done,
    look,
    nothing_is_there,
    numbered_shop,
    orders,
    write,
)
from tests.storage.writer import snapshot


@pytest.fixture
async def q(engine: Engine) -> Embedded:
    return await numbered_shop(engine)


def ours(store: Path) -> list[object]:
    """All that belongs to the engine beside messages: tables, indexes, settings, numbers."""
    mine = [row for row in look(store, READ_LAYOUT) if row[2] in schema.layout()]
    numbers = look(store, "SELECT * FROM sqlite_sequence WHERE name = 'queues'")
    header = look(store, "PRAGMA user_version") + look(store, "PRAGMA application_id")
    return [mine, numbers, header, look(store, "SELECT * FROM queues")]


# -- refused ---------------------------------------------------------------------------------------

TABLES = [name for name, sql in schema.layout().items() if sql.startswith("CREATE TABLE")]
WRITES_OURS = "BEGIN DELETE FROM messages; UPDATE queues SET lock_duration_ms = 1; END"

INDEXES = [name for name in schema.layout() if name not in TABLES]

DENIED = [
    *(f"DELETE FROM {table}" for table in TABLES),
    "INSERT INTO messages (id) VALUES (1)",
    "INSERT OR IGNORE INTO meta VALUES ('a', 'b')",
    "INSERT INTO meta VALUES ('schema_version', 'x') ON CONFLICT (key) DO UPDATE SET value = 'x'",
    "REPLACE INTO meta VALUES ('schema_version', 'x')",
    "UPDATE messages SET state = 1",
    "UPDATE orders SET item = 'x' FROM orders AS o; UPDATE counts SET active = 9",
    "WITH x AS (SELECT 1) DELETE FROM receipts",
    "DELETE FROM dedup RETURNING key",
    "EXPLAIN DELETE FROM messages",
    "delete from Messages",
    "DELETE FROM main.messages",
    'DELETE FROM "messages"',
    "DELETE FROM [MESSAGES]",
    "DELETE FROM `main`.`messages`",
    "DELETE /* orders */ FROM messages -- orders",
    "SELECT 1; DELETE FROM messages",
    *(f"DROP TABLE {table}" for table in ("messages", "meta")),
    "DROP TABLE IF EXISTS Queues",
    *(f"DROP INDEX {index}" for index in INDEXES[:2]),
    "CREATE INDEX mine ON messages (body)",
    "CREATE UNIQUE INDEX mine ON queues (lock_duration_ms)",
    "CREATE TRIGGER mine AFTER INSERT ON messages BEGIN SELECT 1; END",
    "CREATE TRIGGER mine BEFORE DELETE ON Messages BEGIN SELECT raise(ABORT, 'no'); END",
    "CREATE TEMP TRIGGER mine AFTER INSERT ON main.messages BEGIN SELECT 1; END",
    "ALTER TABLE messages ADD COLUMN mine",
    "ALTER TABLE messages DROP COLUMN subject",
    "ALTER TABLE messages RENAME TO mine",
    "ALTER TABLE messages RENAME COLUMN body TO mine",
    "ALTER TABLE orders RENAME TO messages",
    "CREATE TABLE messages (x)",
    "CREATE TABLE IF NOT EXISTS messages (x)",
    "CREATE TEMP TABLE messages (x)",
    "CREATE TEMP TABLE mine (x)",
    "CREATE TEMP VIEW queues AS SELECT 1",
    f"CREATE TEMP TRIGGER mine AFTER INSERT ON main.orders {WRITES_OURS}",
    "CREATE VIRTUAL TABLE temp.messages USING fts5 (x)",
    "CREATE VIRTUAL TABLE messages USING fts5 (x)",
    "UPDATE sqlite_sequence SET seq = 0",
    "DELETE FROM sqlite_sequence WHERE name = 'queues'",
    "CREATE TABLE mine (x); DROP TABLE mine; DELETE FROM sqlite_sequence",
    "UPDATE sqlite_schema SET sql = ''",
    "ANALYZE",
    "ANALYZE messages",
    "BEGIN",
    "BEGIN IMMEDIATE",
    "COMMIT",
    "END",
    "ROLLBACK",
    "SAVEPOINT a",
    "RELEASE a",
    "ROLLBACK TO a",
    "SELECT 1; COMMIT",
    "ATTACH ':memory:' AS other",
    "DETACH main",
    "VACUUM",
    "VACUUM INTO 'copy.db'",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA journal_mode",
    "PRAGMA synchronous = OFF",
    "PRAGMA foreign_keys = OFF",
    "PRAGMA writable_schema = ON",
    "PRAGMA user_version = 5",
    "PRAGMA application_id = 5",
    "PRAGMA wal_checkpoint(TRUNCATE)",
    "PRAGMA incremental_vacuum",
    "PRAGMA optimize",
    "SELECT * FROM pragma_optimize",
    "PRAGMA temp_store = FILE",
    "PRAGMA cache_size = 1",
    "PRAGMA case_sensitive_like = ON",
    "PRAGMA hard_heap_limit = 1",
    "SELECT load_extension('x')",
]


@pytest.mark.parametrize("sql", DENIED)
async def test_what_is_the_engines_is_refused(q: Embedded, store: Path, sql: str) -> None:
    before = ours(store)
    async with q.tx() as tx:
        await write(tx)
        with pytest.raises(InvalidArgument):
            await tx.execute(sql)
        assert await tx.execute("SELECT name FROM sqlite_temp_schema") == []
    assert await is_done(q)
    assert ours(store) == before


@pytest.mark.parametrize(
    ("text", "arguments"),
    [(WRITE_COUNTER, (7, "seq")), (queues.FIND.replace("SELECT", "SELECT", 1), ("q",))],
)
async def test_a_text_of_the_engines_own_is_judged_like_any_other(
    q: Embedded, text: str, arguments: Sequence[int | str]
) -> None:
    for _ in range(3):  # prepared, and kept, for the engine
        await q.send_one("q", b"x")
    async with q.tx() as tx:
        if text == WRITE_COUNTER:
            with pytest.raises(InvalidArgument, match="'counters' is the engine's"):
                await tx.execute(text, arguments)
        else:
            assert len(await tx.execute(text, arguments)) == 1
    assert await q.send_one("q", b"x") == 4


# -- by outcome ------------------------------------------------------------------------------------


async def attempt(q: Embedded, *statements: str) -> bool:
    """Try each in a transaction of its own; whether all were let through."""
    allowed = 0
    for sql in statements:
        with suppress(MqliteError):
            async with q.tx() as tx:
                await tx.execute(sql)
            allowed += 1
    return allowed == len(statements)


SHADOWS = [
    ("CREATE TEMP TABLE mine AS SELECT * FROM messages", "ALTER TABLE mine RENAME TO messages"),
    ("CREATE TEMP TABLE mine AS SELECT * FROM counts", "ALTER TABLE mine RENAME TO counts"),
    ("CREATE VIRTUAL TABLE temp.messages USING fts5 (id, queue_id)",),
    ("CREATE TEMP VIEW mine AS SELECT * FROM messages", "ALTER TABLE mine RENAME TO messages"),
]


@pytest.mark.parametrize("statements", SHADOWS, ids=" ".join)
async def test_nothing_can_stand_in_for_a_table_of_the_engine(
    q: Embedded, store: Path, statements: tuple[str, ...]
) -> None:
    await attempt(q, *statements)
    await q.send_one("q", b"real")
    assert look(store, "SELECT body FROM messages") == [(b"real",)]
    assert look(store, "SELECT active FROM counts") == [(1,)]


TRIGGERS = [
    [f"CREATE TRIGGER mine AFTER INSERT ON orders {WRITES_OURS}"],
    [
        "CREATE TABLE more (id)",
        f"CREATE TRIGGER inner_one AFTER INSERT ON more {WRITES_OURS}",
        "CREATE TRIGGER mine AFTER INSERT ON orders BEGIN INSERT INTO more VALUES (1); END",
    ],
]


@pytest.mark.parametrize("statements", TRIGGERS, ids=lambda each: each[-1])
async def test_a_trigger_of_ones_own_cannot_write_the_engines_tables(
    q: Embedded, store: Path, statements: list[str]
) -> None:
    await q.send_one("q", b"one")
    before = ours(store)
    await attempt(q, *statements)
    async with q.tx() as tx:
        with pytest.raises(InvalidArgument, match="is the engine's"):
            await tx.execute(ORDER, (1, "tea"))
    assert await orders(q) == []
    assert await bodies(q.engine, "q") == [b"one"]
    assert ours(store) == before


async def test_a_view_over_the_engines_tables_reads_and_never_writes(
    q: Embedded, store: Path
) -> None:
    await q.send_one("q", b"one")
    assert await attempt(q, "CREATE VIEW mine AS SELECT id, body FROM messages")
    await attempt(q, f"CREATE TRIGGER through INSTEAD OF DELETE ON mine {WRITES_OURS}")
    before = ours(store)
    async with q.tx() as tx:
        assert await tx.execute("SELECT body FROM mine") == [(b"one",)]
        with pytest.raises(InvalidArgument):
            await tx.execute("DELETE FROM mine")
    assert await bodies(q.engine, "q") == [b"one"]
    assert ours(store) == before


POINTING = "CREATE TABLE line (message INTEGER REFERENCES messages (id){})"


async def point(q: Embedded, action: str, number: int) -> None:
    """Try to keep a row that points at a message of the engine's."""
    await attempt(q, POINTING.format(action), f"INSERT INTO line VALUES ({number})")


@pytest.mark.parametrize("action", ["", " ON DELETE RESTRICT", " ON DELETE SET NULL"])
async def test_a_foreign_key_onto_a_message_cannot_stop_its_settlement(
    q: Embedded, action: str
) -> None:
    lease = await held(q)
    await point(q, action, lease.seq_number)
    await lease.complete()
    assert await bodies(q.engine, "q") == []


async def test_a_cascade_from_a_message_cannot_fire_a_trigger_on_the_engines_tables(
    q: Embedded, store: Path
) -> None:
    lease = await held(q)
    await q.send_one("q", b"other")
    before = ours(store)
    await point(q, " ON DELETE CASCADE", lease.seq_number)
    await attempt(q, f"CREATE TRIGGER mine AFTER DELETE ON line {WRITES_OURS}")
    await lease.complete()
    assert ours(store) == before
    assert await bodies(q.engine, "q") == [b"other"]


async def test_a_foreign_key_is_found_behind_a_statement_that_fails(q: Embedded) -> None:
    lease = await held(q)
    with suppress(MqliteError):
        async with q.tx() as tx:
            with pytest.raises(InvalidArgument):
                await tx.execute(f"{POINTING.format('')}; SELEC")
            await tx.execute("SELECT 1")
    await attempt(q, f"INSERT INTO line VALUES ({lease.seq_number})")
    await lease.complete()
    assert await bodies(q.engine, "q") == []


async def test_a_file_whose_rows_point_at_messages_is_refused_untouched(
    store: Path, clock: ManualClock
) -> None:
    connection = apsw.Connection(str(store))
    connection.execute(POINTING.format("") + "; INSERT INTO line VALUES (1)")
    connection.close()
    before = snapshot(store.parent)
    with pytest.raises(SchemaVersionMismatch, match="'line' has a foreign key to 'messages'"):
        async with opened(store, clock):
            pytest.fail("it was opened")
    assert snapshot(store.parent) == before


# -- mistakes ---------------------------------------------------------------------------


MISTAKES: dict[str, tuple[str, tuple[Any, ...]]] = {
    "no SQL": ("SELEC 1", ()),
    "no such table": ("SELECT * FROM nowhere", ()),
    "an argument too few": (ORDER, (1,)),
    "an argument too many": (ORDER, (1, "tea", 3)),
    "a type in a strict column": (ORDER, (1, b"tea")),
    "a value without a type": (ORDER, (1, object())),
    "an integer over 64 bits": (ORDER, (2**63, "tea")),
    "half a surrogate": (ORDER, (1, "\ud800")),
    "half a surrogate in the text": ("SELECT '\ud800'", ()),
    "a NUL in the text": ("SELECT 1\0, 2", ()),
    "a value too big": ("SELECT zeroblob(2000000000)", ()),
    "a null": ("INSERT INTO orders VALUES (1, NULL)", ()),
    "the second of two": ("INSERT INTO orders VALUES (1, 'a') ON CONFLICT DO NOTHING; SELEC", ()),
    "a raised error": ("SELECT json('{')", ()),
}


@pytest.mark.parametrize("what", MISTAKES)
async def test_a_mistake_is_named_and_leaves_the_transaction_usable(q: Embedded, what: str) -> None:
    sql, arguments = MISTAKES[what]
    async with q.tx() as tx:
        await write(tx)
        with pytest.raises(InvalidArgument) as caught:
            await tx.execute(sql, arguments)
        assert len(caught.value.message) > 20
    assert await is_done(q)


INSERT = "INSERT INTO orders VALUES (3, 'x')"
ROLLS_BACK = [
    "INSERT OR ROLLBACK INTO orders VALUES (1, 'again')",
    "CREATE TABLE mine (x UNIQUE ON CONFLICT ROLLBACK); INSERT INTO mine VALUES (1), (1)",
    "CREATE TRIGGER t BEFORE INSERT ON orders BEGIN SELECT raise(ROLLBACK, ''); END;" + INSERT,
]


@pytest.mark.promise("E146")
@pytest.mark.parametrize("sql", ROLLS_BACK)
async def test_a_statement_that_rolls_everything_back_ends_the_transaction(
    q: Embedded, sql: str
) -> None:
    async def work() -> None:
        async with q.tx() as tx:
            await write(tx)
            with pytest.raises(InvalidArgument):
                await tx.execute(sql)
            refused: list[Callable[[], Any]] = [
                lambda: tx.execute(ORDER, (2, "alone")),
                lambda: tx.send_one("q", b"alone"),
            ]
            for step in refused:
                with pytest.raises(MqliteError):
                    await step()

    with pytest.raises(MqliteError):
        await work()
    await nothing_is_there(q)


@pytest.mark.promise("E146")
async def test_a_constraint_that_fails_at_the_commit_is_the_callers_mistake(q: Embedded) -> None:
    later = "REFERENCES orders (id) DEFERRABLE INITIALLY DEFERRED"
    assert await attempt(q, f"CREATE TABLE line (o {later})")

    async def work() -> None:
        async with q.tx() as tx:
            await tx.send_one("q", b"gone")
            await tx.execute("INSERT INTO line VALUES (7)")

    with pytest.raises(InvalidArgument, match="FOREIGN KEY"):
        await work()
    await nothing_is_there(q)
