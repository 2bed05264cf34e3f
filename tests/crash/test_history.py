"""The judge of the crash tests finds every kind of broken promise that it is there for."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from mqlite_actor.contract import wire
from tests.crash.history import History
from tests.crash.worker import DELIVERIES_MAX, Item, Kind, Note

SENDING = Note(Kind.SENDING, "groups", 1, (Item("a", group="g"), Item("b", group="g")))
SENT = Note(Kind.SENT, "groups", 1, (Item("a", 1, "g"), Item("b", 2, "g")))
LEASE = Item("a", 1, "g", 1)
DELIVERED = Note(Kind.DELIVERED, "groups", 0, (LEASE,))
COMPLETING = Note(Kind.COMPLETING, "groups", 2, (LEASE,), "t")
COMPLETED = Note(Kind.COMPLETED, "groups", 2, (LEASE,), "t")
DRAIN_SENDING = Note(Kind.SENDING, "drain", 1, (Item("a"), Item("b")))
DRAIN_SENT = Note(Kind.SENT, "drain", 1, (Item("a", 1), Item("b", 2)))
DRAINING = Note(Kind.DRAINING, "drain", 2, (Item(""),))


def delivery(body: str, seq: int, count: int) -> Note:
    return Note(Kind.DELIVERED, "groups", 0, (Item(body, seq, "g", count),))


def told(notes: Iterable[Note]) -> History:
    history = History()
    history.begin()
    for note in notes:
        history.read(note)
    return history


def file(**seq_of: int) -> dict[str, list[wire.Message]]:
    """What a file holds: bodies and their numbers."""
    return {
        "groups": [
            wire.Message(body=body.encode(), seq_number=seq, state="active")
            for body, seq in seq_of.items()
        ]
    }


BROKEN: dict[str, list[Note]] = {
    "a delivery that nobody sent": [DELIVERED],
    "a number given twice": [SENDING, SENT, Note(Kind.SENDING, "plain", 3, (Item("c"),)),
                             Note(Kind.SENT, "plain", 3, (Item("c", 2),))],
    "an acknowledgement twice": [SENDING, SENT, SENDING, SENT],
    "back after completion": [SENDING, SENT, DELIVERED, COMPLETING, COMPLETED, delivery("a", 1, 2)],
    "a delivery uncounted": [SENDING, SENT, DELIVERED, DELIVERED],
    "one delivery too many": [SENDING, SENT, delivery("a", 1, DELIVERIES_MAX + 1)],
    "overtaking in a group": [SENDING, SENT, delivery("b", 2, 1), DELIVERED],
}  # fmt: skip


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_promise_among_the_notes_is_found(what: str) -> None:
    with pytest.raises(AssertionError):
        told(BROKEN[what])


@pytest.mark.parametrize(
    ("notes", "found"),
    [
        ([SENDING], file()),
        ([SENDING], file(a=1, b=2)),
        ([SENDING, SENT], file(a=1, b=2)),
        ([SENDING, SENT, DELIVERED], file(a=1, b=2)),
        ([SENDING, SENT, DELIVERED, COMPLETING], file(a=1, b=2)),
        ([SENDING, SENT, DELIVERED, COMPLETING], file(b=2)),
        ([SENDING, SENT, DELIVERED, COMPLETING, COMPLETED], file(b=2)),
        ([DRAIN_SENDING, DRAIN_SENT, DRAINING], file()),
    ],
)
def test_what_a_death_may_leave_is_accepted_or_counted(
    notes: list[Note], found: dict[str, list[wire.Message]]
) -> None:
    history = told(notes)
    if DRAINING in notes:
        with pytest.raises(AssertionError, match="more lost than drains had in hand"):
            history.judge(found)  # two are gone, one was in hand
    else:
        history.judge(found)


@pytest.mark.parametrize(
    ("notes", "found", "why"),
    [
        ([SENDING], file(a=1), "half of a call"),
        ([SENDING, SENT], file(a=1), "acknowledged and lost"),
        ([SENDING, SENT], file(), "acknowledged and lost"),
        ([SENDING, SENT, DELIVERED], file(b=2), "acknowledged and lost"),
        ([SENDING, SENT, DELIVERED, COMPLETING, COMPLETED], file(a=1, b=2), "came back"),
        ([SENDING, SENT], file(a=1, b=7), "changed its number"),
        ([SENDING, SENT], file(a=1, b=2, c=3), "nobody sent"),
    ],
)
def test_a_broken_promise_in_the_file_is_found(
    notes: list[Note], found: dict[str, list[wire.Message]], why: str
) -> None:
    with pytest.raises(AssertionError, match=why):
        told(notes).judge(found)


def test_a_number_of_an_earlier_life_is_not_given_out_again() -> None:
    history = told([SENDING, SENT])
    history.judge(file(a=1, b=2))
    history.begin()
    history.read(Note(Kind.SENDING, "plain", 1, (Item("c"),)))
    with pytest.raises(AssertionError, match="given out before"):
        history.read(Note(Kind.SENT, "plain", 1, (Item("c", 2),)))
