"""The recorded vectors, the messages they are evaluated on, and one letter for what a filter does.

Used by the tests of this folder. T matches, F does not, E fails while running, C does not compile;
anything else that the filter floor raises ends the test.
"""

from __future__ import annotations

import base64
import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

from mqlite_actor.contract.errors import InvalidFilter
from mqlite_actor.contract.wire import Message
from mqlite_actor.filters import Facts, FilterFailed, compile_filter

DATA = Path(__file__).resolve().parents[1] / "data"
NOW_MS = 1_790_000_000_000


class Vector(NamedTuple):
    """One recorded outcome."""

    id: str
    fixture: str
    expr: str
    outcome: str

    @property
    def area(self) -> str:
        return self.id.partition("-")[0]


@cache
def vectors() -> tuple[Vector, ...]:
    lines = (DATA / "filter_vectors.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return tuple(Vector(row["id"], row["fixture"], row["expr"], row["outcome"]) for row in rows)


@cache
def facts(fixture: str) -> Facts:
    """The message of a fixture as a filter sees it."""
    row = json.loads((DATA / "filter_fixtures.json").read_text(encoding="utf-8"))[fixture]
    times = {name: row.pop(name) for name in ("enqueued_at_ms", "visible_at_ms")}
    message = Message(**{**row, "body": base64.b64decode(row["body"])})
    return Facts(message, now_ms=NOW_MS, **times)


FIXTURES = [f"M{number}" for number in range(1, 17)]


def outcome(expr: str, fixture: str = "M1") -> str:
    """T, F, E or C. A fault of ours fails the test, with its cause."""
    return on(facts(fixture), expr)


def on(held: Facts, expr: str) -> str:
    """The same on facts of one's own."""
    try:
        compiled = compile_filter(expr)
    except InvalidFilter as refused:
        if refused.__cause__ is not None:
            raise AssertionError(f"a fault while compiling {expr!r}") from refused.__cause__
        return "C"
    try:
        return "T" if compiled.decide(held) else "F"
    except FilterFailed as failed:
        if failed.kind == "fault":
            raise AssertionError(f"a fault while running {expr!r}") from failed.__cause__
        return "E"


def message_of(expr: str) -> str:
    """What a refusal says."""
    try:
        compile_filter(expr)
    except InvalidFilter as refused:
        return refused.message
    raise AssertionError(f"it compiles: {expr}")


def failure_of(expr: str, fixture: str = "M1") -> FilterFailed:
    """How a filter fails."""
    try:
        compile_filter(expr).decide(facts(fixture))
    except FilterFailed as failed:
        return failed
    raise AssertionError(f"it does not fail: {expr}")


def about(body: bytes = b"", content_type: str = "", subject: str = "") -> Facts:
    """Facts of a message made up for one test."""
    message = Message(body=body, content_type=content_type, subject=subject)
    return Facts(message, enqueued_at_ms=NOW_MS, visible_at_ms=NOW_MS, now_ms=NOW_MS)
