"""Engines on remote databases for the conformance suite: real tursodb, real sqld, somebody's own.

Called by `handles.py`. Each test has an empty store: tursodb starts anew with a file of the test's
own; sqld, which all tests of a worker share, and the database that MQLITE_TEST_DB names (with
MQLITE_TEST_DB_AUTH_TOKEN) are emptied of what the queue keeps in them. When the engine is closed,
the store passes the audit.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Final

import trio

from mqlite_actor.clock import Clock
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine
from mqlite_actor.sdk.address import parse_store
from mqlite_actor.storage import hrana_opening, hrana_wire, schema
from mqlite_actor.storage.database import Row, Statement
from mqlite_actor.storage.hrana_http import Link
from mqlite_actor.storage.hrana_stream import Stream
from mqlite_actor.storage.hrana_wire import Step
from tests.conformance.audit import audit
from tests.hrana.tursodb import running_tursodb

LIVE: Final = os.environ.get("MQLITE_TEST_DB", "")
TOKEN: Final = os.environ.get("MQLITE_TEST_DB_AUTH_TOKEN", "")


@asynccontextmanager
async def remote_engine(folder: Path, clock: Clock) -> AsyncIterator[Engine]:
    """An engine on a tursodb of its own."""
    await trio.Path(folder).mkdir(exist_ok=True)
    with running_tursodb(folder) as server:
        options = EngineOptions(clock=clock, background=False)
        async with open_engine(server.url, options) as engine:
            yield engine
        problems = list(audit(read_remotely(server.url)))
    assert not problems, "\n".join(problems)


@asynccontextmanager
async def engine_on(
    address: str, clock: Clock, begun: Path, token: str = ""
) -> AsyncIterator[Engine]:
    """An engine on a database that others had before; the first of a test, which leaves the file
    `begun`, empties it of what the queue keeps in it."""
    mark = trio.Path(begun)
    store = parse_store(address)
    token = token or store.token
    hrana_opening.open_remote(store.dsn, auth_token=token).close()  # its tables are there now
    read = read_remotely(store.dsn, token)
    if not await mark.exists():
        for name in schema.columns():
            if name != "meta":
                read((f"DELETE FROM {name}", ()))
        read(("INSERT INTO counters (name, value) VALUES ('seq', 0)", ()))
        await mark.touch()
    options = EngineOptions(clock=clock, background=False, auth_token=token)
    async with open_engine(store.dsn, options) as engine:
        yield engine
    problems = list(audit(read))
    assert not problems, "\n".join(problems)


def read_remotely(url: str, token: str = "") -> Callable[[Statement], list[Row]]:
    """Rows of one statement, asked past the engine."""

    @cache
    def is_shared() -> bool:
        link = Link(url, token)
        try:
            stream = Stream(link)
            hrana_opening.probe(link, stream)
            return stream.is_shared
        finally:
            link.close()

    def read(statement: Statement) -> list[Row]:
        link = Link(url, token)
        try:
            stream = Stream(link)
            stream.is_shared = is_shared()
            sql, arguments = statement
            reply = stream.steps([Step(sql, arguments)])
            assert reply.batch is not None, reply.failure
            assert reply.batch.step_errors[0] is None, reply.batch.step_errors
            return hrana_wire.rows(reply.batch.step_results[0])
        finally:
            link.close()

    return read
