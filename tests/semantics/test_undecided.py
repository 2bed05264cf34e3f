"""Which filters a send leaves undecided, and how they are asked before it comes again.

Where a filter is asked changes no route, only who waits for it; so it is looked at here by itself.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mqlite_actor.contract import limits
from mqlite_actor.contract.wire import Message, SendRequest
from mqlite_actor.engine.filtering import Inquiry
from mqlite_actor.filters import Filter, FilterFailed
from mqlite_actor.semantics.routing import (
    MATCH_ALL,
    Route,
    Undecided,
    Verdicts,
    checked,
    undecided,
)

NOW_MS = 1_800_000_000_000

QUICK = checked('subject == "a"')
LOOP = checked('any(property_keys, # == "a")')
BODY = checked('body_text contains "x"')

LARGE = b"x" * (limits.FILTERED_BODY_BYTES + 1)


def asked(
    *filters: Filter | None, batch: tuple[bytes, ...] = (b"x",), known: Verdicts | None = None
) -> list[tuple[str, int]]:
    """Which filters are to be asked about which of these bodies."""
    queue: Any = None  # no question depends on it
    routes = [Route(queue, each) for each in filters]
    found = undecided(routes, [Message(body=body) for body in batch], known or {})
    return [] if found is None else [(each.source, index) for each, index in found.pairs]


def test_only_what_may_take_long_is_asked_outside() -> None:
    assert LOOP.has_loops
    assert not LOOP.reads_body
    assert not QUICK.has_loops
    assert asked(MATCH_ALL) == []
    assert asked(QUICK, None) == []
    assert asked(LOOP) == asked(MATCH_ALL, LOOP) == [(LOOP.source, 0)]
    assert asked(MATCH_ALL, LOOP, QUICK, LOOP) == [(LOOP.source, 0)], "one text is one question"


def test_a_body_is_read_outside_if_it_is_large() -> None:
    assert BODY.reads_body
    assert not BODY.has_loops
    assert asked(BODY, batch=(b"x", LARGE[1:], LARGE)) == [(BODY.source, 2)]
    assert asked(QUICK, batch=(LARGE,)) == []


MUCH, MUCH_WIDE = limits.FILTER_WORK_MAX, limits.FILTER_WIDE_WORK_MAX


def fills(much: int) -> int:
    """As long as texts may be for QUICK to be asked at once."""
    return much // len(QUICK.source) - limits.FILTER_CALL_BYTES


TEXTS = ("subject", "message_id", "correlation_id", "reply_to", "group_id", "content_type")


@pytest.mark.parametrize(("letter", "much"), [("x", MUCH), ("é", MUCH_WIDE)])
@pytest.mark.parametrize("field", [*TEXTS, "keys", "values"])
def test_long_texts_are_looked_at_outside(field: str, letter: str, much: int) -> None:
    def message(length: int) -> Message:
        if field in TEXTS:
            return msgspec.structs.replace(Message(), **{field: letter * length})
        key, value = (length - 1, 1) if field == "keys" else (1, length - 1)
        return Message(properties={letter * key: letter * value})

    queue: Any = None
    routes = [Route(queue, MATCH_ALL), Route(queue, QUICK)]
    found = undecided(routes, [message(fills(much)), message(fills(much) + 1), Message()], {})
    assert found is not None
    assert [(each.source, index) for each, index in found.pairs] == [(QUICK.source, 1)]


def test_a_filter_that_does_much_is_asked_outside() -> None:
    steps = MUCH_WIDE // (limits.FILTER_CALL_BYTES * len("|upper()|lower()"))
    busy = checked("subject" + "|upper()|lower()" * (steps + 1) + ' == "é"')
    assert not busy.has_loops
    assert asked(QUICK, busy) == [(busy.source, 0)]
    plain = checked(busy.source.replace("é", "x"))
    assert asked(QUICK, plain) == [], "upper and lower of ASCII are nothing"


def test_what_is_known_is_not_asked_again() -> None:
    known: Verdicts = {(LOOP.source, 0): False, (LOOP.source, 2): True}
    assert asked(LOOP, batch=(b"",) * 4, known=known) == [(LOOP.source, 1), (LOOP.source, 3)]
    assert asked(LOOP, batch=(b"",), known=known) == []


# -- the questions ---------------------------------------------------------------------------------


def inquiry(
    known: Verdicts, *pairs: tuple[Filter, int], at_ms: int = 0, number: int = 2
) -> Inquiry:
    """Of a send of messages with the subjects "0", "1" …"""
    batch = [Message(body=b"x", subject=str(place)) for place in range(number)]
    request = SendRequest(queue="t", messages=batch, scheduled_enqueue_time_ms=at_ms)
    return Inquiry(request, Undecided([*pairs]), known, NOW_MS)


def test_each_question_is_answered_about_its_own_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FILTER_SLICE_SECONDS", 1000.0)
    known: Verdicts = {}
    zero, one = checked('subject == "0"'), checked('subject == "1"')
    asking = inquiry(known, (one, 1), (zero, 1), (one, 0), (zero, 0))
    asking.go_on()
    assert not asking.is_open, "one turn does as much as fits"
    assert known == {
        (zero.source, 0): True,
        (one.source, 0): False,
        (zero.source, 1): False,
        (one.source, 1): True,
    }
    assert [*asking._facts] == [1], "a body that was asked about is let go of"


def test_a_turn_that_is_over_asks_one_question_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "FILTER_SLICE_SECONDS", -1.0)
    known: Verdicts = {}
    asking = inquiry(known, (QUICK, 0), (QUICK, 1))
    for number in (1, 2):
        asking.go_on()
        assert len(known) == number
        assert asking.is_open is (number < 2)


@pytest.mark.parametrize("later_ms", [0, 5_000])
def test_a_filter_sees_when_the_message_will_be_there(later_ms: int) -> None:
    known: Verdicts = {}
    at_ms = NOW_MS + later_ms if later_ms else 0
    same = checked("visible_at == enqueued_at")
    asking = inquiry(known, (same, 0), at_ms=at_ms)
    asking.go_on()
    assert known == {(same.source, 0): not later_ms}


def test_a_filter_that_fails_is_an_answer() -> None:
    known: Verdicts = {}
    asking = inquiry(known, (checked('int(subject + "x") > 0'), 0))
    asking.go_on()
    (verdict,) = known.values()
    assert isinstance(verdict, FilterFailed)
