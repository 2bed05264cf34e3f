"""Topics in the console: who listens with which filter, and who would get a message."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, expect

from tests.console.scene import Scene

MARKUP = "<img src=x onerror=alert(1)>"
TURNED = "\u202egnp.exe\x07"
TURNED_SHOWN = r"\u202egnp.exe\u0007"


def subscribe(scene: Scene, topic: str, name: str, expr: str = "") -> None:
    request = {"topic": topic, "name": name, "filter": {"expr": expr}}
    scene.ask("AdminService/Subscribe", request)


def filters(scene: Scene, topic: str) -> dict[str, str]:
    found = scene.ask("AdminService/ListSubscriptions")["subscriptions"]
    return {each["name"]: each.get("expr", "") for each in found if each["topic"] == topic}


def typed(scene: Scene, label: str, text: str) -> None:
    """Fill in a field of the editor, and let the pause after the last key pass."""
    scene.fill(label, text)
    scene.page.clock.run_for(400)


def verdict(scene: Scene, text: str) -> None:
    expect(scene.dialog.locator(".verdict").filter(has_text=text)).to_be_visible()


def test_a_topic_is_subscribed_published_to_and_ended(scene: Scene) -> None:
    scene.enter("#/topics")
    scene.press("Subscribe to a topic")
    scene.fill("Topic", "sales")
    scene.fill("Name of the subscription", "billing")
    scene.fill("Filter", 'subject startsWith "invoice."')
    scene.press("Subscribe")
    scene.noted("billing listens to sales from now on.")
    scene.closed()
    assert filters(scene, "sales") == {"billing": 'subject startsWith "invoice."'}

    scene.row("sales").get_by_role("link").click()
    expect(scene.page.locator("main h1")).to_have_text("sales")
    scene.press("Publish")
    scene.fill("Body", "42 francs")
    scene.fill("Subject", "invoice.fr")
    scene.press("Publish")
    scene.closed()
    expect(scene.row("billing").get_by_role("cell").nth(1)).to_have_text("1")
    (stored,) = scene.peek("billing")
    assert stored["subject"] == "invoice.fr"

    scene.press("Delete billing")
    scene.see("It holds 1 message (1 active).")
    scene.see("It is the last of sales: the topic ends with it.")
    end = scene.dialog.get_by_role("button", name="Delete it with 1 message")
    expect(end).to_be_disabled()
    scene.fill("Type billing to confirm", "billing")
    end.click()
    scene.noted("billing is gone. 1 message went with it.")
    scene.see("Nobody listens to this topic")
    assert filters(scene, "sales") == {}


def test_a_publish_that_nobody_wants_is_told_so(scene: Scene) -> None:
    subscribe(scene, "unwanted", "picky", "body_size > 1000")
    scene.enter("#/topics")
    scene.press("Publish to unwanted")
    scene.press("Publish")
    scene.noted("No subscription of unwanted wanted it; nothing was stored.")


@pytest.mark.promise("T79")
def test_a_filter_is_checked_while_it_is_typed_and_changed(scene: Scene) -> None:
    subscribe(scene, "checked", "strict", "body_size > 1")
    scene.page.clock.install()
    scene.enter("#/topics/checked")
    scene.press("Filter of strict")
    verdict(scene, "Valid.")
    save = scene.dialog.get_by_role("button", name="Save")
    typed(scene, "Filter", "subjec == 1")
    verdict(scene, "did you mean `subject`?")
    expect(save).to_be_disabled()

    scene.dialog.get_by_text("Try it on a sample message").click()
    typed(scene, "Filter", 'properties.plan == "pro"')
    verdict(scene, "This message does not match.")
    typed(scene, "Properties", "plan=pro")
    verdict(scene, "This message matches.")
    typed(scene, "Properties", "plan")
    verdict(scene, "Properties: “plan” is not key=value.")
    scene.fill("Properties", "")
    typed(scene, "Filter", "subject_parts[3] == 'x'")
    verdict(scene, "It fails on this message")

    scene.dialog.get_by_text("What a filter can say").click()
    examples = scene.dialog.locator(".example code").all_inner_texts()
    answers = [scene.ask("AdminService/TestFilter", {"expr": expr}) for expr in examples]
    assert [each["valid"] for each in answers] == [True] * 6
    typed(scene, "Filter", "")
    verdict(scene, "Every message matches.")
    scene.press(f"Insert {examples[0]}")
    verdict(scene, "Valid.")
    save.click()
    scene.noted("Saved the filter of strict.")
    assert filters(scene, "checked") == {"strict": examples[0]}
    expect(scene.row("strict").get_by_role("cell").first).to_have_text(examples[0])


def test_somebody_elses_filter_is_not_overwritten(scene: Scene) -> None:
    subscribe(scene, "shared", "contested", "body_size > 1")
    scene.enter("#/topics/shared")
    scene.press("Filter of contested")
    scene.fill("Filter", "body_size > 2")
    subscribe(scene, "shared", "contested", "body_size > 3")
    scene.press("Save")
    scene.see("Somebody changed it meanwhile, to: body_size > 3")
    assert filters(scene, "shared") == {"contested": "body_size > 3"}
    scene.press("Cancel")
    scene.closed()
    scene.press("Add a subscription")
    scene.fill("Name of the subscription", "contested")
    scene.press("Subscribe")
    scene.see("This subscription exists. Change its filter instead.")
    assert filters(scene, "shared") == {"contested": "body_size > 3"}


def test_who_would_get_a_message_is_told_before_it_is_published(scene: Scene) -> None:
    wanted = {"all": "", "pro": 'properties.plan == "pro"', "free": 'properties.plan == "free"'}
    for name, expr in wanted.items():
        subscribe(scene, "tried", f"tried-{name}", expr)
    subscribe(scene, "tried", "tried-broken", "body_json.total > 1")
    scene.enter("#/topics/tried")
    scene.see("4 subscriptions")
    trial = scene.page.locator("section", has_text="Who would get a message?")
    scene.fill("Properties", "plan=pro", trial)
    scene.press("Who would get it?", trial)
    expect(trial.get_by_text("2 of 4 subscriptions would get it.")).to_be_visible()
    said = {row.split("\t")[0]: row for row in trial.locator("tbody tr").all_inner_texts()}
    assert {name for name, row in said.items() if "Gets a copy." in row} == {
        "tried-all",
        "tried-pro",
    }
    assert "It fails on this message" in said["tried-broken"]
    assert scene.stats("tried-all")["total"] == 0

    scene.queue("tried-all", kind="subscription", ordering_mode="group_fifo")
    scene.press("Who would get it?", trial)
    expect(trial.get_by_text("The publish would be refused")).to_be_visible()
    trial.get_by_text("More fields").click()
    scene.fill("Group", "g", trial)
    expect(trial.locator("tbody")).to_be_hidden()
    scene.press("Who would get it?", trial)
    expect(trial.get_by_text("2 of 4 subscriptions would get it.")).to_be_visible()


def test_a_topic_of_many_subscriptions_is_a_hundred_rows_and_one_check_a_filter(
    scene: Scene,
) -> None:
    for number in range(120):
        subscribe(scene, "crowd", f"crowd-{number:03}", f"body_size % 2 == {number % 2}")
    scene.enter("#/topics/crowd")
    scene.see("120 subscriptions")
    rows = scene.page.get_by_role("region", name="Subscriptions of crowd").locator("tbody tr")
    expect(rows).to_have_count(100)
    scene.see("1–100 of 120")
    scene.calls.clear()
    trial = scene.page.locator("section", has_text="Who would get a message?")
    scene.fill("Group", "g", open_details(trial, "More fields"))
    scene.press("Who would get it?", trial)
    expect(trial.get_by_text("60 of 120 subscriptions would get it.")).to_be_visible()
    assert scene.calls.count("AdminService/TestFilter") == 2
    assert "AdminService/DescribeQueue" not in scene.calls
    expect(trial.locator("tbody tr")).to_have_count(100)


def open_details(place: Locator, summary: str) -> Locator:
    place.get_by_text(summary).click()
    return place


def test_names_and_filters_of_topics_stay_text(scene: Scene) -> None:
    expr = f'subject == "{MARKUP}"\nand properties["{MARKUP}"] != "\u202e"'
    subscribe(scene, f"{MARKUP}/t", f"{TURNED}/s", expr)
    scene.enter("#/topics")
    scene.fill("Search by topic or subscription", MARKUP)
    expect(scene.page.get_by_role("rowheader")).to_have_text([f"{MARKUP}/t"])
    scene.row(f"{MARKUP}/t").get_by_role("link").click()
    expect(scene.page.locator("main h1")).to_have_text(f"{MARKUP}/t")
    line = scene.row(f"{TURNED_SHOWN}/s")
    expect(line.get_by_role("cell").first).to_contain_text('!= "\\u202e"')
    scene.press(f"Filter of {TURNED_SHOWN}/s")
    assert scene.dialog.get_by_label("Filter", exact=True).input_value() == expr
    scene.press("Cancel")
    scene.closed()
    scene.press(f"Delete {TURNED_SHOWN}/s")
    scene.see("It holds no message.")
    scene.fill("Type delete to confirm", "delete")
    scene.press("Delete the subscription")
    scene.noted(f"{TURNED_SHOWN}/s is gone.")
    assert scene.page.locator("img").count() == 0


def test_a_list_of_topics_costs_one_call_however_long_it_stays(scene: Scene) -> None:
    scene.page.clock.install()
    subscribe(scene, "watched", "watched-1")
    scene.enter("#/topics")
    expect(scene.row("watched").get_by_role("cell").first).to_have_text("1")
    scene.calls.clear()
    scene.look(3)
    assert scene.calls == ["AdminService/Observe"] * 3
    subscribe(scene, "watched", "watched-2")
    scene.look()
    expect(scene.row("watched").get_by_role("cell").first).to_have_text("2")
    assert scene.calls.count("AdminService/ListSubscriptions") == 1


def test_a_broker_that_is_gone_is_told_in_the_editor(scene: Scene) -> None:
    subscribe(scene, "cut", "cut-off", "body_size > 1")
    scene.page.clock.install()
    scene.enter("#/topics/cut")
    scene.press("Filter of cut-off")
    verdict(scene, "Valid.")
    scene.is_offline = True
    scene.page.context.set_offline(True)
    typed(scene, "Filter", "body_size > 2")
    verdict(scene, "The broker cannot be reached")
    scene.press("Save")
    expect(scene.dialog.get_by_role("alert")).to_have_text(re.compile("cannot be reached"))
    scene.page.context.set_offline(False)
    scene.press("Save")
    scene.noted("Saved the filter of cut-off.")
