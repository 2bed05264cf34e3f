"""Repeating a settlement: the identical request succeeds for thirty minutes, every other is
LockLost, and none has a new effect."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import LockLost
from mqlite_actor.contract.wire import Message, QueueConfig
from mqlite_actor.sdk.handle import Handle
from tests.conformance import asking
from tests.conformance.handles import opened

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


@pytest.mark.promise("E81", "E85", "E87", "W103", "W104", "W107")
@pytest.mark.parametrize("first", NAMES)
async def test_a_receipt_answers_the_identical_request_and_no_other(
    handle: Handle, queue: str, first: str
) -> None:
    await asking.make(handle, queue)
    await asking.send_one(handle, queue)
    settle = requests(queue, await asking.take_one(handle, queue))
    assert (await handle.call(settle[first])).ok
    settled = await asking.look(handle, queue)
    answers = {name: await asking.refusal(handle, settle[name]) for name in NAMES}
    assert answers == {name: "ok" if name == first else "lock_lost" for name in NAMES}
    assert await asking.look(handle, queue) == settled


@pytest.mark.promise("E101", "W104")
@pytest.mark.parametrize("first", NAMES)
async def test_a_receipt_never_makes_a_renewal_succeed(
    handle: Handle, queue: str, first: str
) -> None:
    await asking.make(handle, queue)
    await asking.send_one(handle, queue)
    message = await asking.take_one(handle, queue)
    await handle.call(requests(queue, message)[first])
    with pytest.raises(LockLost):
        await asking.renew(handle, queue, message)
    (renewed,) = await asking.renew_batch(handle, queue, [asking.item(message)])
    assert (renewed.ok, renewed.locked_until_ms) == (False, 0)


@pytest.mark.promise("E87", "W111")
async def test_no_reason_and_the_default_reason_are_the_same_request(
    handle: Handle, queue: str
) -> None:
    await asking.make(handle, queue)
    await asking.send_bodies(handle, queue, b"a", b"b")
    first, second = await asking.take(handle, queue, 2)
    await asking.reject(handle, queue, first)
    await asking.reject(handle, queue, first, reason="AppRequested")
    await asking.reject(handle, queue, second, reason="AppRequested")
    await asking.reject(handle, queue, second)


@pytest.mark.promise("E86")
async def test_a_receipt_binds_number_queue_and_token(handle: Handle, queue: str) -> None:
    other = f"{queue}-other"
    for name in (queue, other):
        await asking.make(handle, name)
    await asking.send_bodies(handle, queue, b"a", b"b")
    first, second = await asking.take(handle, queue, 2)
    for message in (first, second):
        await asking.complete(handle, queue, message)
    exact = (queue, first.seq_number, first.lock_token)
    for name, seq, token in itertools.product(
        (queue, other), (first.seq_number, second.seq_number), (first.lock_token, second.lock_token)
    ):
        request = wire.CompleteRequest(queue=name, seq_number=seq, lock_token=token)
        is_receipt = name == queue and (seq == first.seq_number) == (token == first.lock_token)
        expected = "ok" if is_receipt else "lock_lost"
        assert await asking.refusal(handle, request) == expected, (name, seq, token, exact)


@pytest.mark.promise("E84", "W107")
@pytest.mark.parametrize("first", NAMES)
@pytest.mark.needs_clock
async def test_a_receipt_outlives_the_lease_and_ends_after_thirty_minutes(
    handle: Handle, queue: str, clock: ManualClock, first: str
) -> None:
    await asking.make(handle, queue, QueueConfig(lock_duration_ms=1000))
    await asking.send_one(handle, queue)
    settle = requests(queue, await asking.take_one(handle, queue))[first]
    settled_at = clock.now_ms()
    await handle.call(settle)
    for age_ms, expected in (
        (1000, "ok"),
        (limits.RECEIPT_MS - 1, "ok"),  # and a replay does not extend its life
        (limits.RECEIPT_MS, "lock_lost"),
    ):
        clock.set(settled_at + age_ms)
        assert await asking.refusal(handle, settle) == expected, age_ms


@pytest.mark.promise("E84", "E90")
async def test_a_replay_succeeds_after_redelivery_and_leaves_the_new_lease_alone(
    handle: Handle, queue: str
) -> None:
    await asking.make(handle, queue)
    await asking.send_one(handle, queue)
    old = await asking.take_one(handle, queue)
    await asking.abandon(handle, queue, old)
    new = await asking.take_one(handle, queue)
    before = await asking.look(handle, queue)
    await asking.abandon(handle, queue, old)
    assert await asking.look(handle, queue) == before
    await asking.complete(handle, queue, new)


@pytest.mark.promise("W119", "E88")
async def test_receipts_survive_a_restart_and_leases_do_not(
    store: Path, clock: ManualClock
) -> None:
    async with opened(store, clock) as engine:
        await asking.make(engine, "q", QueueConfig(max_delivery_count=2))
        await asking.send_bodies(engine, "q", b"settled", b"held", b"last")
        settled, held, last = await asking.take(engine, "q", 3)
        await asking.abandon(engine, "q", last)
        last = await asking.take_one(engine, "q")
        await asking.complete(engine, "q", settled)
    async with opened(store, clock) as engine:
        await asking.complete(engine, "q", settled)
        for message in (held, last):
            with pytest.raises(LockLost):
                await asking.complete(engine, "q", message)
        (again,) = await asking.take(engine, "q", 10)
        assert (again.seq_number, again.delivery_count) == (held.seq_number, 2)
        (dead,) = await asking.look(engine, "q", "dead_lettered")
        assert dead.seq_number == last.seq_number
        assert dead.dead_letter_reason == "MaxDeliveryCountExceeded"
