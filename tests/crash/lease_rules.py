"""The promises about leases, order and duplicates, as rules over a Timeline.

Each rule yields a sentence for every breach. RULES names them all; test_lease_rules.py plants a
breach for each, test_leases.py runs a real program against all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise

from tests.crash.timeline import (
    DELIVERIES_MAX,
    WINDOW_MS,
    Claim,
    Item,
    Send,
    Timeline,
    Verb,
    was_set_back,
)

Rule = Callable[[Timeline], Iterator[str]]

COUNTED = ("plain", "groups", "strict")
"""Queues with a bound on deliveries."""

RELEASING = (Verb.COMPLETE, Verb.ABANDON, Verb.REJECT)


def nobody_shares_a_lease(timeline: Timeline) -> Iterator[str]:
    """A message is granted again only after its lease ended, was given up, or died."""
    for claims in timeline.by_message().values():
        yield from _overlaps(claims)


def lanes_go_one_by_one(timeline: Timeline) -> Iterator[str]:
    """In a group, or a strict queue, there is one lease at a time, and no overtaking."""
    for lane, claims in timeline.by_lane().items():
        yield from _overlaps(claims)
        for before, after in pairwise(claims):
            if after.item.seq < before.item.seq:
                yield f"{before.item.seq} overtook {after.item.seq} in {lane}"
        highest = max(claim.item.seq for claim in claims)
        for message in timeline.found.get(lane[0], []):
            is_here = lane[0] == "strict" or message.group_id == lane[1]
            if is_here and message.seq_number < highest and message.state != "dead_lettered":
                yield f"{highest} overtook {message.seq_number} in {lane}, which is still there"


def _overlaps(claims: list[Claim]) -> Iterator[str]:
    for before, after in pairwise(claims):
        if after.life == before.life and after.at < _over_from(before):
            yield f"{after.item.seq} was granted at {after.at} while {before} was held"


def _over_from(claim: Claim) -> int:
    """The earliest time at which the lease may be over."""
    released = [ask.begun for ask in claim.asks if ask.verb in RELEASING and ask.is_ok is not False]
    return min([claim.ends_after(), *released])


def deliveries_are_counted(timeline: Timeline) -> Iterator[str]:
    """Each delivery has a higher count than the one before, and none is above the bound."""
    for seq, claims in timeline.by_message().items():
        for before, after in pairwise(claims):
            if after.item.count <= before.item.count:
                yield f"{seq}: delivery {after.item.count} came after {before.item.count}"
        last = claims[-1]
        if last.queue in COUNTED and last.item.count > DELIVERIES_MAX:
            yield f"{seq} was delivered {last.item.count} times"


def the_end_is_the_end(timeline: Timeline) -> Iterator[str]:
    """What was completed, rejected or drained is never delivered again."""
    leases = timeline.by_message()
    dead = _states(timeline, "dead_lettered")
    there = _states(timeline)
    for seq, claims in leases.items():
        for claim in claims:
            ended = claim.asked(Verb.COMPLETE) or claim.asked(Verb.REJECT)
            if ended is None or not ended.is_ok:
                continue
            if claim is not claims[-1]:
                yield f"{seq} was delivered again after {ended}"
            if ended.verb is Verb.COMPLETE and seq in there:
                yield f"{seq} was completed and is still there"
            if ended.verb is Verb.REJECT and seq not in dead:
                yield f"{seq} was rejected and is no dead letter"
    drained = Counter(claim.item.seq for claim in timeline.claims if claim.queue == "drain")
    yield from (f"{seq} was drained twice" for seq, times in drained.items() if times > 1)
    yield from (f"{seq} was drained and is still there" for seq in set(drained) & there)


def _states(timeline: Timeline, state: str = "") -> set[int]:
    """Numbers of what is left, all or of one state."""
    return {
        message.seq_number
        for messages in timeline.found.values()
        for message in messages
        if state in ("", message.state)
    }


def what_was_acknowledged_is_there(timeline: Timeline) -> Iterator[str]:
    """Every number that was given out is in the file, or had its end."""
    known = _states(timeline) | {
        claim.item.seq
        for claim in timeline.claims
        if claim.queue == "drain" or claim.asked(Verb.COMPLETE)
    }
    missing: dict[int, str] = {
        seq: send.queue
        for send in timeline.sends
        for seq in send.numbers
        if seq and seq not in known
    }
    lost = sorted(seq for seq, queue in missing.items() if queue != "drain")
    yield from (f"{seq} was acknowledged and is lost" for seq in lost)
    drained = len(missing) - len(lost)
    if drained > timeline.in_hands:
        yield f"{drained} were lost from drain, {timeline.in_hands} can have been in hands"


def a_live_lease_is_obeyed_and_a_dead_one_is_not(timeline: Timeline) -> Iterator[str]:
    """A verb on a live lease is never refused, one on an expired lease never succeeds."""
    for claim in timeline.leases():
        over = claim.ends_before()
        for ask in claim.asks:
            if ask.ended is None:
                continue
            if ask.is_ok and over is not None and ask.begun >= over:
                yield f"{ask} succeeded on a lease that was over: {claim}"
            if not ask.is_ok and ask.ended < claim.ends_after():
                yield f"{ask} was refused under a live lease: {claim}"


def a_delay_is_kept(timeline: Timeline) -> Iterator[str]:
    """An abandoned message does not come back before its delay is over."""
    for seq, claims in timeline.by_message().items():
        for before, after in pairwise(claims):
            given_up = before.asked(Verb.ABANDON)
            if given_up is None or not given_up.is_ok or was_set_back(given_up.begun, after.at):
                continue
            if after.at < given_up.begun + given_up.delay:
                yield f"{seq} came back at {after.at}, {given_up}"


def what_is_delivered_was_sent(timeline: Timeline) -> Iterator[str]:
    """A delivery has the body, group and key of a send, and no body is there twice."""
    sent = {(item.body, item.group, item.key) for send in timeline.sends for item in send.items}
    number_of: dict[str, int] = {}
    for claim in timeline.claims:
        item = claim.item
        if (item.body, item.group, item.key) not in sent:
            yield f"nobody sent {item}"
        if claim.queue != "once" and number_of.setdefault(item.body, item.seq) != item.seq:
            yield f"{item.body} is there as {number_of[item.body]} and as {item.seq}"


def a_window_lets_one_in(timeline: Timeline) -> Iterator[str]:
    """Two messages of one key are a window apart; duplicates and conflicts lie inside one."""
    accepted = _accepted(timeline)
    for key, items in accepted.items():
        for before, after in pairwise(items):
            if was_set_back(before.enqueued, after.enqueued):
                continue  # in a window that was over already, or not
            if after.enqueued < before.enqueued + WINDOW_MS:
                yield f"{key} was let in twice within a window: {before}, {after}"
    by_seq = {item.seq: item for items in accepted.values() for item in items}
    for send in timeline.sends:
        if send.queue == "once" and send.ended is not None:
            yield from _judge_answer(send, accepted, by_seq)


def _judge_answer(
    send: Send, accepted: dict[str, list[Item]], by_seq: dict[int, Item]
) -> Iterator[str]:
    item = send.items[0]
    if send.is_conflict:
        others = (each for each in accepted.get(item.key, []) if each.body != item.body)
        if not any(_is_open(each, send) for each in others):
            yield f"{send} met no other body"
    elif (first := by_seq.get(send.numbers[0])) is not None:
        if (first.key, first.body) != (item.key, item.body):
            yield f"{send} was answered with the number of {first}"
        if not _is_open(first, send):
            yield f"{send} was answered with {first}, outside its window"


def _is_open(first: Item, send: Send) -> bool:
    """Whether the send can have met this message inside its window."""
    assert send.ended is not None
    was_before = first.enqueued <= send.ended or was_set_back(first.enqueued, send.ended)
    return was_before and send.begun < first.enqueued + WINDOW_MS


def _accepted(timeline: Timeline) -> dict[str, list[Item]]:
    """Messages of the queue with a window that were ever seen, by key and number."""
    seen = {claim.item.seq: claim.item for claim in timeline.claims if claim.queue == "once"}
    for message in timeline.found.get("once", []):
        item = Item(
            message.body.decode(),
            message.seq_number,
            key=message.message_id,
            enqueued=message.enqueued_at_ms,
        )
        seen.setdefault(item.seq, item)
    found: dict[str, list[Item]] = {}
    for seq in sorted(seen):
        found.setdefault(seen[seq].key, []).append(seen[seq])
    return found


RULES: dict[str, Rule] = {
    rule.__name__: rule
    for rule in (
        nobody_shares_a_lease,
        lanes_go_one_by_one,
        deliveries_are_counted,
        the_end_is_the_end,
        what_was_acknowledged_is_there,
        a_live_lease_is_obeyed_and_a_dead_one_is_not,
        a_delay_is_kept,
        what_is_delivered_was_sent,
        a_window_lets_one_in,
    )
}


def breaches(timeline: Timeline) -> list[str]:
    """Everything that is wrong with it."""
    return [f"{name}: {each}" for name, rule in RULES.items() for each in rule(timeline)]
