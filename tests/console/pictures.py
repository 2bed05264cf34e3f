"""The pictures of docs/console, taken anew: `python -m tests.console.pictures`.

Furnishes a broker as a small shop has it on a bad morning and goes through the pages, light and
dark. Nothing here is a test; it is run by hand when the console has changed, and looked at.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Page, Route

from tests.console.browser import Stage, opened
from tests.console.scene import Scene
from tests.services.broker_process import TOKEN, BrokerProcess, started

FOLDER: Final = Path(__file__).resolve().parents[2] / "docs" / "console"
SIZE: Final = {"width": 1180, "height": 760}
PHONE: Final = {"width": 390, "height": 760}

ORDER: Final[dict[str, Any]] = {
    "order": 4711, "customer": "customer-17", "lines": [{"sku": "A-100", "quantity": "three"}],
}  # fmt: skip

KEYS: Final = {
    "shop, before the move": ["send"], "shop": ["send"], "warehouse": ["listen"],
    "accounting": ["send", "listen"], "deployment": ["manage"],
}  # fmt: skip


def furnish(scene: Scene) -> None:
    """Queues that move, one that stands still, dead letters, a topic, a key."""
    for name in ("audit", "billing", "invoices", "mail", "webhooks"):
        scene.queue(name)
    scene.queue("orders", ordering_mode="group_fifo", lock_duration_ms=900_000)
    for name, expr in (("fulfilment", ""), ("fraud-check", 'properties["country"] != "NL"')):
        filtered = {"filter": {"expr": expr}} if expr else {}
        scene.ask("AdminService/Subscribe", {"topic": "order-events", "name": name, **filtered})
    scene.send("orders", json.dumps(ORDER), group_id="customer-17", subject="order.placed",
               message_id="order-4711", content_type="application/json",
               properties={"country": "NL", "channel": "web"})  # fmt: skip
    scene.receive("orders")
    for number in range(4712, 4740):
        body = json.dumps({**ORDER, "order": number})
        scene.send("orders", body, group_id="customer-17", subject="order.placed",
                   message_id=f"order-{number}", properties={"country": "NL"})  # fmt: skip
    for number in range(23):
        scene.kill("mail", json.dumps({"to": f"guest-{number}@example"}), subject="mail.welcome",
                   message_id=f"mail-{number}",
                   reason="BadAddress" if number % 3 else "MailboxFull")  # fmt: skip
    scene.send("mail", *["{}"] * 12)
    scene.send("billing", *["{}"] * 3)
    scene.send("order-events", "{}", properties={"country": "DE"})
    for number, (name, rights) in enumerate(KEYS.items()):
        wanted = {"id": f"{number:x}7e4c1a9" * 4, "name": name, "permissions": rights}
        scene.ask("AuthService/CreateKey", wanted)
    scene.ask("AuthService/RevokeKey", {"id": "07e4c1a9" * 4})
    work(scene)


def work(scene: Scene) -> None:
    """Something comes and goes, so that the charts have a line."""
    scene.send("audit", *["{}"] * 40)
    for message in scene.receive("audit", 32):
        lease = {key: message[key] for key in ("seq_number", "lock_token")}
        scene.ask("Complete", {"queue": "audit", **lease})


def minutes_pass(scene: Scene, looks: int) -> None:
    """Several looks of the console, without waiting for them; each finds a broker that somebody
    waits at, five seconds later."""
    passed = 0

    def later(route: Route) -> None:
        nonlocal passed
        passed += 5_000
        answer = route.fetch()
        seen = answer.json()
        seen["sampled_at_ms"] = int(seen["sampled_at_ms"]) // 5_000 * 5_000 + passed
        seen["receive_waiters"] = [{"queue": "orders", "count": 3}]
        route.fulfill(response=answer, json=seen)

    scene.page.route("**/*AdminService/Observe", later)
    for number in range(looks):
        scene.send("audit", *["{}"] * (10 + 17 * number % 50))
        work(scene)
        scene.look()


Visit = Callable[[Scene], None]


def create_queue(scene: Scene) -> None:
    scene.go("queues", title="Queues")
    scene.press("Create a queue")


def queue_page(scene: Scene) -> None:
    scene.go("queues", "orders", title="orders")
    scene.see("stands still")


def message_dialog(scene: Scene) -> None:
    queue_page(scene)
    scene.page.get_by_role("button", name="Open message").first.click()
    scene.dialog.get_by_role("button", name="Why is it here?").click()
    scene.dialog.locator(".why-line").wait_for()


def dead_letters(scene: Scene) -> None:
    scene.go("dead-letters", "mail", title="Dead letters of mail")
    for box in scene.page.locator("tbody input[type=checkbox]").all()[:3]:
        box.check()


def resubmit(scene: Scene) -> None:
    dead_letters(scene)
    scene.page.get_by_role("button", name="Open message").first.click()
    scene.dialog.get_by_role("button", name="Edit and resubmit…").click()
    scene.dialog.get_by_label("Body").wait_for()


def purge(scene: Scene) -> None:
    dead_letters(scene)
    scene.press("Purge…")


def topic(scene: Scene) -> None:
    scene.go("topics", "order-events", title="order-events")
    trial = scene.page.locator("section", has_text="Who would get a message?")
    scene.fill("Properties", "country=DE", trial)
    scene.press("Who would get it?")
    scene.see("2 of 2 subscriptions would get it.")


def filter_editor(scene: Scene) -> None:
    scene.go("topics", "order-events", title="order-events")
    scene.press("Filter of fraud-check")
    scene.dialog.get_by_text("Try it on a sample message").click()
    scene.fill("Filter", 'properties["country"] != "NL" and body_json.total > 100')
    scene.fill("Properties", "country=DE")
    scene.fill("Body", '{"total": 250}')
    scene.page.clock.run_for(400)
    scene.see("This message matches.")


def create_key(scene: Scene) -> None:
    scene.go("keys", title="Keys")
    scene.press("Create a key")
    scene.fill("Name", "newsletter")
    scene.dialog.get_by_role("checkbox", name="Send").check()
    scene.fill("Expires after", "90d")


VISITS: Final[dict[str, Visit]] = {
    "overview": lambda scene: scene.go("overview", title="Overview"),
    "queues": lambda scene: scene.go("queues", title="Queues"),
    "create-queue": create_queue,
    "queue": queue_page,
    "message": message_dialog,
    "dead-letters": dead_letters,
    "resubmit": resubmit,
    "purge": purge,
    "topic": topic,
    "filter": filter_editor,
    "keys": lambda scene: scene.go("keys", title="Keys"),
    "create-key": create_key,
    "observe": lambda scene: scene.go("observe", title="Observe"),
    "connect": lambda scene: scene.go("connect", title="Connect"),
}  # fmt: skip
"""Name of the picture → the way there."""


def take(scene: Scene, scheme: str) -> None:
    page = scene.page
    page.goto(f"{scene.base}/ui/")
    page.get_by_text("status ok").wait_for()
    shoot(page, f"sign-in-{scheme}")
    scene.sign_in("#/overview")
    minutes_pass(scene, 60)
    for name, visit in VISITS.items():
        visit(scene)
        shoot(page, f"{name}-{scheme}")
        page.keyboard.press("Escape")
        page.locator("dialog").first.wait_for(state="detached")
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]  # Playwright's own mapping
    for name in ("overview", "queues", "queue", "topic", "observe"):
        VISITS[name](scene)
        shoot(page, f"phone-{name}-{scheme}")


def shoot(page: Page, name: str) -> None:
    page.screenshot(path=FOLDER / f"{name}.png", animations="disabled")


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for scheme in ("light", "dark"):
        with (
            tempfile.TemporaryDirectory() as folder,
            started(Path(folder)) as broker,
            opened() as stage,
        ):
            stage.run(partial(picture, stage, broker, scheme))


def picture(stage: Stage, broker: BrokerProcess, scheme: str) -> None:
    options: dict[str, Any] = {"viewport": SIZE, "color_scheme": scheme}
    context = stage.browser.new_context(**options)
    scene = Scene(context.new_page(), broker, TOKEN)
    scene.page.clock.install()
    furnish(scene)
    take(scene, scheme)
    context.close()


if __name__ == "__main__":
    main()
