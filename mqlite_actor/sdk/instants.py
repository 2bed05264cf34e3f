"""Instants of people to milliseconds of the wire and back: aware datetimes, UTC.

Called by the handles and messages. 0 on the wire is no instant; a naive datetime is refused,
because it means another moment on another machine (ruling R26 gives the last one that can be
named).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from mqlite_actor.contract.errors import InvalidArgument
from mqlite_actor.contract.limits import INSTANT_MS_MAX

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def to_datetime(ms: int) -> datetime | None:
    """An instant of the wire; None for 0."""
    return _EPOCH + timedelta(milliseconds=ms) if ms else None


def to_ms(instant: datetime, *, field: str) -> int:
    """An aware datetime as an instant of the wire, rounded up to a whole millisecond.

    1970 began at 0, which is none; its first instant is the next one, so that a zeroed field is as
    long ago as it looks.
    """
    before = _before_epoch(instant)
    if before is None:
        raise InvalidArgument(f"{field}: a datetime without a time zone; use datetime.now(UTC) …")
    if not isinstance(before, timedelta):
        raise InvalidArgument(
            f"{field}: give a datetime, such as datetime.now(UTC) + timedelta(hours=1), not"
            f" {type(instant).__name__}"
        )
    # Not by `//`: a library's own timedelta may divide in another way, or not at all.
    ms = -timedelta.__floordiv__(before, timedelta(milliseconds=1))
    if ms > INSTANT_MS_MAX:
        raise InvalidArgument(f"{field}: after the year 9999")
    return ms or 1


def _before_epoch(instant: Any) -> object:  # noqa: ANN401  # whoever has no type checker is here
    """How long before 1970 it is; None without an offset, which a zone may not have either. What
    behaves like a datetime is one: those of some libraries are of no common class."""
    try:
        return None if instant.utcoffset() is None else _EPOCH - instant
    except (AttributeError, TypeError):
        return NotImplemented
