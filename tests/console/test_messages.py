"""A queue's page: its messages by state, how they are found, shown, sent, received and settled."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Route, expect

from tests.console.scene import Scene, decoded

STATES = ("active", "locked", "scheduled", "deferred", "dead_lettered")


def shown(scene: Scene) -> list[int]:
    """The numbers in the list, in its order."""
    heads = scene.page.get_by_role("rowheader").all_inner_texts()
    return [int(head) for head in heads]


def listed(scene: Scene, *numbers: int) -> None:
    """Wait until exactly these stand in the list."""
    expect(scene.page.locator("tbody tr")).to_have_count(len(numbers))
    assert shown(scene) == list(numbers)


def one_in_each_state(scene: Scene, queue: str) -> dict[str, int]:
    scene.queue(queue, lock_duration_ms=600_000)
    later = {"scheduled_enqueue_time_ms": 4_102_444_800_000}
    found = {}
    for state in ("deferred", "dead_lettered", "locked"):
        (found[state],) = scene.send(queue, f"a {state} one")
        (message,) = scene.receive(queue)
        lease = {key: message[key] for key in ("seq_number", "lock_token")}
        verb = {"deferred": "Defer", "dead_lettered": "Reject"}.get(state)
        if verb:
            scene.ask(verb, {"queue": queue, **lease})
    (found["scheduled"],) = scene.ask(
        "Schedule", {"queue": queue, "messages": [{"subject": "later"}], **later}
    )["seq_numbers"]
    (found["active"],) = scene.send(queue, "an active one")
    return found


def test_each_state_has_its_messages_and_its_number(scene: Scene) -> None:
    numbers = one_in_each_state(scene, "five-states")
    scene.enter("#/queues/five-states")
    for state in STATES:
        tab = (
            scene.page.get_by_label("States")
            .get_by_role("link")
            .nth(["active", "locked", "scheduled", "deferred", "dead_lettered"].index(state))
        )
        tab.click()
        expect(tab).to_have_attribute("aria-current", "page")
        expect(tab.locator("span")).to_have_text("1")
        listed(scene, numbers[state])
    scene.page.reload()
    listed(scene, numbers["dead_lettered"])


def test_long_lists_are_read_page_by_page_without_bodies(scene: Scene) -> None:
    queue = scene.queue("pages")
    numbers = scene.send(queue, *["x" * 2000] * 120)
    sizes: list[int] = []
    scene.page.on(
        "response",
        lambda answer: sizes.append(len(answer.body())) if "Search" in answer.url else None,
    )
    scene.enter("#/queues/pages")
    listed(scene, *numbers[:50])
    scene.press("Next page")
    scene.see("Page 2: 50 messages, and there are more.")
    listed(scene, *numbers[50:100])
    scene.press("Next page")
    scene.see("Page 3: 20 messages.")
    expect(scene.page.get_by_role("button", name="Next page")).to_be_disabled()
    scene.press("Previous page")
    scene.see("Page 2: 50 messages, and there are more.")
    assert shown(scene) == numbers[50:100]
    assert max(sizes) < 50 * 300


def test_a_message_is_found_by_what_is_known_of_it(scene: Scene) -> None:
    queue = scene.queue("haystack")
    for number in range(6):
        scene.send(queue, *[f"hay {number}-{each}" for each in range(100)])
    (needle,) = scene.send(
        queue, "a needle", subject="sewing", group_id="g", message_id="n-1",
        properties={"metal": "steel"},
    )  # fmt: skip
    scene.send(queue, *["more hay"] * 100)
    scene.enter("#/queues/haystack")
    scene.page.get_by_text("Search", exact=True).click()
    for label, value in (
        ("Body contains", "needle"),
        ("Message id is", "n-1"),
        ("Group is", "g"),
        ("Subject is", "sewing"),
        ("Properties are", "metal=steel"),
    ):
        scene.fill(label, value)
        scene.press("Find")
        listed(scene, needle)
        scene.press("Clear")
        scene.see("Page 1: 50 messages, and there are more.")
    scene.fill("Body contains", "no such thing")
    scene.press("Find")
    scene.see("No message matches; looked at 701.")


def test_a_body_is_shown_as_text_as_json_and_as_bytes(scene: Scene) -> None:
    queue = scene.queue("bodies")
    exact = '{"big":12345678901234567890,"twice":1,"twice":2,"nested":{"empty":{},"list":[1,[]]}}'
    as_json, as_text, as_bytes, nothing = scene.send(
        queue, exact, "plain\nlines\x07", b"\xff\x00A", ""
    )
    scene.enter("#/queues/bodies")
    body = scene.open_message(as_json).locator("pre.body")
    expect(body).to_contain_text('"big": 12345678901234567890,')
    expect(body).to_contain_text('"empty": {}')
    assert json.loads(body.inner_text())["twice"] == 2
    assert body.inner_text().count("twice") == 2
    scene.press("Text")
    expect(body).to_have_text(exact)
    scene.press("Hex")
    expect(body).to_contain_text("00000000  7b 22 62 69 67 22 3a 31")
    scene.press("Close")

    body = scene.open_message(as_text).locator("pre.body")
    assert body.inner_text() == "plain\nlines\\u0007"
    expect(scene.dialog.get_by_role("button", name="JSON")).to_be_disabled()
    scene.press("Close")

    body = scene.open_message(as_bytes).locator("pre.body")
    assert body.inner_text() == f"00000000  ff 00 41{' ' * 39}  ··A"
    expect(scene.dialog.get_by_role("button", name="Text")).to_be_disabled()
    scene.see("It is no UTF-8 text. 3 B")
    scene.press("Close")

    scene.open_message(nothing)
    scene.see("The body is empty.")


@pytest.mark.promise("T79")
def test_a_message_is_sent_with_all_its_fields(scene: Scene) -> None:
    scene.queue("outgoing")
    scene.enter("#/queues/outgoing")
    scene.press("Send…")
    for label, value in (
        ("Body", "línea\nzwei"),
        ("Subject", "s"),
        ("Group", "g"),
        ("Message id", "m"),
        ("Content type", "text/plain"),
        ("Correlation id", "c"),
        ("Reply to", "r"),
        ("Lives for", "1h"),
        ("Properties", "a=1\nb=x=y"),
    ):
        scene.fill(label, value)
    scene.press("Send")
    scene.noted("Sent to outgoing as message")
    (stored,) = scene.peek("outgoing")
    assert decoded(stored) == "línea\nzwei".encode()
    fields = ("subject", "group_id", "message_id", "content_type", "correlation_id", "reply_to")
    assert [stored[each] for each in fields] == ["s", "g", "m", "text/plain", "c", "r"]
    assert stored["properties"] == {"a": "1", "b": "x=y"}
    assert stored["expires_at_ms"] - stored["enqueued_at_ms"] == 3_600_000
    listed(scene, stored["seq_number"])

    scene.press("Send…")
    scene.dialog.get_by_label("The body is").select_option("hex")
    scene.fill("Body", "ff 00 zz")
    scene.press("Send")
    scene.see(re.compile("The body is not hexadecimal"))
    scene.fill("Body", "ff 00\n41")
    scene.press("Send")
    scene.closed()
    assert decoded(scene.peek("outgoing")[1]) == b"\xff\x00A"


def test_a_sending_without_an_answer_is_repeated_and_stored_once(scene: Scene) -> None:
    scene.queue("once")
    scene.enter("#/queues/once")
    scene.is_offline = True
    lost: list[int] = []

    def lose(route: Route) -> None:
        """The first one reaches the broker, and the page hears nothing of it."""
        if lost:
            route.continue_()
            return
        lost.append(route.fetch().status)
        route.abort()

    scene.page.route("**/*SendResult", lose)
    scene.press("Send…")
    scene.fill("Body", "precious")
    scene.press("Send")
    scene.see("The broker cannot be reached: no connection.")
    assert scene.stats("once")["active"] == 1
    scene.press("Send")
    scene.noted("Sent to once as message")
    assert scene.stats("once")["active"] == 1


@pytest.mark.promise("T79")
def test_a_message_is_received_and_settled_in_each_way(scene: Scene) -> None:
    scene.queue("inbox", lock_duration_ms=600_000)
    numbers = scene.send("inbox", *"abcdef")
    scene.enter("#/queues/inbox")
    held = scene.page.get_by_label("The message that you hold")

    def take(number: int) -> None:
        scene.press("Receive one")
        expect(held.get_by_role("heading")).to_have_text(f"You hold message {number}")

    take(numbers[0])
    expect(held.locator("pre.body")).to_have_text("a")
    scene.press("Complete…", held)
    scene.press("Complete")
    scene.noted(f"Message {numbers[0]} is done and gone.")

    take(numbers[1])
    scene.press("Reject…", held)
    scene.fill("Reason", "Unreadable")
    scene.fill("Description", "a b is no number")
    scene.press("Reject")
    scene.noted("is a dead letter now.")

    take(numbers[2])
    scene.press("Defer", held)
    scene.noted("was set aside")

    take(numbers[3])
    scene.press("Try again later…", held)
    scene.fill("After", "2h")
    scene.press("Put it back")
    scene.noted("will be delivered again.")

    take(numbers[4])
    scene.press("Hold longer", held)
    scene.press("Give back", held)
    scene.noted("went back, uncounted.")
    expect(held).to_be_hidden()

    states = {each["seq_number"]: each for each in scene.peek("inbox")}
    assert [states[number]["state"] for number in numbers[1:]] == [
        "dead_lettered", "deferred", "scheduled", "active", "active",
    ]  # fmt: skip
    assert states[numbers[1]]["dead_letter_reason"] == "Unreadable"
    assert states[numbers[1]]["dead_letter_description"] == "a b is no number"
    assert states[numbers[3]]["delivery_count"] == 1
    assert "delivery_count" not in states[numbers[4]]


def test_what_is_still_held_goes_back_when_the_page_is_left(scene: Scene) -> None:
    scene.queue("left", lock_duration_ms=600_000)
    (number,) = scene.send("left", "x")
    scene.enter("#/queues/left")
    scene.press("Receive one")
    scene.see(f"You hold message {number}")
    assert scene.stats("left")["locked"] == 1
    scene.go("queues", title="Queues")
    scene.noted(f"Message {number} went back, because you left its page.")
    assert scene.stats("left")["active"] == 1


def test_a_scheduled_one_is_cancelled_and_a_deferred_one_is_taken(scene: Scene) -> None:
    numbers = one_in_each_state(scene, "others")
    scene.enter("#/queues/others/scheduled")
    scene.open_message(numbers["scheduled"])
    scene.press("Cancel…")
    scene.asked(f"Cancel message {numbers['scheduled']}?")
    scene.press("Cancel the message")
    scene.noted("was cancelled.")
    assert scene.stats("others")["scheduled"] == 0
    scene.go("queues", "others", "deferred", title="others")
    scene.open_message(numbers["deferred"])
    scene.press("Take it")
    scene.see(f"You hold message {numbers['deferred']}")
    scene.press("Give back", scene.page.get_by_label("The message that you hold"))
    scene.noted("was set aside again.")
    scene.open_message(numbers["deferred"])
    scene.press("Take it")
    scene.see(f"You hold message {numbers['deferred']}")
    scene.go("queues", title="Queues")
    scene.noted("was set aside again, because you left its page.")
    assert scene.stats("others")["deferred"] == 1


def test_a_retry_that_waits_offers_no_cancelling(scene: Scene) -> None:
    scene.queue("retries")
    (number,) = scene.send("retries", "x")
    (message,) = scene.receive("retries")
    lease = {key: message[key] for key in ("seq_number", "lock_token")}
    scene.ask("Abandon", {"queue": "retries", **lease, "delay_ms": 3_600_000})
    scene.enter("#/queues/retries/scheduled")
    dialog = scene.open_message(number)
    dialog.get_by_role("button", name="Why is it here?").wait_for()
    expect(dialog.get_by_role("button", name="Cancel…")).to_have_count(0)


def test_what_stands_in_the_way_is_named_and_can_be_opened(scene: Scene) -> None:
    scene.queue("lines", ordering_mode="group_fifo", lock_duration_ms=600_000)
    first, second, _ = scene.send("lines", *"abc", group_id="slow")
    scene.receive("lines")
    scene.enter("#/queues/lines")
    why = scene.page.locator(".why-line")
    expect(why).to_contain_text("Group slow: 2 messages behind")
    scene.open_message(second)
    scene.press("Why is it here?")
    expect(scene.dialog.locator(".why-line")).to_contain_text(f"It waits for: message {first}")
    scene.dialog.get_by_role("button", name=f"message {first}").first.click()
    scene.asked(f"Message {first}")
    scene.press("Close")
    scene.press("Receive one")
    expect(why).to_contain_text("1 line stands still")


def test_a_number_that_no_double_holds_is_shown_with_every_digit(scene: Scene) -> None:
    """Sequence numbers have 64 bits; a broker that answers such a one is played here."""
    scene.queue("vast")
    scene.send("vast", "x")
    number = 9_007_199_254_740_993
    asked: list[str] = []

    def answer(route: Route) -> None:
        asked.append(route.request.post_data or "")
        found = route.fetch(post_data=asked[-1].replace(str(number), "0"))
        text = re.sub(r'"seq_number":\d+', f'"seq_number":{number}', found.text())
        route.fulfill(response=found, body=text)

    scene.page.route("**/*Search", answer)
    scene.page.route("**/*Peek", answer)
    scene.enter("#/queues/vast")
    scene.open_message(number)
    assert f'"from_seq":{number}' in asked[-1]


def test_a_queue_that_does_not_exist_is_told_so(scene: Scene) -> None:
    scene.enter("#/queues/nowhere")
    scene.see("There is no queue of this name (any more).")
