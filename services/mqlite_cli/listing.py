"""`list --stats` and `list --format`: every queue with its counts, and all of them together.

Called by `queues`. Any broker can answer it: one call for the list and one for each queue, over one
connection. Rule: a queue that is deleted meanwhile is left out, and nothing else is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

import msgspec

from mqlite_actor.contract.errors import QueueNotFound
from mqlite_actor.contract.wire import (
    ListQueuesRequest,
    QueueInfo,
    StatsRequest,
    StatsResponse,
)
from mqlite_cli.escaping import field, visible
from mqlite_cli.grammar import did_you_mean
from mqlite_cli.invocation import Caller, Invocation
from mqlite_cli.moments import shown_age, shown_duration
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

_SETTINGS = ("lock", "max-delivery", "ttl", "dedup", "generation")
_HEADS = ("queue", "kind", "active", "locked", "deferred", "scheduled", "dead", "total", "oldest")


class Wide(Row, frozen=True):
    """A row with the settings that the list knows."""

    lock_duration_ms: int
    max_delivery_count: int
    default_ttl_ms: int
    dedup_window_ms: int
    generation: str


class Format(StrEnum):
    """Forms of text; LINES is that of no flag."""

    LINES = ""
    NAMES = "names"
    CSV = "csv"
    WIDE = "wide"


def list_as_asked(run: Invocation) -> int:
    """`list` with counts, in an order, or in another form."""
    arguments = run.arguments
    form = _format(run)
    word = arguments.text("sort", "name")
    if word not in SORTS:
        known = ", ".join(SORTS)
        hint = did_you_mean(word, list(SORTS))
        raise Refusal(f"--sort: {field(word)} is none of {known}{hint}")
    has_counts = arguments.is_on("stats") or arguments.has("sort")
    if form in (Format.NAMES, Format.CSV) and not has_counts:
        _write(run, form, run.ask(ListQueuesRequest()).queues)
        return 0
    make = _wide if form is Format.WIDE else _row
    rows = sorted(run.session(lambda caller: _rows(caller, make)), key=SORTS[word])
    if form in (Format.NAMES, Format.CSV):
        _write(run, form, rows)
    else:
        _show_counts(run, rows)
    return 0


def _write(run: Invocation, form: Format, rows: Sequence[Row] | Sequence[QueueInfo]) -> None:
    """Names or CSV, which are nothing at all for no queue."""
    if form is Format.NAMES:
        run.streams.write("".join(f"{visible(row.name)}\n" for row in rows))
    else:
        run.streams.write(_csv(rows))


def _format(run: Invocation) -> Format:
    word = run.arguments.text("format")
    known = [each.value for each in Format if each]
    if word not in known and run.arguments.has("format"):
        hint = did_you_mean(word, known)
        raise Refusal(f"--format: {field(word)} is none of {', '.join(known)}{hint}")
    if word and run.output.form is not Form.TEXT:
        raise Refusal("--format is a form of text, and --output asks for JSON; give one")
    return Format(word)


def _show_counts(run: Invocation, rows: Sequence[Row]) -> None:
    """A table with a last row for all, or the rows as JSON."""
    lines = [] if run.output.form is not Form.TEXT or not rows else _table(rows)
    totals = [f"({len(rows)} queues)", "", *map(str, _sums(rows))] if rows else []
    if rows:
        totals.append(shown_age(max(row.oldest_message_age_ms for row in rows)))
        totals += [""] * (len(rows[0].__struct_fields__) - len(totals))
    run.output.rows(rows, lines, empty="(no queues)", totals=totals)


def _rows(caller: Caller, make: Callable[[QueueInfo, StatsResponse], Row]) -> list[Row]:
    rows = []
    for queue in caller.call(ListQueuesRequest()).queues:
        try:
            rows.append(make(queue, caller.call(StatsRequest(queue.name))))
        except QueueNotFound:
            continue
    return rows


def _row(queue: QueueInfo, stats: StatsResponse) -> Row:
    return Row(name=queue.name, kind=queue.kind, **_numbers(stats))


def _wide(queue: QueueInfo, stats: StatsResponse) -> Wide:
    return Wide(
        name=queue.name,
        kind=queue.kind,
        **_numbers(stats),
        lock_duration_ms=queue.lock_duration_ms,
        max_delivery_count=queue.max_delivery_count,
        default_ttl_ms=queue.default_ttl_ms,
        dedup_window_ms=queue.dedup_window_ms,
        generation=queue.generation,
    )


def _numbers(stats: StatsResponse) -> dict[str, int]:
    return {
        "active": stats.active,
        "locked": stats.locked,
        "deferred": stats.deferred,
        "scheduled": stats.scheduled,
        "dead_lettered": stats.dead_lettered,
        "total": stats.total,
        "oldest_message_age_ms": stats.oldest_message_age_ms,
    }


def _csv(rows: Sequence[Row] | Sequence[QueueInfo]) -> str:
    """With a head, whose names are the keys of JSON; nothing in it that a terminal obeys."""
    import csv  # noqa: PLC0415 - for this form alone
    import io  # noqa: PLC0415 - see above

    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    if rows:
        writer.writerow(rows[0].__struct_fields__)
    for row in rows:
        writer.writerow([visible(str(each)) for each in msgspec.structs.astuple(row)])
    return file.getvalue()


def _table(rows: Sequence[Row]) -> list[str]:
    sums = _sums(rows)
    oldest = max(row.oldest_message_age_ms for row in rows)
    is_wide = isinstance(rows[0], Wide)
    cells = [
        [*_HEADS, *(_SETTINGS if is_wide else ())],
        *(
            [field(row.name), field(row.kind), *map(str, _counts(row)), _age(row), *_settings(row)]
            for row in rows
        ),
        [f"({len(rows)} queues)", "", *map(str, sums), f"{oldest}ms"]
        + [""] * (len(_SETTINGS) if is_wide else 0),
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [_line(row, widths) for row in cells]


def _settings(row: Row) -> list[str]:
    if not isinstance(row, Wide):
        return []
    durations = (row.lock_duration_ms, row.default_ttl_ms, row.dedup_window_ms)
    lock, ttl, dedup = map(shown_duration, durations)
    return [lock, str(row.max_delivery_count), ttl, dedup, field(row.generation)]


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
    return "  ".join([*left, *right]).rstrip()
