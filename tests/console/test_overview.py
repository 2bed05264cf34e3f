"""The overview and the shared look: what it tells of whom, and what it costs."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Route, expect

from mqlite_actor.contract import limits
from mqlite_actor.contract.calls import CALLS
from mqlite_actor.sdk import exchange
from tests.console.conftest import MakeBroker, MakeScene
from tests.console.scene import Json, Scene

OBSERVE = "AdminService/Observe"


def shown_by_observe(scene: Scene, change: dict[str, Json]) -> None:
    """Let the console see a broker that differs from the real one in these keys of Observe."""

    def answer(route: Route) -> None:
        found = route.fetch()
        route.fulfill(response=found, json={**found.json(), **change})

    scene.page.route(f"**/*{OBSERVE}", answer)


def tile(scene: Scene, name: str) -> str:
    found = scene.page.locator(".tile").filter(has_text=re.compile(f"^{name}"))
    return found.locator("strong").inner_text()


def fact(scene: Scene, name: str) -> str:
    return (
        scene.page.locator(".facts div")
        .filter(has_text=re.compile(f"^{name}"))
        .locator("dd")
        .inner_text()
    )


def test_it_shows_what_observe_says_value_by_value(
    make_scene: MakeScene, make_broker: MakeBroker
) -> None:
    """The console as one of the faces that ruling R9 compares."""
    scene = make_scene(make_broker(MQLITE_DB="file:mq.db"))
    for name, number in (("one", 3), ("two", 5)):
        scene.queue(name)
        scene.send(name, *["x"] * number)
    scene.kill("one", "dead", "dead too")
    scene.receive("two", 2)
    scene.ask("AdminService/Subscribe", {"topic": "t", "name": "sub"})
    scene.send("t", "x")
    with scene.page.expect_response(f"**/*{OBSERVE}"):
        scene.sign_in("#/overview")
    told = scene.ask(OBSERVE)
    scene.page.reload()
    scene.entered()
    expect(scene.page.locator(".tile strong").first).not_to_have_text("–")
    for title, state in (
        ("Active", "active"), ("Locked", "locked"), ("Scheduled", "scheduled"),
        ("Deferred", "deferred"), ("Dead letters", "dead_lettered"),
    ):  # fmt: skip
        assert tile(scene, title) == str(sum(row[state] for row in told["queues"])), state
    assert fact(scene, "Version") == f"{told['version']}, store format 5"
    assert fact(scene, "Backend") == told["backend"]
    assert fact(scene, "Queues") == "2 queues, 1 subscription"
    scene.go("queues", title="Queues")
    scene.page.get_by_label("Which kind").select_option("")
    expect(scene.page.locator("tbody tr")).to_have_count(3)
    for row in told["queues"]:
        cells = scene.row(row["queue"]).get_by_role("cell").all_inner_texts()
        states = ("active", "locked", "scheduled", "deferred", "dead_lettered")
        assert cells[:5] == [str(row[state]) for state in states]


@pytest.mark.promise("T79")
def test_what_needs_attention_is_named_with_its_reason(scene: Scene) -> None:
    scene.queue("stuck", ordering_mode="group_fifo")
    scene.send("stuck", *"abc", group_id="g")
    scene.queue("dying")
    scene.kill("dying", *"abcd")
    row = {"unexpected": 0, "locked": 0, "deferred": 0, "scheduled": 0, "dead_lettered": 0,
           "kind": "queue"}  # fmt: skip
    shown_by_observe(
        scene,
        {
            "queues": [
                {**row, "queue": "dying", "active": 0, "dead_lettered": 4, "total": 4,
                 "oldest_message_age_ms": 0},
                {**row, "queue": "forgotten", "active": 7, "total": 7,
                 "oldest_message_age_ms": 7_200_000},
                {**row, "queue": "stuck", "active": 3, "total": 3, "oldest_message_age_ms": 5},
            ],
            "queue_count": 3, "subscription_count": 0,
            "receive_waiters": [{"queue": "stuck", "count": 2}],
            "maintenance": [
                {"task": "ttl", "enabled": True, "health": "failing", "consecutive_failures": 4,
                 "last_error_code": "io"},
            ],
        },
    )  # fmt: skip
    scene.page.clock.install()
    scene.enter("#/overview")
    scene.look()
    lines = scene.page.locator(".concerns li")
    expect(lines).to_have_count(4)
    texts = lines.all_inner_texts()
    assert re.search(r"Maintenance: ttl\s+It has failed 4 times in a row, last with “io”", texts[0])
    assert re.search(r"stuck\s+3 messages active and 2 receivers waiting, yet nothing is", texts[1])
    assert re.search(r"forgotten\s+7 messages active, the oldest for 2h, and nobody", texts[2])
    assert re.search(r"dying\s+4 dead letters", texts[3])
    lines.nth(3).get_by_role("link").click()
    expect(scene.page.locator("main h1")).to_have_text("Dead letters of dying")


def test_what_is_not_known_is_a_dash_and_never_a_zero(scene: Scene) -> None:
    shown_by_observe(
        scene,
        {
            "queues": None, "queue_count": 0, "subscription_count": 0, "started_at_ms": None,
            "receive_waiters": None,
            "collection": {"state": "unavailable", "error_code": "busy", "last_success_at_ms": 0,
                           "duration_seconds": 0.0},
            "runtime": {"schema_version": "5", "ping_seconds": 0.0, "read_available": False,
                        "db_size_bytes": 0, "db_size_available": False, "wal_bytes": None,
                        "free_bytes": None, "disk_free_bytes": None},
        },
    )  # fmt: skip
    scene.enter("#/overview")
    expect(scene.page.locator(".concerns li")).to_have_count(2)
    assert [tile(scene, name) for name in ("Active", "Locked", "Dead letters")] == ["–"] * 3
    for name in ("Up for", "Read takes", "On disk", "Free on disk", "Queues"):
        assert fact(scene, name) == "–", name
    assert fact(scene, "State") == "The store cannot be read"
    scene.go("queues", title="Queues")
    scene.see("The counts cannot be read at the moment.")


def test_each_look_is_one_observe_whatever_is_shown(scene: Scene) -> None:
    for number in range(5):
        scene.kill(scene.queue(f"looked-{number}"), "x")
    scene.page.clock.install()
    scene.enter("#/overview")
    for page, title in (("overview", "Overview"), ("queues", "Queues"),
                        ("dead-letters", "Dead letters")):  # fmt: skip
        scene.go(page, title=title)
        scene.look()
        scene.calls.clear()
        scene.look(3)
        assert scene.calls == [OBSERVE] * 3, page
    scene.go("queues", "looked-0", "dead_lettered", title="looked-0")
    scene.see("Page 1: 1 message.")
    scene.calls.clear()
    scene.look(3)
    assert scene.calls == [OBSERVE] * 3


def test_a_hidden_tab_does_not_ask(scene: Scene) -> None:
    scene.page.clock.install()
    scene.enter("#/overview")
    scene.look()
    scene.page.evaluate(
        """() => {
            Object.defineProperty(document, "hidden", { value: true, configurable: true });
            document.dispatchEvent(new Event("visibilitychange"));
        }"""
    )
    scene.calls.clear()
    scene.page.clock.run_for(60_000)
    assert scene.calls == []
    with scene.page.expect_response(f"**/*{OBSERVE}"):
        scene.page.evaluate(
            """() => {
                delete document.hidden;
                document.dispatchEvent(new Event("visibilitychange"));
            }"""
        )
    assert scene.calls == [OBSERVE]


def test_when_the_broker_is_away_it_says_so_and_comes_back_by_itself(scene: Scene) -> None:
    scene.queue("while-away")
    scene.page.clock.install()
    scene.enter("#/queues")
    scene.look()
    banner = scene.page.locator(".stale")
    expect(banner).to_be_hidden()
    scene.is_offline = True
    scene.page.route(f"**/*{OBSERVE}", lambda route: route.abort())
    scene.look()
    expect(banner).to_contain_text("The broker cannot be reached: no connection.")
    expect(banner).to_contain_text("What you see is from")
    expect(scene.row("while-away")).to_be_visible()
    scene.send("while-away", "x")
    scene.page.unroute(f"**/*{OBSERVE}")
    scene.press("Try now")
    expect(banner).to_be_hidden()
    expect(scene.row("while-away").get_by_role("cell").first).to_have_text("1")


def test_a_refresh_moves_nothing_and_takes_no_focus_and_no_selection(scene: Scene) -> None:
    for number in range(3):
        scene.queue(f"steady-{number}")
    scene.page.clock.install()
    scene.enter("#/queues")
    scene.page.get_by_label("Search by name").fill("steady")
    scene.look()
    scene.row("steady-1").get_by_role("link").focus()
    places = "[...document.querySelectorAll('th, td')].map(each => each.getBoundingClientRect().x)"
    before = scene.page.evaluate(places)
    scene.page.evaluate("getSelection().selectAllChildren(document.querySelector('tbody tr td'))")
    scene.send("steady-1", *["x"] * 1000)
    scene.look()
    expect(scene.row("steady-1").get_by_role("cell").first).to_have_text("1,000")
    assert scene.page.evaluate(places) == before
    assert scene.page.evaluate("document.activeElement.textContent") == "steady-1"
    assert scene.page.evaluate("String(getSelection())") == "0"
    scene.page.get_by_role("button", name="Active").click()
    expect(scene.page.get_by_role("rowheader").first).to_have_text("steady-1")
    assert scene.page.get_by_role("columnheader", name="Active").get_attribute("aria-sort") == (
        "descending"
    )


def test_rates_are_those_between_two_looks(scene: Scene) -> None:
    """Ten seconds of the broker's clock with forty messages in and thirty done."""
    seen: list[int] = []

    def answer(route: Route) -> None:
        found = route.fetch()
        told = found.json()
        told["sampled_at_ms"] = 1_000_000 + 10_000 * len(seen)
        told["messages"] = [
            {"queue": "rated", "event": event, "count": count * len(seen)}
            for event, count in (("enqueued", 40), ("completed", 30), ("delivered", 30))
        ]
        seen.append(1)
        route.fulfill(response=found, json=told)

    scene.queue("rated")
    scene.page.clock.install()
    scene.page.route(f"**/*{OBSERVE}", answer)
    scene.enter("#/overview")
    scene.look(2)
    charts = scene.page.locator(".chart")
    expect(charts.nth(0)).to_contain_text("4/s")
    expect(charts.nth(2)).to_contain_text("3/s")
    scene.go("queues", title="Queues")
    expect(scene.row("rated").get_by_role("cell").nth(6)).to_have_text("4")
    expect(scene.row("rated").get_by_role("cell").nth(7)).to_have_text("3")


def test_500_queues_and_100_000_messages_stay_a_hundred_rows_and_one_call(
    make_scene: MakeScene, make_broker: MakeBroker
) -> None:
    scene = make_scene(make_broker())
    for number in range(500):
        scene.queue(f"queue-{number:03}")
    for _ in range(10):
        scene.ask("Send", {"queue": "queue-250", "messages": [{}] * 10_000})
    scene.page.clock.install()
    scene.enter("#/queues")
    expect(scene.page.locator("tbody tr")).to_have_count(100)
    scene.see("1–100 of 500")
    scene.calls.clear()
    scene.look(2)
    assert scene.calls == [OBSERVE] * 2
    scene.press("Next")
    scene.see("101–200 of 500")
    scene.page.get_by_role("button", name="Active").click()
    expect(scene.page.get_by_role("rowheader").first).to_have_text("queue-250")
    scene.go("queues", "queue-250", title="queue-250")
    scene.see("Page 1: 50 messages, and there are more.")
    expect(scene.page.locator("tbody tr")).to_have_count(50)
    assert scene.page.locator("*").count() < 1_500
    scene.go("overview", title="Overview")
    assert scene.page.locator("*").count() < 1_500


def test_the_script_knows_which_calls_are_ours_and_which_change_nothing() -> None:
    """The console adds a call's prefix itself, and says of a lost answer what may have happened."""
    from mqlite_broker import ui

    script = (ui.FOLDER / ui.ASSETS / "api.js").read_text(encoding="utf-8")
    listed = {
        title: set(re.findall(r'"([^"]+)"', names))
        for title, names in re.findall(r"const (\w+) = new Set\(\[(.*?)\]\)", script, re.DOTALL)
    }
    assert listed["OURS"] == {call.name for call in CALLS if call.prefix == "/mqlite.ext.v1."}
    assert listed["READS"] == {call.name for call in CALLS if call.request in exchange.READS}


def test_a_step_of_the_script_is_one_transaction_of_the_broker() -> None:
    """So a step that is refused has done nothing."""
    from mqlite_broker import ui

    script = (ui.FOLDER / ui.ASSETS / "steps.js").read_text(encoding="utf-8")
    (step,) = re.findall(r"const STEP = (\d+);", script)
    assert int(step) <= limits.CHORE_ROWS
