"""Every recorded filter through the whole engine: TestFilter and a publish agree on each.

The filter floor itself is held to the recorded outcomes by tests/filters; here each vector goes
through Subscribe, a real publish and TestFilter of an embedded engine, in which the clock stands at
the instant that the fixtures were recorded for.
"""

from __future__ import annotations

import json
from functools import cache

import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import InvalidFilter
from mqlite_actor.contract.wire import Message
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine
from tests.filters.samples import FIXTURES, NOW_MS, Vector, facts, vectors


@cache
def of(fixture: str) -> list[Vector]:
    return [vector for vector in vectors() if vector.fixture == fixture]


async def published(engine: Engine, sample: Message, expr: str) -> str:
    """What happens to a publish: T arrives, F does not, E does not and is counted; C is refused."""
    request = wire.SubscribeRequest(topic="t", name="s", filter=wire.Filter(expr=expr))
    try:
        await engine.call(request)
    except InvalidFilter:
        return "C"
    failures = dict(engine.statistics()["filter_failures"])
    reply = await engine.call(wire.SendRequest(queue="t", messages=[sample]))
    if engine.statistics()["filter_failures"] != failures:
        assert reply.seq_numbers == [0]
        return "E"
    return "T" if reply.seq_numbers != [0] else "F"


async def tried(engine: Engine, sample: Message, expr: str) -> str:
    """What TestFilter says."""
    found = await engine.call(wire.TestFilterRequest(expr=expr, message=sample))
    if not found.valid:
        assert found.error
        assert not found.ran
        return "C"
    assert found.ran
    if isinstance(found.error, str):
        assert not found.matched
        return "E"
    return "T" if found.matched else "F"


@pytest.mark.promise("E149")
@pytest.mark.parametrize("fixture", FIXTURES)
async def test_a_publish_and_a_try_agree_on_every_vector(fixture: str) -> None:
    sample = facts(fixture).message
    wrong: list[str] = []
    options = EngineOptions(clock=ManualClock(NOW_MS), background=False)
    async with open_engine("file::memory:", options) as engine:
        for vector in of(fixture):
            pair = (
                await published(engine, sample, vector.expr),
                await tried(engine, sample, vector.expr),
            )
            if pair[0] != pair[1]:
                wrong.append(f"{vector.id} {json.dumps(vector.expr)[:100]}: {pair}")
    assert not wrong, "\n".join(wrong)
