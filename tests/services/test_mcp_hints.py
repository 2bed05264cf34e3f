"""A tool whose call can replace what somebody has set says that it destroys: a host that trusts the
hints must not let an agent reset a queue, or take a filter away, unasked."""

from __future__ import annotations

from typing import Any, Final

import pytest
import trio

from mqlite_actor.contract import ext, wire
from mqlite_actor.contract.errors import MqliteError
from mqlite_actor.engine.engine import Engine
from mqlite_actor.engine.opening import run_engine
from mqlite_mcp.tools import TOOLS, Tool
from mqlite_mcp.tools_extended import EXTENDED
from tests.services.test_mcp_schemas import examples

REPLACING: Final = {"create_queue", "update_queue", "subscribe"}
AT_WHAT_IS_THERE: Final[dict[str, Any]] = {
    "queue": "orders", "name": "orders", "topic": "sales", "config": {"ordering_mode": "standard"},
}  # fmt: skip


def given(tool: Tool) -> dict[str, Any]:
    """No more than it requires, and about what is there."""
    wanted = {**examples(tool), **AT_WHAT_IS_THERE}
    if tool.name == "subscribe":
        wanted["name"] = "gold"
    return {name: wanted[name] for name in tool.arguments.required}


async def settings(engine: Engine) -> list[object]:
    """What somebody has set, of every queue and subscription."""
    names = [queue.name for queue in (await engine.call(wire.ListQueuesRequest())).queues]
    found = [await engine.call(ext.DescribeQueueRequest(name)) for name in names]
    heard = await engine.call(wire.ListSubscriptionsRequest())
    return [*(each.config for each in found), heard]


@pytest.mark.parametrize("tool", TOOLS + EXTENDED, ids=lambda tool: tool.name)
async def test_what_replaces_settings_says_so(tool: Tool) -> None:
    config = wire.QueueConfig(ordering_mode="group_fifo", dedup_window_ms=3_600_000)
    async with trio.open_nursery() as nursery:
        engine = await nursery.start(run_engine, ":memory:", None)
        await engine.call(wire.CreateQueueRequest("orders", config))
        await engine.call(wire.SubscribeRequest("sales", "gold", wire.Filter('subject == "x"')))
        before = await settings(engine)
        try:
            await engine.call(tool.request_of(tool.check(given(tool))))
        except MqliteError:
            assert tool.name not in REPLACING  # a lease or a number that there is not
        is_replaced = await settings(engine) != before
        engine.close()
    assert is_replaced is (tool.name in REPLACING)
    assert tool.hints.destructive_hint or not is_replaced
