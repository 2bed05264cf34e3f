"""Who may settle: the holder of this lease, while it runs. Everybody else is told the same and
changes nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract.errors import LockLost, MqliteError, QueueNotFound
from mqlite_actor.contract.wire import Message, QueueConfig
from mqlite_actor.sdk.handle import Handle
from tests.conformance import asking

Settle = Callable[[Handle, str, Message], Awaitable[None]]

VERBS: dict[str, Settle] = {
    "complete": asking.complete,
    "abandon": asking.abandon,
    "reject": asking.reject,
    "defer": asking.defer,
}
FENCED = {**VERBS, "renew": asking.renew}
each_verb = pytest.mark.parametrize("verb", VERBS)
each_fenced = pytest.mark.parametrize("verb", FENCED)

HOUR_MS = 3_600_000


async def refused(asked: Awaitable[None]) -> type[MqliteError] | None:
    """The kind of the refusal, if it is one."""
    try:
        await asked
    except MqliteError as error:
        return type(error)
    return None


@pytest.mark.promise("E82", "W103", "W105")
@each_fenced
async def test_a_wrong_identity_is_lock_lost_and_changes_nothing(
    handle: Handle, queue: str, verb: str
) -> None:
    other = f"{queue}-other"
    for name in (queue, other):
        await asking.make(handle, name)
    numbers = await asking.send_bodies(handle, queue, b"a", b"b")
    message, neighbour = await asking.take(handle, queue, 2)
    before = await asking.look(handle, queue)
    mistaken: dict[str, tuple[str, int, str]] = {
        "token": (queue, numbers[0], neighbour.lock_token),
        "empty token": (queue, numbers[0], ""),
        "seq": (queue, numbers[1], message.lock_token),
        "queue": (other, numbers[0], message.lock_token),
        "long token": (queue, numbers[0], message.lock_token + "0"),
        "case": (queue, numbers[0], "A" + message.lock_token[1:]),
    }
    for wrong, (name, seq, token) in mistaken.items():
        refusal = await refused(
            FENCED[verb](handle, name, Message(seq_number=seq, lock_token=token))
        )
        after = await asking.look(handle, queue)
        assert (wrong, refusal, after) == (wrong, LockLost, before)


@pytest.mark.promise("E100", "W105")
@each_fenced
async def test_on_an_unknown_queue_a_settlement_is_lock_lost_and_a_renewal_not_found(
    handle: Handle, queue: str, verb: str
) -> None:
    ghost = Message(seq_number=1, lock_token="0" * 32)
    with pytest.raises(QueueNotFound if verb == "renew" else LockLost):
        await FENCED[verb](handle, queue, ghost)


@pytest.mark.promise("E83", "W106")
@each_verb
@pytest.mark.needs_clock
async def test_a_lease_can_be_settled_until_a_millisecond_before_its_end(
    handle: Handle, queue: str, clock: ManualClock, verb: str
) -> None:
    await asking.make(handle, queue, QueueConfig(lock_duration_ms=1000))
    seq = await asking.send_one(handle, queue)
    message = await asking.take_one(handle, queue)
    clock.set(message.locked_until_ms - 1)
    await VERBS[verb](handle, queue, message)
    assert (await asking.states(handle, queue)).get(seq) != "locked"


@pytest.mark.promise("E83", "W106")
@each_fenced
@pytest.mark.needs_clock
async def test_a_lease_that_ends_now_has_ended_before_any_pass(
    handle: Handle, queue: str, clock: ManualClock, verb: str
) -> None:
    await asking.make(handle, queue, QueueConfig(lock_duration_ms=1000))
    seq = await asking.send_one(handle, queue)
    message = await asking.take_one(handle, queue)
    clock.set(message.locked_until_ms)
    with pytest.raises(LockLost):
        await FENCED[verb](handle, queue, message)
    assert await asking.states(handle, queue) == {seq: "locked"}


@pytest.mark.promise("E90")
@each_fenced
async def test_the_token_of_an_earlier_delivery_never_touches_the_new_one(
    handle: Handle, queue: str, verb: str
) -> None:
    await asking.make(handle, queue)
    await asking.send_one(handle, queue)
    old = await asking.take_one(handle, queue)
    await asking.abandon(handle, queue, old, delay_ms=-1)
    new = await asking.take_one(handle, queue)
    before = await asking.look(handle, queue)
    with pytest.raises(LockLost):
        await FENCED[verb](handle, queue, old)
    assert await asking.look(handle, queue) == before
    await asking.complete(handle, queue, new)


@pytest.mark.promise("E89")
async def test_of_concurrent_settlements_exactly_one_verb_wins(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    for _ in range(5):
        await asking.send_one(handle, queue)
        message = await asking.take_one(handle, queue)
        won: list[str] = []

        async def settle(verb: str, message: Message = message, won: list[str] = won) -> None:
            try:
                await VERBS[verb](handle, queue, message)
            except LockLost:
                return
            won.append(verb)

        async with trio.open_nursery() as nursery:
            for verb in VERBS:
                nursery.start_soon(settle, verb)
        assert len(won) == 1
        if won == ["abandon"]:
            await asking.complete(handle, queue, await asking.take_one(handle, queue))


async def test_every_failed_fence_reads_the_same(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    seq = await asking.send_one(handle, queue)
    message = await asking.take_one(handle, queue)
    await asking.complete(handle, queue, message)
    said = set()
    for token in ("", "0" * 32, message.lock_token):
        for name in (queue, f"{queue}-unknown"):
            with pytest.raises(MqliteError) as refused:
                await asking.defer(handle, name, Message(seq_number=seq, lock_token=token))
            said.add((refused.value.code, refused.value.message))
    assert len(said) == 1
