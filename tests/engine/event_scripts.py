"""What moves which message event, as a table: SCRIPTS, from a piece of work to its counts.

Used by test_observed_events. A script is an async generator: it prepares, yields once, and then
does what is to be counted. Adding an event or a verb means adding a script.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.wire import Message, QueueConfig
from mqlite_actor.engine.engine import Engine
from tests.conformance import asking

LOCK_MS, TTL_MS = 5_000, 60_000

QUEUES = {
    "q": QueueConfig(lock_duration_ms=LOCK_MS, dead_letter_on_expire=False),
    "once": QueueConfig(lock_duration_ms=LOCK_MS, max_delivery_count=1),
    "watched": QueueConfig(dedup_window_ms=60_000),
    "buries": QueueConfig(dead_letter_on_expire=True),
    "keeps one": QueueConfig(dlq_max_count=1),
}


async def furnish(engine: Engine) -> None:
    """A queue for each way to end, and a topic with two subscriptions."""
    for name, config in QUEUES.items():
        await asking.make(engine, name, config)
    for name in ("sub 1", "sub 2"):
        await asking.subscribe(engine, "topic", name)


async def held(engine: Engine, queue: str = "q", number: int = 1) -> list[Message]:
    """That many messages under lease."""
    await asking.send(engine, queue, *(Message(body=b"%d" % each) for each in range(number)))
    return await asking.take(engine, queue, number)


# -- what moves which counters ---------------------------------------------------------------------

Script = Callable[[Engine, ManualClock], AsyncIterator[None]]
SCRIPTS: dict[Script, dict[str, int]] = {}


def moves(**counts: int) -> Callable[[Script], Script]:
    """After its yield this script moves these events, of `q` unless a name is given as
    `queue__event`, and no others."""

    def add(script: Script) -> Script:
        SCRIPTS[script] = counts
        return script

    return add


def spelled(counts: dict[str, int]) -> dict[tuple[str, str], int]:
    """`once__rejected` → ("once", "rejected"); underscores in a queue's name stand for spaces."""
    pairs = {("q__" + key if "__" not in key else key): number for key, number in counts.items()}
    return {
        (key.partition("__")[0].replace("_", " "), key.partition("__")[2]): number
        for key, number in pairs.items()
    }


@moves(enqueued=3)
async def send_three(engine: Engine, _: ManualClock) -> AsyncIterator[None]:
    yield
    await asking.send_bodies(engine, "q", b"1", b"2", b"3")


@moves(enqueued=2, scheduled=2)
async def schedule_two(engine: Engine, clock: ManualClock) -> AsyncIterator[None]:
    yield
    await asking.send(engine, "q", Message(), Message(), at=clock.now_ms() + 1)


@moves(activated=1)
async def a_schedule_falls_due(engine: Engine, clock: ManualClock) -> AsyncIterator[None]:
    await asking.send(engine, "q", Message(), at=clock.now_ms() + 1)
    yield
    clock.advance(1)
    await engine.run_maintenance_once()


@moves(sub_1__enqueued=1, sub_2__enqueued=1)
async def publish(engine: Engine, _: ManualClock) -> AsyncIterator[None]:
    yield
    await asking.send_bodies(engine, "topic", b"x")


@moves(watched__enqueued=1, watched__deduplicated=2, watched__dedup_conflict=1)
async def send_duplicates(engine: Engine, _: ManualClock) -> AsyncIterator[None]:
    await asking.send(engine, "watched", Message(body=b"1", message_id="a"))
    yield
    again, other = Message(body=b"1", message_id="a"), Message(body=b"2", message_id="a")
    new = Message(body=b"1", message_id="b")
    await asking.send(engine, "watched", again, other, new, new)


@moves(watched__dedup_conflict=1)
async def send_one_conflict(engine: Engine, _: ManualClock) -> AsyncIterator[None]:
    await asking.send(engine, "watched", Message(body=b"1", message_id="a"))
    yield
    batch = [Message(body=b"2", message_id="a")]
    request = wire.SendRequest(queue="watched", messages=batch)
    assert await asking.refusal(engine, request) == "already_exists"


@moves(delivered=2)
async def receive_two(engine: Engine, _: ManualClock) -> AsyncIterator[None]:
    await asking.send_bodies(engine, "q", b"1", b"2")
    yield
    await asking.take(engine, "q", 10)


@moves(delivered=3, redelivered=1)
async def receive_one_again_and_two_new(engine: Engine, _: ManualClock) -> AsyncIterator[None]:
    await asking.abandon(engine, "q", (await held(engine))[0])
    await asking.send_bodies(engine, "q", b"1", b"2")
    yield
    await asking.take(engine, "q", 10)


@moves(delivered=2, receive_deleted=2)
async def receive_and_delete_two(engine: Engine, _: ManualClock) -> AsyncIterator[None]:
    await asking.send_bodies(engine, "q", b"1", b"2")
    yield
    await asking.take(engine, "q", 10, mode=1)


@moves(enqueued=1, delivered=1, completed=1)
async def send_receive_complete(engine: Engine, _: ManualClock) -> AsyncIterator[None]:
    yield
    await asking.complete(engine, "q", (await held(engine))[0])


@moves(completed=2)
async def complete_a_batch(engine: Engine, _: ManualClock) -> AsyncIterator[None]:
    first, second = await held(engine, number=2)
    yield
    wrong = wire.SettleItem(seq_number=first.seq_number, lock_token="0" * 32)
    items = [asking.item(first), asking.item(second), asking.item(first), wrong]
    assert await asking.complete_batch(engine, "q", items) == [True, True, True, False]


@moves(abandoned=1)
async def abandon(engine: Engine, _: ManualClock) -> AsyncIterator[None]:
    (message,) = await held(engine)
    yield
    await asking.abandon(engine, "q", message)


@moves(abandoned=1, activated=1)
async def abandon_for_later(engine: Engine, clock: ManualClock) -> AsyncIterator[None]:
    (message,) = await held(engine)
    yield
    await asking.abandon(engine, "q", message, delay_ms=10)
    clock.advance(10)
    await engine.run_maintenance_once()


@moves(once__abandoned=1, once__dead_lettered=1)
async def abandon_at_the_limit(engine: Engine, _: ManualClock) -> AsyncIterator[None]:
    (message,) = await held(engine, "once")
    yield
    await asking.abandon(engine, "once", message)


@moves(rejected=1, dead_lettered=1)
async def reject(engine: Engine, _: ManualClock) -> AsyncIterator[None]:
    (message,) = await held(engine)
    yield
    await asking.reject(engine, "q", message)


@moves(deferred=1)
async def defer(engine: Engine, _: ManualClock) -> AsyncIterator[None]:
    (message,) = await held(engine)
    yield
    await asking.defer(engine, "q", message)


@moves(delivered=1, redelivered=1)
async def receive_deferred(engine: Engine, _: ManualClock) -> AsyncIterator[None]:
    (message,) = await held(engine)
    await asking.defer(engine, "q", message)
    yield
    assert await asking.take_deferred(engine, "q", message.seq_number, 999)


@moves(canceled=1)
async def cancel(engine: Engine, clock: ManualClock) -> AsyncIterator[None]:
    (number,) = await asking.send(engine, "q", Message(), at=clock.now_ms() + 1)
    yield
    await asking.cancel(engine, "q", number)


@moves(lock_expired=2, once__lock_expired=1, once__dead_lettered=1)
async def leases_end(engine: Engine, clock: ManualClock) -> AsyncIterator[None]:
    await held(engine, number=2)
    await held(engine, "once")
    yield
    clock.advance(LOCK_MS)
    await engine.run_maintenance_once()


@moves(ttl_discarded=2, buries__dead_lettered=1)
async def messages_expire(engine: Engine, clock: ManualClock) -> AsyncIterator[None]:
    await asking.send(engine, "q", Message(), Message(), ttl_ms=TTL_MS)
    await asking.send(engine, "buries", Message(), ttl_ms=TTL_MS)
    yield
    clock.advance(TTL_MS)
    await engine.run_maintenance_once()


@moves(ttl_discarded=1)
async def a_receive_meets_an_expired_message(
    engine: Engine, clock: ManualClock
) -> AsyncIterator[None]:
    await asking.send(engine, "q", Message(), ttl_ms=TTL_MS)
    yield
    clock.advance(TTL_MS)
    assert await asking.take(engine, "q") == []


@moves(redriven=2)
async def redrive(engine: Engine, _: ManualClock) -> AsyncIterator[None]:
    await asking.kill(engine, "q", 2)
    yield
    await asking.redrive(engine, "q")


@moves(redriven=2)
async def redrive_elsewhere(engine: Engine, _: ManualClock) -> AsyncIterator[None]:
    await asking.kill(engine, "q", 2)
    yield
    await asking.redrive(engine, "q", "once")


@moves(purged=2)
async def purge(engine: Engine, _: ManualClock) -> AsyncIterator[None]:
    await asking.kill(engine, "q", 3)
    yield
    await asking.purge(engine, "q", most=2)


@moves(keeps_one__retention_deleted=2)
async def retention(engine: Engine, _: ManualClock) -> AsyncIterator[None]:
    await asking.kill(engine, "keeps one", 3)
    yield
    await engine.run_maintenance_once()


@moves()
async def look_around(engine: Engine, _: ManualClock) -> AsyncIterator[None]:
    (message,) = await held(engine)
    yield
    await asking.look(engine, "q")
    await asking.stats(engine, "q")
    await asking.info(engine, "q")
    await asking.renew(engine, "q", message)
    await asking.make(engine, "q")
    assert await asking.take(engine, "q") == []
    await engine.run_maintenance_once()


@moves()
async def repeat_every_settlement(engine: Engine, _: ManualClock) -> AsyncIterator[None]:
    """Receipts answer them; nothing happens."""
    done, given_back, refused, set_aside = await held(engine, number=4)

    async def settle() -> None:
        await asking.complete(engine, "q", done)
        await asking.abandon(engine, "q", given_back, delay_ms=1_000)
        await asking.reject(engine, "q", refused, reason="r")
        await asking.defer(engine, "q", set_aside)

    await settle()
    yield
    for _number in range(3):
        await settle()
        assert await asking.complete_batch(engine, "q", [asking.item(done)]) == [True]


@moves()
async def repeat_a_receive_under_its_id(engine: Engine, _: ManualClock) -> AsyncIterator[None]:
    request = wire.ReceiveRequest(queue="q", receive_attempt_id="attempt")
    await asking.send_bodies(engine, "q", b"1", b"2")
    first = await engine.call(request)
    yield
    assert await engine.call(request) == first


@moves()
async def be_refused(engine: Engine, clock: ManualClock) -> AsyncIterator[None]:
    (message,) = await held(engine)
    lease = asking.lease("q", message)
    clock.advance(LOCK_MS)
    yield
    large = Message(body=bytes(limits.MESSAGE_BYTES_DEFAULT + 1))
    refused: list[wire.Request[Any]] = [
        wire.SendRequest(queue="q", messages=[Message(), large]),
        wire.SendRequest(queue="nowhere", messages=[Message()]),
        wire.CompleteRequest(**lease),
        wire.AbandonRequest(**lease),
        wire.RejectRequest(**lease),
        wire.DeferRequest(**lease),
        wire.CancelRequest(queue="q", seq_number=message.seq_number),
        wire.ReceiveRequest(queue="nowhere"),
    ]
    for request in refused:
        assert await asking.refusal(engine, request) != "ok", request
