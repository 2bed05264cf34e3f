"""Whatever fills a disk up to where it is refused, the store can be worked off and opened after it.

One file on a small disk, and no checkpoints beside it: each kind of command that writes goes on
until it gets no more room; then messages are taken, completed and purged, the store is closed and
opened, and sends are taken again. `tests/engine/test_small_disk.py` has an engine around it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from outcome import Error

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import ext, limits, wire
from mqlite_actor.contract.errors import StorageFull
from mqlite_actor.engine import admission, commands
from mqlite_actor.engine.chores import Chores
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine
from mqlite_actor.engine.outbox import UserTransaction
from tests.engine.gate import bounded, completing, create, sending, taking, teach
from tests.storage.quota_vfs import SmallDisk, small_disk
from tests.storage.writer import Writer, writing

SIZE = limits.RESERVE_BYTES + 3 * limits.MIB
BODY = bytes(20_000)
ROUNDS_MAX = 20_000
LEASE_MS = 30_000
RECEIPTS_MS = 3_600_000
"""After that nobody can ask for a receipt any more."""

PASSES = (
    commands.Reap(), commands.Activate(), commands.Expire(),
    commands.PruneReceipts(), commands.PruneDuplicates(),
)  # fmt: skip


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """Holds nothing but the store."""
    with small_disk(tmp_path, SIZE) as each:
        yield each


@pytest.fixture
def writer(disk: SmallDisk, tmp_path: Path) -> Iterator[Writer]:
    with writing(tmp_path / "mq.db") as each:
        each.create("q", wire.QueueConfig(lock_duration_ms=LEASE_MS, max_delivery_count=1_000_000))
        yield each
        disk.grow(SIZE)
        each.check()


def is_full(writer: Writer, request: object) -> bool:
    """Run it; whether it was refused for want of room. Any other error is raised."""
    (outcome,) = writer.group(request)
    if isinstance(outcome, Error) and isinstance(outcome.error, StorageFull):
        return True
    outcome.unwrap()
    return False


def fill(writer: Writer, queue: str = "q", body: bytes = BODY) -> int:
    """Send until it is refused; how many were stored."""
    for number in range(ROUNDS_MAX):
        if is_full(writer, sending(queue, body)):
            return number
    raise AssertionError("the disk has no end")


def done(writer: Writer, command: object) -> Any:  # noqa: ANN401  # as the table pairs them
    """A command of the engine's own; its reply, or its error raised."""
    return writer.group(command)[0].unwrap()


def swept(writer: Writer) -> None:
    """Every pass, to its end."""
    for command in PASSES:
        while done(writer, command).found >= command.limit:
            continue


def worked_off(writer: Writer, queue: str = "q") -> int:
    """Take and complete one by one what is there; how many there were."""
    writer.clock.advance(LEASE_MS + 1)
    swept(writer)  # the leases
    number = 0
    while found := writer.take(queue):
        writer.ask(completing(queue, found[0]))
        number += 1
    return number


# -- what writes, until it is refused --------------------------------------------------------------


def named_receives(writer: Writer) -> bool:
    """What each attempt got is written down."""
    for number in range(ROUNDS_MAX):
        request = wire.ReceiveRequest("q", 100, receive_attempt_id=f"attempt {number}")
        if is_full(writer, request):
            return True
        if not writer.bodies("q", "active"):
            return False
    return False


def publishes(writer: Writer) -> bool:
    """A message is stored once for each subscription."""
    for number in range(20):
        writer.ask(wire.SubscribeRequest(topic="t", name=f"s{number}"))
    return any(is_full(writer, sending("t", BODY)) for _ in range(ROUNDS_MAX))


def abandons(writer: Writer) -> bool:
    """Each leaves a receipt, and its message."""
    for _ in range(ROUNDS_MAX):
        requests = [
            wire.AbandonRequest("q", each.seq_number, each.lock_token)
            for each in writer.take("q", 200)
        ]
        for outcome in writer.group(*requests):
            if isinstance(outcome, Error):
                assert isinstance(outcome.error, StorageFull)
                return True
    return False


def rows_of_a_program(writer: Writer) -> bool:
    """What else shares the file."""
    for _ in range(ROUNDS_MAX):
        tx = UserTransaction(writer.store, writer.table, writer.clock, 60)
        try:
            tx.execute("CREATE TABLE IF NOT EXISTS mine (body BLOB)")
            tx.execute("INSERT INTO mine VALUES (?)", (BODY,))
            tx.commit()
        except StorageFull:
            return True
        finally:
            tx.roll_back()
    return False


def resubmits(writer: Writer) -> bool:
    """A dead letter comes back with a longer body."""
    for message in writer.take("q", 100):
        writer.ask(wire.RejectRequest("q", message.seq_number, message.lock_token, "broken"))
        patch = ext.MessagePatch(body=bytes(limits.MIB))
        if is_full(writer, ext.ResubmitRequest("q", message.seq_number, message=patch)):
            return True
    return False


@pytest.mark.promise("E158")
@pytest.mark.parametrize(
    "write", [named_receives, publishes, abandons, rows_of_a_program, resubmits]
)
def test_what_is_refused_for_want_of_room_leaves_room_to_work_off(
    writer: Writer, disk: SmallDisk, tmp_path: Path, write: Callable[[Writer], bool]
) -> None:
    few = [sending("q", *[b"few"] * 200)]
    stored = sum(not is_full(writer, each) for each in few) + fill(writer)
    assert stored > 20
    was_refused = write(writer)
    assert was_refused or write is named_receives, "a page that is short fits the rest"
    writer.store.close()
    with writing(tmp_path / "mq.db", clock=writer.clock) as again:
        for queue in ("q", *(f"s{number}" for number in range(20) if write is publishes)):
            worked_off(again, queue)
            assert again.bodies(queue) == [] or write is resubmits
        assert disk.refusals == 0, "the disk itself was never full"
        again.clock.advance(RECEIPTS_MS)
        swept(again)
        while done(again, commands.Reclaim(limits.RECLAIM_PAGES)):
            done(again, commands.TruncateLog())
        again.send("q", BODY)
    writer.store.reopen()


@pytest.mark.promise("E158")
def test_slices_that_free_space_fit_into_what_is_kept_for_them(
    writer: Writer, disk: SmallDisk
) -> None:
    """Rows of several queues lie between each other: each row of a slice is on its own page."""
    queues = ["a", "b", "c", "d"]
    for queue in queues:
        writer.create(queue, wire.QueueConfig(default_ttl_ms=1_000_000))
    while not all(is_full(writer, sending(queue, bytes(900))) for queue in queues):
        continue
    held = writer.take("a", 256)
    batch = wire.CompleteBatchRequest(
        "a", [wire.SettleItem(each.seq_number, each.lock_token) for each in held]
    )
    assert not any(not each.ok for each in writer.ask(batch).results)
    writer.clock.advance(1_000_001)
    swept(writer)
    assert [writer.bodies(queue, "active") for queue in queues] == [[]] * 4
    for queue in queues:
        last = done(writer, commands.LastDeadLetter(queue))
        after = 0
        while after < last:
            chunk = commands.PurgeChunk(queue, after, last, limits.INT64_MAX, limits.CHORE_ROWS)
            _, after = done(writer, chunk)
        assert writer.bodies(queue) == []
    assert disk.refusals == 0
    writer.send("a", BODY)


@pytest.mark.promise("E158")
def test_a_file_that_was_worked_off_takes_messages_into_its_free_pages(writer: Writer) -> None:
    stored = fill(writer)
    assert worked_off(writer) == stored
    assert writer.store.free_pages() > stored
    assert fill(writer) >= stored * 0.9


def test_a_disk_that_was_made_larger_is_seen_by_a_transaction_at_once(
    writer: Writer, disk: SmallDisk
) -> None:
    disk.grow(20 * limits.MIB)
    writer.store.room.look()
    assert not writer.store.room.is_near
    disk.grow(100 * limits.MIB)
    tx = UserTransaction(writer.store, writer.table, writer.clock, 60)
    tx.execute("CREATE TABLE mine (body BLOB)")
    tx.execute("INSERT INTO mine VALUES (?)", (bytes(30 * limits.MIB),))
    tx.commit()


def test_a_disk_that_was_made_larger_is_seen_by_a_send_whose_log_is_another_program_s(
    writer: Writer, disk: SmallDisk
) -> None:
    writer.store.leaves_log = True
    disk.grow(20 * limits.MIB)
    writer.store.room.look()
    assert not writer.store.room.is_near
    disk.grow(100 * limits.MIB)
    writer.send("q", *[bytes(limits.MIB)] * 20)


def test_what_is_kept_from_a_command_depends_on_what_it_frees() -> None:
    kinds = (
        sending("q"), wire.AbandonRequest("q", 1, "t"), taking("q"),
        wire.CompleteRequest("q", 1, "t"),
    )  # fmt: skip
    parts = [admission.kept(each) for each in kinds]
    assert parts == sorted(parts, reverse=True)
    assert len(set(parts)) == len(parts)
    assert all(0 < part <= admission.WHOLE for part in parts)


# -- where there is no room even for the log of a whole slice --------------------------------------

FITS = 20


@pytest.fixture
async def engine(tmp_path: Path, clock: ManualClock) -> Any:  # noqa: ANN401  # pytest's generator
    async with open_engine(
        str(tmp_path / "mq.db"), EngineOptions(clock=clock, background=False)
    ) as each:
        await create(each, "q")
        yield each


def only_few(engine: Engine, kind: type[Any], fits: int = FITS) -> list[int]:
    """Let this command fail for more rows than that; the limits that were tried."""
    tried: list[int] = []
    operation = engine._table[kind]

    def run(tx: Any, command: Any, now_ms: int) -> object:  # noqa: ANN401  # as in the table
        tried.append(command.limit)
        if command.limit > fits:
            raise StorageFull("no room for so many")
        return operation(tx, command, now_ms)

    teach(engine, kind, run)
    return tried


async def test_a_slice_that_finds_no_room_is_tried_smaller(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.call(sending("q", *[b"x"] * 50))
    with bounded():
        await engine.call(taking("q", 50))
        clock.advance(3_600_000)
        tried = only_few(engine, commands.Reap)
        await engine.run_maintenance_once()
    assert (await engine.call(wire.StatsRequest(queue="q"))).locked == 0
    assert min(tried) <= FITS < max(tried)


async def test_a_chunk_that_finds_no_room_is_tried_smaller(engine: Engine) -> None:
    await engine.call(sending("q", *[b"x"] * 50))
    for message in (await engine.call(taking("q", 50))).messages:
        await engine.call(wire.RejectRequest("q", message.seq_number, message.lock_token, "broken"))
    tried = only_few(engine, commands.PurgeChunk)
    with bounded():
        assert (await engine.call(wire.PurgeRequest(queue="q"))).purged == 50
    assert min(tried) <= FITS < max(tried)


async def bury(engine: Engine, number: int) -> list[int]:
    """Make so many dead letters; their numbers."""
    await engine.call(sending("q", *[b"x"] * number))
    held = (await engine.call(taking("q", number))).messages
    for message in held:
        await engine.call(wire.RejectRequest("q", message.seq_number, message.lock_token, "broken"))
    return [message.seq_number for message in held]


@pytest.mark.parametrize("most", [2, 8, 30])
async def test_a_chunk_goes_on_row_by_row_where_there_is_room_for_one(
    engine: Engine, most: int
) -> None:
    await bury(engine, 30)
    tried = only_few(engine, commands.PurgeChunk, fits=1)
    with bounded():
        assert (await engine.call(wire.PurgeRequest(queue="q", max=most))).purged == most
    assert tried.count(1) == most


@pytest.mark.parametrize(
    ("kind", "asked"),
    [
        (commands.PurgeChunk, lambda _: wire.PurgeRequest(queue="q")),
        (commands.RedriveChunk, lambda _: wire.RedriveRequest(queue="q")),
        (commands.RedriveSelectedChunk, lambda seqs: ext.RedriveSelectedRequest("q", seqs)),
    ],
)
async def test_a_chunk_that_finds_no_room_for_a_single_row_is_refused(
    engine: Engine, kind: type[Any], asked: Callable[[list[int]], Any]
) -> None:
    numbers = await bury(engine, 3)

    def fail(_tx: object, _request: object, _now_ms: int) -> object:
        raise StorageFull("no room at all")

    teach(engine, kind, fail)
    with bounded(), pytest.raises(StorageFull, match="no room at all"):
        await engine.call(asked(numbers))


async def test_free_pages_are_given_back_in_steps_for_which_there_is_room(
    clock: ManualClock,
) -> None:
    """And after the log of the last one, which may be in the way of any, was cut."""
    left = 1000
    asked: list[int] = []
    is_cut = True

    async def submit(command: Any) -> object:  # noqa: ANN401  # any of three
        nonlocal left, is_cut
        if isinstance(command, commands.Reclaim):
            asked.append(command.limit)
            had_room, is_cut = is_cut, False
            if command.limit > FITS or not had_room:
                raise StorageFull("no room for so many")
            left = max(0, left - command.limit)
        is_cut = is_cut or isinstance(command, commands.TruncateLog)
        return True if isinstance(command, commands.TruncateLog) else left

    with bounded():
        assert await Chores(submit, clock).reclaim() == 1000
    assert min(asked) <= FITS
