"""A SendResult may carry its id as a header, through either door (ruling R46)."""

from __future__ import annotations

import json

import pytest

from mqlite_actor.engine.engine import Engine
from mqlite_broker.rpc import UNHEEDED_KEY
from tests.services.broker_scene import BEARER, Scene, failure, served
from tests.services.door_client import Answer

PATH = "/mqlite.ext.v1.QueueService/SendResult"


async def send(scene: Scene, key: str, request_id: str = "") -> Answer:
    """One message, with the id in the header, in the body, or in both."""
    body = {"queue": "q", "messages": [{"body": "aGk="}]}
    if request_id:
        body["request_id"] = request_id
    fields = (BEARER, f"Idempotency-Key: {key}") if key else (BEARER,)
    return await scene.ask(PATH, json.dumps(body).encode(), fields=fields)


@pytest.mark.parametrize("lane", ["on", "off"])
async def test_a_repeated_key_gets_the_first_answer_and_stores_nothing(
    engine: Engine, lane: str
) -> None:
    async with served(engine, MQLITE_LANE=lane) as scene:
        await scene.ok("AdminService/CreateQueue", {"name": "q"})
        first = await send(scene, "order-1")
        again = await send(scene, "order-1")
        in_the_body = await send(scene, "", "order-1")
        other = await send(scene, "order-2")
        assert first.status == 200
        assert first.body == again.body == in_the_body.body != other.body
        stats = await scene.ok("QueueService/Stats", {"queue": "q"})
        assert stats["total"] == 2


async def test_a_send_of_the_contract_takes_no_notice_and_the_log_says_so_once(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(engine) as scene:
        await scene.ok("AdminService/CreateQueue", {"name": "q"})
        numbers = []
        for _ in range(2):
            fields = (BEARER, "Idempotency-Key: order-1")
            body = b'{"queue":"q","messages":[{"body":"aGk="}]}'
            answer = await scene.ask("/mqlite.v1.QueueService/Send", body, fields=fields)
            numbers += json.loads(answer.body)["seq_numbers"]
        assert numbers == [1, 2]
    assert caplog.messages.count(UNHEEDED_KEY) == 1


@pytest.mark.parametrize("lane", ["on", "off"])
async def test_two_ids_that_differ_are_refused(engine: Engine, lane: str) -> None:
    async with served(engine, MQLITE_LANE=lane) as scene:
        await scene.ok("AdminService/CreateQueue", {"name": "q"})
        assert failure(await send(scene, "a", "b")) == (400, "invalid_argument")
        assert (await send(scene, "a", "a")).status == 200
