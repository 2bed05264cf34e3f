"""A look from outside: what it says of the file, and what it cannot know.

tests/sdk/test_reader.py has a reader beside an owner in another process.
"""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import InvalidArgument, OpenError, Unsupported
from mqlite_actor.contract.observe import ObserveRequest
from mqlite_actor.engine import commands
from mqlite_actor.engine.engine import Engine
from mqlite_actor.engine.outside import Outside
from mqlite_actor.storage.connection import connect_outsider
from mqlite_actor.storage.outside import TRIES
from tests.engine.gate import create

TOOK_MS = 5000


@pytest.fixture
async def outside(engine: Engine, store: Path, clock: ManualClock) -> Outside:
    await create(engine, "q")
    return Outside(f"file:{store}", clock)


async def test_status_is_of_the_file_and_knows_nothing_of_the_engine(
    outside: Outside, clock: ManualClock
) -> None:
    count = outside._table[commands.CountEntities]

    def slow(tx: object, request: object, now_ms: int) -> object:
        clock.advance(TOOK_MS)
        return count(tx, request, now_ms)  # type: ignore[arg-type]  # as it was given

    outside._table[commands.CountEntities] = slow
    clock.advance(1)
    status = outside.call(wire.StatusRequest())
    assert (status.backend, status.remote, status.auth) == ("local file", False, False)
    assert (status.queues, status.uptime_ms, status.ping_ms) == (1, 0, TOOK_MS)


async def test_what_was_never_seen_has_no_time_at_which_it_was(
    outside: Outside, store: Path, clock: ManualClock
) -> None:
    aside = [
        file.rename(file.with_name(f"aside {file.name}"))
        for suffix in ("", "-wal", "-shm")
        for file in [store.with_name(store.name + suffix)]
    ]
    seen = outside.call(ObserveRequest())
    assert (seen.collection.state, seen.collection.last_success_at_ms) == ("unavailable", 0)
    assert not seen.runtime.db_size_available
    assert not seen.runtime.read_available
    for file in aside:
        file.rename(file.with_name(file.name.removeprefix("aside ")))
    seen = outside.call(ObserveRequest())
    assert seen.collection.last_success_at_ms == clock.now_ms()
    assert seen.runtime.db_size_available
    assert seen.runtime.read_available


async def test_it_answers_looks_and_nothing_else(outside: Outside) -> None:
    assert outside.call(wire.StatsRequest(queue="q")).active == 0
    with pytest.raises(Unsupported, match="a reader only looks"):
        outside.call(wire.PurgeRequest(queue="q"))


async def test_a_request_that_is_no_request_is_refused_by_name(outside: Outside) -> None:
    with pytest.raises(InvalidArgument, match="queue"):
        outside.call(wire.StatsRequest(queue=5))  # type: ignore[arg-type]  # as programs do


@pytest.mark.parametrize("failures", [1, TRIES - 1, TRIES])
async def test_an_index_that_is_just_being_written_is_read_once_more(
    outside: Outside, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    """SQLite calls it a log to be recovered: the writer was amid it, and is gone a moment later."""
    left = failures

    def connect_later(path: str) -> apsw.Connection:
        nonlocal left
        if left:
            left -= 1
            raise apsw.ReadOnlyError("attempt to write a readonly database")
        return connect_outsider(path)

    monkeypatch.setattr("mqlite_actor.storage.outside.connect_outsider", connect_later)
    if failures < TRIES:
        assert outside.call(wire.StatsRequest("q")).total == 0
    else:
        with pytest.raises(OpenError, match="has to be recovered"):
            outside.call(wire.StatsRequest("q"))
