"""Instants of people to milliseconds of the wire and back: aware datetimes, UTC.

Called by the handles and messages. 0 on the wire is no instant; a naive datetime is refused,
because it means another moment on another machine (ruling R26 gives the last one that can be
named).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

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
    given: object = instant  # whoever has no type checker is checked here
    if not isinstance(given, datetime):
        raise InvalidArgument(
            f"{field}: give a datetime, such as datetime.now(UTC) + timedelta(hours=1), not"
            f" {type(given).__name__}"
        )
    if given.utcoffset() is None:  # a zone may have none, too
        raise InvalidArgument(f"{field}: a datetime without a time zone; use datetime.now(UTC) …")
    ms = -((_EPOCH - instant) // timedelta(milliseconds=1))
    if ms > INSTANT_MS_MAX:
        raise InvalidArgument(f"{field}: after the year 9999")
    return ms or 1
