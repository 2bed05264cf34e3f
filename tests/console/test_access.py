"""Whether everybody can use the console: by keyboard, by ear, on a phone, in the dark."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

from playwright.sync_api import expect

from tests.console.conftest import MakeScene
from tests.console.scene import Scene
from tests.npm.packages import node_modules
from tests.services.broker_process import BrokerProcess

SERIOUS: Final = ("serious", "critical")

KEY: Final = "acce55" * 5 + "00"

IS_NARROW: Final = "document.documentElement.scrollWidth <= innerWidth"


@cache
def axe() -> str:
    return (node_modules() / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


def faults(scene: Scene, *rules: str) -> list[str]:
    """What axe holds against what is shown now, from `serious` on; by these rules, or all."""
    if not scene.page.evaluate("'axe' in window"):
        scene.page.evaluate(axe())
    options = {"resultTypes": ["violations"], **({"runOnly": list(rules)} if rules else {})}
    found = scene.page.evaluate("options => axe.run(document, options)", options)
    return [
        f"{each['id']}: {node['target']} {node['failureSummary']}"
        for each in found["violations"]
        if each["impact"] in SERIOUS
        for node in each["nodes"]
    ]


def furnish(scene: Scene) -> int:
    """A queue with something of everything, once for all tests; a dead letter's number."""
    if not scene.peek("access"):
        scene.queue("access", ordering_mode="group_fifo", lock_duration_ms=600_000)
        scene.kill("access", '{"a": 1}', reason="Broken", group_id="g", properties={"k": "v"})
        scene.send("access", *"abc", group_id="h")
        scene.receive("access")
        for name, expr in (("access-all", ""), ("access-some", "body_json.n > 1")):
            wanted = {"topic": "access-topic", "name": name, "filter": {"expr": expr}}
            scene.ask("AdminService/Subscribe", wanted)
        wanted = {"id": KEY, "name": "access-key", "permissions": ["send"]}
        scene.ask("AuthService/CreateKey", wanted)
    (letter,) = scene.peek("access", state="dead_lettered")
    return int(letter["seq_number"])


def show(*parts: str, title: str) -> Callable[[Scene], None]:
    return lambda scene: scene.go(*parts, title=title)


def asking(*parts: str, title: str, press: str) -> Callable[[Scene], None]:
    """A page with a dialog open."""

    def visit(scene: Scene) -> None:
        scene.go(*parts, title=title)
        scene.press(press)
        scene.dialog.get_by_role("heading", level=2).wait_for()

    return visit


def opened_letter(scene: Scene) -> None:
    number = furnish(scene)
    scene.go("dead-letters", "access", title="Dead letters of access")
    scene.open_message(number)


def resubmitting(scene: Scene) -> None:
    opened_letter(scene)
    scene.press("Edit and resubmit…")
    scene.dialog.get_by_text("Other fields").click()


def holding(scene: Scene) -> None:
    scene.ask("Send", {"queue": "access", "messages": [{"group_id": f"new-{len(scene.calls)}"}]})
    scene.go("queues", "access", title="access")
    scene.press("Receive one")
    scene.page.get_by_label("The message that you hold").wait_for()


def filtering(scene: Scene) -> None:
    scene.go("topics", "access-topic", title="access-topic")
    scene.press("Filter of access-some")
    scene.fill("Filter", "subjec")
    scene.dialog.get_by_text("Try it on a sample message").click()
    scene.dialog.get_by_text("What a filter can say").click()
    scene.dialog.locator(".verdict[data-look=bad]").wait_for()


def previewing(scene: Scene) -> None:
    scene.go("topics", "access-topic", title="access-topic")
    scene.press("Who would get it?")
    scene.see("1 of 2 subscriptions would get it.")


def revealing(scene: Scene) -> None:
    scene.go("keys", title="Keys")
    scene.press("Create a key")
    scene.fill("Name", "shown")
    scene.dialog.get_by_role("checkbox", name="Send").check()
    scene.press("Create")
    scene.asked("The token of shown")


VISITS: Final[dict[str, Callable[[Scene], None]]] = {
    "overview": show("overview", title="Overview"),
    "queues": show("queues", title="Queues"),
    "create": asking("queues", title="Queues", press="Create a queue"),
    "queue": show("queues", "access", title="access"),
    "send": asking("queues", "access", title="access", press="Send…"),
    "dead letters": show("dead-letters", title="Dead letters"),
    "letters": show("dead-letters", "access", title="Dead letters of access"),
    "letter": opened_letter,
    "resubmit": resubmitting,
    "purge": asking(
        "dead-letters", "access", title="Dead letters of access", press="Purge…"
    ),
    "redrive": asking(
        "dead-letters", "access", title="Dead letters of access", press="Redrive many…"
    ),
    "held": holding,
    "topics": show("topics", title="Topics"),
    "subscribe": asking("topics", title="Topics", press="Subscribe to a topic"),
    "filter": filtering,
    "preview": previewing,
    "end": asking(
        "topics", "access-topic", title="access-topic", press="Delete access-all"
    ),
    "keys": show("keys", title="Keys"),
    "new key": asking("keys", title="Keys", press="Create a key"),
    "secret": revealing,
    "revoke": asking("keys", title="Keys", press=f"Revoke access-key ({KEY[:8]})"),
    "observe": show("observe", title="Observe"),
    "connect": show("connect", title="Connect"),
    "nowhere": show("nowhere", title="No such page"),
}  # fmt: skip


def leave(scene: Scene) -> None:
    """Close what a visit has opened; a secret is closed by its button alone."""
    for _ in range(scene.page.locator("dialog").count()):
        if scene.dialog.get_by_label("Token", exact=True).count():
            scene.press("Close")
        else:
            scene.page.keyboard.press("Escape")
    scene.closed()


def test_axe_finds_no_serious_fault_on_any_page_light_or_dark(
    make_scene: MakeScene, console_broker: BrokerProcess
) -> None:
    """Colours are all that differs in the dark."""
    scene = make_scene(console_broker, reduced_motion="reduce")
    furnish(scene)
    found: dict[str, list[str]] = {}

    def look(name: str) -> None:
        scene.page.emulate_media(color_scheme="light")
        found[name] = faults(scene)
        scene.page.emulate_media(color_scheme="dark")
        found[f"{name}, dark"] = faults(scene, "color-contrast")

    scene.page.goto(f"{scene.base}/ui/")
    scene.see("status ok")
    look("sign-in")
    scene.sign_in()
    for name, visit in VISITS.items():
        visit(scene)
        look(name)
        leave(scene)
    assert {name: each for name, each in found.items() if each} == {}


def test_axe_would_find_a_fault(scene: Scene) -> None:
    scene.enter("#/queues")
    scene.page.evaluate("document.querySelector('.page').append(document.createElement('input'))")
    assert [each for each in faults(scene) if each.startswith("label:")]


def test_nothing_is_wider_than_a_phone(
    make_scene: MakeScene, console_broker: BrokerProcess
) -> None:
    scene = make_scene(console_broker, viewport={"width": 360, "height": 700})
    furnish(scene)
    scene.sign_in()
    wide = []
    for name, visit in VISITS.items():
        visit(scene)
        if not scene.page.evaluate(IS_NARROW):
            wide.append(name)
        leave(scene)
    assert wide == []


def test_the_keyboard_reaches_everything_and_is_seen(scene: Scene) -> None:
    furnish(scene)
    scene.enter("#/queues")
    press = scene.page.keyboard.press
    focused = "document.activeElement.textContent.trim()"
    scene.page.locator("body").focus()
    press("Tab")
    assert scene.page.evaluate(focused) == "Skip to content"
    expect(scene.page.get_by_role("link", name="Skip to content")).to_be_in_viewport()
    press("Enter")
    assert scene.page.evaluate(focused) == "Queues"
    assert scene.page.url.endswith("#/queues"), "skipping is no change of page"
    for _ in range(3):
        press("Tab")
    assert scene.page.evaluate(focused) == "Create a queue"
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert scene.page.evaluate(outline) == "solid"
    press("Enter")
    scene.asked("Create a queue")
    scene.page.keyboard.type("by-keyboard")
    press("Enter")
    scene.noted("Created by-keyboard.")
    scene.closed()
    assert scene.page.evaluate(focused) == "Create a queue", "the focus comes back"


def test_a_change_of_page_is_announced_by_its_heading(scene: Scene) -> None:
    scene.enter("#/overview")
    scene.page.get_by_label("Pages").get_by_role("link", name="Queues").click()
    expect(scene.page.locator("main h1")).to_be_focused()
    expect(scene.page).to_have_title("Queues · mqlite")
    current = scene.page.get_by_label("Pages").locator("[aria-current=page]")
    expect(current).to_have_text("Queues")


def test_the_theme_follows_the_system_until_somebody_chooses(
    make_scene: MakeScene, console_broker: BrokerProcess
) -> None:
    scene = make_scene(console_broker, color_scheme="dark")
    scene.enter("#/queues")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = scene.page.evaluate(ground)
    scene.page.get_by_role("button", name="Use the light theme").click()
    light = scene.page.evaluate(ground)
    assert light != dark
    scene.page.reload()
    scene.entered()
    assert scene.page.evaluate(ground) == light


def test_times_are_shown_as_chosen_and_the_choice_is_remembered(scene: Scene) -> None:
    scene.queue("timed")
    scene.send("timed", "x")
    scene.enter("#/queues/timed")
    sent = scene.page.locator("tbody time").first
    expect(sent).to_contain_text("ago")
    scene.page.get_by_label("How times are shown").select_option("utc")
    expect(sent).to_contain_text("Z")
    scene.page.reload()
    expect(sent).to_contain_text("Z")
    scene.page.get_by_label("How times are shown").select_option("local")
    expect(sent).not_to_contain_text("Z")
