"""Dead letters in the console: seen, put back, mended, purged, none of it by one wrong click."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Route, expect

from tests.console.scene import Scene, decoded


def active(scene: Scene, queue: str) -> list[int]:
    return [each["seq_number"] for each in scene.peek(queue, state="active", max=1000)]


def test_the_worst_queue_comes_first_and_leads_to_its_letters(scene: Scene) -> None:
    scene.queue("dead-few")
    scene.queue("dead-many")
    scene.kill("dead-few", "a")
    scene.kill("dead-many", *["b"] * 30, reason="Broken", subject="s")
    scene.enter("#/dead-letters")
    heads = scene.page.get_by_role("rowheader").all_inner_texts()
    assert heads.index("dead-many") < heads.index("dead-few")
    scene.row("dead-many").get_by_role("link").click()
    expect(scene.page.locator("main h1")).to_have_text("Dead letters of dead-many")
    scene.see("30 dead letters in dead-many")
    expect(scene.page.locator("tbody tr")).to_have_count(30)
    expect(scene.page.locator("tbody tr").first).to_contain_text("Broken")


@pytest.mark.promise("T79")
def test_chosen_letters_are_redriven_and_the_others_stay(scene: Scene) -> None:
    queue = scene.queue("choose")
    numbers = scene.kill(queue, *"abcde")
    scene.enter("#/dead-letters/choose")
    expect(scene.page.get_by_role("button", name="Redrive selected…")).to_be_disabled()
    for number in (numbers[1], numbers[3]):
        scene.page.get_by_label(f"Select message {number}", exact=True).check()
    scene.press("Redrive 2 selected…")
    scene.asked("Redrive 2 dead letters of choose")
    scene.press("Redrive")
    scene.noted("Redrove 2 messages.")
    assert active(scene, queue) == [numbers[1], numbers[3]]
    expect(scene.page.locator("tbody tr")).to_have_count(3)
    scene.press("Select this page")
    expect(scene.page.get_by_role("button", name="Redrive 3 selected…")).to_be_enabled()


def test_a_letter_that_somebody_took_meanwhile_is_told_of(scene: Scene) -> None:
    queue = scene.queue("raced")
    numbers = scene.kill(queue, *"ab")
    scene.enter("#/dead-letters/raced")
    scene.press("Select this page")
    scene.ask("AdminService/RedriveSelected", {"queue": queue, "seq_numbers": numbers[:1]})
    scene.press("Redrive 2 selected…")
    scene.asked("Redrive 2 dead letters of raced")
    scene.press("Redrive")
    scene.noted("Redrove 1 message. 1 other had been moved or deleted by somebody else.")


@pytest.mark.promise("T79")
def test_many_go_to_another_queue_at_a_rate_and_can_be_stopped(scene: Scene) -> None:
    """The clock of the page is the test's, so a second between two steps takes none."""
    source, target = scene.queue("paced"), scene.queue("paced-target")
    scene.kill(source, *["x"] * 25)
    scene.page.clock.install()
    scene.enter("#/dead-letters/paced")
    scene.see("25 dead letters in paced")
    scene.press("Redrive many…")
    scene.fill("To another queue", target)
    scene.fill("At most so many a second", "10")
    scene.press("Redrive")
    scene.see("10 of 25")
    assert scene.stats(target)["active"] == 10
    fields = scene.dialog.get_by_role("textbox").or_(scene.dialog.get_by_role("spinbutton"))
    assert {each.is_disabled() for each in fields.all()} == {True}  # they say what is under way
    scene.page.clock.run_for(1_000)
    scene.see("20 of 25")
    scene.press("Stop")
    scene.page.clock.run_for(1_000)
    scene.noted("Redrove 25 messages.")
    assert (scene.stats(source)["dead_lettered"], scene.stats(target)["active"]) == (0, 25)


def test_a_rate_above_the_size_of_a_step_is_kept_by_shorter_pauses(scene: Scene) -> None:
    scene.enter("#/dead-letters")
    told = scene.page.evaluate("""async () => {
      const page = document.querySelector("script[type=module]").src;
      const { steps } = await import(new URL("steps.js", page));
      const wait = globalThis.setTimeout;
      const told = [];
      globalThis.setTimeout = (act, ms) => (told.push(`pause ${ms}`), queueMicrotask(act));
      const step = async (moved) => (told.push(moved), { moved, isEnd: false });
      for (const rate of [200, 1024]) await steps(600).run(rate, 600, step);
      globalThis.setTimeout = wait;
      return told;
    }""")
    slow = [200, "pause 1000"] * 3
    assert told == [*slow, *[256, "pause 250"] * 2, 88, "pause 85.9375"]


def test_only_so_many_or_so_old_are_redriven(scene: Scene) -> None:
    queue = scene.queue("bounded")
    numbers = scene.kill(queue, *"abcde")
    scene.enter("#/dead-letters/bounded")
    scene.see("5 dead letters in bounded")
    scene.press("Redrive many…")
    scene.see(f"Begins with messages {', '.join(map(str, numbers))}; at most 5.")
    scene.fill("At most", "2")
    scene.see(f"Begins with messages {numbers[0]}, {numbers[1]}; at most 2.")
    scene.press("Redrive")
    scene.noted("Redrove 2 messages.")
    assert active(scene, queue) == numbers[:2]
    scene.press("Redrive many…")
    scene.fill("Only those sent longer ago than", "1 day")
    scene.see(re.compile("“1 day” is no duration"))
    scene.fill("Only those sent longer ago than", "1d")
    scene.see("There is none like that.")
    scene.press("Redrive")
    scene.noted("Redrove 0 messages.")
    assert scene.stats(queue)["dead_lettered"] == 3


def test_a_bound_that_was_lowered_to_what_is_moved_moves_no_more(scene: Scene) -> None:
    """Nothing left to move is an end, and no call: 0 on the wire would be all of them."""
    queue = scene.queue("lowered")
    numbers = scene.kill(queue, *"abcde")
    scene.page.clock.install()
    scene.enter("#/dead-letters/lowered")
    scene.press("Redrive many…")
    scene.fill("At most", "4")
    scene.fill("At most so many a second", "2")
    scene.press("Redrive")
    scene.see("2 of 4")
    refusal = {"code": "unavailable", "message": "a step that failed"}
    redrives = "**/*AdminService/Redrive"
    scene.is_offline = True
    scene.page.route(redrives, lambda route: route.fulfill(status=503, json=refusal))
    scene.page.clock.run_for(1_000)
    scene.see("a step that failed")
    scene.page.unroute(redrives)
    scene.fill("At most", "2")
    scene.press("Redrive")
    scene.noted("Redrove 2 messages.")
    assert active(scene, queue) == numbers[:2]


def lose(route: Route) -> None:
    """The broker does what it is asked, and the page hears nothing of it."""
    route.fetch()
    route.abort()


def test_a_step_without_an_answer_counts_as_done_and_ends_the_work(scene: Scene) -> None:
    queue = scene.queue("unanswered")
    scene.enter("#/dead-letters/unanswered")
    scene.is_offline = True
    for button, call, told in (
        ("Redrive many…", "AdminService/Redrive", "Redrove 0 messages."),
        ("Redrive 5 selected…", "AdminService/RedriveSelected", "Redrove 0 messages."),
        ("Purge…", "AdminService/Purge", "Purged 0 dead letters."),
    ):
        scene.kill(queue, *"abcde")
        scene.go("overview", title="Overview")
        scene.go("dead-letters", queue, title="Dead letters of unanswered")
        scene.press("Select this page")
        scene.press(button)
        scene.page.route(f"**/*{call}", lose, times=1)
        if button == "Purge…":
            scene.fill("Type unanswered to confirm", queue)
            scene.press("Purge up to 5")
        else:
            scene.press("Redrive")
        scene.noted(f"{told} Perhaps up to 5 more: look before you go on. The broker cannot be")
        scene.closed()
        assert (scene.stats(queue)["dead_lettered"], scene.calls.count(call)) == (0, 1)
        scene.page.get_by_role("button", name="Close this note").click()


def test_an_answer_that_says_nothing_leaves_a_doubt(scene: Scene) -> None:
    scene.queue("doubtful")
    scene.enter("#/queues/doubtful")
    scene.is_offline = True
    scene.press("Send…")
    bodies = {200: "<p>who are you?", 504: "", 500: '{"code":"internal"}'}
    answers = iter(bodies.items())

    def answer(route: Route) -> None:
        status, body = next(answers)
        route.fulfill(status=status, body=body)

    scene.page.route("**/*SendResult", answer)
    for status in bodies:
        scene.press("Send")
        scene.see(f"no broker's (status {status}). It may have been done all the same.")
    scene.press("Cancel")


def test_a_letter_is_mended_and_put_back_in_one_step(scene: Scene) -> None:
    queue = scene.queue("mend")
    (number,) = scene.kill(
        queue, '{"quantity": "three"}', reason="NotANumber", subject="keep", group_id="g",
        properties={"keep": "this", "mend": "that"},
    )  # fmt: skip
    scene.enter("#/dead-letters/mend")
    scene.open_message(number)
    scene.press("Edit and resubmit…")
    dialog = scene.asked(f"Edit message {number} and put it back")
    expect(dialog).to_contain_text("It died of “NotANumber”.")
    scene.fill("Body", '{"quantity": 3}')
    dialog.get_by_text("Other fields").click()
    scene.fill("Properties", "keep=this\nmend=thus")
    scene.press("Resubmit")
    scene.noted(f"Message {number} was put back as {number}.")
    (mended,) = scene.peek(queue)
    assert (mended["state"], decoded(mended)) == ("active", b'{"quantity": 3}')
    assert (mended["subject"], mended["group_id"]) == ("keep", "g")
    assert mended["properties"] == {"keep": "this", "mend": "thus"}
    assert "delivery_count" not in mended


def test_what_was_not_edited_is_kept_byte_for_byte(scene: Scene) -> None:
    """A field of a form cannot show a line break or a zero byte; it must not lose them either."""
    queue, target = scene.queue("exact"), scene.queue("exact-target")
    body = b"\xff\r\n\x00binary"
    odd: dict[str, Any] = {"subject": "two\nlines", "properties": {"a=b": "c\nd", "": "empty name"}}
    (number,) = scene.kill(queue, body, **odd)
    scene.enter("#/dead-letters/exact")
    scene.open_message(number)
    scene.press("Edit and resubmit…")
    scene.asked(f"Edit message {number} and put it back")
    assert scene.dialog.get_by_label("Body, in hexadecimal").input_value() == (
        "ff 0d 0a 00 62 69 6e 61 72 79"
    )
    scene.dialog.get_by_text("Other fields").click()
    shown = scene.dialog.get_by_label("Properties").input_value()
    assert json.loads(shown) == odd["properties"]
    scene.fill("Into another queue", target)
    scene.press("Resubmit")
    scene.noted(f"Message {number} was put back into exact-target as")
    (moved,) = scene.peek(target)
    assert decoded(moved) == body
    assert {key: moved[key] for key in odd} == odd


def test_a_refused_edit_loses_nothing_and_can_be_mended(scene: Scene) -> None:
    queue = scene.queue("refused", ordering_mode="group_fifo")
    (number,) = scene.kill(queue, "x", group_id="g")
    scene.enter("#/dead-letters/refused")
    scene.open_message(number)
    scene.press("Edit and resubmit…")
    dialog = scene.asked(f"Edit message {number} and put it back")
    scene.fill("Body", "mended")
    dialog.get_by_text("Other fields").click()
    scene.fill("Group", "")
    scene.press("Resubmit")
    expect(dialog.get_by_role("alert")).to_contain_text("group_id is empty")
    assert dialog.get_by_label("Body").input_value() == "mended"
    assert scene.stats(queue)["dead_lettered"] == 1
    scene.fill("Group", "h")
    scene.press("Resubmit")
    scene.noted("was put back")
    (mended,) = scene.peek(queue)
    assert (mended["group_id"], decoded(mended)) == ("h", b"mended")


@pytest.mark.promise("T79")
def test_a_purge_wants_the_name_and_takes_what_was_shown(scene: Scene) -> None:
    queue = scene.queue("purge me")
    numbers = scene.kill(queue, *"abc")
    scene.enter("#/dead-letters/purge%20me")
    scene.see("3 dead letters in purge me")
    scene.press("Purge…")
    dialog = scene.asked("Purge dead letters of purge me")
    scene.see(f"Begins with messages {', '.join(map(str, numbers))}; at most 3.")
    button = dialog.get_by_role("button", name="Purge up to 3")
    expect(button).to_be_disabled()
    for wrong in ("purge", "PURGE ME", "purge me "):
        scene.fill("Type purge me to confirm", wrong)
        expect(button).to_be_disabled()
    scene.page.keyboard.press("Enter")
    assert scene.stats(queue)["dead_lettered"] == 3
    scene.fill("Type purge me to confirm", "purge me")
    scene.kill(queue, "a fourth, which nobody was told of")
    button.click()
    scene.noted("Purged 3 dead letters.")
    assert scene.stats(queue)["dead_lettered"] == 1


def test_giving_up_a_dialog_changes_nothing(scene: Scene) -> None:
    queue = scene.queue("spared")
    (number,) = scene.kill(queue, "x")
    scene.enter("#/dead-letters/spared")
    for name in ("Purge…", "Redrive many…"):
        scene.press(name)
        scene.press("Cancel")
        scene.closed()
        scene.press(name)
        scene.page.keyboard.press("Escape")
        scene.closed()
    scene.open_message(number)
    scene.press("Edit and resubmit…")
    scene.asked(f"Edit message {number} and put it back")
    scene.fill("Body", "y")
    scene.press("Cancel")
    scene.closed()
    changing = re.compile(r"Redrive|Purge|Resubmit")
    assert not [call for call in scene.calls if changing.search(call)]
    (letter,) = scene.peek(queue)
    assert (letter["state"], decoded(letter)) == ("dead_lettered", b"x")


def test_letters_are_found_by_what_they_died_of_and_by_a_filter(scene: Scene) -> None:
    queue = scene.queue("reasons")
    old = scene.kill(queue, *"ab", reason="Rotten", properties={"n": "1"})
    new = scene.kill(queue, "c", reason="Broken", properties={"n": "2"})
    odd = scene.kill(queue, "d", reason="Rotten", properties={"n": "x"})
    scene.enter("#/dead-letters/reasons")
    scene.page.get_by_text("Search", exact=True).click()
    heads = scene.page.get_by_role("rowheader")
    for label, value, numbers in (
        ("Died of", "Rotten", [*old, *odd]),
        ("Filter", 'properties.n == "2"', new),
    ):
        scene.fill(label, value)
        scene.press("Find")
        expect(heads).to_have_text([f"{number}" for number in numbers])
        scene.press("Clear")
        expect(heads).to_have_count(4)
    scene.page.get_by_label("Newest first").check()
    scene.fill("Filter", "int(properties.n) > 0")
    scene.press("Find")
    expect(heads).to_have_text([f"{number}" for number in (*new, *reversed(old))])
    scene.see(re.compile("The filter failed on 1 message, counted as no match: .*int"))
    scene.fill("Filter", "properties.n =")
    scene.press("Find")
    scene.see(re.compile("invalid filter at line 1"))
