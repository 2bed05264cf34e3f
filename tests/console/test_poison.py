"""The repair that the console is for: one message among ten thousand holds back its group."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from tests.console.conftest import MakeBroker, MakeScene
from tests.console.scene import Scene, decoded, encoded

JUNK = 12
OTHERS = 9_999
GOOD = {"quantity": 3, "sku": "A-100"}
POISON = {"quantity": "three", "sku": "A-100"}


def furnish(scene: Scene) -> tuple[int, int]:
    """Letters that nobody wants and ten thousand orders, the first of them poison; the numbers of
    the poison and of the order behind it in its group."""
    scene.queue("orders", ordering_mode="group_fifo", lock_duration_ms=600_000)
    for number in range(JUNK):
        scene.kill("orders", "junk", group_id=f"junk-{number}", reason="NobodyWantsIt")
    (poison,) = scene.send("orders", json.dumps(POISON), group_id="customer-17")
    numbers: list[int] = []
    for first in range(0, OTHERS, 3_333):
        messages = [
            {"body": encoded(json.dumps({**GOOD, "order": number})), "group_id": group(number)}
            for number in range(first, first + 3_333)
        ]
        numbers += scene.ask("Send", {"queue": "orders", "messages": messages})["seq_numbers"]
    assert len(numbers) == OTHERS
    return poison, numbers[17]


def group(number: int) -> str:
    return f"customer-{number % 100}"


def find(scene: Scene, state: str, field: str, value: str) -> None:
    scene.go("queues", "orders", state, title="orders")
    scene.page.get_by_text("Search", exact=True).click()
    scene.fill(field, value)
    scene.press("Find")


def see_why_its_group_is_stuck(scene: Scene, poison: int, behind: int) -> None:
    """First at a glance, then found by what the consumer's log said, then from one that waits."""
    scene.go("queues", "orders", title="orders")
    expect(scene.page.locator(".why-line")).to_contain_text("Group customer-17")
    find(scene, "locked", "Body contains", '"quantity": "three"')
    dialog = scene.open_message(poison)
    expect(dialog.locator("pre.body")).to_contain_text('"quantity": "three"')
    scene.press("Close")
    find(scene, "active", "Group is", "customer-17")
    scene.open_message(behind)
    scene.press("Why is it here?")
    expect(scene.dialog.locator(".why-line")).to_contain_text(f"It waits for: message {poison}")
    scene.press("Close")


def take_it_out_of_the_way(scene: Scene, poison: int) -> None:
    scene.press("Receive one")
    scene.see(f"You hold message {poison}")
    scene.press("Reject…")
    scene.fill("Reason", "QuantityIsAWord")
    scene.press("Reject")
    scene.noted("is a dead letter now.")


def mend(scene: Scene, poison: int) -> None:
    scene.go("dead-letters", "orders", title="Dead letters of orders")
    scene.open_message(poison)
    scene.press("Edit and resubmit…")
    scene.asked(f"Edit message {poison} and put it back")
    scene.fill("Body", json.dumps(GOOD))
    scene.press("Resubmit")
    scene.noted(f"Message {poison} was put back as {poison}.")


def purge_the_rest(scene: Scene) -> None:
    scene.see(f"{JUNK} dead letters in orders")
    scene.press("Purge…")
    scene.fill("Type orders to confirm", "orders")
    scene.press(f"Purge up to {JUNK}")
    scene.noted(f"Purged {JUNK} dead letters.")


@pytest.mark.promise("T79")
def test_an_operator_finds_explains_mends_and_resubmits_it_and_purges_the_rest(
    make_scene: MakeScene, make_broker: MakeBroker
) -> None:
    scene = make_scene(make_broker())
    poison, behind = furnish(scene)
    (held,) = scene.receive("orders")
    assert held["seq_number"] == poison, "the consumer is stuck on it"
    scene.sign_in("#/overview")
    see_why_its_group_is_stuck(scene, poison, behind)

    lease = {key: held[key] for key in ("seq_number", "lock_token")}
    scene.ask("Abandon", {"queue": "orders", **lease})
    take_it_out_of_the_way(scene, poison)
    mend(scene, poison)
    (mended,) = scene.peek("orders", from_seq=poison, max=1)
    assert (mended["state"], json.loads(decoded(mended))) == ("active", GOOD)

    purge_the_rest(scene)
    assert scene.stats("orders")["dead_lettered"] == 0
    assert scene.stats("orders")["active"] == OTHERS + 1
    expect(scene.page.locator("#notes .bad")).to_have_count(0)
