"""The system prompt of docs/agents.md can be followed: its tools, its arguments, its ends.

An agent with the key that the page makes does what the prompt says, step by step, over MCP against
a real broker; what the prompt forbids, the key forbids as well.
"""

from __future__ import annotations

import re
import secrets
from pathlib import Path
from typing import Final

from mqlite_actor import connect
from mqlite_actor.contract.keys import CreateKeyRequest
from mqlite_mcp.tools import TOOLS
from tests.conformance.broker import ROOT, Broker
from tests.services.mcp_process import agent, lease

PAGE: Final = ROOT / "docs" / "agents.md"
CASES: Final = ("refund", "printer is out of paper", "threat", "too late")


def prompt() -> str:
    found = re.search(r"^```text\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert found
    return found[1]


def number(text: str, name: str) -> int:
    """The number that the prompt gives to an argument."""
    (found,) = re.findall(rf"\b{name} (\d+)", text)
    return int(found)


def test_the_prompt_names_tools_that_there_are() -> None:
    names = {tool.name for tool in TOOLS}
    forbidden = re.findall(r"\w+", prompt().partition("Never call ")[2])
    assert {"purge", "redrive", "create_queue", "create_key", "revoke_key"} <= names
    assert set(forbidden) - {"or"} <= names
    assert {"receive", "renew", "complete", "abandon", "reject"} <= names


async def test_the_prompt_is_followed_to_its_end(broker: Broker, tmp_path: Path) -> None:
    queue, text = f"support-{secrets.token_hex(4)}", prompt()
    async with connect(broker.url, token=broker.token) as q:
        await q.create_queue(queue)
        await q.send(queue, list(CASES))
        key = await q.call(
            CreateKeyRequest(id=secrets.token_hex(16), name="agent", permissions=["listen"])
        )
        take = {
            "queue": queue,
            "max_messages": number(text, "max_messages"),
            "wait_time_ms": number(text, "wait_time_ms"),
        }
        async with agent(tmp_path, MQLITE_ENDPOINT=broker.url, MQLITE_TOKEN=key.token) as it:
            held = {}
            for _ in CASES:
                (message,) = (await it.ok("receive", **take))["messages"]
                held[message["body_text"]] = lease(queue, message)
            refund, printer, threat, late = (held[case] for case in CASES)
            await it.ok("renew", **refund)
            await it.ok("complete", **refund)
            await it.ok("abandon", **printer, delay_ms=number(text, "delay_ms"))
            await it.ok("reject", **threat, reason="A person has to decide.")
            await it.ok("complete", **late)
            refused = await it.refused("renew", **late)
            assert refused["code"] == "lock_lost"
            assert (await it.ok("receive", **{**take, "wait_time_ms": 1}))["messages"] == []
            for tool, arguments in (
                ("purge", {"queue": queue}),
                ("redrive", {"queue": queue}),
                ("create_queue", {"name": queue}),
                ("revoke_key", {"id": key.key.id}),
            ):
                assert (await it.refused(tool, **arguments))["code"] == "permission_denied"
        left = await q.stats(queue)
        assert (left.total, left.dead_lettered, left.scheduled + left.active) == (2, 1, 1)
