"""Transactions of the embedding program: its rows and our messages, all of it or nothing.

How a transaction ends, what is seen of it, and who is told when. The verbs inside it stand in
test_outbox_verbs.py, cancellation in test_outbox_cancellation.py, limits and closing in
test_outbox_limits.py, failing disks in test_outbox_faults.py, what its SQL may not do in
test_user_sql.py.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path

import apsw
import pytest
import trio

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract.wire import Message
from mqlite_actor.engine.engine import Engine
from mqlite_actor.sdk.embedded import Embedded, open_embedded
from mqlite_actor.sdk.transaction import SyncTx, Tx
from tests.engine.gate import PATIENCE, Call, bodies, bounded, parked, settled, taking
from tests.engine.outbox_scene import (
    ORDER,
    ORDERS,
    Undo,
    ended,
    held,
    nothing_is_there,
    orders,
    shop,
    undo,
)


@pytest.fixture
async def q(engine: Engine) -> Embedded:
    return await shop(engine)


# -- all or nothing --------------------------------------------------------------------------------


@pytest.mark.promise("E146")
async def test_rows_and_messages_are_true_together(q: Embedded) -> None:
    async with q.tx() as tx:
        assert await tx.execute(ORDER, (1, "tea")) == []
        first = await tx.send_one("q", b"one", subject="tea", properties={"tier": "gold"})
        numbers = await tx.send("q", [b"two", Message(body=b"three", group_id="g")])
    assert numbers == [first + 1, first + 2]
    assert await orders(q) == [1]
    found = await q.peek("q")
    assert [message.body for message in found] == [b"one", b"two", b"three"]
    assert (found[0].subject, found[0].properties) == ("tea", {"tier": "gold"})
    assert found[2].group_id == "g"


@pytest.mark.promise("E146")
async def test_a_plain_function_does_the_same_and_returns_its_result(q: Embedded) -> None:
    lease = await held(q)

    def work(tx: SyncTx) -> int:
        tx.execute(ORDER, (1, "tea"))
        tx.complete(lease)
        assert tx.send("q", [b"next"]) == [lease.seq_number + 1]
        return tx.send_one("q", b"last")

    assert await q.run_tx(work) == lease.seq_number + 2
    assert await orders(q) == [1]
    assert await bodies(q.engine, "q") == [b"next", b"last"]


class Ending(BaseException):
    """An end that no handler of ordinary errors sees."""


ENDINGS = [
    ValueError("no"),
    KeyboardInterrupt(),
    SystemExit(3),
    Ending(),
    ExceptionGroup("g", [OSError()]),
]


@pytest.mark.promise("E146", "E147")
@pytest.mark.parametrize("error", ENDINGS, ids=lambda error: type(error).__name__)
async def test_whatever_ends_the_block_rolls_back_and_comes_out_unchanged(
    q: Embedded, error: BaseException
) -> None:
    async def work() -> None:
        async with q.tx() as tx:
            await tx.execute(ORDER, (1, "tea"))
            await tx.send_one("q", b"gone")
            raise error

    with pytest.raises(type(error)) as caught:
        await work()
    assert caught.value is error
    await nothing_is_there(q)


@pytest.mark.promise("E146", "E147")
@pytest.mark.parametrize("error", ENDINGS, ids=lambda error: type(error).__name__)
async def test_whatever_ends_the_function_rolls_back_and_comes_out_unchanged(
    q: Embedded, error: BaseException
) -> None:
    def work(tx: SyncTx) -> None:
        tx.execute(ORDER, (1, "tea"))
        tx.send_one("q", b"gone")
        raise error

    with pytest.raises(type(error)) as caught:
        await q.run_tx(work)
    assert caught.value is error
    await nothing_is_there(q)


async def test_a_block_that_does_nothing_costs_nothing(q: Embedded) -> None:
    async with q.tx():
        pass
    await nothing_is_there(q)


async def test_a_number_of_a_rolled_back_send_names_nothing(q: Embedded) -> None:
    numbers: list[int] = []

    async def send(tx: Tx) -> None:
        numbers.append(await tx.send_one("q", b"gone"))

    with pytest.raises(Undo):
        await undo(q, send)
    assert await q.peek("q", from_seq=numbers[0]) == []
    await q.send_one("q", b"there")
    assert await bodies(q.engine, "q") == [b"there"]


async def test_memory_has_transactions_too(clock: ManualClock) -> None:
    async with open_embedded(":memory:", clock=clock, background=False) as q:
        await q.create_queue("q")
        async with q.tx() as tx:
            await tx.execute(ORDERS)
            await tx.send_one("q", b"one")
        with pytest.raises(ZeroDivisionError):
            await q.run_tx(lambda tx: tx.send_one("q", b"two") // 0)
        assert await bodies(q.engine, "q") == [b"one"]


# -- what is seen, and when ------------------------------------------------------------------------


async def test_the_transaction_reads_its_own_writes_and_nobody_else_does(
    q: Embedded, store: Path
) -> None:
    count = "SELECT count(*) FROM messages"
    elsewhere = apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        async with q.tx() as tx:
            await tx.send("q", [b"one", b"two"])
            assert await tx.execute(count) == [(2,)]
            assert elsewhere.execute(count).fetchall() == [(0,)]
        assert elsewhere.execute(count).fetchall() == [(2,)]
    finally:
        elsewhere.close()


async def test_calls_that_come_together_in_a_transaction_go_one_at_a_time(q: Embedded) -> None:
    actor, may_end = q.engine._actor, threading.Event()
    with bounded():
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(actor.in_thread, may_end.wait, PATIENCE)
            await settled()
            running = actor._others.borrowed_tokens
            may_end.set()
    assert running == 1


async def test_all_messages_of_a_transaction_have_one_time(q: Embedded, clock: ManualClock) -> None:
    began = clock.now_ms()
    async with q.tx() as tx:
        await tx.send_one("q", b"one")
        clock.advance(700)
        await tx.send_one("q", b"two", ttl=10)
    first, second = await q.peek("q")
    assert (first.enqueued_at_ms, second.enqueued_at_ms) == (began, began)
    assert second.expires_at_ms == began + 10_000


async def test_a_message_can_be_scheduled(q: Embedded, clock: ManualClock) -> None:
    at_ms = clock.now_ms() + 60_000
    async with q.tx() as tx:
        await tx.send_one("q", b"later", at=datetime.fromtimestamp(at_ms / 1000, UTC))
    assert [(m.state, m.visible_at_ms) for m in await q.peek("q")] == [("scheduled", at_ms)]


@pytest.mark.promise("E147")
async def test_who_waits_is_woken_by_the_commit_and_not_before(
    q: Embedded, nursery: trio.Nursery
) -> None:
    call = Call(q.engine, taking("q", wait_ms=20_000))
    nursery.start_soon(call.run)
    await parked(q.engine, "q", 1)
    async with q.tx() as tx:
        await tx.send_one("q", b"one")
        await settled()
        assert not call.ended.is_set()
    await ended(call)
    assert [message.body for message in call.reply.messages] == [b"one"]


@pytest.mark.promise("E147")
async def test_who_waits_is_not_woken_by_a_rollback(q: Embedded, nursery: trio.Nursery) -> None:
    call = Call(q.engine, taking("q", wait_ms=20_000))
    nursery.start_soon(call.run)
    await parked(q.engine, "q", 1)
    with pytest.raises(Undo):
        await undo(q, lambda tx: tx.send_one("q", b"gone"))
    assert await bodies(q.engine, "q") == []  # the writer has gone on
    assert not call.ended.is_set()
    await parked(q.engine, "q", 1)
    await q.send_one("q", b"real")
    await ended(call)
    assert [message.body for message in call.reply.messages] == [b"real"]


async def test_every_queue_of_a_transaction_is_woken(q: Embedded, nursery: trio.Nursery) -> None:
    calls = [Call(q.engine, taking(queue, wait_ms=20_000)) for queue in ("q", "other")]
    await q.create_queue("other")
    for call in calls:
        nursery.start_soon(call.run)
    await parked(q.engine, "q", 1)
    await parked(q.engine, "other", 1)
    async with q.tx() as tx:
        await tx.send_one("q", b"x")
        await tx.send_one("other", b"y")
    for call in calls:
        await ended(call)
        assert len(call.reply.messages) == 1


async def test_events_are_counted_by_the_commit(q: Embedded) -> None:
    def counted() -> int:
        events: dict[tuple[str, str], int] = q.engine.statistics()["events"]
        return sum(number for (queue, _), number in events.items() if queue == "q")

    with pytest.raises(Undo):
        await undo(q, lambda tx: tx.send_one("q", b"gone"))
    assert counted() == 0
    async with q.tx() as tx:
        await tx.send("q", [b"one", b"two"])
    await q.create_queue("other")  # a command of the writer's, behind the end of the transaction
    assert counted() == 2
