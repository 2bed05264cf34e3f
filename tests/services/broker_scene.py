"""The broker's application on a real engine and a real door in this process, for exact questions.

Used by the test_broker_* suites that look at bytes; those that look at the program (its exit code,
its output, its signals) use broker_process. The client is the raw one of door_client, so that
nothing between the test and the answer tidies anything up.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from mqlite_actor.contract.calls import EXT, PREFIX
from mqlite_actor.engine.engine import Engine
from mqlite_broker.app import BrokerApp
from mqlite_broker.door import DoorLimits, Ingress
from mqlite_broker.settings import Settings, read_settings
from tests.services.door_client import Answer, Client, RunningDoor, open_door

TOKEN = "scene-token"
BEARER = f"Authorization: Bearer {TOKEN}"
JSON = "application/json"
LOOPBACK: Mapping[str, str | bool] = {"addr": "127.0.0.1:0"}

Fields = Sequence[str | bytes]
"""Header lines without their line ends."""


OUR_OWN: Mapping[str, str] = {call.name: call.path for call in EXT}


def path(call: str) -> str:
    """`Stats` or `AdminService/Status` → the full path of that call, the contract's or ours."""
    name = call if "/" in call else f"QueueService/{call}"
    return OUR_OWN.get(name, PREFIX + name)


def raw(
    target: str | bytes,
    body: bytes = b"",
    *,
    method: str = "POST",
    fields: Fields = (BEARER,),
    host: str | None = "127.0.0.1",
) -> bytes:
    """One HTTP/1.1 request, byte for byte; `host` None leaves the field out."""
    target = target.encode() if isinstance(target, str) else target
    named = [] if host is None else [f"Host: {host}"]
    length = [f"Content-Length: {len(body)}"] if body or method in ("POST", "PUT", "PATCH") else []
    lines = [
        each.encode() if isinstance(each, str) else each for each in [*named, *fields, *length]
    ]
    return b"\r\n".join([b"%s %s HTTP/1.1" % (method.encode(), target), *lines, b"", body])


@dataclass(frozen=True)
class Scene:
    """A served engine."""

    door: RunningDoor
    engine: Engine
    settings: Settings

    @property
    def port(self) -> int:
        return self.door.address[1]

    async def connect(self) -> Client:
        return await self.door.connect()

    async def ask(
        self,
        target: str | bytes,
        body: bytes = b"",
        *,
        method: str = "POST",
        fields: Fields = (BEARER,),
        host: str | None = "127.0.0.1",
    ) -> Answer:
        """One request on a connection of its own."""
        async with await self.connect() as client:
            await client.send(raw(target, body, method=method, fields=fields, host=host))
            return await client.answer(method)

    async def call(
        self, call: str, request: object = None, *, fields: Fields = (BEARER,)
    ) -> Answer:
        """One call of the contract with a JSON body."""
        return await self.ask(path(call), json.dumps(request or {}).encode(), fields=fields)

    async def ok(self, call: str, request: object = None) -> Any:  # noqa: ANN401  # decoded JSON
        """What a call that must succeed answers."""
        answer = await self.call(call, request)
        assert answer.status == 200, answer
        return json.loads(answer.body)


@asynccontextmanager
async def served(
    engine: Engine,
    flags: Mapping[str, str | bool] = LOOPBACK,
    limits: DoorLimits | None = None,
    ingress: Ingress | None = None,
    /,
    **environ: str,
) -> AsyncIterator[Scene]:
    """Serve `engine` as `mqlite serve` would with these variables; TOKEN unless they say else."""
    settings = read_settings(flags, {"MQLITE_TOKENS": TOKEN, **environ})
    app = BrokerApp(engine, settings)
    rpc = app.rpc if settings.has_lane else None
    async with open_door(app, limits, ingress=ingress, rpc=rpc) as door:
        yield Scene(door, engine, settings)


def failure(answer: Answer) -> tuple[int, str]:
    """Status and code of an answer, after its envelope was checked."""
    envelope = json.loads(answer.body)
    assert list(envelope) == ["code", "message"], answer
    assert all(isinstance(text, str) and text for text in envelope.values()), answer
    assert (
        answer.body
        == json.dumps(envelope, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
    )
    assert answer.headers["content-type"] == JSON
    return answer.status, str(envelope["code"])


def message(answer: Answer) -> str:
    """The words of a failure."""
    return str(json.loads(answer.body)["message"])
