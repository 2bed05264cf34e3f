"""One tab of the console and the broker behind it: what a test does there and asks of it.

`Scene` is what a test of this folder is given. It watches the tab the whole time: an error on the
browser's console, a breach of the policy, a request to anybody else, and a request whose address
holds the token each fail the test, whatever it is about.
"""

from __future__ import annotations

import base64
import json
import re
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from playwright.sync_api import ConsoleMessage, Locator, Page, Request, expect

from tests.services.broker_process import BrokerProcess
from tests.services.broker_scene import path

Json = Any
"""Whatever JSON holds."""

REFUSED: Final = re.compile(r"Failed to load resource: the server responded with a status of 4\d\d")
"""The browser's own note of a call that the broker refused: often what a test is about."""


class Scene:
    """A tab, its broker, and everything that was seen in it."""

    def __init__(self, page: Page, broker: BrokerProcess, token: str) -> None:
        self.page = page
        self.broker = broker
        self.token = token
        self.base = broker.url
        self.calls: list[str] = []
        self.faults: list[str] = []
        self.is_offline = False
        self.allowed: list[str] = []
        self.others: tuple[str, ...] = ()
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.faults.append(f"an error escaped: {error}"))
        page.on("request", self._asked)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type not in ("error", "warning"):
            return
        is_call = "/mqlite." in str(message.location.get("url", ""))
        if is_call and (self.is_offline or REFUSED.match(message.text)):
            return
        if not any(text in message.text for text in self.allowed):
            self.faults.append(f"console {message.type}: {message.text}")

    def _asked(self, request: Request) -> None:
        url = request.url
        if not url.startswith((f"{self.base}/", *self.others, "blob:", "data:")):
            self.faults.append(f"a foreign request: {url}")
        if self.token in url:
            self.faults.append(f"the token in an address: {url}")
        if "/mqlite." in url:
            self.calls.append(url.rpartition(".v1.")[2])

    def check(self) -> None:
        """What holds at the end of every test."""
        assert self.faults == []
        kept = self.page.evaluate("JSON.stringify(localStorage) + document.cookie + location.href")
        assert self.token not in kept
        assert not [line for line in self.broker.err.so_far() if self.token in line]

    # -- in the tab --------------------------------------------------------------------------------

    def sign_in(self, address: str = "", *, token: str | None = None) -> None:
        """Open the console, sign in, and go to a page, which is there when this returns."""
        self.page.goto(f"{self.base}/ui/{address}")
        self.page.get_by_label("Token").fill(self.token if token is None else token)
        self.page.get_by_role("button", name="Sign in").click()
        self.entered()

    def enter(self, address: str = "") -> None:
        """The same for a tab that was signed in before."""
        kept = json.dumps(json.dumps({"base": "", "token": self.token}))
        keep = f"sessionStorage.setItem('mqlite.session', {kept})"
        self.page.add_init_script(keep)
        self.page.goto(f"{self.base}/ui/{address}")
        self.entered()

    def entered(self) -> None:
        """Wait until a page is shown inside the frame."""
        self.page.locator("#app > nav ~ main h1:not(:empty)").wait_for()

    def go(self, *parts: str, title: str) -> None:
        """To another page, by its address."""
        address = "#/" + "/".join(quote(part, safe="") for part in parts)
        self.page.evaluate("address => { location.hash = address }", address)
        expect(self.page.locator("main h1")).to_have_text(title)

    def press(self, name: str, within: Locator | None = None) -> None:
        """A button by its whole name; that of the dialog if one is open."""
        (within or self.top).get_by_role("button", name=name, exact=True).click()

    def fill(self, label: str, value: str, within: Locator | None = None) -> None:
        """A field by its label."""
        (within or self.top).get_by_label(label, exact=True).fill(value)

    @property
    def top(self) -> Locator:
        """The last dialog if one is open, else the page; found anew whenever it is used."""
        return self.page.locator("#app:not(:has(~ dialog)), body > dialog:last-of-type")

    @property
    def dialog(self) -> Locator:
        return self.page.locator("dialog").last

    def asked(self, title: str) -> Locator:
        """Wait for a dialog with this title."""
        expect(self.dialog.get_by_role("heading", level=2)).to_have_text(title)
        return self.dialog

    def closed(self) -> None:
        """Wait until no dialog is open."""
        expect(self.page.locator("dialog")).to_have_count(0)

    def look(self, times: int = 1) -> None:
        """Let the console look at the broker so often; its clock is the test's."""
        fresh = self.page.locator(".fresh[data-looks]")
        for _ in range(times):
            before = int(fresh.get_attribute("data-looks") or 0)
            self.page.clock.run_for(5_000)
            self.page.locator(f'.fresh[data-looks="{before + 1}"]').wait_for()

    def see(self, text: str | re.Pattern[str]) -> None:
        """Wait until a text stands somewhere on the page."""
        expect(self.page.get_by_text(text).first).to_be_visible()

    def noted(self, text: str | re.Pattern[str]) -> None:
        """Wait for a note of what was done."""
        expect(self.page.locator("#notes .note").filter(has_text=text).first).to_be_visible()

    def row(self, name: str) -> Locator:
        """The row of a table with this head."""
        return self.page.get_by_role("row").filter(
            has=self.page.get_by_role("rowheader", name=name, exact=True)
        )

    def open_message(self, number: int) -> Locator:
        """Its dialog, with the body loaded."""
        self.press(f"Open message {number}")
        return self.asked(f"Message {number}")

    # -- at the broker -----------------------------------------------------------------------------

    def ask(self, call: str, request: Mapping[str, Any] | None = None) -> Json:
        """One call by an administrator, past the browser."""
        asked = urllib.request.Request(
            self.base + path(call),
            data=json.dumps(request or {}).encode(),
            headers={"Authorization": f"Bearer {self.token}"},
            method="POST",
        )
        with urllib.request.urlopen(asked, timeout=15) as answer:
            return json.load(answer)

    def queue(self, name: str, **config: object) -> str:
        self.ask("AdminService/CreateQueue", {"name": name, "config": config})
        return name

    def send(self, queue: str, *bodies: str | bytes, **fields: object) -> list[int]:
        """Messages with these bodies; their numbers."""
        messages = [{"body": encoded(body), **fields} for body in bodies]
        numbers: list[int] = self.ask("Send", {"queue": queue, "messages": messages})["seq_numbers"]
        return numbers

    def receive(self, queue: str, number: int = 1) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask("Receive", {"queue": queue, "max_messages": number})[
            "messages"
        ]
        return found

    def kill(
        self, queue: str, *bodies: str | bytes, reason: str = "", **fields: object
    ) -> list[int]:
        """Dead letters with these bodies; their numbers."""
        numbers = self.send(queue, *bodies, **fields)
        for message in self.receive(queue, len(bodies)):
            lease = {key: message[key] for key in ("seq_number", "lock_token")}
            self.ask("Reject", {"queue": queue, **lease, "dead_letter_reason": reason})
        return numbers

    def stats(self, queue: str) -> dict[str, int]:
        found: dict[str, int] = self.ask("Stats", {"queue": queue})
        return found

    def peek(self, queue: str, **request: object) -> Sequence[dict[str, Any]]:
        found: Sequence[dict[str, Any]] = self.ask("Peek", {"queue": queue, **request})["messages"]
        return found


def encoded(body: str | bytes) -> str:
    return base64.b64encode(body.encode() if isinstance(body, str) else body).decode()


def decoded(message: Mapping[str, Any]) -> bytes:
    return base64.b64decode(message.get("body", ""))
