"""What is no instant is refused by its field, wherever one is taken."""

from __future__ import annotations

from datetime import date, datetime, timedelta, tzinfo
from typing import Any

import pytest

import mqlite_actor as mq


class Nowhere(tzinfo):
    """A zone that has no offset."""

    def utcoffset(self, _: datetime | None) -> None:
        return None

    dst = tzname = utcoffset


NO_INSTANTS: dict[str, tuple[Any, str]] = {
    "a date": (date(2030, 1, 1), "give a datetime.* not date"),
    "a text": ("2030-01-01T00:00:00Z", "give a datetime.* not str"),
    "a number": (1_900_000_000, "give a datetime.* not int"),
    "a pause": (timedelta(hours=1), "give a datetime.* not timedelta"),
    "no zone": (datetime(2030, 1, 1), "without a time zone"),  # noqa: DTZ001  # is refused
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
