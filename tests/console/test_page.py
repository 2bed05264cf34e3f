"""The page on the console is followed word by word.

What the page sets in italics is pressed, and what it sets in bold is gone to; nothing of it may be
left over. The steps are the page's, in its order.
"""

from __future__ import annotations

import re
from typing import Final

from playwright.sync_api import expect

from tests.console.scene import Scene
from tests.house.tree import ROOT

PAGE: Final = (ROOT / "docs/how-to/console.md").read_text("utf-8")
PRESSED: Final = set(re.findall(r"(?<!\*)\*([^*]+)\*(?!\*)", PAGE))
GONE_TO: Final = set(re.findall(r"\*\*([^*]+)\*\*", PAGE))


class Follower:
    """Somebody who reads the page and does what it says."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.left = PRESSED | GONE_TO

    def press(self, label: str, name: str = "") -> None:
        """A button of the page; `name` is its whole name, where one like it stands in each row."""
        assert label in PRESSED | GONE_TO, label
        self.left.discard(label)
        self.scene.press(name or label)

    def go(self, label: str) -> None:
        """To what the page names, through the links at the side."""
        assert label in GONE_TO, label
        self.left.discard(label)
        link = self.scene.page.get_by_role("navigation").get_by_role("link", name=label)
        link.first.click()
        expect(self.scene.page.locator("main h1")).to_have_text(label)

    def unfold(self, label: str) -> None:
        assert label in GONE_TO, label
        self.left.discard(label)
        self.scene.page.get_by_text(label, exact=True).click()


def test_it_can_be_followed(scene: Scene) -> None:
    scene.queue("parcels", ordering_mode="group_fifo", lock_duration_ms=600_000)
    stuck, behind = scene.send("parcels", "spoilt", "waits", group_id="customer-17")
    (held,) = scene.receive("parcels")
    scene.ask("AdminService/Subscribe", {"topic": "parcel-news", "name": "press"})
    scene.sign_in()
    follower = Follower(scene)
    find_out_why_nothing_moves(follower, stuck, behind)
    lease = {key: held[key] for key in ("seq_number", "lock_token")}
    scene.ask("Abandon", {"queue": "parcels", **lease})
    repair_it(follower, stuck)
    decide_who_gets_what(follower)
    let_a_program_in(follower)
    follower.go("Observe")
    assert follower.left == set()


def find_out_why_nothing_moves(follower: Follower, stuck: int, behind: int) -> None:
    scene = follower.scene
    scene.page.get_by_role("navigation").get_by_role("link", name="Queues").click()
    follower.go("Overview")
    scene.go("queues", "parcels", title="parcels")
    expect(scene.page.locator(".why-line")).to_contain_text("Group customer-17")
    follower.unfold("Search")
    scene.fill("Body contains", "waits")
    scene.press("Find")
    scene.open_message(behind)
    follower.press("Why is it here?")
    line = scene.dialog.locator(".why-line")
    expect(line).to_contain_text(f"It waits for: message {stuck}")
    line.get_by_role("button", name=f"message {stuck}").click()
    scene.asked(f"Message {stuck}")
    scene.press("Close")


def repair_it(follower: Follower, stuck: int) -> None:
    scene = follower.scene
    follower.press("Receive one")
    scene.see(f"You hold message {stuck}")
    follower.press("Reject…")
    scene.fill("Reason", "Spoilt")
    scene.press("Reject")
    scene.noted("is a dead letter now.")
    lost = scene.kill(scene.queue("lost"), *"abcde")
    follower.go("Dead letters")
    scene.row("parcels").get_by_role("link").first.click()
    expect(scene.page.locator("main h1")).to_have_text("Dead letters of parcels")
    scene.open_message(stuck)
    follower.press("Edit and resubmit…")
    scene.fill("Body", "mended")
    scene.press("Resubmit")
    scene.noted(f"Message {stuck} was put back as {stuck}.")
    follower.go("Dead letters")
    scene.row("lost").get_by_role("link").first.click()
    scene.see("5 dead letters in lost")
    scene.page.get_by_role("checkbox", name=f"Select message {lost[0]}").check()
    follower.press("Redrive selected…", "Redrive 1 selected…")
    scene.press("Redrive")
    scene.noted("Redrove 1 message.")
    follower.press("Redrive many…")
    scene.fill("At most so many a second", "1")
    scene.press("Redrive")
    follower.press("Stop")
    scene.closed()
    assert scene.stats("lost")["dead_lettered"] in range(1, 4)
    follower.press("Purge…")
    scene.fill("Type lost to confirm", "lost")
    scene.top.get_by_role("button", name=re.compile("^Purge up to")).click()
    scene.noted(re.compile("Purged [123] dead letters?"))
    assert (scene.stats("parcels")["active"], scene.stats("lost")["dead_lettered"]) == (2, 0)


def decide_who_gets_what(follower: Follower) -> None:
    scene = follower.scene
    follower.go("Topics")
    scene.row("parcel-news").get_by_role("link").first.click()
    expect(scene.page.locator("main h1")).to_have_text("parcel-news")
    follower.press("Filter", "Filter of press")
    scene.fill("Filter", "subjec == 1")
    scene.see("did you mean")
    scene.fill("Filter", 'subject == "late"')
    scene.press("Save")
    scene.noted("Saved the filter of press.")
    follower.press("Who would get it?")
    scene.see("Nobody would get it, and nothing would be stored.")


def let_a_program_in(follower: Follower) -> None:
    scene = follower.scene
    follower.go("Keys")
    follower.press("Create a key")
    key_id = scene.dialog.get_by_label("Id", exact=True).input_value()
    scene.fill("Name", "parcel office")
    scene.dialog.get_by_role("checkbox", name="Send").check()
    scene.press("Create")
    scene.asked("The token of parcel office")
    follower.press("Close")
    scene.closed()
    scene.fill("Id of a key", key_id)
    follower.press("Find")
    scene.asked("Key parcel office")
    scene.press("Close")
    follower.go("Connect")
    scene.see(re.compile("YOUR_TOKEN"))
