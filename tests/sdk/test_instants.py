"""What is no instant is refused by its field, wherever one is taken."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from typing import Any

import pytest

import mqlite_actor as mq
from mqlite_actor.sdk.instants import to_ms


class Nowhere(tzinfo):
    """A zone that has no offset."""

    def utcoffset(self, _: datetime | None) -> None:
        return None

    dst = tzname = utcoffset


class Alike:
    """As the datetimes of some libraries: one, and of no common class."""

    def __init__(self, inner: datetime) -> None:
        self.inner = inner

    def utcoffset(self) -> timedelta | None:
        return self.inner.utcoffset()

    def __rsub__(self, other: datetime) -> timedelta:
        return other - self.inner


class Pause(timedelta):
    """It does not divide as others do."""

    def __floordiv__(self, _: object) -> Any:  # noqa: ANN401  # as the class it is like
        raise AttributeError("_to_microseconds")


class Derived(datetime):
    """As the datetimes of other libraries."""

    def __rsub__(self, other: datetime) -> timedelta:
        return Pause(seconds=(other - datetime.fromisoformat(self.isoformat())).total_seconds())


class Unlike(Alike):
    """It has an offset, and no distance from another instant."""

    def __rsub__(self, _: datetime) -> Any:  # noqa: ANN401  # that is the question
        return 5


NAIVE = datetime(2030, 1, 1)  # noqa: DTZ001  # is refused
NO_INSTANTS: dict[str, tuple[Any, str]] = {
    "a date": (date(2030, 1, 1), "give a datetime.* not date"),
    "a text": ("2030-01-01T00:00:00Z", "give a datetime.* not str"),
    "a number": (1_900_000_000, "give a datetime.* not int"),
    "a pause": (timedelta(hours=1), "give a datetime.* not timedelta"),
    "a class": (datetime, "give a datetime.* not type"),
    "a time of day": (time(8, tzinfo=UTC), "give a datetime.* not time"),
    "one alike, but no instant": (Unlike(datetime.now(UTC)), "give a datetime.* not Unlike"),
    "one alike, without a zone": (Alike(NAIVE), "without a time zone"),
    "no zone": (NAIVE, "without a time zone"),
    "a zone without an offset": (datetime(2030, 1, 1, tzinfo=Nowhere()), "without a time zone"),
}


@pytest.mark.parametrize("name", NO_INSTANTS)
def test_what_is_no_instant_is_refused_by_its_field(name: str) -> None:
    instant, reason = NO_INSTANTS[name]
    with mq.open_embedded_sync(":memory:") as q:
        q.create_queue("q")
        with pytest.raises(mq.InvalidArgument, match=f"at: .*{reason}"):
            q.send_one("q", "x", at=instant)
        with pytest.raises(mq.InvalidArgument, match=f"at: .*{reason}"):
            q.queue("q", str).send_one("x", at=instant)
        with q.tx() as tx, pytest.raises(mq.InvalidArgument, match=f"at: .*{reason}"):
            tx.send_one("q", "x", at=instant)
        with pytest.raises(mq.InvalidArgument, match=f"enqueued_from: .*{reason}"):
            q.search("q", enqueued_from=instant)
        with pytest.raises(mq.InvalidArgument, match=f"expires_at: .*{reason}"):
            q.create_key("0" * 32, name="n", permissions=["send"], expires_at=instant)
        assert q.stats("q").total == 0


def derived(instant: datetime) -> Derived:
    return Derived.fromisoformat(instant.isoformat())


@pytest.mark.parametrize("kind", [Alike, derived])
def test_what_behaves_like_a_datetime_is_taken_as_one(kind: Callable[[datetime], Any]) -> None:
    instant = datetime(2999, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    with mq.open_embedded_sync(":memory:") as q:
        q.create_queue("q")
        q.send_one("q", "x", at=kind(instant))
        assert q.stats("q").scheduled == 1
        assert to_ms(kind(instant), field="at") == int(instant.timestamp() * 1000)
        late = datetime.max.replace(tzinfo=timezone(-timedelta(hours=9)))
        with pytest.raises(mq.InvalidArgument, match="at: after the year 9999"):
            q.send_one("q", "x", at=kind(late))
