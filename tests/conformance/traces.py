"""Recorded requests and answers, and how an answer is compared with its recording.

Reads tests/data/wire_traces.jsonl; played by test_traces.py. A recording holds placeholders where
values differ from run to run: `"<seq:1>"` stands for a sequence number, `"<ms:1>"` for an instant
that the broker chose, `"<at:1:+500>"` for the client's clock plus 500 ms, `<token:1>` for a lock
token. A name is bound at its first use within a scenario; afterwards it means that value. JSON is
compared as values, but the order of keys is part of the contract.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

DATA: Final = Path(__file__).resolve().parents[1] / "data" / "wire_traces.jsonl"
TOKEN: Final = "administrator-of-the-traces"

UNCOMPARED: Final = ("<any>", "<text>")
"""Whole answers whose body may be anything."""

NUMBER: Final = re.compile(r'"<(seq|ms|at):(\w+?)(?::([+-]\d+)|\+(\d+))?>"')
"""In a request: kind, name, distance from the client's clock, distance from the bound value."""

MARK: Final = re.compile(r"<(seq|ms|at|token):(\w+?)(?:\+(\d+))?>")
TEXT: Final = re.compile(r"<(int|text)([~^]?)(.*)>", re.DOTALL)

Json = Any  # whatever json.loads returns


@dataclass(frozen=True)
class Step:
    """One request and what was answered."""

    scenario: str
    number: int
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes | None
    wait_ms: int
    status: int
    content_type: str
    response_headers: Mapping[str, str | None]
    response: str
    extra_keys_ok: bool


@dataclass(frozen=True)
class Answer:
    """What came back; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def scenarios() -> dict[str, list[Step]]:
    """All scenarios in the order of the recording."""
    found: dict[str, list[Step]] = {}
    for line in DATA.read_text(encoding="utf-8").splitlines():
        step = _step(json.loads(line))
        found.setdefault(step.scenario, []).append(step)
    return found


def _step(row: dict[str, Json]) -> Step:
    body: bytes | None = None
    if "body_b64" in row:
        body = base64.b64decode(row["body_b64"])
    elif "body_parts" in row:
        body = "".join(text * times for text, times in row["body_parts"]).encode()
    elif "body" in row:
        body = row["body"].encode()
    return Step(
        scenario=row["scenario"],
        number=row["step"],
        method=row["method"],
        path=row["path"],
        headers=row["headers"],
        body=body,
        wait_ms=row.get("wait_ms", 0),
        status=row["status"],
        content_type=row["content_type"],
        response_headers=row.get("response_headers", {}),
        response=row["response"],
        extra_keys_ok=row.get("extra_keys_ok", False),
    )


class Names:
    """What the placeholders of one scenario stand for."""

    __slots__ = ("_bound",)

    def __init__(self) -> None:
        self._bound: dict[tuple[str, str], int | str] = {}

    def written(self, body: bytes, now_ms: int) -> bytes:
        """A request's body with values in place of its placeholders."""
        if b"<" not in body:
            return body
        try:
            text = body.decode()
        except UnicodeDecodeError:  # a recording of bytes that are no text holds no placeholders
            return body

        def number(match: re.Match[str]) -> str:
            kind, name, distance, more = match.groups()
            if distance is not None:
                self._bound[kind, name] = now_ms + int(distance)
            return str(self._value(kind, name) + int(more or 0))

        text = NUMBER.sub(number, text)
        return MARK.sub(lambda m: str(self._bound[m[1], m[2]]), text).encode()

    def problems(self, expected: Json, found: Json, *, extra_keys_ok: bool) -> list[str]:
        """Where `found` is not what was recorded. Plain names are bound before sums are taken."""
        pairs = list(_pairs(expected, found, "", extra_keys_ok=extra_keys_ok))
        problems = [problem for problem, _, _, _ in pairs if problem]
        plain = [pair for pair in pairs if not pair[0] and "+" not in pair[1]]
        sums = [pair for pair in pairs if not pair[0] and "+" in pair[1]]
        for _, mark, value, place in plain + sums:
            problem = self._mark(mark, value)
            if problem:
                problems.append(f"{place}: {problem}")
        return problems

    def _value(self, kind: str, name: str) -> int:
        value = self._bound[kind, name]
        assert isinstance(value, int)
        return value

    def _mark(self, mark: str, found: Json) -> str:
        """What is wrong with a value where a placeholder was recorded; "" if nothing."""
        match = MARK.fullmatch(mark)
        if match is None:
            return _text(mark, found)
        kind, name, more = match.groups()
        wanted = str if kind == "token" else int
        if type(found) is not wanted:
            return f"{found!r} is no {kind}"
        known = self._bound.get((kind, name))
        if known is None:
            self._bound[kind, name] = found
            return self._out_of_order(name) if kind == "seq" else ""
        if isinstance(known, int):
            known += int(more or 0)
        return "" if found == known else f"{found!r}, but {mark} is {known!r}"

    def _out_of_order(self, name: str) -> str:
        """Numbers rise with their names."""
        value = self._value("seq", name)
        for (kind, other), known in self._bound.items():
            if kind == "seq" and other != name:
                assert isinstance(known, int)
                if (int(other) < int(name)) != (known < value):
                    return f"seq:{name} is {value}, but seq:{other} is {known}"
        return ""


Pair = tuple[str, str, Json, str]
"""A problem, or else a placeholder, the value that stands for it, and the place."""


def _pairs(expected: Json, found: Json, place: str, *, extra_keys_ok: bool) -> Iterator[Pair]:
    if isinstance(expected, str) and expected.startswith("<") and expected.endswith(">"):
        yield "", expected, found, place
    elif type(expected) is not type(found):
        yield f"{place}: {found!r} instead of {expected!r}", "", None, place
    elif isinstance(expected, dict):
        keys = [key for key in found if key in expected] if extra_keys_ok else list(found)
        if keys != list(expected):
            yield f"{place}: keys {list(found)} instead of {list(expected)}", "", None, place
            return
        for key, value in expected.items():
            yield from _pairs(value, found[key], f"{place}.{key}", extra_keys_ok=extra_keys_ok)
    elif isinstance(expected, list):
        if len(expected) != len(found):
            yield f"{place}: {len(found)} items instead of {len(expected)}", "", None, place
            return
        for index, (value, other) in enumerate(zip(expected, found, strict=True)):
            yield from _pairs(value, other, f"{place}[{index}]", extra_keys_ok=extra_keys_ok)
    elif expected != found:
        yield f"{place}: {found!r} instead of {expected!r}", "", None, place


def _text(mark: str, found: Json) -> str:
    match = TEXT.fullmatch(mark)
    if match is None:  # a text that happens to stand in angle brackets
        return "" if found == mark else f"{found!r} instead of {mark!r}"
    kind, how, part = match.groups()
    if kind == "int":
        return "" if type(found) is int else f"{found!r} is no integer"
    if not isinstance(found, str) or not found:
        return f"{found!r} is no text"
    is_fit = found.startswith(part) if how == "^" else part in found
    return "" if is_fit else f"{found!r} does not fit {mark}"


def compare(step: Step, answer: Answer, names: Names) -> list[str]:
    """Where an answer differs from its recording."""
    if answer.status != step.status:
        shown = answer.body[:200].decode(errors="replace")
        return [f"status {answer.status} instead of {step.status}: {shown}"]
    problems = []
    content_type = answer.headers.get("content-type", "")
    if content_type != step.content_type:
        problems.append(f"content type {content_type!r} instead of {step.content_type!r}")
    for name, value in step.response_headers.items():
        found = answer.headers.get(name.lower())
        if found != value:
            problems.append(f"header {name}: {found!r} instead of {value!r}")
    return problems + _compare_bodies(step, answer, names)


def _compare_bodies(step: Step, answer: Answer, names: Names) -> list[str]:
    if step.response in UNCOMPARED:
        return []
    text = answer.body.decode()
    if not step.content_type.startswith("application/json"):
        return [] if text == step.response else [f"{text!r} instead of {step.response!r}"]
    if not text.endswith("\n") or text.endswith("\n\n"):
        return [f"no single line break at the end of {text[-20:]!r}"]
    expected = json.loads(step.response)
    return names.problems(expected, json.loads(text), extra_keys_ok=step.extra_keys_ok)
