"""Keys: from the bytes of a terminal to a new state of the viewer."""

from __future__ import annotations

from mqlite_monitor.keys import Keyboard
from mqlite_monitor.steering import SORTS, Steering, View, choose, press
from tests.services.monitor_scene import busy

ROWS = busy().queues or []


def after(*keys: str, state: Steering | None = None) -> Steering:
    state = state or Steering()
    for key in keys:
        state = press(state, key, ROWS)
    return state


def test_bytes_become_keys_also_in_pieces() -> None:
    keyboard = Keyboard()
    assert keyboard.feed(b"q\x1b[A\x1bOB\r\x7f \x1b[5~") == [
        "q", "up", "down", "enter", "backspace", " ", "pageup",
    ]  # fmt: skip
    assert keyboard.feed(b"\x1b") == []
    assert keyboard.is_waiting
    assert keyboard.feed(b"[C") == ["right"]
    assert keyboard.feed("ä".encode()[:1]) == []
    assert keyboard.feed("ä".encode()[1:]) == ["ä"]
    assert not keyboard.is_waiting


def test_an_escape_alone_is_a_key_once_nothing_follows() -> None:
    keyboard = Keyboard()
    assert keyboard.feed(b"\x1b") == []
    assert keyboard.settle() == ["escape"]
    assert keyboard.settle() == []


def test_an_unknown_sequence_is_no_command() -> None:
    keyboard = Keyboard()
    assert keyboard.feed(b"\x1b[200~\x1b[1;5Q\x1b[q") == []
    assert keyboard.feed(b"\x1b[" + b"9" * 100) != ["q"]


def test_the_selection_stays_on_its_queue_when_the_order_changes() -> None:
    state = after("down", "down")
    assert state.selected == choose(ROWS, Steering())[2].name
    assert after("s", "r", state=state).selected == state.selected
    assert after("enter", state=state).view is View.QUEUE


def test_moving_stops_at_the_ends() -> None:
    names = [each.name for each in choose(ROWS, Steering())]
    assert after("end", "down").selected == names[-1]
    assert after("end", "home", "up").selected == names[0]
    assert press(Steering(), "down", []).selected == ""
    assert press(Steering(), "enter", []).view is View.QUEUES


def test_a_search_takes_letters_that_are_commands_elsewhere() -> None:
    state = after("/", *"mqi", "backspace", "backspace", "a")
    assert (state.search, state.is_typing, state.has_quit) == ("ma", True, False)
    assert [each.name for each in choose(ROWS, state)] == ["mail"]
    assert not after("enter", state=state).is_typing
    assert after("escape", state=state).search == ""
    assert after("enter", "escape", state=state).search == ""
    assert len(after("/", *("x" * 1000)).search) < 1000


def test_every_order_shows_every_queue() -> None:
    for sort in SORTS:
        found = choose(ROWS, Steering(sort=sort))
        assert sorted(each.name for each in found) == sorted(each.name for each in ROWS)
        assert choose(ROWS, Steering(sort=sort, is_reversed=True)) == found[::-1]
    assert choose(ROWS, Steering())[0].name == "audit", "the worst first"


def test_pages_open_and_lead_back() -> None:
    assert [after(key).view for key in "cm123"] == [
        View.CALLS, View.MAINTENANCE, View.QUEUES, View.CALLS, View.MAINTENANCE,
    ]  # fmt: skip
    assert after("c", "?").view is View.HELP
    assert after("c", "?", "escape").view is View.CALLS
    assert after("c", "?", "?", "escape").view is View.QUEUES
    assert after("c", "pagedown", "down").scroll == 11
    assert after("c", "pagedown", "home").scroll == 0


def test_pause_interval_and_steps() -> None:
    assert after("p").is_paused
    assert not after("p", " ").is_paused
    assert after("+").interval_ms == 2_000
    assert after(*"-----").interval_ms == 250
    assert after(*"++++++++++").interval_ms == 60_000
    assert after("right").step == 0, "a replay that runs steps by itself"
    assert after("p", "left").step == -1
    assert after("p", "left", "x").step == 0
    assert after("q").has_quit
