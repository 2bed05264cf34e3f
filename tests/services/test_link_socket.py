"""`mqlite serve --link-socket`: programs beside the HTTP clients, on one queue."""

from __future__ import annotations

import json
import stat
import sys
import threading
from pathlib import Path

import pytest
import trio
import trio.testing

from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import Unavailable
from mqlite_actor.sdk.linked import open_link
from tests.link.peer import short_path
from tests.services.broker_process import (
    BEARER,
    MOMENT_SECONDS,
    START_SECONDS,
    started,
    started_by,
)
from tests.services.broker_scene import path as rpc
from tests.services.broker_scene import raw


def mode(path: str) -> int | None:
    """Who may connect; None when there is nothing."""
    there = Path(path)
    return stat.S_IMODE(there.stat().st_mode) if there.exists() else None


async def test_a_program_and_an_http_client_share_the_queue(tmp_path: Path) -> None:
    with short_path() as path, started(tmp_path, MQLITE_LINK_SOCKET=path) as broker:
        assert broker.url
        assert mode(path) == 0o600
        async with open_link(path) as q:
            await q.create_queue("q")
            body = json.dumps({"queue": "q", "messages": [{"body": "eA=="}]}).encode()
            async with await broker.connect() as client:
                answer = await client.ask(raw(rpc("Send"), body, fields=(BEARER,)))
            assert answer.status == 200
            (message,) = await q.receive("q", wait=5)
            assert message.body == b"x"
            await message.complete()
        broker.stop()
        assert mode(path) is None


async def test_a_broker_without_standard_error_serves_and_logs_into_nothing_of_its_own(
    tmp_path: Path,
) -> None:
    program = ("/bin/sh", "-c", 'exec "$0" "$@" 2>&-', sys.executable, "-m", "mqlite_broker")
    with short_path() as path, started_by(program, tmp_path, MQLITE_LINK_SOCKET=path) as broker:
        with trio.fail_after(START_SECONDS):
            while not mode(path):
                await trio.to_thread.run_sync(threading.Event().wait, MOMENT_SECONDS)
        async with open_link(path) as q:
            await q.create_queue("q")
        assert broker.stop() == []
    assert b"INFO" not in (tmp_path / "mq.db").read_bytes()


async def test_a_stop_answers_the_polls_of_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with short_path() as path, started(tmp_path, "--link-socket", path) as broker:
        assert broker.url
        async with open_link(path) as q:
            await q.create_queue("q")
            async with trio.open_nursery() as nursery:
                answers: list[int] = []

                async def poll() -> None:
                    answers.append(len(await q.receive("q", wait=20)))

                for _ in range(5):
                    nursery.start_soon(poll)
                await trio.testing.wait_all_tasks_blocked()
                await q.stats("q")  # answered after the polls came in
                await trio.to_thread.run_sync(broker.stop)
            assert answers == [0] * 5
            monkeypatch.setattr(limits, "LINK_WAIT_SECONDS", 0.2)  # nobody comes back
            with pytest.raises(Unavailable):
                await q.stats("q")


def test_a_path_that_a_broker_serves_is_refused_to_another(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with short_path() as path, started(tmp_path / "a", "--link-socket", path) as first:
        assert first.url
        with started(tmp_path / "b", "--link-socket", path) as second:
            assert second.ended() == 1
            said = [line for line in second.err.to_the_end() if line.startswith("error:")]
            assert said == [
                f"error: the link socket {path} belongs to a running program; choose another path"
            ]
        first.stop()
