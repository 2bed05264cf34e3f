"""The page Observe: every figure is the broker's, and what nobody knows is a dash."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from playwright.sync_api import Locator, Route, expect

from tests.console.scene import Scene

MARKUP = "<img src=x onerror=alert(1)>\u202e"

Reply = dict[str, Any]
Change = Callable[[Reply], None]


def opened(scene: Scene, change: Change = lambda reply: None) -> list[Reply]:
    """The page, at a broker whose looks are changed on their way; the looks that it was given."""
    given: list[Reply] = []

    def pass_on(route: Route) -> None:
        answer = route.fetch()
        reply = answer.json()
        change(reply)
        given.append(reply)
        route.fulfill(response=answer, json=reply)

    scene.page.clock.install()
    scene.page.route("**/*AdminService/Observe", pass_on)
    scene.enter("#/observe")
    expect(scene.page.get_by_role("region", name="Maintenance").get_by_role("row")).to_have_count(8)
    return given


def fact(scene: Scene, title: str) -> Locator:
    return scene.page.locator(f'dt:text-is("{title}") + dd')


def lines(scene: Scene, table: str) -> list[list[str]]:
    """The texts of a table's rows."""
    rows = scene.page.get_by_role("region", name=table, exact=True).locator("tbody tr")
    return [row.locator("> *").all_inner_texts() for row in rows.all()]


def test_every_figure_is_that_of_the_brokers_snapshot(scene: Scene) -> None:
    scene.send(scene.queue("observed"), *["x"] * 12)
    reply = opened(scene)[-1]
    tasks = {row[0]: row for row in lines(scene, "Maintenance")}
    for row in reply["maintenance"]:
        shown = tasks[row["task"]]
        health = {"unknown": "–"}.get(row["health"], row["health"]) if row["enabled"] else "off"
        assert shown[1:5] == [health, *(f"{row[key]:,}" for key in COUNTED)], row["task"]

    calls = {row[0]: row[1] for row in lines(scene, "Calls")}
    latency = reply["http"]["handler_latency"]
    assert calls == {row["rpc"]: f"{row['count']:,}" for row in latency if row["count"]}
    refused = {(row[0], row[1]): row[2] for row in lines(scene, "Refused and failed calls")}
    assert refused == {
        (row["rpc"], row["code"]): f"{row['count']:,}"
        for row in reply["http"]["requests"]
        if row["count"] and row["code"] != "ok"
    }
    for outcome, title in OUTCOMES.items():
        counts = {row["outcome"]: row["count"] for row in reply["http"]["authentication"]}
        assert fact(scene, title).inner_text() == f"{counts[outcome]:,}"

    stored = [[row[0], row[1], row[2]] for row in lines(scene, "Operations of the store")]
    assert stored == [
        [row["operation"], said(row), f"{row['duration']['count']:,}"]
        for row in reply["storage"]["operations"]
        if row["duration"]["count"]
    ]
    assert fact(scene, "Store format").inner_text() == reply["runtime"]["schema_version"]
    assert fact(scene, "Counts").inner_text() == "Can be read"
    expect(scene.page.get_by_role("heading", name="Earlier starts")).to_be_hidden()


COUNTED = ("runs", "failures", "interrupted")
OUTCOMES = {
    "success": "Signed in",
    "missing": "No token",
    "invalid": "Wrong token",
    "expired": "Expired token",
    "revoked": "Revoked token",
    "permission_denied": "Lacking the right",
    "backend_error": "Keys unreadable",
}


def said(row: Reply) -> str:
    outcome, code = str(row["outcome"]), row["error_code"]
    return f"{outcome}: {code}" if code and code != outcome else outcome


def test_what_nobody_knows_is_a_dash_and_never_a_zero(scene: Scene) -> None:
    def forget(reply: Reply) -> None:
        reply["queues"] = None
        reply["collection"].update(state="unavailable", error_code="busy", last_success_at_ms=0)
        unknown = dict.fromkeys(("wal_bytes", "free_bytes", "disk_free_bytes"))
        reply["runtime"].update(unknown, db_size_available=False, read_available=False)
        nothing: Reply = {"requests": [], "authentication": [], "handler_latency": []}
        reply["http"] = {"state": "not_applicable", **nothing}
        reply.update(mailbox_depth=None, receive_waiters=None, process=None, started_at_ms=0)

    opened(scene, forget)
    assert fact(scene, "Counts").inner_text() == "Cannot be read"
    assert fact(scene, "Error").inner_text() == "busy"
    unknown = [
        "Last success", "Reading took", "Broker up for", *OUTCOMES.values(), "Database",
        "Write-ahead log", "Free inside the file", "Free on the disk", "Read takes",
        "Calls waiting in the engine", "Receives waiting", "Processor time", "Memory",
        "Open descriptors",
    ]  # fmt: skip
    shown = {title: fact(scene, title).inner_text() for title in unknown}
    assert shown == dict.fromkeys(unknown, "–")
    scene.see("Not known: nothing counts calls here.")


def test_percentiles_are_of_all_or_of_what_came_since_the_look_before(scene: Scene) -> None:
    bounds = (0.001, 0.025, 20.0)
    looks = iter([(90, 98, 99, 100), (90, 98, 99, 100), (90, 102, 103, 104)])

    def answer(reply: Reply) -> None:
        *counts, count = next(looks)
        reply["http"]["handler_latency"] = [
            {
                "rpc": "QueueService/Send",
                "buckets": [
                    {"upper_bound_seconds": bound, "count": each}
                    for bound, each in zip(bounds, counts, strict=True)
                ],
                "count": count,
                "sum_seconds": count / 100,
            }
        ]

    opened(scene, answer)
    parts = lines(scene, "Calls")[0]
    assert [parts[0], parts[1], *parts[3:]] == [
        "QueueService/Send", "100", "≤ 1 ms", "≤ 25 ms", "≤ 20 s", "10 ms",
    ]  # fmt: skip
    scene.page.get_by_label("Durations of calls").select_option("since the look before")
    scene.see("Waiting for a second look.")
    scene.look()
    parts = lines(scene, "Calls")[0]
    assert [parts[1], *parts[3:6]] == ["4", "≤ 25 ms", "≤ 25 ms", "≤ 25 ms"]


def test_what_fails_is_told_with_when_and_why_and_stays_text(scene: Scene) -> None:
    def fail(reply: Reply) -> None:
        now = reply["sampled_at_ms"]
        reply["maintenance"][0].update(
            enabled=True, health="failing", failures=7, runs=9, consecutive_failures=3,
            last_failure_at_ms=now - 60_000, last_error_code="full",
        )  # fmt: skip
        earlier = {
            "boot_id": "b", "first_at_ms": now - 9_000_000, "last_at_ms": now - 8_000_000,
            "failures": 2, "last_task": "ttl", "last_code": "io", "last_detail": MARKUP,
            "stopped": False,
        }  # fmt: skip
        reply["diagnostics"].update(state="failing", earlier_boots=[earlier])

    opened(scene, fail)
    task = lines(scene, "Maintenance")[0]
    assert task[1:4] == ["failing", "9", "7"]
    assert task[6].endswith("ago: full, 3 times in a row")
    assert fact(scene, "Diagnostic log").inner_text() == "failing"
    ((*_, end, failures, last),) = lines(scene, "Earlier starts")
    assert (end, failures) == ("not in order", "2")
    assert last == r"ttl: io: <img src=x onerror=alert(1)>\u202e"
    assert scene.page.locator("main img").count() == 0
