"""A broker whose writer is held goes on showing what there is, and goes on checking keys."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio

from mqlite_actor.clock import ManualClock
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine
from mqlite_actor.sdk.embedded import Embedded
from tests.engine.gate import Gate, bounded, empty_caches, parked
from tests.services.broker_scene import BEARER, Fields, Scene, failure, path, raw, served
from tests.services.credentials import mint
from tests.storage.fault_vfs import Fault, faulty

LOOKS = {
    "QueueService/Peek": {"queue": "q"},
    "QueueService/Stats": {"queue": "q"},
    "AdminService/ListQueues": {},
    "AdminService/ListSubscriptions": {},
    "AdminService/Status": {},
    "AdminService/Observe": {},
    "AuthService/ListKeys": {},
}


@pytest.fixture
async def furnished(engine: Engine) -> Engine:
    q = Embedded(engine)
    await q.create_queue("q")
    await q.send_one("q", b"body")
    return engine


async def test_every_look_with_a_managed_key_is_answered_while_the_writer_stands(
    furnished: Engine, nursery: trio.Nursery
) -> None:
    async with served(furnished, MQLITE_METRICS="on") as scene:
        key = await mint(scene, "manage")
        stop = await Gate(furnished, nursery).stop()
        groups = furnished.statistics()["groups"]
        with bounded():
            for call, request in LOOKS.items():
                answer = await scene.call(call, request, fields=key.fields)
                assert answer.status == 200, (call, answer)
            scrape = await scene.ask("/metrics", method="GET", fields=key.fields)
        assert scrape.status == 200
        assert furnished.statistics()["groups"] == groups, "no check of a key, no look cost a group"
        assert furnished.statistics()["mailbox_commands"] == 0
        stop.release()


async def test_a_transaction_of_the_program_holds_up_no_look(furnished: Engine) -> None:
    async with served(furnished) as scene:
        key = await mint(scene, "manage")
        begun, is_seen = trio.Event(), trio.Event()

        async def hold() -> None:
            async with Embedded(furnished).tx() as tx:
                await tx.send_one("q", b"not yet")
                begun.set()
                await is_seen.wait()

        with bounded():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(hold)
                await begun.wait()
                for call, request in LOOKS.items():
                    assert (await scene.call(call, request, fields=key.fields)).status == 200
                is_seen.set()
        assert (await scene.ok("QueueService/Stats", {"queue": "q"}))["active"] == 2


async def test_a_store_that_cannot_be_read_refuses_keys_with_500_until_it_can(
    store: Path, clock: ManualClock
) -> None:
    with faulty() as vfs:
        async with (
            open_engine(f"file:{store}", EngineOptions(clock=clock, background=False)) as engine,
            served(engine) as scene,
        ):
            await scene.ok("AdminService/CreateQueue", {"name": "q"})
            key = await mint(scene, "listen")
            assert await status(scene, key.fields) == 200
            empty_caches(engine)
            vfs.arm(Fault("read", 1, lasting=True))
            for _ in range(3):
                answer = await scene.call("QueueService/Stats", {"queue": "q"}, fields=key.fields)
                assert failure(answer) == (500, "internal")
            assert (await scene.call("AdminService/Observe", fields=(BEARER,))).status == 200
            vfs.disarm()
            assert await status(scene, key.fields) == 200


async def test_waiting_receives_are_shown_by_queue_and_only_while_they_wait(
    furnished: Engine,
) -> None:
    async with served(furnished, MQLITE_METRICS="on") as scene:
        await scene.ok("AdminService/CreateQueue", {"name": "idle"})
        assert await waiting(scene) == {"idle": 0, "q": 0}
        async with await scene.connect() as client:
            body = json.dumps({"queue": "idle", "wait_time_ms": 20_000}).encode()
            await client.send(raw(path("Receive"), body))
            await parked(furnished, "idle", 1)
            assert await waiting(scene) == {"idle": 1, "q": 0}
            await scene.ok("QueueService/Send", {"queue": "idle", "messages": [{}]})
            assert (await client.answer("POST")).status == 200
        assert await waiting(scene) == {"idle": 0, "q": 0}


async def status(scene: Scene, fields: Fields) -> int:
    return (await scene.call("QueueService/Stats", {"queue": "q"}, fields=fields)).status


async def waiting(scene: Scene) -> dict[str, int]:
    """Waiting receives by queue, as Observe and /metrics show them."""
    seen = {
        row["queue"]: row["count"]
        for row in (await scene.ok("AdminService/Observe"))["receive_waiters"]
    }
    text = (await scene.ask("/metrics", method="GET")).body.decode()
    for queue, number in seen.items():
        assert f'mqlite_receive_waiters{{queue="{queue}"}} {float(number)}\n' in text
    return seen
