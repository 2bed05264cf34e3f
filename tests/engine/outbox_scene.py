"""A program that keeps orders beside its queue: what the tests of transactions share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import apsw

from mqlite_actor.engine.engine import Engine
from mqlite_actor.sdk.embedded import Embedded
from mqlite_actor.sdk.message import ReceivedMessage
from mqlite_actor.sdk.transaction import SyncTx, Tx
from tests.engine.gate import Call, bodies, bounded

ORDERS = "CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT NOT NULL) STRICT"
READ_LAYOUT = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name"
ORDER = "INSERT INTO orders (id, item) VALUES (?, ?)"


async def shop(engine: Engine) -> Embedded:
    """A handle on a store with a queue and a table of its own."""
    handle = Embedded(engine)
    await handle.create_queue("q")
    async with handle.tx() as tx:
        await tx.execute(ORDERS)
    return handle


async def numbered_shop(engine: Engine) -> Embedded:
    """A shop that also numbers some rows, so that SQLite's own table of numbers is in use."""
    q = await shop(engine)
    async with q.tx() as tx:
        await tx.execute("CREATE TABLE numbered (id INTEGER PRIMARY KEY AUTOINCREMENT)")
    return q


def look(store: Path, sql: str) -> list[tuple[Any, ...]]:
    """What another connection reads."""
    connection = apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


async def orders(q: Embedded) -> list[int]:
    """Numbers of the program's own rows."""
    async with q.tx() as tx:
        return [number for (number,) in await tx.execute("SELECT id FROM orders ORDER BY id")]


async def nothing_is_there(q: Embedded) -> None:
    """No row, no message, and the writer serves everybody."""
    assert await orders(q) == []
    assert await bodies(q.engine, "q") == []
    async with q.tx() as tx:
        await tx.execute(ORDER, (99, "after"))
        await tx.send_one("q", b"after")
    assert await orders(q) == [99]
    assert await bodies(q.engine, "q") == [b"after"]


async def held(q: Embedded, body: bytes = b"held") -> ReceivedMessage:
    """A message under a lease."""
    await q.send_one("q", body)
    return (await q.receive("q"))[0]


class Undo(Exception):
    """What a test raises to make a transaction roll back."""


async def undo(q: Embedded, *steps: Callable[[Tx], Awaitable[object]]) -> None:
    """Take these steps in a transaction that then fails; raises Undo."""
    async with q.tx() as tx:
        for step in steps:
            await step(tx)
        raise Undo


async def ended(call: Call) -> None:
    """The call has its answer."""
    with bounded():
        await call.ended.wait()


async def write(tx: Tx) -> None:
    """A row and a message."""
    await tx.execute(ORDER, (1, "tea"))
    await tx.send_one("q", b"one")


def write_sync(tx: SyncTx) -> None:
    """The same in the storage thread."""
    tx.execute(ORDER, (1, "tea"))
    tx.send_one("q", b"one")


async def is_done(q: Embedded) -> bool:
    """Whether the row and the message are there; never one of them alone."""
    found = (await orders(q), await bodies(q.engine, "q"))
    assert found in (([], []), ([1], [b"one"]))
    return found != ([], [])
