"""A transaction of the embedding program on a remote store: its rows and our messages."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from mqlite_actor.contract.errors import InvalidArgument, OutcomeUnknown, StorageFailed, Unavailable
from mqlite_actor.sdk.embedded import Embedded, open_embedded
from mqlite_actor.storage.remote_sql import check
from tests.hrana.faults import Drop, TimeOut
from tests.hrana.manners import SQLD, TURSODB, Manners
from tests.hrana.server import HranaServer, running_hrana
from tests.remote.afar import TXN_SECONDS

Place = tuple[Embedded, HranaServer]


@pytest.fixture(params=[SQLD, TURSODB], ids=["sqld", "tursodb"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    manners: Manners = request.param
    with running_hrana(tmp_path, manners=manners, txn_seconds=TXN_SECONDS) as server:
        server.look("CREATE TABLE orders (id INTEGER PRIMARY KEY, what TEXT NOT NULL)")
        async with open_embedded(server.url, background=False) as q:
            await q.create_queue("events")
            yield q, server


async def test_rows_and_messages_commit_together(place: Place) -> None:
    q, server = place
    async with q.tx() as tx:
        await tx.execute("INSERT INTO orders VALUES (?, ?)", (1, "tea"))
        await tx.send_one("events", b"created")
        assert await tx.execute("SELECT what FROM orders") == [("tea",)]
    assert server.look("SELECT what FROM orders") == [("tea",)]
    assert [message.body for message in await q.receive("events")] == [b"created"]


async def test_leaving_with_an_error_undoes_both(place: Place) -> None:
    q, server = place

    async def order() -> None:
        async with q.tx() as tx:
            await tx.execute("INSERT INTO orders VALUES (1, 'tea')")
            await tx.send_one("events", b"created")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await order()
    assert server.look("SELECT id FROM orders") == []
    assert (await q.stats("events")).total == 0


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, "\ud800", 2**63])
async def test_a_value_that_cannot_travel_is_its_callers_fault_and_the_rest_goes_on(
    place: Place, value: float | str
) -> None:
    q, server = place
    async with q.tx() as tx:
        with pytest.raises(InvalidArgument, match="arguments: "):
            await tx.execute("INSERT INTO orders VALUES (1, ?)", (value,))
        await tx.execute("INSERT INTO orders VALUES (2, 'tea')")
    assert server.look("SELECT id FROM orders") == [(2,)]


async def test_a_wrong_statement_is_told_and_the_rest_goes_on(place: Place) -> None:
    q, server = place
    async with q.tx() as tx:
        await tx.execute("INSERT INTO orders VALUES (1, 'tea')")
        with pytest.raises(InvalidArgument, match="constraint"):
            await tx.execute("INSERT INTO orders VALUES (1, 'again')")
        await tx.execute("INSERT INTO orders VALUES (2, 'milk')")
    assert server.look("SELECT id FROM orders") == [(1,), (2,)]


async def test_every_verb_of_a_transaction_is_in_it_whatever_follows(place: Place) -> None:
    q, server = place
    await q.send_one("events", b"old")
    (held,) = await q.receive("events")
    async with q.tx() as tx:
        await tx.complete(held)
        assert await tx.send_one("events", b"1") > 0
        assert await tx.send_one("events", b"2") > 0
        await tx.execute("INSERT INTO orders VALUES (1, 'tea')")
        await tx.send("events", [b"3", b"4"])
        await tx.send("events", [b"5"])
    assert [message.body for message in await q.peek("events")] == [b"1", b"2", b"3", b"4", b"5"]
    assert (await q.stats("events")).active == 5
    assert server.look("SELECT id FROM orders") == [(1,)]


@pytest.mark.parametrize("is_first", [True, False])
async def test_a_statement_that_rolls_back_ends_the_transaction(
    place: Place, *, is_first: bool
) -> None:
    q, server = place
    server.look("INSERT INTO orders VALUES (1, 'tea')")

    async def order() -> None:
        async with q.tx() as tx:
            if not is_first:
                await tx.send_one("events", b"before")
                await tx.execute("INSERT INTO orders VALUES (2, 'milk')")
            with pytest.raises(InvalidArgument, match="constraint"):
                await tx.execute("INSERT OR ROLLBACK INTO orders VALUES (1, 'again')")
            for verb in (
                partial(tx.execute, "INSERT INTO orders VALUES (3, 'alone')"),
                partial(tx.send_one, "events", b"alone"),
            ):
                with pytest.raises(StorageFailed, match="rolled it back"):
                    await verb()

    with pytest.raises(StorageFailed, match="rolled it back"):
        await order()
    assert server.look("SELECT id FROM orders") == [(1,)]
    assert (await q.stats("events")).total == 0
    async with q.tx() as tx:
        await tx.send_one("events", b"next")
    assert [message.body for message in await q.receive("events")] == [b"next"]


@pytest.mark.parametrize("after", [False, True], ids=["before COMMIT", "after COMMIT"])
async def test_a_lost_commit_is_never_told_wrong(place: Place, *, after: bool) -> None:
    q, server = place

    async def order() -> None:
        async with q.tx() as tx:
            await tx.execute("INSERT INTO orders VALUES (1, 'tea')")
            await tx.send_one("events", b"created")
            server.faults.add(Drop(after=after))

    if after:
        await order()
    else:
        with pytest.raises((Unavailable, OutcomeUnknown)):
            await order()
    assert len(server.look("SELECT id FROM orders")) == after
    assert (await q.stats("events")).total == after


async def test_a_transaction_that_the_server_ends_is_told(place: Place) -> None:
    q, server = place

    async def order() -> None:
        async with q.tx() as tx:
            await tx.execute("INSERT INTO orders VALUES (1, 'tea')")
            server.faults.add(TimeOut(0))
            await tx.execute("SELECT 1")

    with pytest.raises(Unavailable):
        await order()
    assert server.look("SELECT id FROM orders") == []


async def test_it_lasts_five_seconds_at_most(place: Place) -> None:
    q, _ = place
    with pytest.raises(InvalidArgument, match="at most 5"):
        async with q.tx(seconds=6):
            raise AssertionError("refused before it begins")


REFUSED = (
    "DELETE FROM messages",
    'UPDATE "queues" SET name = 1',
    "INSERT INTO [meta] VALUES (1, 2)",
    "WITH a AS (SELECT 1) DELETE FROM Messages",
    "SELECT 1; DELETE FROM orders",
    "CREATE TRIGGER t AFTER INSERT ON orders BEGIN DELETE FROM messages; END",
    "CREATE TABLE mine (seq INTEGER REFERENCES messages(id))",
    "CREATE TEMP TABLE messages2 (id)",
    "DROP TABLE counts",
    "/* read */ DELETE FROM messages",
    "EXPLAIN DELETE FROM messages",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT a",
    "PRAGMA foreign_keys = 0",
    "VACUUM",
    "ATTACH 'x' AS y",
    "DELETE FROM sqlite_sequence",
    "",
)


@pytest.mark.parametrize("sql", REFUSED)
def test_what_is_the_engines_is_out_of_reach(sql: str) -> None:
    with pytest.raises(InvalidArgument, match="refused"):
        check(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM messages",
        "INSERT INTO orders SELECT 1, 'a;b -- c'",
        "UPDATE orders SET what = ? WHERE id = ?;",
        "CREATE TABLE mine (id INTEGER) -- of messages",
        "REPLACE INTO orders VALUES (1, 2)",
    ],
)
def test_what_is_the_callers_is_not(sql: str) -> None:
    check(sql)
