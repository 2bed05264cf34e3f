"""Every deed in every situation: what is answered, where the message is afterwards, what it counts.

EFFECTS holds what happens; whatever it does not name is refused (REFUSALS) and changes nothing, to
the last field. Counts and lanes are checked by the `engine` fixture when each case ends.
"""

from __future__ import annotations

import itertools
from typing import Final

import msgspec
import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract.wire import Message
from mqlite_actor.engine.engine import Engine
from mqlite_actor.semantics.lifecycle import NONE, TRANSITIONS, Event, check_step
from tests.semantics.stage import DEEDS, LATER_MS, LOCK_MS, SITUATIONS, Stage

REFUSALS: Final = {
    "receive": "nothing",
    "remove": "nothing",
    "receive deferred": "nothing",
    "complete batch": "not ok",
    "renew batch": "not ok",
    "cancel": "not_found",
    "release": "not ok",
    "redrive selected": "not ok",
    "redrive selected elsewhere": "not ok",
    "resubmit": "not_found",
    "resubmit elsewhere": "not_found",
    "purge active": "ok",
    **dict.fromkeys(("redrive", "redrive elsewhere", "purge"), "ok"),
    **dict.fromkeys(("complete", "reject", "defer", "renew"), "lock_lost"),
    **dict.fromkeys((deed for deed in DEEDS if deed.startswith("abandon")), "lock_lost"),
}
"""What a deed answers when it does nothing; passes and looks answer "done" always."""

LIVE: Final = ("locked", "locked, life over")
LEASED: Final = (*LIVE, "lease over")
DUE: Final = ("scheduled, due", "retry, due", "scheduled, life over")
OVER: Final = tuple(situation for situation in SITUATIONS if situation.endswith("life over"))

ACTIVE, LOCKED, SCHEDULED, DEFERRED, DEAD = (
    "active", "locked", "scheduled", "deferred", "dead_lettered",
)  # fmt: skip

Effect = tuple[Event | None, str, str, int]
"""Event of the life-cycle table, answer, state afterwards, change of the delivery count."""

EFFECTS: Final[dict[tuple[str, str], Effect]] = {
    ("receive", "active"): (Event.CLAIM, "taken", LOCKED, 1),
    ("remove", "active"): (Event.TAKE, "taken", NONE, 0),
    # A claim clears expired heads out of its way.
    ("receive", "active, life over"): (Event.EXPIRE, "nothing", DEAD, 0),
    ("remove", "active, life over"): (Event.EXPIRE, "nothing", DEAD, 0),
    ("receive deferred", "deferred"): (Event.CLAIM_DEFERRED, "taken", LOCKED, 1),
    # Cancel looks at what is stored: due or past its life, it was never delivered.
    ("cancel", "scheduled"): (Event.CANCEL, "ok", NONE, 0),
    ("cancel", "scheduled, due"): (Event.CANCEL, "ok", NONE, 0),
    ("cancel", "scheduled, life over"): (Event.CANCEL, "ok", NONE, 0),
    ("redrive", "dead"): (Event.REDRIVE, "ok", ACTIVE, -1),
    ("redrive elsewhere", "dead"): (Event.REDRIVE, "ok", NONE, 0),
    ("purge", "dead"): (Event.PURGE, "ok", NONE, 0),
    ("redrive selected", "dead"): (Event.REDRIVE, "ok", ACTIVE, -1),
    ("redrive selected elsewhere", "dead"): (Event.REDRIVE, "ok", NONE, 0),
    ("resubmit", "dead"): (Event.REDRIVE, "ok", ACTIVE, -1),
    ("resubmit elsewhere", "dead"): (Event.REDRIVE, "ok", NONE, 0),
    **{("release", situation): (Event.RELEASE, "ok", ACTIVE, -1) for situation in LIVE},
    **{
        ("purge active", situation): (Event.PURGE_ACTIVE, "ok", NONE, 0)
        for situation, (word, _) in SITUATIONS.items()
        if word == ACTIVE
    },
    **{
        ("discard", situation): (Event.DISCARD, "done", NONE, 0)
        for situation in SITUATIONS
        if situation != "none"
    },
    ("reap", "lease over"): (Event.LEASE_END, "done", ACTIVE, 0),
    ("reap at the limit", "lease over"): (Event.LEASE_END, "done", DEAD, 0),
    **{
        (deed, situation): (event, "ok", after, 0)
        for situation in LIVE
        for deed, event, after in (
            ("complete", Event.COMPLETE, NONE),
            ("complete batch", Event.COMPLETE, NONE),
            ("abandon", Event.ABANDON, ACTIVE),
            ("abandon early", Event.ABANDON, ACTIVE),
            ("abandon later", Event.ABANDON, SCHEDULED),
            ("abandon at the limit", Event.ABANDON, DEAD),
            ("abandon later at the limit", Event.ABANDON, DEAD),
            ("reject", Event.REJECT, DEAD),
            ("defer", Event.DEFER, DEFERRED),
            ("renew", None, LOCKED),
            ("renew batch", None, LOCKED),
        )
    },
    **{
        (deed, situation): (event, "done", after, uncount)
        for situation in LEASED
        for deed, event, after, uncount in (
            ("recover", Event.RECOVER, ACTIVE, 0),
            ("recover at the limit", Event.RECOVER, DEAD, 0),
        )
    },
    **{
        (deed, situation): (event, "done", after, uncount)
        for situation in LIVE
        for deed, event, after, uncount in (
            ("hand back", Event.RELEASE, ACTIVE, -1),
            ("hand back counted", Event.LEASE_END, ACTIVE, 0),
            ("hand back counted at the limit", Event.LEASE_END, DEAD, 0),
        )
    },
    **{("activate", situation): (Event.ACTIVATE, "done", ACTIVE, 0) for situation in DUE},
    **{("expire", situation): (Event.EXPIRE, "done", DEAD, 0) for situation in OVER},
    **{("expire and discard", situation): (Event.EXPIRE, "done", NONE, 0) for situation in OVER},
}

REASONS: Final = {
    Event.EXPIRE: "TTLExpired",
    Event.REJECT: "AppRequested",
    **dict.fromkeys((Event.ABANDON, Event.LEASE_END, Event.RECOVER), "MaxDeliveryCountExceeded"),
}


VISIBLE_IN_MS: Final = {"abandon": 0, "abandon early": -LATER_MS, "abandon later": LATER_MS}
"""When a message that left its lease by these deeds is visible again; others leave that alone,
except that a redriven one was visible for ever."""


def state(message: Message | None) -> str:
    return message.state if message else NONE


def changed(before: Message, effect: Effect, deed: str, now_ms: int) -> Message | None:
    """The message after a deed: state, lease, count, reason and visibility, and nothing else."""
    event, _, goes_to, counts = effect
    if goes_to == NONE:
        return None
    visible_at = 0 if event is Event.REDRIVE else before.visible_at_ms
    if goes_to in (ACTIVE, SCHEDULED) and deed in VISIBLE_IN_MS:
        visible_at = now_ms + VISIBLE_IN_MS[deed]
    return msgspec.structs.replace(
        before,
        state=goes_to,
        delivery_count=before.delivery_count + counts,
        locked_until_ms=now_ms + LOCK_MS if goes_to == LOCKED else 0,
        visible_at_ms=visible_at,
        dead_letter_reason=REASONS[event] if event and goes_to == DEAD else "",
    )


@pytest.mark.promise("E28", "E82", "E83", "E91", "E92", "E93", "E94", "E109", "E130")
@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("deed", DEEDS)
async def test_each_deed_does_what_the_table_says_and_nothing_else(
    engine: Engine, clock: ManualClock, deed: str, situation: str
) -> None:
    stage = Stage(engine, clock)
    await stage.configure()
    expected_state, arrange = SITUATIONS[situation]
    await arrange(stage)
    before = await stage.seen()
    assert state(before) == expected_state
    answer = await DEEDS[deed](stage)
    after = await stage.seen()
    effect = EFFECTS.get((deed, situation))
    if effect is None:
        assert (answer, after) == (REFUSALS.get(deed, "done"), before)
        return
    assert before is not None
    assert (answer, after) == (effect[1], changed(before, effect, deed, clock.now_ms()))


def test_the_table_of_effects_reaches_every_transition() -> None:
    """SEND and SCHEDULE are reached by arranging the situations."""
    reached = {(Event.SEND, NONE, ACTIVE), (Event.SCHEDULE, NONE, SCHEDULED)}
    for (_, situation), (event, _, after, _) in EFFECTS.items():
        if event is not None:
            reached.add((event, SITUATIONS[situation][0], after))
    wanted = {
        (event, before, after)
        for (event, before), targets in TRANSITIONS.items()
        for after in targets
    }
    assert reached == wanted


def test_every_other_step_is_stopped_before_it_reaches_a_row() -> None:
    words = (NONE, ACTIVE, LOCKED, SCHEDULED, DEFERRED, DEAD)
    refused = 0
    for event, before, after in itertools.product(Event, words, words):
        if after in TRANSITIONS.get((event, before), ()):
            check_step(event, before, after)
            continue
        refused += 1
        with pytest.raises(AssertionError, match="may not take"):
            check_step(event, before, after)
    assert refused == len(Event) * 36 - sum(map(len, TRANSITIONS.values()))
