"""Numbers, times and foreign texts as they stand in a cell; pure.

Called by the views alone. Rules: what is not known is a dash; a text that a sender chose (names of
queues, reasons, descriptions) is shown by `shown`, which leaves nothing that a terminal obeys, and
is never read as markup.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache

from rich.cells import cell_len, set_cell_size

DASH = "–"
ELLIPSIS = "…"
_BARS = "▁▂▃▄▅▆▇█"
_SPANS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"))
_DEL = 0x7F


@lru_cache(maxsize=4096)  # the names on a screen or two, which every tick shows again
def shown(text: str) -> str:
    """`text` on one line; what is not printable is written as an escape."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _escape(ord(each)) for each in text)


def _escape(code: int) -> str:
    if code <= _DEL:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def fit(text: str, width: int, *, is_right: bool = False) -> str:
    """Exactly `width` cells of `text`; what does not fit ends in an ellipsis."""
    length = cell_len(text)
    if length > width:
        return set_cell_size(text, width - 1) + ELLIPSIS if width > 0 else ""
    pad = " " * (width - length)
    return pad + text if is_right else text + pad


def count(number: float | None) -> str:
    """At most five cells: 9999, 12.3k, 4.56M."""
    if number is None:
        return DASH
    if abs(number) < 10_000:
        return str(int(number))
    for unit in "kMGT":
        number /= 1000
        if abs(number) < 10:  # from 10,000 on, so never thousands
            return f"{number:.2f}{unit}"
        if abs(number) < 1000:
            return f"{number:.{1 if abs(number) < 100 else 0}f}{unit}"
    return ">999T"


def rate(number: float | None) -> str:
    """A number, often one a second, with a digit behind the point where it is small."""
    if number is None:
        return DASH
    is_fine = abs(number) < 10 and number != int(number)
    return f"{number:.1f}" if is_fine else count(number)


def signed(number: float | None) -> str:
    """The same with its sign; nothing for zero."""
    if number is None:
        return DASH
    return "" if not number else f"{'+' if number > 0 else '-'}{rate(abs(number))}"


def size(number: int | None) -> str:
    """Bytes."""
    if number is None:
        return DASH
    value = float(number)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def span(ms: float | None) -> str:
    """A time in its two greatest units."""
    if ms is None:
        return DASH
    if ms < 1000:
        return f"{max(0, int(ms))}ms"
    for at, (unit_ms, unit) in enumerate(_SPANS):
        if ms >= unit_ms:
            whole, rest = divmod(int(ms), unit_ms)
            if at + 1 == len(_SPANS):
                return f"{whole}{unit}"
            smaller_ms, smaller = _SPANS[at + 1]
            return f"{whole}{unit}{rest // smaller_ms}{smaller}"
    raise AssertionError("a second is the least unit")


def latency(seconds: float) -> str:
    """The upper bound of a bucket."""
    if math.isinf(seconds):
        return ">20s"
    return f"{seconds:g}s" if seconds >= 1 else f"{seconds * 1000:g}ms"


def clock(ms: int) -> str:
    """The time of day, UTC."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%H:%M:%SZ")
    except (OverflowError, OSError, ValueError):
        # A broker may say anything; a wrong time must not end the monitor.
        return DASH


def sparkline(values: Sequence[int], width: int) -> str:
    """The last `width` (at least one) values as bars, between zero and the greatest of them."""
    chosen = values[-width:]
    top = max(chosen, default=0)
    if not top:
        return (_BARS[0] * len(chosen)).rjust(width)
    last = len(_BARS) - 1
    return "".join(_BARS[-(-value * last // top)] for value in chosen).rjust(width)
