"""A program at the link is killed in each phase of a claim; a broker is killed under its programs.

What the dead program had not seen goes back at once and uncounted, what it may have seen stays
under its lease, and what it was told is done, is done.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import OutcomeUnknown, Unavailable
from mqlite_actor.engine.engine import Engine
from mqlite_actor.sdk.linked import open_link
from tests.conformance.audit import audit_file
from tests.conformance.handles import served_links
from tests.crash import link_worker
from tests.engine.gate import bodies, create, sending, take, until
from tests.link.peer import short_path
from tests.services.broker_process import started
from tests.services.cli_process import clean_environ
from tests.warm.process import Popen

EXPECTED = {
    # phase: messages left for others with their delivery counts, bodies still locked
    "waiting": ([1, 1], []),
    "unconfirmed": ([1, 1], []),
    "held": ([], [b"a", b"b"]),
    "settled": ([], [b"b"]),
    "amid": ([1, 1], []),
}


@contextmanager
def standing(path: str, phase: str) -> Iterator[subprocess.Popen[str]]:
    """A program that has reached its place; killed at the end."""
    process = Popen[str](
        [sys.executable, "-m", "tests.crash.link_worker", path, phase],
        stdout=subprocess.PIPE,
        text=True,
        env=clean_environ({}),
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


async def reached(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert await trio.to_thread.run_sync(process.stdout.readline) == "here\n"


@pytest.mark.parametrize("phase", link_worker.PHASES)
async def test_a_killed_program_leaves_what_its_phase_says(engine: Engine, phase: str) -> None:
    await create(engine, "q", "empty")
    await engine.call(sending("q", b"a", b"b"))
    counts, locked = EXPECTED[phase]
    with short_path() as path:
        async with served_links(engine, path):
            with standing(path, phase) as process:
                await reached(process)
                process.kill()
                process.wait()
                async with open_link(path) as q:  # links are ended in order of their end
                    await until(lambda: engine.statistics()["waiters"] == {})
                    await q.stats("q")
        # The socket is closed now, so the dead program's link has ended too.
    taken = await take(engine, "q", 2)
    assert [message.delivery_count for message in taken] == counts
    left = {message.body for message in taken}
    assert [body for body in await bodies(engine, "q", "locked") if body not in left] == locked


async def test_a_broker_killed_under_its_programs_keeps_what_it_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[bytes] = []
    doubtful: list[bytes] = []
    with short_path() as path:
        options = ("--link-socket", path)
        with started(tmp_path, *options) as broker:
            assert broker.url
            async with open_link(path) as q:
                await q.create_queue("q")
                enough = trio.Event()

                async def produce(name: int) -> None:
                    for number in range(10_000):
                        body = b"%d.%d" % (name, number)
                        try:
                            await q.send_one("q", body)
                        except OutcomeUnknown:
                            doubtful.append(body)
                            return
                        except Unavailable:
                            return
                        sent.append(body)
                        if len(sent) > 200:
                            enough.set()

                with monkeypatch.context() as patience:
                    async with trio.open_nursery() as nursery:
                        for name in range(8):
                            nursery.start_soon(produce, name)
                        await enough.wait()
                        patience.setattr(limits, "LINK_WAIT_SECONDS", 0.2)  # nobody is back yet
                        broker.process.kill()
                        broker.process.wait()
                with started(tmp_path, *options) as again:
                    assert again.url, "the socket that the dead one left is taken over"
                    stored: set[bytes] = set()
                    while batch := await q.receive("q", max_messages=256):
                        stored |= {message.body for message in batch}
                        await q.complete_batch(batch)
                    again.stop()
    assert set(sent) <= stored <= {*sent, *doubtful}
    assert not audit_file(tmp_path / "mq.db")
