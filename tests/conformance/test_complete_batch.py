"""CompleteBatch: many leases in one transaction, each answered for itself."""

from __future__ import annotations

import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import wire
from mqlite_actor.contract.wire import Message, QueueConfig
from mqlite_actor.sdk.handle import Handle
from tests.conformance import asking

HOUR_MS = 3_600_000


def requests(queue: str, message: Message) -> dict[str, wire.Request[wire.OkResponse]]:
    """Settlements of one lease that differ in verb or arguments."""
    lease = asking.lease(queue, message)
    return {
        "complete": wire.CompleteRequest(**lease),
        "abandon": wire.AbandonRequest(**lease),
        "abandon -7": wire.AbandonRequest(**lease, delay_ms=-7),
        "abandon later": wire.AbandonRequest(**lease, delay_ms=HOUR_MS),
        "reject": wire.RejectRequest(**lease),
        "reject a": wire.RejectRequest(**lease, dead_letter_reason="a"),
        "reject a, b": wire.RejectRequest(
            **lease, dead_letter_reason="a", dead_letter_description="b"
        ),
        "reject ab": wire.RejectRequest(**lease, dead_letter_reason="ab"),
        "reject for nothing, b": wire.RejectRequest(**lease, dead_letter_description="b"),
        "defer": wire.DeferRequest(**lease),
    }


NAMES = tuple(requests("", Message()))


@pytest.mark.promise("E96", "W114")
async def test_a_batch_answers_each_pair_for_itself(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    await asking.send_bodies(handle, queue, b"a", b"b", b"c", b"d")
    stale = await asking.take_one(handle, queue)
    await asking.abandon(handle, queue, stale)
    live, other, done, kept = await asking.take(handle, queue, 4)
    await asking.complete(handle, queue, done)
    answers = await asking.complete_batch(
        handle,
        queue,
        [
            asking.item(live),
            asking.item(stale),
            wire.SettleItem(seq_number=other.seq_number, lock_token=live.lock_token),
            asking.item(other),
            asking.item(done),
            wire.SettleItem(seq_number=kept.seq_number),
            wire.SettleItem(),
            asking.item(live),
        ],
    )
    assert answers == [True, False, False, True, True, False, False, True]
    assert await asking.states(handle, queue) == {kept.seq_number: "locked"}


@pytest.mark.promise("E97")
async def test_a_batch_is_not_vouched_for_by_its_own_receipts(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    await asking.send_bodies(handle, queue, b"a", b"b")
    first, second = await asking.take(handle, queue, 2)
    bogus = wire.SettleItem(seq_number=second.seq_number, lock_token=first.lock_token)
    pairs = [bogus, asking.item(first), bogus]
    for _ in range(2):  # and later neither
        assert await asking.complete_batch(handle, queue, pairs) == [False, True, False]
    assert await asking.states(handle, queue) == {second.seq_number: "locked"}


@pytest.mark.promise("E81", "W114")
async def test_single_and_batch_completion_share_receipts(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    await asking.send_bodies(handle, queue, b"a", b"b")
    first, second = await asking.take(handle, queue, 2)
    await asking.complete(handle, queue, first)
    both = [asking.item(first), asking.item(second)]
    assert await asking.complete_batch(handle, queue, both) == [True, True]
    assert await asking.complete_batch(handle, queue, both) == [True, True]
    await asking.complete(handle, queue, second)


@pytest.mark.promise("E98", "W114")
async def test_a_batch_of_nothing_or_of_an_unknown_queue_is_no_error(
    handle: Handle, queue: str
) -> None:
    ghosts = [wire.SettleItem(seq_number=1, lock_token="0" * 32), wire.SettleItem()]
    assert await asking.complete_batch(handle, queue, ghosts) == [False, False]
    assert await asking.complete_batch(handle, queue, []) == []
    await asking.make(handle, queue)
    assert await asking.complete_batch(handle, queue, ghosts) == [False, False]


@pytest.mark.promise("E98")
async def test_a_batch_of_forty_thousand_pairs_is_answered(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    await asking.send_bodies(handle, queue, *[b""] * 256)
    live = [asking.item(message) for message in await asking.take(handle, queue, 256)]
    ghosts = [
        wire.SettleItem(seq_number=number, lock_token=f"{number:032x}")
        for number in range(1, 40_001 - len(live))
    ]
    answers = await asking.complete_batch(handle, queue, ghosts + live)
    assert answers == [False] * len(ghosts) + [True] * len(live)
    assert (await asking.stats(handle, queue)).total == 0


@pytest.mark.promise("W106", "E83")
@pytest.mark.needs_clock
async def test_a_batch_judges_a_lease_by_the_clock_as_the_single_verbs_do(
    handle: Handle, queue: str, clock: ManualClock
) -> None:
    await asking.make(handle, queue, QueueConfig(lock_duration_ms=1000))
    seq = await asking.send_one(handle, queue)
    message = await asking.take_one(handle, queue)
    clock.set(message.locked_until_ms)
    assert await asking.complete_batch(handle, queue, [asking.item(message)]) == [False]
    (renewed,) = await asking.renew_batch(handle, queue, [asking.item(message)])
    assert not renewed.ok
    clock.advance(-1)
    assert await asking.states(handle, queue) == {seq: "locked"}
    assert await asking.complete_batch(handle, queue, [asking.item(message)]) == [True]
