"""What the viewer is looking at, and what each key does about it; pure.

`app` hands every key to `press` and draws the state that comes back. `choose` says which queues a
state shows and in which order; the views and the keys both ask it, so that the selected line is the
one that Enter opens. The selection is a name: it stays on its queue while the order changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

import msgspec

from mqlite_monitor.snapshot import QueueRow

INTERVALS_MS = (250, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000)
"""Steps of + and -. A snapshot counts every queue, so four a second is the most."""

SEARCH_CHARACTERS_MAX = 120
"""A queue's name has at most so many, and more than a line can show."""

PAGE_LINES = 10


class View(StrEnum):
    """What fills the body."""

    QUEUES = "queues"
    QUEUE = "queue"
    CALLS = "calls"
    MAINTENANCE = "maintenance"
    HELP = "help"


class Steering(msgspec.Struct, frozen=True):
    """The state of the viewer."""

    view: View = View.QUEUES
    behind: View = View.QUEUES
    """Where help goes back to."""
    selected: str = ""
    sort: str = "concern"
    is_reversed: bool = False
    search: str = ""
    is_typing: bool = False
    is_paused: bool = False
    interval_ms: int = 1_000
    scroll: int = 0
    """Lines of a long page that are above the screen."""
    step: int = 0
    """In a paused replay: how many records to go, from the last key."""
    has_quit: bool = False


SORTS: dict[str, Callable[[QueueRow], tuple[float, ...]]] = {
    "concern": lambda row: (-row.concern, -(row.growth or 0.0), -row.depth.active),
    "name": lambda _: (),
    "active": lambda row: (-row.depth.active,),
    "growth": lambda row: (-(row.growth or 0.0),),
    "age": lambda row: (-row.depth.oldest_message_age_ms,),
    "dead": lambda row: (-row.depth.dead_lettered, -(row.dead_growth or 0)),
    "in": lambda row: (-(row.in_rate or 0.0),),
    "out": lambda row: (-(row.out_rate or 0.0),),
}
"""Word of --sort → what comes first. Equal queues stand by name."""


def choose(rows: Sequence[QueueRow], state: Steering) -> list[QueueRow]:
    """The queues that are shown, in order."""
    wanted = state.search.casefold()
    found = [row for row in rows if wanted in row.name.casefold()]
    key = SORTS[state.sort]
    found.sort(key=lambda row: (*key(row), row.name), reverse=state.is_reversed)
    return found


def position(rows: Sequence[QueueRow], state: Steering) -> int:
    """Where the selected queue stands; the first if it is not shown."""
    return next((at for at, row in enumerate(rows) if row.name == state.selected), 0)


def press(state: Steering, key: str, rows: Sequence[QueueRow]) -> Steering:
    """The state after a key; `rows` are all queues of the snapshot. Unknown keys do nothing."""
    state = msgspec.structs.replace(state, step=0)
    if state.is_typing:
        return _type(state, key)
    if key in MOVES:
        return _move(state, MOVES[key], rows)
    action = KEYS.get(key)
    return action(state, rows) if action else state


def _type(state: Steering, key: str) -> Steering:
    if key == "enter":
        return msgspec.structs.replace(state, is_typing=False)
    if key == "escape":
        return msgspec.structs.replace(state, is_typing=False, search="")
    if key == "backspace":
        return msgspec.structs.replace(state, search=state.search[:-1])
    if len(key) == 1 and key.isprintable() and len(state.search) < SEARCH_CHARACTERS_MAX:
        return msgspec.structs.replace(state, search=state.search + key)
    return state


MOVES: dict[str, int] = {
    "up": -1, "k": -1, "down": 1, "j": 1, "pageup": -PAGE_LINES, "pagedown": PAGE_LINES,
    "home": -(10**9), "end": 10**9,
}  # fmt: skip
"""Key → lines; more than there are is the first or the last."""


def _move(state: Steering, lines: int, rows: Sequence[QueueRow]) -> Steering:
    if state.view is not View.QUEUES:
        scroll = 0 if lines < -PAGE_LINES else max(0, state.scroll + min(lines, PAGE_LINES))
        return msgspec.structs.replace(state, scroll=scroll)
    found = choose(rows, state)
    if not found:
        return state
    at = min(max(0, position(found, state) + lines), len(found) - 1)
    return msgspec.structs.replace(state, selected=found[at].name)


def _show(view: View) -> Callable[[Steering, Sequence[QueueRow]], Steering]:
    def show(state: Steering, _: Sequence[QueueRow]) -> Steering:
        return msgspec.structs.replace(state, view=view, scroll=0)

    return show


def _open(state: Steering, rows: Sequence[QueueRow]) -> Steering:
    found = choose(rows, state)
    if state.view is not View.QUEUES or not found:
        return state
    name = found[position(found, state)].name
    return msgspec.structs.replace(state, view=View.QUEUE, selected=name, scroll=0)


def _back(state: Steering, _: Sequence[QueueRow]) -> Steering:
    if state.view is View.HELP:
        return msgspec.structs.replace(state, view=state.behind, scroll=0)
    if state.view is View.QUEUES:
        return msgspec.structs.replace(state, search="")
    return msgspec.structs.replace(state, view=View.QUEUES, scroll=0)


def _help(state: Steering, rows: Sequence[QueueRow]) -> Steering:
    if state.view is View.HELP:
        return _back(state, rows)
    return msgspec.structs.replace(state, view=View.HELP, behind=state.view, scroll=0)


def _sort(state: Steering, _: Sequence[QueueRow]) -> Steering:
    words = list(SORTS)
    word = words[(words.index(state.sort) + 1) % len(words)]
    return msgspec.structs.replace(state, sort=word)


def _search(state: Steering, _: Sequence[QueueRow]) -> Steering:
    return msgspec.structs.replace(state, view=View.QUEUES, is_typing=True, search="")


def _longer(state: Steering, _: Sequence[QueueRow]) -> Steering:
    return _with_interval(
        state, next((each for each in INTERVALS_MS if each > state.interval_ms), 0)
    )


def _shorter(state: Steering, _: Sequence[QueueRow]) -> Steering:
    below = [each for each in INTERVALS_MS if each < state.interval_ms]
    return _with_interval(state, below[-1] if below else 0)


def _with_interval(state: Steering, interval_ms: int) -> Steering:
    """0 is the end of the table: no change."""
    return msgspec.structs.replace(state, interval_ms=interval_ms or state.interval_ms)


def _step(records: int) -> Callable[[Steering, Sequence[QueueRow]], Steering]:
    def step(state: Steering, _: Sequence[QueueRow]) -> Steering:
        return msgspec.structs.replace(state, step=records if state.is_paused else 0)

    return step


def _pause(state: Steering, _: Sequence[QueueRow]) -> Steering:
    return msgspec.structs.replace(state, is_paused=not state.is_paused)


def _reverse(state: Steering, _: Sequence[QueueRow]) -> Steering:
    return msgspec.structs.replace(state, is_reversed=not state.is_reversed)


def _quit(state: Steering, _: Sequence[QueueRow]) -> Steering:
    return msgspec.structs.replace(state, has_quit=True)


KEYS: dict[str, Callable[[Steering, Sequence[QueueRow]], Steering]] = {
    "q": _quit, "?": _help, "h": _help, "escape": _back, "backspace": _back, "enter": _open,
    "1": _show(View.QUEUES), "2": _show(View.CALLS), "3": _show(View.MAINTENANCE),
    "c": _show(View.CALLS), "m": _show(View.MAINTENANCE),
    "p": _pause, " ": _pause, "s": _sort, "r": _reverse, "/": _search,
    "+": _longer, "=": _longer, "-": _shorter,
    "left": _step(-1), "right": _step(1),
}  # fmt: skip

HELP: tuple[tuple[str, str], ...] = (
    ("↑ ↓ j k", "select a queue, or scroll; PgUp PgDn Home End too"),
    ("Enter", "look into the queue: dead letters, blocked lines"),
    ("Esc", "back; on the queues: forget the search"),
    ("1 2 3", "queues, calls, maintenance (also c and m)"),
    ("s r", "sort by the next column; the other way round"),
    ("/", "search for queues by a part of their name"),
    ("p Space", "pause, and go on"),
    ("+ -", "a longer, a shorter interval"),
    ("← →", "in a paused replay: one record back, one on"),
    ("?", "this page"),
    ("q", "quit (also Ctrl-C)"),
)
"""Keys and what they do, as the help page shows them."""
