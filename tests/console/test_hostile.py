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
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_hostile_name_is_text_on_every_page(scene: Scene, name: str) -> None:
    queue = scene.queue(f"q{name}")
    (number,) = scene.kill(
        queue, name, reason=name, group_id=name, subject=name, message_id=name,
        properties={f"k{name}": name},
    )  # fmt: skip
    scene.enter("#/dead-letters")
    head = scene.page.get_by_role("link", name=seen(queue), exact=True)
    assert head.inner_text() == " ".join(seen(queue).split(" ")).strip()
    head.click()
    title = f"Dead letters of {seen(queue)}"
    expect(scene.page.locator("main h1")).to_have_text(title)
    dialog = scene.open_message(number)
    expect(dialog).to_contain_text(seen(name).strip() or "Group")
    assert dialog.locator("img, script").count() == 0
    scene.press("Close")
    scene.press("Purge…")
    word = (
        queue if seen(queue) == queue and queue.strip() == queue and len(queue) <= 60 else "delete"
    )
    scene.fill(f"Type {word} to confirm", word)
    scene.press("Purge up to 1")
    scene.noted("Purged 1 dead letter.")
    scene.page.get_by_role("link", name=seen(queue), exact=True).click()
    expect(scene.page.locator("main h1")).to_have_text(seen(queue).strip())
    scene.press("Delete…")
    scene.asked(f"Delete {seen(queue)}?")
    scene.fill(f"Type {word} to confirm", word)
    scene.press("Delete the queue")
    scene.noted("Deleted ")
    assert scene.page.evaluate("document.title") != "pwned"
    assert scene.page.locator("#app img, #app script, #notes img").count() == 0


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
