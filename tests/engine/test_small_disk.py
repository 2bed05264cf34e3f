"""A queue that fills its disk stops taking messages before the disk is full, so that whoever works
it off or purges it still can; and it takes messages again by itself when there is room."""

from __future__ import annotations

import logging
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import trio

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import StorageFull, WorldError
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine
from mqlite_actor.engine.outbox import UserTransaction
from tests.conformance.audit import audit_file
from tests.engine.gate import bounded, completing, create, sending, settled, taking
from tests.storage.quota_vfs import SmallDisk, small_disk

SIZE = limits.RESERVE_BYTES + 2 * limits.MIB
BODY = bytes(20_000)
SMALL = bytes(500)
TOO_MUCH = [bytes(limits.MIB)] * 4
"""For log and file together more than the whole disk."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Holds nothing but the store."""
    place = tmp_path / "disk"
    place.mkdir()
    return place


@pytest.fixture
def disk(folder: Path) -> Iterator[SmallDisk]:
    with small_disk(folder, SIZE) as each:
        yield each


@pytest.fixture(params=["NORMAL", "FULL"])
async def engine(
    request: pytest.FixtureRequest, disk: SmallDisk, folder: Path, clock: ManualClock
) -> AsyncIterator[Engine]:
    options = EngineOptions(clock=clock, background=False, synchronous=request.param)
    async with open_engine(str(folder / "mq.db"), options) as each:
        await create(each, "q")
        yield each
        disk.grow(SIZE)
    assert not audit_file(folder / "mq.db")


async def fill(engine: Engine, body: bytes) -> int:
    """Send until it is refused; how many were stored."""
    number = 0
    while True:
        try:
            await engine.call(sending("q", body))
        except StorageFull:
            return number
        number += 1


async def until_sent(engine: Engine, body: bytes) -> None:
    """Send as soon as it is taken."""
    with bounded():
        while True:
            try:
                await engine.call(sending("q", body))
            except StorageFull:
                await settled()
            else:
                return


async def drained(engine: Engine) -> int:
    """Take and complete everything; how many there were."""
    number = 0
    while True:
        found = (await engine.call(taking("q", 10))).messages
        for message in found:
            await engine.call(completing("q", message))
        if not found:
            return number
        number += len(found)


@pytest.mark.promise("E158")
@pytest.mark.parametrize("body", [BODY, SMALL], ids=["large", "small"])
async def test_a_full_queue_can_be_worked_off_and_then_takes_messages_again(
    engine: Engine, disk: SmallDisk, body: bytes
) -> None:
    sent = await fill(engine, body)
    assert sent > 20
    assert await drained(engine) == sent
    assert disk.refusals == 0, "the disk itself was never full"
    await until_sent(engine, body)


async def test_dead_letters_can_be_purged_from_a_full_disk(engine: Engine, disk: SmallDisk) -> None:
    sent = await fill(engine, BODY)
    while found := (await engine.call(taking("q", 200))).messages:
        for message in found:
            await engine.call(
                wire.RejectRequest("q", message.seq_number, message.lock_token, "full disk")
            )
    purged = await engine.call(wire.PurgeRequest(queue="q"))
    assert purged.purged == sent
    assert disk.refusals == 0
    await until_sent(engine, BODY)


async def test_a_send_that_fits_is_taken_where_a_larger_one_is_refused(engine: Engine) -> None:
    await engine.call(sending("q", b"first"))
    with pytest.raises(StorageFull, match="kept for settlements"):
        await engine.call(sending("q", *TOO_MUCH))
    await engine.call(sending("q", SMALL))


async def test_room_made_by_others_is_noticed_by_the_next_send(
    engine: Engine, disk: SmallDisk, folder: Path
) -> None:
    other = folder / "other"
    other.write_bytes(bytes(SIZE - limits.MIB))
    with pytest.raises(StorageFull):
        await engine.call(sending("q", BODY))
    other.unlink()
    await engine.call(sending("q", BODY))
    assert disk.refusals == 0


async def test_a_nearly_full_disk_is_one_line_in_the_log_and_its_end_another(
    engine: Engine, disk: SmallDisk, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "mqlite"):
        for _ in range(3):
            await fill(engine, BODY)
        message = (await engine.call(taking("q"))).messages[0]
        await engine.call(completing("q", message))
        disk.grow(SIZE)
        await engine.call(sending("q", BODY))
    texts = [record.getMessage() for record in caplog.records]
    first, *_, last = texts
    assert "nearly full" in first
    assert "room on the disk again" in last
    refusals = [text for text in texts if "nearly full" in text]
    assert len(refusals) <= 1 + len([text for text in texts if "again" in text])


async def test_room_for_plenty_is_told_in_the_log_as_well(
    engine: Engine, disk: SmallDisk, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "mqlite"):
        await fill(engine, BODY)
        disk.grow(100 * limits.MIB)
        await engine.call(sending("q", BODY))
    first, last = [record.getMessage() for record in caplog.records]
    assert "nearly full" in first
    assert "room on the disk again" in last


async def test_what_waits_in_one_group_is_served_without_its_sends(engine: Engine) -> None:
    await engine.call(sending("q", b"held"))
    held = (await engine.call(taking("q"))).messages[0]
    await fill(engine, BODY)
    refused: list[StorageFull] = []

    async def send() -> None:
        with pytest.raises(StorageFull) as caught:
            await engine.call(sending("q", *TOO_MUCH))
        refused.append(caught.value)

    with bounded():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            nursery.start_soon(engine.call, completing("q", held))
            nursery.start_soon(send)
    assert len({id(error) for error in refused}) == 2, "an error for each caller"


async def test_a_send_inside_a_transaction_is_refused_too_and_the_rest_of_it_stands(
    engine: Engine,
) -> None:
    await engine.call(sending("q", b"held"))
    held = (await engine.call(taking("q"))).messages[0]
    await fill(engine, BODY)

    def work(tx: UserTransaction) -> None:
        with pytest.raises(StorageFull):
            tx.call(sending("q", *TOO_MUCH))
        tx.call(completing("q", held))

    await engine.run_tx(work)
    assert (await engine.call(wire.StatsRequest(queue="q"))).locked == 0


async def test_a_folder_that_is_gone_is_an_answer_and_not_the_end_of_the_engine(
    folder: Path, clock: ManualClock
) -> None:
    async with open_engine(str(folder / "mq.db"), EngineOptions(clock=clock)) as engine:
        await create(engine, "q")
        shutil.rmtree(folder)
        for _ in range(2):
            with pytest.raises(WorldError):
                await engine.call(sending("q", BODY))


async def test_memory_has_no_disk_to_fill(clock: ManualClock) -> None:
    async with open_engine(":memory:", EngineOptions(clock=clock, background=False)) as engine:
        await create(engine, "q")
        await engine.call(sending("q", BODY))
        assert not engine._store.room.is_short
