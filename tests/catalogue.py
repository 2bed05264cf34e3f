"""The catalogue of promises: what the system does, one numbered sentence each.

W = the wire, E = the engine, T = the command line and tools, V = filter vectors. The sentences
stand in tests/promises/*.txt: `[part]` names the part of the system that brings what follows, and
`ID | sentence` is one promise. A test shows it with `@pytest.mark.promise("E1", "V001-V142")`.
tests/conformance/test_catalogue.py holds that a promise is settled if and only if a test names it:
when a test shows one, put its id into DONE.
Readers: that test, and docs/conformance.md for how to use it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

State = Literal["done", "open", "replaced"]

DONE = """
W1-W135 E1-E159 T1-T84 V001-V142
"""
"""Settled promises: ids or ranges (E1-E9), sorted, wrapped."""

PARTIAL: dict[str, str] = {}
"""Open promises of which tests show a part: id → what is still missing."""

REPLACED = {
    "E123": "a redriven message whose time to live has passed gets a fresh expiry (decision 7)",
    "E143": "a command that was taken runs to its end; only a tx rolls back when it is cancelled",
    "T65": "`observe` prints Observe's own document: null queues and a collection.error_code",
}
"""Promises that a decision overtook: id → what holds instead. In DONE too, once tests show that."""

AMENDED = {
    "T2": "days and weeks are units (decision 11), so `--lock 1d` is accepted",
    "T67": "the printed token has 64 hexadecimal digits, like every generated one (decision 3)",
    "T81": "`observe` picks queues and sections inside the tool; the request it forwards is empty",
    "T82": "the protocol forbids a null id, and a line that does not parse is answered without one",
}
"""Promises that hold except for one part, with what holds instead of that part."""

COUNTS = {"W": 135, "E": 159, "T": 84, "V": 142}
VECTOR_SENTENCE = "filter vector {} compiles, matches or fails as recorded"
VECTOR_PART = "the filter language"

ID = re.compile(r"([WET])([1-9]\d*)|(V)(\d{3})")


@dataclass(frozen=True)
class Promise:
    """One sentence. `reason` says what brings an open one, or what replaced it."""

    id: str
    text: str
    state: State
    reason: str = ""


def spell(letter: str, number: int) -> str:
    """V7 is written V007, the others without zeros."""
    return f"{letter}{number:03}" if letter == "V" else f"{letter}{number}"


def split(promise: str) -> tuple[str, int]:
    """`E12` → ("E", 12). Raises ValueError for anything that is no id."""
    match = ID.fullmatch(promise)
    if match is None:
        message = f"not a promise: {promise!r}"
        raise ValueError(message)
    return match[1] or match[3], int(match[2] or match[4])


def expand(ids: str) -> list[str]:
    """The ids in a text of ids and ranges, in its order: `E1 E3-E5` → E1 E3 E4 E5."""
    found: list[str] = []
    for word in ids.split():
        first, _, last = word.partition("-")
        letter, low = split(first)
        other, high = split(last or first)
        if other != letter or high < low:
            message = f"not a range: {word!r}"
            raise ValueError(message)
        found += [spell(letter, number) for number in range(low, high + 1)]
    return found


def sentences() -> Iterator[tuple[str, str, str]]:
    """(id, sentence, part that brings it) of every promise."""
    for path in sorted(Path(__file__).with_name("promises").glob("*.txt")):
        part = ""
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("["):
                part = line.strip("[]")
            elif line and not line.startswith("#"):
                promise, _, text = line.partition(" | ")
                yield promise, text, part
    for number in range(1, COUNTS["V"] + 1):
        vector = spell("V", number)
        yield vector, VECTOR_SENTENCE.format(vector), VECTOR_PART


def catalogue() -> dict[str, Promise]:
    """Every promise by id. A repeated id raises ValueError."""
    settled = set(expand(DONE))
    found: dict[str, Promise] = {}
    for promise, text, part in sentences():
        if promise in found:
            message = f"{promise} stands twice"
            raise ValueError(message)
        state: State = "open"
        reason = PARTIAL.get(promise, f"comes with {part}")
        if promise in settled:
            state = "replaced" if promise in REPLACED else "done"
            reason = REPLACED.get(promise, AMENDED.get(promise, ""))
        found[promise] = Promise(promise, text, state, reason)
    return found


PROMISES = catalogue()
