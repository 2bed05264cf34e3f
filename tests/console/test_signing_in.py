"""Signing in and out of the console: by which credential, to which pages, and what is kept."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.console.conftest import MakeBroker, MakeScene
from tests.console.scene import Scene

EVERYTHING = ["Overview", "Queues", "Dead letters", "Topics", "Keys", "Observe", "Connect"]


def pages(scene: Scene) -> list[str]:
    return scene.page.get_by_label("Pages").get_by_role("link").all_inner_texts()


def kept(scene: Scene, storage: str) -> str:
    return str(scene.page.evaluate(f"JSON.stringify({storage})"))


@pytest.mark.promise("T79")
def test_the_token_is_kept_in_the_tab_alone_and_a_reload_keeps_the_page(scene: Scene) -> None:
    scene.page.goto(f"{scene.base}/ui/#/queues")
    scene.see(re.compile(r"^mqlite \S+, status ok$"))
    expect(scene.page.get_by_role("button", name="Sign in")).to_be_disabled()
    scene.sign_in("#/queues")
    assert scene.token in kept(scene, "sessionStorage")
    assert scene.token not in kept(scene, "localStorage")
    scene.page.reload()
    expect(scene.page.locator("main h1")).to_have_text("Queues")
    scene.press("Sign out")
    scene.page.get_by_label("Token").wait_for()
    assert scene.token not in kept(scene, "sessionStorage")
    assert scene.page.url.endswith("#/queues")


def test_a_wrong_token_is_told_so_and_is_not_kept(scene: Scene) -> None:
    scene.page.goto(f"{scene.base}/ui/")
    scene.page.get_by_label("Token").fill("no-such-token")
    scene.press("Sign in")
    scene.see("This token is wrong, expired or revoked.")
    assert kept(scene, "sessionStorage") == "{}"


def test_an_address_without_a_broker_is_told_so(scene: Scene) -> None:
    scene.allowed.append("a status of 401")
    scene.page.goto(f"{scene.base}/ui/")
    scene.fill("Broker address", f"{scene.base}/elsewhere")
    scene.page.get_by_label("Token").focus()
    scene.see("There is no broker at this address.")


def test_another_broker_is_signed_in_to_by_its_address_unless_the_console_is_tied(
    scene: Scene, make_scene: MakeScene, make_broker: MakeBroker
) -> None:
    other = make_broker(MQLITE_UI="self", MQLITE_TOKENS=scene.token)
    tied = make_scene(other)
    tied.queue("over-there")
    tied.page.goto(f"{tied.base}/ui/")
    tied.see("status ok")
    expect(tied.page.get_by_label("Broker address")).to_have_count(0)
    tied.sign_in("#/queues")
    expect(tied.row("over-there")).to_be_visible()

    scene.others = (f"{other.url}/",)
    scene.page.goto(f"{scene.base}/ui/#/queues")
    scene.fill("Broker address", other.url)
    scene.page.get_by_label("Token").fill(scene.token)
    scene.press("Sign in")
    expect(scene.row("over-there")).to_be_visible()
    scene.see(re.compile(f"at {other.url}$"))
    assert other.url in kept(scene, "localStorage")
    assert scene.calls.count("AdminService/Observe") >= 1

    # A tab that is signed in here stays here, wherever others went; and only here goes its token.
    scene.page.evaluate(
        "kept => sessionStorage.setItem('mqlite.session', JSON.stringify(kept))",
        {"base": "", "token": scene.token},
    )
    with scene.page.expect_request(lambda request: "/mqlite." in request.url) as asked:
        scene.page.reload()
    assert asked.value.url.startswith(f"{scene.base}/")
    expect(scene.page.locator("main h1")).to_have_text("Queues")
    expect(scene.row("over-there")).to_have_count(0)


@pytest.mark.parametrize(
    ("permissions", "expected"),
    [
        (["manage"], EVERYTHING),
        (["listen"], ["Queues", "Connect"]),
        (["send"], ["Queues", "Connect"]),
        (["send", "listen"], ["Queues", "Connect"]),
    ],
    ids="/".join,
)
def test_a_key_signs_in_with_what_it_may_do(
    scene: Scene, permissions: list[str], expected: list[str]
) -> None:
    name = "-".join(permissions)
    key_id = name.encode().hex().ljust(32, "0")[:32]
    made = scene.ask(
        "AuthService/CreateKey", {"id": key_id, "name": name, "permissions": permissions}
    )
    queue = scene.queue(f"for-{name}")
    (number,) = scene.send(queue, "hello")
    scene.sign_in("#/queues", token=made["token"])
    assert pages(scene) == expected
    if permissions != ["manage"]:
        scene.fill("Queue or topic", queue)
        scene.press("Open")
        expect(scene.page.locator("main h1")).to_have_text(queue)
    else:
        scene.go("queues", queue, title=queue)
    scene.page.get_by_role("button", name="Send…").or_(
        scene.page.get_by_role("button", name=f"Open message {number}")
    ).first.wait_for()
    buttons = scene.page.locator(".bar").first.get_by_role("button").all_inner_texts()
    assert ("Send…" in buttons) == (permissions != ["listen"])
    assert ("Receive one" in buttons) == (permissions != ["send"])
    assert ("Delete…" in buttons) == (permissions == ["manage"])


def test_a_revoked_key_is_signed_out_and_a_missing_right_is_not(scene: Scene) -> None:
    key_id = "ab" * 16
    made = scene.ask(
        "AuthService/CreateKey", {"id": key_id, "name": "short-lived", "permissions": ["listen"]}
    )
    scene.sign_in("#/queues", token=made["token"])
    scene.go("overview", title="Not allowed")
    scene.see(re.compile("lacks the right “monitor”"))
    scene.ask("AuthService/RevokeKey", {"id": key_id})
    scene.queue("after-revocation")
    scene.page.evaluate("location.hash = '#/queues/after-revocation'")
    scene.page.get_by_label("Token").wait_for()
    assert kept(scene, "sessionStorage") == "{}"


def test_a_monitor_sees_the_broker_and_changes_nothing(
    make_scene: MakeScene, make_broker: MakeBroker
) -> None:
    scene = make_scene(make_broker(MQLITE_MONITOR_TOKENS="eyes-only"))
    scene.queue("seen")
    scene.sign_in("#/queues", token="eyes-only")
    assert pages(scene) == ["Overview", "Queues", "Observe", "Connect"]
    expect(scene.row("seen")).to_be_visible()
    harmful = re.compile("Create|Settings|Delete")
    expect(scene.page.get_by_role("button", name=harmful)).to_have_count(0)


def test_without_authentication_it_is_entered_without_a_token(
    make_scene: MakeScene, make_broker: MakeBroker
) -> None:
    scene = make_scene(make_broker(MQLITE_TOKENS="off"), token="nothing-at-all")
    scene.page.goto(f"{scene.base}/ui/")
    scene.see(re.compile("authentication is off"))
    scene.press("Continue without a token")
    expect(scene.page.locator("main h1")).to_have_text("Overview")
    scene.see("Off: whoever reaches this address may do everything")
