"""`list --stats`: every queue with its counts, and all of them together.

Called by `queues`. Any broker can answer it: one call for the list and one for each queue, over one
connection. Rule: a queue that is deleted meanwhile is left out, and nothing else is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from mqlite_actor.contract.errors import QueueNotFound
from mqlite_actor.contract.wire import ListQueuesRequest, StatsRequest
from mqlite_cli.escaping import field
from mqlite_cli.grammar import did_you_mean
from mqlite_cli.invocation import Caller, Invocation
from mqlite_cli.moments import shown_age
from mqlite_cli.output import Form
from mqlite_cli.refusals import Refusal


class Row(msgspec.Struct, frozen=True):
    """One queue; keys as those of `metrics`."""

    name: str
    kind: str
    active: int
    locked: int
    deferred: int
    scheduled: int
    dead_lettered: int
    total: int
    oldest_message_age_ms: int


SORTS: dict[str, Callable[[Row], tuple[int, str]]] = {
    "name": lambda row: (0, row.name),
    "active": lambda row: (-row.active, row.name),
    "locked": lambda row: (-row.locked, row.name),
    "deferred": lambda row: (-row.deferred, row.name),
    "scheduled": lambda row: (-row.scheduled, row.name),
    "dead": lambda row: (-row.dead_lettered, row.name),
    "total": lambda row: (-row.total, row.name),
    "oldest": lambda row: (-row.oldest_message_age_ms, row.name),
}
"""`--sort` → the order of rows."""

_HEADS = ("queue", "kind", "active", "locked", "deferred", "scheduled", "dead", "total", "oldest")


def list_with_counts(run: Invocation) -> int:
    """`list --stats`: a table with a last row for all, or the rows as JSON."""
    word = run.arguments.text("sort", "name")
    if word not in SORTS:
        known = ", ".join(SORTS)
        hint = did_you_mean(word, list(SORTS))
        raise Refusal(f"--sort: {field(word)} is none of {known}{hint}")
    rows = sorted(run.session(_rows), key=SORTS[word])
    lines = [] if run.output.form is not Form.TEXT or not rows else _table(rows)
    totals = [f"({len(rows)} queues)", "", *map(str, _sums(rows))] if rows else []
    if rows:
        totals.append(shown_age(max(row.oldest_message_age_ms for row in rows)))
    run.output.rows(rows, lines, empty="(no queues)", totals=totals)
    return 0


def _rows(caller: Caller) -> list[Row]:
    rows = []
    for queue in caller.call(ListQueuesRequest()).queues:
        try:
            stats = caller.call(StatsRequest(queue.name))
        except QueueNotFound:
            continue
        rows.append(
            Row(
                queue.name,
                queue.kind,
                stats.active,
                stats.locked,
                stats.deferred,
                stats.scheduled,
                stats.dead_lettered,
                stats.total,
                stats.oldest_message_age_ms,
            )
        )
    return rows


def _table(rows: Sequence[Row]) -> list[str]:
    sums = _sums(rows)
    oldest = max(row.oldest_message_age_ms for row in rows)
    cells = [
        list(_HEADS),
        *([field(row.name), field(row.kind), *map(str, _counts(row)), _age(row)] for row in rows),
        [f"({len(rows)} queues)", "", *map(str, sums), f"{oldest}ms"],
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [_line(row, widths) for row in cells]


def _sums(rows: Sequence[Row]) -> list[int]:
    return [sum(numbers) for numbers in zip(*(_counts(row) for row in rows), strict=True)]


def _counts(row: Row) -> tuple[int, ...]:
    return (row.active, row.locked, row.deferred, row.scheduled, row.dead_lettered, row.total)


def _age(row: Row) -> str:
    return f"{row.oldest_message_age_ms}ms"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    words, numbers = cells[:2], cells[2:]
    left = [f"{text:<{width}}" for text, width in zip(words, widths, strict=False)]
    right = [f"{text:>{width}}" for text, width in zip(numbers, widths[2:], strict=True)]
    return "  ".join([*left, *right])
