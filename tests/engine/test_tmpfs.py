"""On a real disk that is full, to its last page and not by its own count: clear errors, settlements
still get a chance, and work goes on by itself when there is room.

Mounting a small file system takes root's rights; without them these tests are skipped.
tests/engine/test_small_disk.py shows the same, and more, on a file system that only counts.
"""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import OutcomeUnknown, StorageFailed, StorageFull
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine
from tests.conformance.audit import audit_file
from tests.engine.gate import bodies, completing, create, sending, taking

SIZE_MIB = 15
BODY = bytes(20_000)
COMMAND_SECONDS = 10


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MIB}m", "mqlite-test", str(place)]
    try:
        done = subprocess.run(mount, capture_output=True, check=False, timeout=COMMAND_SECONDS)
    except FileNotFoundError:
        pytest.skip("there is no mount")
    if done.returncode:
        pytest.skip(f"no rights to mount a small disk: {done.stderr.decode().strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True, timeout=COMMAND_SECONDS)


@pytest.fixture(params=["NORMAL", "FULL"])
async def engine(
    request: pytest.FixtureRequest, disk: Path, clock: ManualClock
) -> AsyncIterator[Engine]:
    options = EngineOptions(clock=clock, background=False, synchronous=request.param)
    async with open_engine(str(disk / "mq.db"), options) as each:
        await create(each, "q")
        yield each
    assert not audit_file(disk / "mq.db")


async def fill(engine: Engine) -> int:
    """Send until it is refused; how many were stored."""
    for number in range(10 * SIZE_MIB * limits.MIB // len(BODY)):
        try:
            await engine.call(sending("q", BODY))
        except StorageFull:
            return number
    raise AssertionError("the disk is larger than it is")


def stuff(path: Path) -> None:
    """Take the disk's last byte."""
    with path.open("wb", buffering=0) as file:
        for size in (limits.MIB, 4_096, 1):
            try:
                while file.write(bytes(size)) == size:
                    pass
            except OSError:
                continue


@pytest.mark.promise("E158")
async def test_a_full_disk_is_worked_off_and_takes_messages_again(engine: Engine) -> None:
    stored = await fill(engine)
    assert stored > 20
    for _ in range(stored):
        (message,) = (await engine.call(taking("q"))).messages
        await engine.call(completing("q", message))
    assert await bodies(engine, "q") == []
    assert await fill(engine) > 10, "there is room again, without a restart"


@pytest.mark.promise("E158")
async def test_a_disk_without_a_byte_refuses_truly_and_goes_on_when_there_is_one(
    engine: Engine, disk: Path
) -> None:
    for number in range(5):
        await engine.call(sending("q", b"%d" % number))
    held = (await engine.call(taking("q", 2))).messages
    stuff(disk / "foreign")
    unknown: list[bytes] = []
    refused: list[bytes] = []
    for number in range(40):
        body = b"%d " % number + BODY
        try:
            await engine.call(sending("q", body))
        except OutcomeUnknown:
            unknown.append(body)
        except (StorageFull, StorageFailed):
            refused.append(body)
    assert refused
    for message in held:
        try:
            await engine.call(completing("q", message))
        except (StorageFull, StorageFailed, OutcomeUnknown):
            continue
    assert [await engine.call(wire.StatsRequest(queue="q"))], "looking goes on"
    (disk / "foreign").unlink()
    for message in held:  # again: done by its receipt, or now
        await engine.call(completing("q", message))
    await engine.call(sending("q", b"after"))
    there = await bodies(engine, "q")
    assert not set(there) & set(refused)
    assert [body for body in there if body not in unknown and len(body) < 10] == [
        b"2", b"3", b"4", b"after"
    ]  # fmt: skip
