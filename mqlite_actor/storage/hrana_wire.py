"""Hrana over HTTP as bytes: steps to a pipeline request, and its answer to rows.

Called by `hrana_stream.py`; knows nothing of connections. One request is one batch: statements in
order, each on condition that the one before it did well, so that a server runs a whole transaction
without being asked again. Values are positional, integers travel as text, blobs as base64 without
padding (spec/remote.md 4.2). What an answer holds beyond this is ignored.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from mqlite_actor.contract.mistakes import plain_text
from mqlite_actor.storage.database import Row, Statement, Value

Condition = dict[str, Any]

BEGIN: Final = "BEGIN IMMEDIATE"
COMMIT: Final = "COMMIT"
ROLLBACK: Final = "ROLLBACK"

_JSON: Final = msgspec.json.Encoder()


class Step(NamedTuple):
    """One statement of a batch, and on what it depends."""

    sql: str
    arguments: tuple[Value, ...] = ()
    condition: Condition | None = None


class StepFailure(msgspec.Struct, frozen=True):
    """What a server says of a statement that failed."""

    message: str = ""
    code: str | None = None


class Column(msgspec.Struct, frozen=True):
    """A value as it travels."""

    type: str
    value: int | str | float | None = None
    base64: str = ""


class StepResult(msgspec.Struct, frozen=True):
    """What a statement returned."""

    rows: list[list[Column]] = []


class BatchResult(msgspec.Struct, frozen=True):
    """One place per step; both None: it was skipped."""

    step_results: list[StepResult | None]
    step_errors: list[StepFailure | None]


class _Response(msgspec.Struct, frozen=True):
    result: BatchResult | None = None


class _Result(msgspec.Struct, frozen=True):
    type: str
    response: _Response | None = None
    error: StepFailure | None = None


class _Pipeline(msgspec.Struct, frozen=True):
    results: list[_Result]
    baton: str | None = None
    base_url: str | None = None


class Reply(NamedTuple):
    """An answer: the batch, or what failed as a whole, and where the stream goes on."""

    batch: BatchResult | None
    failure: StepFailure | None
    baton: str | None
    base_url: str | None


_decode: Final = msgspec.json.Decoder(_Pipeline).decode


def ok(step: int) -> Condition:
    """The step of this number did well."""
    return {"type": "ok", "step": step}


def failed(step: int) -> Condition:
    """It failed, or was skipped."""
    return {"type": "not", "cond": ok(step)}


def all_of(*conditions: Condition) -> Condition:
    """All of these."""
    return {"type": "and", "conds": list(conditions)}


def any_of(*conditions: Condition) -> Condition:
    """One of these."""
    return {"type": "or", "conds": list(conditions)}


def chained(statements: Sequence[Statement], first: int, condition: Condition | None) -> list[Step]:
    """Each runs if the one before it did well; the first, which is step `first`, on `condition`."""
    steps: list[Step] = []
    for number, (sql, arguments) in enumerate(statements, first):
        steps.append(Step(sql, arguments, condition))
        condition = ok(number)
    return steps


def request(steps: Sequence[Step], baton: str | None, *, is_last: bool) -> bytes:
    """The body of a pipeline request; `is_last` closes the stream behind it."""
    batch = {"type": "batch", "batch": {"steps": [_step(step) for step in steps]}}
    requests: list[object] = [batch, {"type": "close"}] if is_last else [batch]
    return _JSON.encode({"baton": baton, "requests": requests})


def reply(body: bytes) -> Reply:
    """The first answer of a pipeline; ValueError (msgspec's) for anything else."""
    pipeline = _decode(body)
    if not pipeline.results:
        raise msgspec.ValidationError("an answer without results")
    first = pipeline.results[0]
    batch = first.response.result if first.response else None
    if batch is None and first.error is None:
        raise msgspec.ValidationError("an answer without a result")
    return Reply(batch, first.error, pipeline.baton, pipeline.base_url)


def rows(result: StepResult | None) -> list[Row]:
    """The rows of one step."""
    return [] if result is None else [tuple(map(_plain, row)) for row in result.rows]


def _step(step: Step) -> dict[str, Any]:
    stmt: dict[str, Any] = {"sql": plain_text(step.sql), "want_rows": _returns(step.sql)}
    if step.arguments:
        stmt["args"] = [_wire(value) for value in step.arguments]
    return {"stmt": stmt} if step.condition is None else {"stmt": stmt, "condition": step.condition}


def _returns(sql: str) -> bool:
    """Whether a statement has rows at all; a caller's own may begin with anything."""
    return sql not in {BEGIN, COMMIT, ROLLBACK}


def _wire(value: Value) -> dict[str, Any]:
    if value is None:
        return {"type": "null"}
    if isinstance(value, int):
        return {"type": "integer", "value": str(int(value))}
    if isinstance(value, float):
        return {"type": "float", "value": float(value)}
    if isinstance(value, str):
        return {"type": "text", "value": plain_text(value)}
    return {"type": "blob", "base64": b64encode(value).rstrip(b"=").decode("ascii")}


def _plain(column: Column) -> Value:
    match column.type:
        case "integer":
            return int(column.value or 0)
        case "float":
            return None if column.value is None else float(column.value)
        case "text":
            return str(column.value)
        case "blob":
            return b64decode(column.base64 + "=" * (-len(column.base64) % 4))
        case _:
            return None
