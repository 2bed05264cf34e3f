"""Names and bodies that mean harm: what the console shows of them is text, and visible."""

from __future__ import annotations

import re
from typing import Final

import pytest
from playwright.sync_api import expect

from mqlite_actor.contract import limits
from tests.console.scene import Scene

MARKUP: Final = (
    "<img src=x onerror=\"document.title='pwned'\"><script>document.title='pwned'</script>"
)
NAMES: Final = {
    "markup": MARKUP,
    "attribute": '" onmouseover="document.title=\'pwned\'" x="',
    "address": "javascript:document.title='pwned'",
    "turned": "\u202egnp.exe\u2066",
    "control": "a\x00b\x1b[2Jc\td\ne",
    "path": "../../..%2f/#/keys?x=1&y",
    "blank": " ",
    "long": "x" * 3000,
}


def seen(text: str) -> str:
    """What the console makes visible of a text, written here once more."""
    return re.sub(
        r"[\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]",
        lambda found: f"\\u{ord(found[0]):04x}",
        text,
    )


@pytest.mark.promise("T80")
def test_hostile_names_are_text_on_every_page(scene: Scene) -> None:
    letters = {}
    for kind, name in NAMES.items():
        queue = scene.queue(f"{kind}{name}")
        (letters[queue],) = scene.kill(
            queue, name, reason=name, group_id=name, subject=name, message_id=name,
            properties={f"k{name}": name},
        )  # fmt: skip
    scene.enter("#/dead-letters")
    for (queue, number), name in zip(letters.items(), NAMES.values(), strict=True):
        scene.go("dead-letters", title="Dead letters")
        scene.page.get_by_role("link", name=seen(queue), exact=True).click()
        title = f"Dead letters of {seen(queue)}"
        expect(scene.page.locator("main h1")).to_have_text(title)
        dialog = scene.open_message(number)
        expect(dialog).to_contain_text(seen(name).strip() or "Group")
        assert dialog.locator("img, script").count() == 0
        scene.press("Close")
        empty_and_delete(scene, queue)
    assert scene.page.evaluate("document.title") != "pwned"
    assert scene.page.locator("#app img, #app script, #notes img").count() == 0


def empty_and_delete(scene: Scene, queue: str) -> None:
    """By the page of its dead letters and its own."""
    is_typeable = seen(queue) == queue and queue.strip() == queue and len(queue) <= 60
    word = queue if is_typeable else "delete"
    scene.press("Purge…")
    scene.fill(f"Type {word} to confirm", word)
    scene.press("Purge up to 1")
    scene.noted("Purged 1 dead letter.")
    scene.closed()
    scene.page.get_by_role("link", name=seen(queue), exact=True).click()
    expect(scene.page.locator("main h1")).to_have_text(seen(queue).strip())
    scene.press("Delete…")
    scene.asked(f"Delete {seen(queue)}?")
    scene.fill(f"Type {word} to confirm", word)
    scene.press("Delete the queue")
    expect(scene.page.locator("main h1")).to_have_text("Queues")


@pytest.mark.promise("T80")
def test_hostile_bodies_are_shown_and_do_nothing(scene: Scene) -> None:
    bodies: dict[str | bytes, str] = {
        MARKUP: "Text",
        "\u202eright to left\x00\x1b[31m": "Text",
        b"\xff\xfe\xc3(": "Hex",
        '{"a":' * 50_000: "Text",
        "[" * 300 + "]" * 300: "Text",
        '{"__proto__": {"polluted": true}, "x": "</pre>"}': "JSON",
        "A" * (64 * 1024 + 1): "Text",
        "é" * (limits.MESSAGE_BYTES_DEFAULT // 2): "Text",
    }
    queue = scene.queue("hostile-bodies")
    numbers = [scene.send(queue, body)[0] for body in bodies]
    scene.enter("#/queues/hostile-bodies")
    for number, (body, form) in zip(numbers, bodies.items(), strict=True):
        dialog = scene.open_message(number)
        pressed = dialog.locator("[aria-pressed=true]")
        expect(pressed).to_have_text(form)
        shown = dialog.locator("pre.body").evaluate("node => node.textContent")
        if form == "Text":
            whole = seen(str(body))
            assert whole.startswith(shown)
            more = dialog.get_by_role("button", name="Show all")
            assert more.is_visible() == (len(str(body)) > 64 * 1024)
        scene.press("Close")
        scene.closed()
    assert scene.page.evaluate("({}).polluted") is None
    assert scene.page.evaluate("document.title") != "pwned"


def test_a_hostile_refusal_is_text_too(scene: Scene) -> None:
    """An answer of something that is no broker, or wants to be one."""
    scene.allowed.append("502")
    scene.queue("refusals")
    scene.page.route(
        "**/*Explain",
        lambda route: route.fulfill(
            status=400, json={"code": "invalid_argument", "message": MARKUP}
        ),
    )
    scene.enter("#/queues/refusals")
    scene.press("Why is nothing delivered?")
    scene.noted("<img src=x")
    scene.page.unroute("**/*Explain")
    scene.page.route("**/*Explain", lambda route: route.fulfill(status=502, body="<html>nope"))
    scene.press("Why is nothing delivered?")
    scene.noted("The answer was no broker's (status 502).")
    assert scene.page.locator("#notes img").count() == 0


@pytest.mark.promise("T80")
def test_the_watch_over_every_test_finds_what_it_is_for(scene: Scene) -> None:
    """Planted: a script in the page, a picture from elsewhere, the token in an address."""
    scene.enter("#/queues")
    planted = {
        "script": "document.head.append(Object.assign(document.createElement('script'),"
        " { textContent: 'document.title = 1' }))",
        "elsewhere": "document.body.append(Object.assign(new Image(),"
        " { src: 'http://127.0.0.2:9/x.png' }))",
        "token": f"fetch('/healthz?token={scene.token}')",
    }
    found = {}
    for kind, code in planted.items():
        before = len(scene.faults)
        with scene.page.expect_event("request" if kind == "token" else "console"):
            scene.page.evaluate(f"() => {{ {code}; }}")
        found[kind] = str(scene.faults[before:])
    assert "Content Security Policy" in found["script"]
    assert "127.0.0.2" in found["elsewhere"]
    assert "the token in an address" in found["token"]
    scene.faults.clear()
