"""/readyz: open to anybody, `ready` while work may be sent here, and else a reason that names
nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator

import apsw
import pytest
import trio
import trio.testing

from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import MqliteError
from mqlite_actor.engine.engine import Engine
from tests.engine.gate import Gate, settled, teach
from tests.services.broker_scene import JSON, Scene, failure, message, served


@pytest.fixture
async def scene(engine: Engine) -> AsyncIterator[Scene]:
    async with served(engine) as scene:
        yield scene


async def unready(scene: Scene) -> str:
    """Why it is not ready."""
    answer = await scene.ask("/readyz", method="GET", fields=())
    assert failure(answer) == (503, "unavailable")
    assert answer.headers["retry-after"] == "1"
    assert "mq.db" not in message(answer)
    return message(answer)


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "DELETE"])
async def test_a_broker_that_works_is_ready_for_anybody_by_any_method(
    scene: Scene, method: str
) -> None:
    answer = await scene.ask("/readyz", method=method, fields=())
    assert (answer.status, answer.body) == (200, b"" if method == "HEAD" else b"ready")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"


async def test_only_this_path_is_open(scene: Scene) -> None:
    for target in ("/readyz/", "/readyzz", "/Readyz"):
        assert (await scene.ask(target, method="GET", fields=())).status == 401


async def test_it_is_no_call_and_needs_no_writer(
    scene: Scene, engine: Engine, nursery: trio.Nursery
) -> None:
    stop = await Gate(engine, nursery).stop()
    assert (await scene.ask("/readyz", method="GET", fields=())).status == 200
    stop.release()
    http = (await scene.ok("AdminService/Observe"))["http"]
    assert sum(row["count"] for row in http["requests"]) == 0


async def test_a_stuck_writer_storage_in_doubt_and_an_end_are_told_apart(
    scene: Scene,
    engine: Engine,
    nursery: trio.Nursery,
    mock_clock: trio.testing.MockClock,
) -> None:
    stop = await Gate(engine, nursery).stop()
    mock_clock.jump(limits.WRITER_STUCK_SECONDS + 1)
    assert await unready(scene) == "not ready: the writer has been busy for over 10 s"
    assert (await scene.ask("/healthz", method="GET", fields=())).status == 200
    stop.release()
    await settled()
    await scene.ok("AdminService/CreateQueue", {"name": "q"})

    def fail(_tx: object, _request: object, _now_ms: int) -> object:
        raise apsw.IOError

    teach(engine, wire.StatsRequest, fail)
    with pytest.raises(MqliteError):
        await engine.call(wire.StatsRequest(queue="q"))
    assert await unready(scene) == "not ready: the storage is in doubt"
    await scene.ok("AdminService/ListQueues")
    assert (await scene.ask("/readyz", method="GET", fields=())).body == b"ready"
    engine.close()
    assert await unready(scene) == "not ready: it is closing"


async def test_a_page_of_the_monitoring_kind_is_json_with_cors_like_every_failure(
    engine: Engine,
) -> None:
    async with served(engine, MQLITE_CORS="https://a.example") as scene:
        engine.stop_waiting()
        answer = await scene.ask("/readyz", method="GET", fields=())
    assert answer.headers["content-type"] == JSON
    assert answer.headers["access-control-allow-origin"] == "https://a.example"
