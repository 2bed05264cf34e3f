"""The original broker's recorded answers, replayed against ours: in process, and over a socket.

Each scenario starts on an empty store with a clock of its own; a pause of the recording moves that
clock and runs the passes, so nothing here waits for time to pass. NOT_YET names the scenarios that
need a call which is not served yet: they are played all the same, and must fail.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote_to_bytes

import pytest
import trio

from mqlite_actor.clock import ManualClock
from mqlite_actor.engine.engine import Engine
from mqlite_broker.app import BrokerApp
from mqlite_broker.settings import read_settings
from tests.conformance.handles import opened
from tests.conformance.traces import TOKEN, Answer, Names, Step, compare, scenarios
from tests.services.door_client import open_door

NOT_YET: Final[dict[str, str]] = {}
"""Scenario → what it waits for. It only shrinks."""

SCENARIOS: Final = scenarios()

POLL_MS: Final = 20_000
"""The longest wait of a receive, and so how far the clock goes on beside one."""

TICK_MS: Final = 100

WAITING: Final = b"wait_time_ms"
"""Only beside a request that has this does time pass."""

Ask = Callable[[Step, bytes | None], Awaitable[Answer]]


def headers_of(step: Step) -> dict[str, str]:
    return {name: value.replace("<admin>", TOKEN) for name, value in step.headers.items()}


@asynccontextmanager
async def in_process(app: BrokerApp) -> AsyncIterator[Ask]:
    """The application called as a server calls it, without any socket."""

    async def ask(step: Step, body: bytes | None) -> Answer:
        path, _, query = step.path.partition("?")
        fields = [(name.lower().encode(), text.encode()) for name, text in headers_of(step).items()]
        if body is not None:
            fields.append((b"content-length", str(len(body)).encode()))
        scope: Any = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": step.method,
            "scheme": "http",
            "path": unquote_to_bytes(path).decode(),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(b"host", b"127.0.0.1"), *fields],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 2),
        }
        coming: list[Any] = [{"type": "http.request", "body": body or b"", "more_body": False}]
        going: list[Any] = []

        async def receive() -> Any:  # noqa: ANN401 - an event of the server interface
            if coming:
                return coming.pop(0)
            return await trio.sleep_forever()

        async def send(event: Any) -> None:  # noqa: ANN401 - an event of the server interface
            going.append(event)

        await app(scope, receive, send)
        found = {name.decode().lower(): value.decode() for name, value in going[0]["headers"]}
        content = b"".join(event.get("body", b"") for event in going[1:])
        return Answer(going[0]["status"], found, content)

    yield ask


@asynccontextmanager
async def over_a_socket(app: BrokerApp, *, has_lane: bool) -> AsyncIterator[Ask]:
    """The application behind the broker's door, asked on one kept connection."""
    async with open_door(app, rpc=app.rpc if has_lane else None) as door:
        client = await door.connect()

        async def ask(step: Step, body: bytes | None) -> Answer:
            nonlocal client
            head = [f"{step.method} {step.path} HTTP/1.1", "Host: 127.0.0.1"]
            head += [f"{name}: {value}" for name, value in headers_of(step).items()]
            if body is not None or step.method == "POST":
                head.append(f"Content-Length: {len(body or b'')}")
            text = "\r\n".join([*head, "", ""])
            answer = await client.ask(text.encode() + (body or b""))
            if answer.headers.get("connection") == "close":
                await client.close()
                client = await door.connect()
            return Answer(answer.status, answer.headers, answer.body)

        yield ask
        await client.close()


Way = Callable[[BrokerApp], AbstractAsyncContextManager[Ask]]
WAYS: Final[dict[str, Way]] = {
    "in process": in_process,
    "through the lane": partial(over_a_socket, has_lane=True),
    "through hypercorn": partial(over_a_socket, has_lane=False),
}


async def while_time_passes(
    engine: Engine, clock: ManualClock, asking: Callable[[], Awaitable[Answer]]
) -> Answer:
    """The answer to a receive. While it waits, the clock goes on beside it."""

    async def tick() -> None:
        for _ in range(POLL_MS // TICK_MS):
            while not engine.statistics()["waiters"]:
                await trio.lowlevel.checkpoint()
            clock.advance(TICK_MS)
            await engine.run_maintenance_once()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(tick)
        answer = await asking()
        nursery.cancel_scope.cancel()
    return answer


async def play(steps: list[Step], ask: Ask, engine: Engine, clock: ManualClock) -> str:
    """The first difference from the recording; "" if there is none."""
    names = Names()
    for step in steps:
        if step.wait_ms:
            clock.advance(step.wait_ms)
            await engine.run_maintenance_once()
        body = None if step.body is None else names.written(step.body, clock.now_ms())
        with trio.fail_after(15):
            if body and WAITING in body:
                answer = await while_time_passes(engine, clock, partial(ask, step, body))
            else:
                answer = await ask(step, body)
        problems = compare(step, answer, names)
        if problems:
            return f"step {step.number} {step.method} {step.path}: " + "; ".join(problems)
        clock.advance(1)  # two requests never fell into one millisecond
    return ""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_the_broker_answers_as_recorded(
    store: Path, clock: ManualClock, scenario: str, way: str
) -> None:
    settings = read_settings({"addr": "127.0.0.1:0"}, {"MQLITE_TOKENS": TOKEN})
    async with opened(store, clock) as engine:
        app = BrokerApp(engine, settings)
        async with WAYS[way](app) as ask:
            difference = await play(SCENARIOS[scenario], ask, engine, clock)
    if scenario in NOT_YET:
        assert difference, f"{scenario} passes now: take it out of NOT_YET"
        pytest.skip(f"not yet ({NOT_YET[scenario]}): {difference[:120]}")
    assert not difference


def test_the_recording_is_complete() -> None:
    assert len(SCENARIOS) == 87
    assert sum(map(len, SCENARIOS.values())) == 1129
    assert set(NOT_YET) <= set(SCENARIOS)
