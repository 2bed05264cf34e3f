"""A broker process on a real disk that is small: a tmpfs of its own, in a namespace of its own.

Needs `unshare` and the right to use it (any user on most systems); elsewhere the tests of
tests/engine/test_small_disk.py hold the same rules on a simulated disk.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import StorageFull
from mqlite_actor.sdk.address import parse_endpoint
from mqlite_actor.sdk.http_sync import HttpSyncClient
from tests.services.broker_process import SERVE, TOKEN, BrokerProcess, started_by

SIZE = limits.RESERVE_BYTES + 7 * limits.MIB
BODY = bytes(30_000)

MOUNTED = f'mount -t tmpfs -o size={SIZE} tmpfs "$0" && exec "$@"'
ALONE = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", MOUNTED)

Full = tuple[BrokerProcess, HttpSyncClient, Path]


def can_mount(folder: Path) -> bool:
    if shutil.which("unshare") is None:
        return False
    return (
        subprocess.run([*ALONE, folder, "true"], check=False, capture_output=True).returncode == 0
    )


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Full]:
    """A broker on the small disk, a client of it, and the disk as seen from here."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if not can_mount(disk):
        pytest.skip("this system lets nobody mount a small disk")
    program = (*ALONE, str(disk), *SERVE)
    with started_by(program, tmp_path, MQLITE_DB=f"file:{disk}/mq.db") as broker:
        with HttpSyncClient(parse_endpoint(broker.url), token=TOKEN) as client:
            client.call(wire.CreateQueueRequest(name="q"))
            seen = Path(f"/proc/{broker.process.pid}/root{disk}")
            yield broker, client, seen
        lines = broker.stop()
    assert not [line for line in lines if "Traceback" in line], "\n".join(lines)


def fill(client: HttpSyncClient) -> int:
    """Send until it is refused; how many were stored."""
    number = 0
    while True:
        try:
            client.call(wire.SendRequest(queue="q", messages=[wire.Message(body=BODY)]))
        except StorageFull:
            return number
        number += 1


def drain(client: HttpSyncClient) -> int:
    """Take and complete everything; how many there were."""
    number = 0
    while found := client.call(wire.ReceiveRequest(queue="q", max_messages=20)).messages:
        for message in found:
            client.call(wire.CompleteRequest("q", message.seq_number, message.lock_token))
        number += len(found)
    return number


@pytest.mark.promise("E158")
def test_a_broker_that_filled_its_disk_is_worked_off_and_goes_on(full: Full) -> None:
    broker, client, _ = full
    for _ in range(3):
        sent = fill(client)
        assert sent > 10
        assert drain(client) == sent
    client.call(wire.SendRequest(queue="q", messages=[wire.Message(body=b"after")]))
    lines = [line for line in broker.err.so_far() if "nearly full" in line]
    assert len(lines) <= 4, "\n".join(lines)


def test_a_disk_that_others_filled_is_left_without_a_restart(full: Full) -> None:
    broker, client, disk = full
    client.call(wire.SendRequest(queue="q", messages=[wire.Message(body=b"held")]))
    held = client.call(wire.ReceiveRequest(queue="q")).messages[0]
    other = disk / "other"
    with pytest.raises(OSError, match="space"):
        other.write_bytes(bytes(2 * SIZE))
    for _ in range(20):
        with pytest.raises(StorageFull):
            client.call(wire.SendRequest(queue="q", messages=[wire.Message(body=BODY)]))
    assert client.call(wire.StatsRequest(queue="q")).locked == 1
    other.unlink()
    client.call(wire.SendRequest(queue="q", messages=[wire.Message(body=BODY)]))
    assert client.call(wire.CompleteRequest("q", held.seq_number, held.lock_token)).ok
    assert client.call(wire.StatsRequest(queue="q")).total == 1
    lines = [line for line in broker.err.so_far() if "full" in line and "status=" not in line]
    assert len(lines) <= 2, "\n".join(lines)  # besides the log of requests
