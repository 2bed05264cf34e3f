"""Verbs inside a transaction: refused, they undo themselves alone; settled, receipts commit too."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract.errors import (
    DedupConflict,
    GroupRequired,
    InvalidArgument,
    LockLost,
    MessageTooLarge,
    QueueNotFound,
)
from mqlite_actor.contract.wire import Message
from mqlite_actor.engine.engine import Engine
from mqlite_actor.sdk.embedded import Embedded
from mqlite_actor.sdk.message import ReceivedMessage
from mqlite_actor.sdk.transaction import Tx
from tests.engine.gate import Call, bodies, parked, taking
from tests.engine.outbox_scene import ORDER, Undo, ended, held, orders, shop, undo


@pytest.fixture
async def q(engine: Engine) -> Embedded:
    return await shop(engine)


# -- refusals leave the rest -----------------------------------------------------------------------


async def no_queue(tx: Tx) -> None:
    with pytest.raises(QueueNotFound):
        await tx.send_one("nowhere", b"x")


async def too_large(tx: Tx) -> None:
    with pytest.raises(MessageTooLarge):
        await tx.send("q", [b"small", bytes(2_000_000)])


async def no_group(tx: Tx) -> None:
    with pytest.raises(GroupRequired):
        await tx.send("grouped", [Message(body=b"x", group_id="g"), b"x"])


async def a_used_id(tx: Tx) -> None:
    await tx.send_one("once", b"a", message_id="1")
    with pytest.raises(DedupConflict):
        await tx.send_one("once", b"b", message_id="1")


async def half_a_surrogate(tx: Tx) -> None:
    with pytest.raises(InvalidArgument, match="surrogate"):
        await tx.send_one("q", b"x", message_id="\ud800")


async def a_broken_statement(tx: Tx) -> None:
    with pytest.raises(InvalidArgument, match="UNIQUE constraint failed"):
        await tx.execute("INSERT INTO orders VALUES (7, 'a'), (8, 'b'), (7, 'c')")
    assert await tx.execute("SELECT * FROM orders WHERE id > 1") == []


REFUSALS = [
    no_queue, too_large, no_group, a_used_id, half_a_surrogate, a_broken_statement,
]  # fmt: skip


@pytest.mark.parametrize("refusal", REFUSALS)
async def test_a_refused_step_undoes_itself_alone(
    q: Embedded, refusal: Callable[[Tx], Awaitable[None]]
) -> None:
    await q.create_queue("grouped", ordering_mode="group_fifo")
    await q.create_queue("once", dedup_window=60)
    async with q.tx() as tx:
        await tx.execute(ORDER, (1, "tea"))
        await refusal(tx)
        await tx.send_one("q", b"after")
    assert await orders(q) == [1]
    assert await bodies(q.engine, "q") == [b"after"]
    assert await bodies(q.engine, "grouped") == []


@pytest.mark.promise("E148")
async def test_a_used_id_undoes_everything_unless_it_is_caught(q: Embedded) -> None:
    await q.create_queue("once", dedup_window=60)
    number = await q.send_one("once", b"a", message_id="1")

    async def work() -> None:
        async with q.tx() as tx:
            await tx.execute(ORDER, (1, "tea"))
            await tx.send_one("once", b"b", message_id="1")

    with pytest.raises(DedupConflict):
        await work()
    assert await orders(q) == []
    async with q.tx() as tx:
        assert await tx.send_one("once", b"a", message_id="1") == number
        batch = [Message(body=b"b", message_id="1"), Message(body=b"c", message_id="2")]
        assert await tx.send("once", batch) == [0, number + 1]
    assert await bodies(q.engine, "once") == [b"a", b"c"]


async def test_an_id_of_a_rolled_back_send_is_free(q: Embedded) -> None:
    await q.create_queue("once", dedup_window=60)
    with pytest.raises(Undo):
        await undo(q, lambda tx: tx.send_one("once", b"a", message_id="1"))
    await q.send_one("once", b"b", message_id="1")
    assert await bodies(q.engine, "once") == [b"b"]


async def test_a_topic_reaches_all_its_subscriptions_or_none(q: Embedded) -> None:
    for name in ("s1", "s2"):
        await q.subscribe("t", name)
    with pytest.raises(Undo):
        await undo(q, lambda tx: tx.send_one("t", b"gone"))
    async with q.tx() as tx:
        await tx.send_one("t", b"there")
    for name in ("s1", "s2"):
        assert await bodies(q.engine, name) == [b"there"]


@pytest.mark.parametrize("verb", [Tx.complete, Tx.abandon, Tx.reject])
async def test_a_lease_that_is_lost_leaves_the_transaction_usable(
    q: Embedded, verb: Callable[[Tx, ReceivedMessage], Awaitable[None]]
) -> None:
    lost = q.message("q", 1, "0" * 32)
    async with q.tx() as tx:
        with pytest.raises(LockLost):
            await verb(tx, lost)
        await tx.send_one("q", b"after")
    assert await bodies(q.engine, "q") == [b"after"]


# -- settling --------------------------------------------------------------------------------------

Settle = Callable[[Tx, ReceivedMessage], Awaitable[None]]

SETTLES: dict[str, tuple[Settle, Callable[[ReceivedMessage], Awaitable[None]], list[str]]] = {
    "complete": (Tx.complete, ReceivedMessage.complete, []),
    "abandon": (Tx.abandon, ReceivedMessage.abandon, ["active"]),
    "reject": (
        lambda tx, message: tx.reject(message, "bad", "very"),
        lambda message: message.reject("bad", "very"),
        ["dead_lettered"],
    ),
}


@pytest.mark.promise("E146")
@pytest.mark.parametrize("verb", SETTLES)
async def test_a_settlement_and_its_receipt_come_with_the_commit(q: Embedded, verb: str) -> None:
    settle, again, states = SETTLES[verb]
    lease = await held(q)
    async with q.tx() as tx:
        await tx.execute(ORDER, (1, "tea"))
        await settle(tx, lease)
    assert await orders(q) == [1]
    assert [message.state for message in await q.peek("q")] == states
    await again(lease)  # the identical request, answered by its receipt
    with pytest.raises(LockLost):
        await lease.defer()


@pytest.mark.promise("E146")
@pytest.mark.parametrize("verb", SETTLES)
async def test_a_rolled_back_settlement_leaves_the_lease_and_no_receipt(
    q: Embedded, verb: str
) -> None:
    settle, *_ = SETTLES[verb]
    lease = await held(q)
    with pytest.raises(Undo):
        await undo(q, lambda tx: settle(tx, lease))
    assert [message.state for message in await q.peek("q")] == ["locked"]
    assert await receipts(q) == 0
    await lease.renew()
    await lease.defer()


async def receipts(q: Embedded) -> int:
    async with q.tx() as tx:
        return int((await tx.execute("SELECT count(*) FROM receipts"))[0][0])


async def test_an_abandoned_message_waits_for_its_delay(q: Embedded, clock: ManualClock) -> None:
    lease = await held(q)
    async with q.tx() as tx:
        await tx.abandon(lease, delay=2)
    assert await q.receive("q") == []
    clock.advance(2_000)
    await q.engine.run_maintenance_once()
    assert [message.delivery_count for message in await q.receive("q")] == [2]


async def test_a_completion_lets_the_next_of_the_group_go(
    q: Embedded, nursery: trio.Nursery
) -> None:
    for body in (b"one", b"two"):
        await q.send_one("q", body, group_id="g")
    lease = (await q.receive("q"))[0]
    call = Call(q.engine, taking("q", wait_ms=20_000))
    nursery.start_soon(call.run)
    await parked(q.engine, "q", 1)
    async with q.tx() as tx:
        await tx.complete(lease)
    await ended(call)
    assert [message.body for message in call.reply.messages] == [b"two"]
