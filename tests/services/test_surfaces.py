"""Every surface shows the same numbers: SDK, command line, MCP, `top` and /metrics (design 12, R9).

One broker with messages in every state, then nothing moves any more. Each surface is asked in its
own way, and what it says is brought to one form, the samples of an exposition (`samples_of`), so
that the comparison is value by value. Left out is only what a look changes or time does: ages,
clocks, durations, sizes of the process, and the rows that count the looks themselves. What the
console shows is compared where its browser is: tests/console/test_overview.py, test_observe.py.
"""

from __future__ import annotations

import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import trio
from prometheus_client.parser import text_string_to_metric_families

from mqlite_actor import SyncHandle, connect_sync
from mqlite_actor.contract.observe import ObserveRequest
from tests.engine.snapshots import STATES, Document
from tests.services.broker_process import TOKEN, started
from tests.services.cli_process import BOUND_SECONDS, Shell
from tests.services.exposition import Samples, samples_of
from tests.services.mcp_process import agent

STEADY = frozenset({
    "mqlite_entities", "mqlite_queue_messages", "mqlite_queue_retained_messages",
    "mqlite_queue_unexpected_messages", "mqlite_queue_total", "mqlite_message_events_total",
    "mqlite_messages_completed_total", "mqlite_filter_failures_total", "mqlite_receive_waiters",
    "mqlite_maintenance_enabled", "mqlite_maintenance_consecutive_failures", "mqlite_info",
    "mqlite_storage_read_available", "mqlite_collection_status",
})  # fmt: skip
"""Families whose samples do not change while nobody sends or receives."""

CALLS = "mqlite_rpc_requests_total"
LOOKS = ("rpc", "AdminService/Observe")


def steady(samples: Samples) -> Samples:
    """The samples that two looks, one after the other, must agree on."""
    return {
        (name, labels): number
        for (name, labels), number in samples.items()
        if name in STEADY or (name == CALLS and LOOKS not in labels)
    }


def fill(handle: SyncHandle) -> None:
    """Messages in every state, a subscription, duplicates, a refusal."""
    handle.create_queue("orders", dedup_window=60)
    handle.subscribe("news", "all")
    for _ in range(2):
        handle.send_one("orders", b"once", message_id="one")
    handle.send("orders", [b"%d" % number for number in range(9)])
    handle.send_one("orders", b"later", at=datetime.now(UTC) + timedelta(hours=1))
    taken = handle.receive("orders", max_messages=5)
    taken[0].complete()
    taken[1].reject("bad", "no such table")
    taken[2].defer()
    taken[3].abandon()
    handle.send_one("news", b"hello")


def by_sdk(handle: SyncHandle) -> Document:
    document: Document = msgspec.to_builtins(handle.call(ObserveRequest()))
    return document


def by_metrics(url: str) -> Samples:
    request = urllib.request.Request(f"{url}/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    with urllib.request.urlopen(request, timeout=BOUND_SECONDS) as answer:
        text = answer.read().decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def by_mcp(folder: Path, url: str) -> Document:
    async with agent(folder, MQLITE_ENDPOINT=url, MQLITE_TOKEN=TOKEN) as client:
        return await client.ok("observe")


def columns_of(page: str) -> dict[str, list[str]]:
    """The table of `top --once` as text: the words of each queue's line."""
    return {line.split()[0]: line.split() for line in page.splitlines()[4:] if line.strip()}


def test_every_surface_shows_the_same_numbers(tmp_path: Path) -> None:
    with started(tmp_path, MQLITE_METRICS="on") as broker:
        shell = Shell(tmp_path, MQLITE_ENDPOINT=broker.url, MQLITE_TOKEN=TOKEN)
        with connect_sync(broker.url, token=TOKEN) as handle:
            fill(handle)
            wanted = by_sdk(handle)
        expected = steady(samples_of(wanted))
        found = {
            "command line": samples_of(shell.run("observe", "--output", "json", check=0).json),
            "top": samples_of(shell.run("top", "--once", "--output", "json", check=0).json),
            "mcp": samples_of(trio.run(by_mcp, tmp_path, broker.url)),
            "metrics": by_metrics(broker.url),
        }
        page = columns_of(shell.run("top", "--once", check=0).text)
    orders = {row["queue"]: row for row in wanted["queues"]}["orders"]
    assert [orders[state] for state in STATES] == [6, 1, 1, 1, 1]
    for surface, samples in found.items():
        assert steady(samples) == expected, surface
    assert page["orders"][1] == "6", page
