"""A reader beside an owner: it sees what is committed, changes nothing, and says what is wrong.

The owner is another process with a real engine; the reader is asked through both of its faces.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

import mqlite_actor as mq
from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import (
    Closed,
    InvalidArgument,
    OpenError,
    SchemaVersionMismatch,
    StorageFailed,
    Unavailable,
    Unsupported,
)
from mqlite_actor.contract.observe import ObserveRequest, ObserveResponse
from mqlite_actor.engine.outside import Outside
from mqlite_actor.engine.readers import READS
from tests.conformance.broker import BOUND_SECONDS
from tests.engine.test_readers import ENDLESS
from tests.storage import foreign
from tests.storage.owner import Owner, owning
from tests.storage.writer import snapshot


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mq.db"


@pytest.fixture
def owner(path: Path) -> Iterator[Owner]:
    with owning(path) as each:
        yield each


def dsn(path: Path) -> str:
    return f"file:{path}"


# -- what it shows ---------------------------------------------------------------------------------


def test_a_reader_sees_every_commit_of_the_owner_and_nothing_before_it(
    path: Path, owner: Owner
) -> None:
    with mq.open_reader_sync(dsn(path)) as q:
        assert q.peek("q") == []
        for number in range(1, 6):
            owner.send("q", "x", times=3000)
            assert q.stats("q").active == number
            assert [message.seq_number for message in q.peek("q")] == [*range(1, number + 1)]
        owner.tell("checkpoint")
        owner.tell("vacuum")
        assert len(q.peek("q")) == 5
        owner.tell("create other")
        assert [queue.name for queue in q.list_queues()] == ["other", "q"]
        assert q.list_subscriptions() == []
        assert q.list_keys().keys == []


async def test_the_async_face_shows_the_same(path: Path, owner: Owner) -> None:
    owner.send("q", "body", number=3)
    async with mq.open_reader(dsn(path)) as q:
        assert (await q.stats("q")).active == 3
        assert [message.body for message in await q.peek("q", max_messages=2)] == [b"body"] * 2
        found = await q.search("q", filter='body_text == "body"', newest_first=True)
        assert [each.message.seq_number for each in found] == [3, 2, 1]
        assert await q.search("q", filter="body_size > 4") == []
        with pytest.raises(mq.QueueNotFound):
            await q.peek("nowhere")
        status = await q.status()
        assert (status.queues, status.subscriptions, status.remote) == (1, 0, False)
        assert status.location == str(path)
        assert (status.uptime_ms, status.schema_version) == (0, "5")


def test_the_async_face_works_under_asyncio(path: Path, owner: Owner) -> None:
    async def main() -> tuple[int, ObserveResponse]:
        async with mq.open_reader(dsn(path)) as q:
            owner.send("q", "body")
            counts = await asyncio.gather(*[q.stats("q") for _ in range(limits.READERS_MAX * 3)])
            return sum(each.active for each in counts), await q.observe()

    number, seen = asyncio.run(main())
    assert number == limits.READERS_MAX * 3
    assert seen.queue_count == 1


def test_observe_shows_what_the_file_tells_and_null_for_the_rest(path: Path, owner: Owner) -> None:
    owner.send("q", "body", number=2)
    with mq.open_reader_sync(dsn(path)) as q:
        seen = q.observe()
    assert seen.queues is not None
    assert [(row.queue, row.active) for row in seen.queues] == [("q", 2)]
    assert (seen.collection.state, seen.access, seen.backend) == ("available", "reader", "local")
    runtime = seen.runtime
    assert runtime.read_available
    assert runtime.db_size_available
    assert runtime.wal_bytes
    assert runtime.free_bytes is not None
    assert runtime.disk_free_bytes
    assert seen.started_at_ms is None
    assert seen.mailbox_depth is None
    assert seen.receive_waiters is None
    assert seen.process is None
    assert (seen.messages, seen.maintenance, seen.filters) == ([], [], [])
    assert seen.storage.operations == []
    assert seen.http.state == "not_applicable"


def test_observe_of_a_file_that_cannot_be_read_any_more_has_no_queues(
    path: Path, owner: Owner
) -> None:
    with mq.open_reader_sync(dsn(path)) as q:
        assert q.observe().queues is not None
        owner.end()
        seen = q.observe()
    assert (seen.queues, seen.queue_count, seen.collection.state) == (None, 0, "unavailable")
    assert seen.collection.error_code
    assert seen.collection.last_success_at_ms
    assert not seen.runtime.read_available
    assert seen.runtime.free_bytes is None


async def test_a_reader_in_the_process_of_the_engine_is_one_as_well(path: Path) -> None:
    async with mq.open_embedded(dsn(path)) as engine, mq.open_reader(dsn(path)) as q:
        await engine.create_queue("q")
        for number in range(1, 20):
            await engine.send_one("q", bytes(2000))
            assert (await q.stats("q")).active == number
    assert sorted(snapshot(path.parent)) == ["mq.db", "mq.db.lock"]


# -- what it leaves alone --------------------------------------------------------------------------


def test_a_reader_changes_no_byte_and_no_file(path: Path, owner: Owner) -> None:
    owner.send("q", "x", times=5000, number=10)
    before = snapshot(path.parent)
    with mq.open_reader_sync(dsn(path)) as q:
        for _ in range(3):
            q.peek("q", max_messages=1000)
            q.observe()
            q.status()
            q.list_queues()
        assert snapshot(path.parent) == before
    assert snapshot(path.parent) == before


def test_an_open_reader_holds_nothing_between_two_calls(path: Path, owner: Owner) -> None:
    with mq.open_reader_sync(dsn(path)) as q:
        q.peek("q")
        owner.send("q", "x", times=50_000, number=100)
        log = path.with_name("mq.db-wal")
        until = time.monotonic() + BOUND_SECONDS
        while log.stat().st_size and time.monotonic() < until:
            owner.tell("checkpoint")  # the owner's own checkpointer may be at it
        assert not log.stat().st_size, "nobody else held the log"
        owner.end()
        assert sorted(snapshot(path.parent)) == ["mq.db", "mq.db.lock"], "the owner left tidily"
        with owning(path) as next_owner:
            next_owner.send("q", "again")
            assert q.stats("q").active == 101


@pytest.mark.parametrize(
    "request_",
    [
        wire.SendRequest(queue="q", messages=[wire.Message()]),
        wire.ReceiveRequest(queue="q"),
        wire.CreateQueueRequest(name="new"),
        wire.PurgeRequest(queue="q"),
        wire.CompleteRequest(queue="q", seq_number=1, lock_token="00"),
    ],
    ids=lambda request: type(request).__name__,
)
async def test_whatever_would_change_something_is_unsupported(
    path: Path, owner: Owner, request_: wire.Request[Any]
) -> None:
    async with mq.open_reader(dsn(path)) as q:
        with pytest.raises(Unsupported, match="a reader only looks"):
            await q.call(request_)
        with pytest.raises(Unsupported):
            await q.send_one("q", b"no")
    assert owner.process.poll() is None


async def test_every_call_of_the_contract_that_only_looks_is_answered(
    path: Path, owner: Owner
) -> None:
    assert owner.process.poll() is None
    outside = Outside(dsn(path))
    for kind in READS:
        if issubclass(kind, wire.Request):
            named = {each: "q" for each in ("queue", "name") if each in kind.__struct_fields__}
            outside.call(kind(**named))
    outside.call(wire.StatusRequest())
    outside.call(ObserveRequest())


# -- what is in the way ----------------------------------------------------------------------------


def refused(path: Path | str) -> tuple[type[BaseException], str]:
    """How opening a reader is refused, and that it changed nothing."""
    folder = path.parent if isinstance(path, Path) else None
    before = snapshot(folder) if folder else None
    with pytest.raises(mq.MqliteError) as caught, mq.open_reader_sync(f"file:{path}"):
        pass
    assert folder is None or snapshot(folder) == before
    return type(caught.value), caught.value.message


def test_a_file_that_does_not_exist_is_not_made(path: Path) -> None:
    kind, message = refused(path)
    assert (kind, "does not exist" in message) == (OpenError, True)


def test_a_file_that_nobody_has_open_is_said_to_be_so(path: Path, owner: Owner) -> None:
    owner.end()
    kind, message = refused(path)
    assert kind is OpenError
    assert "no program has" in message
    assert "open_embedded" in message


def test_a_log_without_its_index_is_not_recovered(path: Path, owner: Owner) -> None:
    owner.send("q", "body")
    owner.kill()
    path.with_name("mq.db-shm").unlink()
    kind, message = refused(path)
    assert kind is OpenError
    assert "recovered" in message


def test_what_a_killed_owner_committed_is_shown_and_left_to_the_next_one(
    path: Path, owner: Owner
) -> None:
    owner.send("q", "body", number=3)
    owner.kill()
    before = snapshot(path.parent)
    with mq.open_reader_sync(dsn(path)) as q:
        assert q.stats("q").active == 3
        assert snapshot(path.parent) == before
    with owning(path) as next_owner:
        next_owner.send("q", "after")


def test_a_file_that_was_replaced_is_refused_until_it_is_back(path: Path, owner: Owner) -> None:
    with mq.open_reader_sync(dsn(path)) as q:
        q.stats("q")
        away = path.rename(path.with_name("away.db"))
        with pytest.raises(OpenError):
            q.stats("q")
        shutil.copyfile(away, path)
        with pytest.raises(StorageFailed, match="moved, deleted or replaced"):
            q.stats("q")
        path.unlink()
        away.rename(path)
        assert q.stats("q").active == 0
    assert owner.process.poll() is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_of_somebody_else_is_named_unreadable(path: Path, owner: Owner) -> None:
    path.chmod(0)
    kind, message = refused(path)
    assert (kind, "not readable" in message) == (OpenError, True)
    assert owner.process.poll() is None


@pytest.mark.parametrize("maker", ["another format number", "a text", "a table dropped"])
def test_a_file_that_is_not_ours_is_refused(path: Path, maker: str) -> None:
    foreign.MAKERS[maker](path)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).touch()
    kind, _ = refused(path)
    assert issubclass(kind, OpenError)


def test_a_live_database_of_another_program_is_refused(path: Path) -> None:
    holder = foreign.start_holder(path, foreign.WAL, *foreign.BUSINESS)
    try:
        kind, message = refused(path)
    finally:
        foreign.stop(holder)
    assert (kind, "holds no queue" in message) == (SchemaVersionMismatch, True)


@pytest.mark.parametrize("text", [":memory:", "file::memory:", ""])
def test_memory_has_no_readers(text: str) -> None:
    with pytest.raises(InvalidArgument, match="memory"), mq.open_reader_sync(text):
        pass


def test_a_remote_store_has_no_readers() -> None:
    with pytest.raises(Unsupported), mq.open_reader_sync("libsql://example.org"):
        pass


async def test_after_its_block_a_reader_is_closed(path: Path, owner: Owner) -> None:
    assert owner.process.poll() is None
    async with mq.open_reader(dsn(path)) as q:
        pass
    with pytest.raises(Closed):
        await q.stats("q")
    with mq.open_reader_sync(dsn(path)) as s:
        pass
    with pytest.raises(Closed):
        s.stats("q")


async def test_a_look_that_is_cancelled_or_takes_too_long_is_stopped(
    path: Path, owner: Owner
) -> None:
    assert owner.process.poll() is None
    clock = ManualClock()
    outside = Outside(dsn(path), clock)
    entered = trio.Event()
    token = trio.lowlevel.current_trio_token()

    def endless(tx: Any, _request: object, _now_ms: int) -> object:  # noqa: ANN401  # any of ours
        token.run_sync_soon(entered.set)
        return tx.run([(ENDLESS, ())])

    outside._table[wire.StatsRequest] = endless
    q = mq.Reader(outside)
    with trio.fail_after(15), trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(q.stats, "q")
            await entered.wait()
            scope.cancel()
    assert scope.cancelled_caught

    def slow(tx: Any, _request: object, _now_ms: int) -> object:  # noqa: ANN401  # any of ours
        clock.advance(round(limits.READ_SECONDS * 1000) + 1)
        return tx.run([("SELECT 1", ())])

    outside._table[wire.StatsRequest] = slow
    with pytest.raises(Unavailable, match="took longer"):
        await q.stats("q")


def test_a_look_while_its_owner_comes_and_goes_is_an_answer_or_a_typed_error(path: Path) -> None:
    told: set[str] = set()
    with owning(path) as first:
        first.send("q", "body", number=10)
        with mq.open_reader_sync(dsn(path)) as q:
            is_over = threading.Event()

            def look() -> None:
                while not is_over.is_set():
                    try:
                        told.add(str(q.stats("q").active))
                    except (OpenError, Unavailable) as error:
                        told.add(type(error).__name__)

            looking = threading.Thread(target=look)
            looking.start()
            first.end()
            for _ in range(2):
                with owning(path) as owner:
                    owner.end()
            is_over.set()
            looking.join(15)
    assert told <= {"10", "OpenError", "Unavailable"}
    assert "10" in told
    with owning(path) as last:
        last.send("q", "body")
