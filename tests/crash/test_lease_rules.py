"""The rules about leases find every kind of broken promise, and accept what a death may leave."""

from __future__ import annotations

import msgspec
import pytest

from mqlite_actor.contract import wire
from tests.crash.lease_rules import RULES, breaches
from tests.crash.timeline import (
    DELIVERIES_MAX,
    LOCK_MS,
    STEP_MS,
    WINDOW_MS,
    Event,
    Item,
    Kind,
    Timeline,
    Verb,
)

T = 1_000_000
"""When everything happens."""


def sent(queue: str, *items: Item, at: int = T, call: int = 1) -> list[Event]:
    return [
        Event(Kind.SENDING, at, queue, call, items),
        Event(Kind.SENT, at + 1, queue, call, items),
    ]


def claimed(queue: str, seq: int, *, count: int = 1, at: int = T + 10, group: str = "") -> Event:
    item = Item(f"b{seq}", seq, group, "", count, T, at + LOCK_MS)
    return Event(Kind.CLAIMED, at + 1, queue, 0, (item,))


def asked(
    verb: Verb,
    queue: str,
    seq: int,
    *,
    count: int = 1,
    at: int = T + 20,
    delay: int = 0,
    answer: Kind | None = Kind.SETTLED,
) -> list[Event]:
    item = Item(f"b{seq}", seq, count=count)
    begun = Event(Kind.SETTLING, at, queue, 90 + seq, (item,), verb, delay)
    return [begun, Event(answer, at + 1, queue, 90 + seq)] if answer else [begun]


def told(*events: Event | list[Event]) -> Timeline:
    timeline = Timeline()
    timeline.begin()
    for each in events:
        for event in each if isinstance(each, list) else [each]:
            timeline.read(event)
    timeline.begin()
    return timeline


def left(timeline: Timeline, queue: str, *messages: wire.Message) -> Timeline:
    timeline.found.setdefault(queue, []).extend(messages)
    return timeline


def message(seq: int, *, state: str = "active", group: str = "", key: str = "") -> wire.Message:
    return wire.Message(
        seq_number=seq,
        body=b"b%d" % seq,
        state=state,
        group_id=group,
        message_id=key,
        enqueued_at_ms=T,
    )


ONE = sent("plain", Item("b1", 1))
IN_GROUP = sent("groups", Item("b1", 1, "g"), Item("b2", 2, "g"))
DRAINED = sent("drain", Item("b1", 1))
LATE = T + 10 + LOCK_MS
COMPLETED = asked(Verb.COMPLETE, "plain", 1)
IN_TIME = asked(Verb.ABANDON, "plain", 1, answer=Kind.LOST)
TOO_LATE = asked(Verb.COMPLETE, "plain", 1, at=LATE)
DELAYED = asked(Verb.ABANDON, "plain", 1, delay=80)
OF_KEY = [
    Event(Kind.CLAIMED, T + 5, "once", 0, (Item("k", seq, "", "k", 1, enqueued, T + LOCK_MS),))
    for seq, enqueued in ((1, T), (2, T + WINDOW_MS - 1))
]
KEYED = sent("once", Item("k", 1, key="k"))
CONFLICTED = [
    Event(Kind.SENDING, T, "once", 2, (Item("k", key="k"),)),
    Event(Kind.CONFLICT, T, "once", 2),
]

BROKEN: dict[str, tuple[str, Timeline]] = {
    "two leases": (
        "nobody_shares",
        told(ONE, claimed("plain", 1), claimed("plain", 1, count=2, at=T + 20)),
    ),
    "a renewed lease": (
        "nobody_shares",
        told(
            ONE,
            claimed("plain", 1),
            asked(Verb.RENEW, "plain", 1),
            claimed("plain", 1, count=2, at=LATE),
        ),
    ),
    "two of a group": (
        "lanes_go",
        told(IN_GROUP, claimed("groups", 1, group="g"), claimed("groups", 2, group="g", at=T + 30)),
    ),
    "overtaking": (
        "lanes_go",
        told(IN_GROUP, claimed("groups", 2, group="g"), claimed("groups", 1, group="g", at=LATE)),
    ),
    "left behind": (
        "lanes_go",
        left(told(IN_GROUP, claimed("groups", 2, group="g")), "groups", message(1, group="g")),
    ),
    "not counted": ("deliveries_are", told(ONE, claimed("plain", 1), claimed("plain", 1, at=LATE))),
    "once too often": ("deliveries_are", told(ONE, claimed("plain", 1, count=DELIVERIES_MAX + 1))),
    "back again": (
        "the_end",
        told(ONE, claimed("plain", 1), COMPLETED, claimed("plain", 1, count=2, at=LATE)),
    ),
    "still there": (
        "the_end",
        left(told(ONE, claimed("plain", 1), COMPLETED), "plain", message(1)),
    ),
    "not dead": ("the_end", told(ONE, claimed("plain", 1), asked(Verb.REJECT, "plain", 1))),
    "drained twice": ("the_end", told(DRAINED, claimed("drain", 1), claimed("drain", 1))),
    "lost": ("what_was", told(ONE)),
    "lost from a drain": ("what_was", told(DRAINED)),
    "a live lease": ("a_live", told(ONE, claimed("plain", 1), IN_TIME)),
    "a dead lease": ("a_live", told(ONE, claimed("plain", 1), TOO_LATE)),
    "too early": (
        "a_delay",
        told(ONE, claimed("plain", 1), DELAYED, claimed("plain", 1, count=2, at=T + 99)),
    ),
    "made up": ("what_is", told(claimed("plain", 1))),
    "a copy": (
        "what_is",
        told(ONE, claimed("plain", 1), Event(Kind.CLAIMED, T, "plain", 0, (Item("b1", 2),))),
    ),
    "twice in a window": ("a_window", told(KEYED, *OF_KEY)),
    "a needless conflict": ("a_window", told(KEYED, CONFLICTED, OF_KEY[0])),
    "an old number": (
        "a_window",
        told(KEYED, OF_KEY[0], sent("once", Item("k", 1, key="k"), at=T + WINDOW_MS, call=2)),
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_promise_is_found_by_its_rule(what: str) -> None:
    start, timeline = BROKEN[what]
    rules = {each.split(":")[0] for each in breaches(timeline)}
    assert any(rule.startswith(start) for rule in rules), rules


def test_every_rule_has_a_breach_that_it_must_find() -> None:
    starts = {start for start, _ in BROKEN.values()}
    assert [rule for rule in RULES if not rule.startswith(tuple(starts))] == []


KEPT: dict[str, Timeline] = {
    "completed": told(ONE, claimed("plain", 1), COMPLETED),
    "completed or not": told(
        ONE, claimed("plain", 1), asked(Verb.COMPLETE, "plain", 1, answer=None)
    ),
    "not completed": left(
        told(ONE, claimed("plain", 1), asked(Verb.COMPLETE, "plain", 1, answer=None)),
        "plain",
        message(1),
    ),
    "expired": left(
        told(ONE, claimed("plain", 1), claimed("plain", 1, count=2, at=LATE)), "plain", message(1)
    ),
    "too late": left(
        told(ONE, claimed("plain", 1), asked(Verb.COMPLETE, "plain", 1, at=LATE, answer=Kind.LOST)),
        "plain",
        message(1, state="dead_lettered"),
    ),
    "in order": left(
        told(
            IN_GROUP,
            claimed("groups", 1, group="g"),
            asked(Verb.COMPLETE, "groups", 1),
            claimed("groups", 2, group="g", at=T + 30),
        ),
        "groups",
        message(2, group="g"),
    ),
    "in hands": told(DRAINED, Event(Kind.DRAINING, T, "drain", 5, (Item(""),))),
    "a duplicate": told(
        KEYED,
        OF_KEY[0],
        asked(Verb.COMPLETE, "once", 1),
        sent("once", Item("k", 1, key="k"), at=T + 9, call=2),
    ),
}


@pytest.mark.parametrize("what", KEPT)
def test_what_may_happen_is_accepted(what: str) -> None:
    assert breaches(KEPT[what]) == []


def test_a_clock_that_was_set_back_in_between_excuses_what_it_explains() -> None:
    """And nothing else: an hour less is no window, no delay and no order of lives."""
    again = [
        msgspec.structs.replace(each, at=each.at - STEP_MS) for each in sent("plain", Item("b2", 2))
    ]
    timeline = told(
        sent("plain", Item("b1", 1)),
        claimed("plain", 1),
        asked(Verb.ABANDON, "plain", 1, delay=80),
    )
    timeline.read(claimed("plain", 1, count=2, at=T + 60 - STEP_MS))
    for event in again:
        timeline.read(event)
    timeline.read(claimed("plain", 2, at=T + 70 - STEP_MS))
    for seq in (1, 2):
        count = 3 - seq
        for event in asked(Verb.COMPLETE, "plain", seq, count=count, at=T + 80 - STEP_MS):
            timeline.read(event)
    assert breaches(timeline) == []
    early = told(
        sent("plain", Item("b1", 1)),
        claimed("plain", 1),
        asked(Verb.ABANDON, "plain", 1, delay=80),
        claimed("plain", 1, count=2, at=T + 60),
        asked(Verb.COMPLETE, "plain", 1, count=2, at=T + 80),
    )
    assert breaches(early) != []
