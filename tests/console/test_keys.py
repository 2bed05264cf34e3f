"""Access keys in the console: made with a secret that is shown once, found, and revoked."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from typing import Any, Final

from playwright.sync_api import Route, expect

from tests.console.conftest import MakeBroker, MakeScene
from tests.console.scene import Scene

MARKUP: Final = "<img src=x onerror=alert(1)>"
TOKEN: Final = re.compile(r"mqk_[0-9a-f]{64}")


def key(scene: Scene, key_id: str) -> dict[str, Any] | None:
    """What the broker knows of a key."""
    known = scene.ask("AuthService/ListKeys", {"limit": 1000})["keys"]
    return next((each for each in known if each["id"] == key_id), None)


def form(scene: Scene, name: str, right: str) -> str:
    """Fill in the dialog for a key; its id, which stands there before anything was sent."""
    scene.press("Create a key")
    key_id = scene.dialog.get_by_label("Id", exact=True).input_value()
    assert re.fullmatch("[0-9a-f]{32}", key_id)
    assert key(scene, key_id) is None
    scene.fill("Name", name)
    scene.dialog.get_by_role("checkbox", name=right).check()
    return key_id


def secret(scene: Scene, name: str) -> str:
    scene.asked(f"The token of {name}")
    return scene.dialog.get_by_role("textbox", name="Token").input_value()


def status(scene: Scene, token: str) -> int:
    """What a call with this token is answered."""
    asked = urllib.request.Request(
        f"{scene.base}/mqlite.v1.QueueService/Send",
        data=json.dumps({"queue": "", "messages": []}).encode(),
        headers={"Authorization": f"Bearer {token}"},
    )
    try:
        with urllib.request.urlopen(asked, timeout=15) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code


def test_a_key_is_made_its_token_shown_once_and_revoked(scene: Scene) -> None:
    scene.enter("#/keys")
    key_id = form(scene, "shop", "Send")
    scene.fill("Expires after", "90d")
    scene.press("Create")
    token = secret(scene, "shop")
    assert TOKEN.fullmatch(token)
    assert status(scene, token) == 200
    made = key(scene, key_id)
    assert made is not None
    assert (made["name"], made["permissions"]) == ("shop", ["send"])
    assert abs(made["expires_at_ms"] - made["created_at_ms"] - 90 * 86_400_000) < 60_000

    scene.page.keyboard.press("Escape")
    assert secret(scene, "shop") == token, "only its button closes it"
    scene.press("Close")
    scene.closed()
    kept = scene.page.evaluate(
        "document.documentElement.outerHTML + JSON.stringify({...sessionStorage, ...localStorage})"
        " + [...document.querySelectorAll('input')].map(each => each.value)"
    )
    assert token not in kept

    expect(scene.row("shop")).to_contain_text("active")
    scene.press(f"Revoke shop ({key_id[:8]})")
    revoke = scene.dialog.get_by_role("button", name="Revoke the key")
    expect(revoke).to_be_disabled()
    scene.fill(f"Type {key_id[:8]} to confirm", key_id[:8])
    revoke.click()
    scene.noted(f"Revoked shop ({key_id[:8]}).")
    expect(scene.row("shop")).to_contain_text("revoked")
    assert status(scene, token) == 401


def test_a_key_whose_answer_was_lost_is_looked_up_and_revoked(scene: Scene) -> None:
    scene.enter("#/keys")
    scene.is_offline = True
    scene.page.route("**/*AuthService/CreateKey", lose)
    lost = form(scene, "half-made", "Manage")
    scene.press("Create")
    scene.see("The key may have been made all the same; then nobody has its token.")
    scene.press("Look the id up")
    scene.see("It was made. Revoke it, and create another with a new id.")
    scene.press("Revoke it")
    scene.see("It was made, and is revoked now. There is a new id above for another.")
    found = key(scene, lost)
    assert found is not None
    assert found["revoked_at_ms"] > 0

    scene.page.unroute("**/*AuthService/CreateKey")
    assert scene.dialog.get_by_label("Id", exact=True).input_value() != lost
    scene.press("Create")
    assert status(scene, secret(scene, "half-made")) == 200
    scene.press("Close")


def lose(route: Route) -> None:
    """The request arrives, and its answer does not."""
    route.fetch()
    route.abort()


def test_a_key_that_was_not_made_is_made_with_the_same_id(scene: Scene) -> None:
    scene.enter("#/keys")
    scene.is_offline = True
    scene.page.route("**/*AuthService/CreateKey", lambda route: route.abort())
    key_id = form(scene, "second-try", "Listen")
    scene.press("Create")
    scene.press("Look the id up")
    scene.see("No key has this id by now. You can create it with the same id.")
    scene.page.unroute("**/*AuthService/CreateKey")
    scene.press("Create")
    secret(scene, "second-try")
    assert key(scene, key_id) is not None
    scene.press("Close")


def test_an_id_that_is_taken_never_shows_a_token(scene: Scene) -> None:
    taken = "cd" * 16
    scene.ask("AuthService/CreateKey", {"id": taken, "name": "first", "permissions": ["send"]})
    scene.enter("#/keys")
    form(scene, "second", "Send")
    scene.fill("Id", "nonsense")
    expect(scene.dialog.get_by_role("button", name="Create")).to_be_disabled()
    scene.fill("Id", taken)
    scene.press("Create")
    expect(scene.dialog.get_by_role("alert")).to_contain_text("is never shown again")
    scene.press("Cancel")
    scene.closed()
    scene.fill("Id of a key", taken.upper())
    scene.press("Find")
    scene.asked("Key first")
    scene.press("Close")
    scene.closed()
    scene.fill("Id of a key", "00" * 16)
    scene.press("Find")
    scene.see(f"No key has the id {'00' * 16}.")


def test_keys_are_listed_page_by_page_and_their_names_stay_text(scene: Scene) -> None:
    for number in range(52):
        name = f"{MARKUP}\u202e" if number == 51 else f"key-{number}"
        wanted = {"id": f"be{number:030x}", "name": name, "permissions": ["send"]}
        scene.ask("AuthService/CreateKey", wanted)
    scene.enter("#/keys")
    heads = scene.page.get_by_role("rowheader")
    expect(heads).to_have_count(50)
    expect(heads.first).to_have_text(rf"{MARKUP}\u202e")
    assert scene.page.locator("img").count() == 0
    older = scene.page.get_by_role("button", name="Older")
    newer = scene.page.get_by_role("button", name="Newer")
    expect(newer).to_be_disabled()
    older.click()
    expect(scene.row("key-1")).to_be_visible()
    assert 2 <= heads.count() <= 50
    newer.click()
    expect(scene.row("key-2")).to_be_visible()
    expect(heads).to_have_count(50)


def test_the_key_of_the_session_is_known_before_it_is_revoked(scene: Scene) -> None:
    made = {}
    for name, start in (("mine", "0e"), ("another", "1e")):
        wanted = {"id": start * 16, "name": name, "permissions": ["manage"]}
        made[name] = scene.ask("AuthService/CreateKey", wanted)["token"]
    scene.sign_in("#/keys", token=made["mine"])
    scene.press("Revoke another (1e1e1e1e)")
    scene.asked("Revoke another?")
    expect(scene.dialog.get_by_text("your session")).to_have_count(0)
    scene.press("Cancel")
    scene.closed()
    scene.press("Revoke mine (0e0e0e0e)")
    scene.see("You are signed in with this key: revoking it ends your session.")
    scene.fill("Type 0e0e0e0e to confirm", "0e0e0e0e")
    scene.press("Revoke it and sign out")
    scene.page.get_by_label("Token", exact=True).wait_for()
    assert scene.page.evaluate("JSON.stringify(sessionStorage)") == "{}"


def test_while_authentication_is_off_nothing_is_asked_and_it_is_said_why(
    make_scene: MakeScene, make_broker: MakeBroker
) -> None:
    scene = make_scene(make_broker(MQLITE_TOKENS="off"), token="nothing-at-all")
    scene.page.goto(f"{scene.base}/ui/#/keys")
    scene.press("Continue without a token")
    scene.see("Authentication is off")
    scene.see("so there are no keys to manage")
    assert not [call for call in scene.calls if call.startswith("AuthService/")]
    scene.go("connect", title="Connect")
    assert "MQLITE_TOKEN" not in scene.page.locator("main").inner_text()
