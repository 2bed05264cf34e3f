"""Group commit: many commands in one transaction, each answered for itself and after COMMIT."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import apsw
import pytest
import trio

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import (
    GroupRequired,
    Internal,
    InvalidArgument,
    LockLost,
    MessageTooLarge,
    MqliteError,
    QueueNotFound,
)
from mqlite_actor.engine.engine import Engine
from mqlite_actor.semantics.send import send
from mqlite_actor.storage.database import Transaction
from tests.engine.gate import (
    Custom,
    Gate,
    bodies,
    bounded,
    completing,
    create,
    sending,
    settled,
    take,
    taking,
    teach,
)

FIFO = wire.QueueConfig(ordering_mode="group_fifo")


async def group(engine: Engine, *requests: wire.Request[Any]) -> list[object]:
    """Run requests as one group, in this order; a response or an error for each."""
    answers: list[object] = [None] * len(requests)

    async def ask(index: int, request: wire.Request[Any]) -> None:
        try:
            answers[index] = await engine.call(request)
        except MqliteError as error:
            answers[index] = error

    with bounded():
        async with trio.open_nursery() as nursery:
            stop = await Gate(engine, nursery).stop()
            for index, request in enumerate(requests):
                nursery.start_soon(ask, index, request)
                await settled()
            groups = engine.statistics()["groups"]
            stop.release()
    assert engine.statistics()["groups"] == groups + 2, "the stop, and all of these together"
    return answers


@pytest.mark.promise("E158")
async def test_what_gathers_while_the_writer_is_busy_is_one_transaction(engine: Engine) -> None:
    assert engine.statistics()["groups"] == 0
    await create(engine, "q")
    answers = await group(engine, *[sending("q", b"%d" % number) for number in range(200)])
    assert [getattr(answer, "seq_numbers", None) for answer in answers] == [
        [number] for number in range(1, 201)
    ]
    assert await bodies(engine, "q") == [b"%d" % number for number in range(200)]


@pytest.mark.promise("E158")
async def test_an_answer_comes_after_its_commit(engine: Engine, store: Path) -> None:
    """Whoever has an answer finds the row through a connection of his own."""
    await create(engine, "q")
    reader = apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READONLY)
    missing: list[int] = []

    async def send_and_look(number: int) -> None:
        reply = await engine.call(sending("q", b"%d" % number))
        assert reply.seq_numbers
        found = reader.execute("SELECT 1 FROM messages WHERE id = ?", reply.seq_numbers).fetchall()
        missing.extend(reply.seq_numbers if not found else [])

    with bounded():
        async with trio.open_nursery() as nursery:
            for number in range(300):
                nursery.start_soon(send_and_look, number)
    reader.close()
    assert not missing
    assert engine.statistics()["groups"] < 300


async def test_a_group_is_bounded_in_commands_and_bytes(engine: Engine) -> None:
    await create(engine, "q")
    body = bytes(limits.MESSAGE_BYTES_DEFAULT)
    heavy = limits.GROUP_BYTES_MAX // len(body)
    for requests, groups_wanted in (
        ([sending("q", b"x")] * (2 * limits.GROUP_COMMANDS_MAX + 1), 3),
        ([sending("q", body)] * (heavy + 1), 2),
        ([sending("q", *[body] * (heavy + 1))] * 2, 2),
    ):
        with bounded():
            async with trio.open_nursery() as nursery:
                stop = await Gate(engine, nursery).stop()
                for request in requests:
                    nursery.start_soon(engine.call, request)
                await settled()
                groups = engine.statistics()["groups"]
                stop.release()
        assert engine.statistics()["groups"] == groups + 1 + groups_wanted


@pytest.mark.promise("E158")
async def test_a_refusal_undoes_nothing_of_its_neighbours(engine: Engine) -> None:
    await create(engine, "q")
    await create(engine, "f", config=FIFO)
    await engine.call(sending("q", b"held"))
    held = (await take(engine, "q"))[0]
    wrong = wire.CompleteRequest(queue="q", seq_number=held.seq_number, lock_token="0" * 32)
    answers = await group(
        engine,
        sending("q", b"first"),
        sending("nowhere", b"x"),
        sending("q", bytes(limits.MESSAGE_BYTES_DEFAULT + 1)),
        sending("f", b"x"),
        wrong,
        wire.CreateQueueRequest(name=""),
        completing("q", held),
        sending("q", b"last"),
    )
    kinds = [type(answer) for answer in answers]
    assert kinds == [
        wire.SendResponse,
        QueueNotFound,
        MessageTooLarge,
        GroupRequired,
        LockLost,
        InvalidArgument,
        wire.OkResponse,
        wire.SendResponse,
    ]
    assert await bodies(engine, "q") == [b"first", b"last"]
    assert await bodies(engine, "f") == []


@pytest.mark.promise("E158")
async def test_a_refusal_after_a_write_is_undone_and_its_neighbours_stand(engine: Engine) -> None:
    def refuse_late(tx: Transaction, _request: Custom, now_ms: int) -> wire.EmptyResponse:
        write(tx, now_ms, b"half")
        raise InvalidArgument("too late")

    await create(engine, "q")
    teach(engine, Custom, refuse_late)
    first, refused, last = await group(engine, sending("q", b"a"), Custom(), sending("q", b"b"))
    assert isinstance(first, wire.SendResponse)
    assert isinstance(refused, InvalidArgument)
    assert isinstance(last, wire.SendResponse)
    assert await bodies(engine, "q") == [b"a", b"b"]


def write(tx: Transaction, now_ms: int, body: bytes) -> None:
    """A send that has done all its work when its command goes wrong."""
    send(tx, sending("q", body), now_ms, message_bytes_max=len(body))


UNEXPECTED = (
    RuntimeError("a secret"),
    AssertionError("a secret"),
    MemoryError(),
    RecursionError("a secret"),
    KeyError("a secret"),
    apsw.SQLError("near 'a secret': syntax error"),
    apsw.ConstraintError("a secret"),
)


@pytest.mark.promise("E158")
@pytest.mark.parametrize("cause", UNEXPECTED, ids=lambda cause: type(cause).__name__)
async def test_an_unexpected_error_fails_its_own_command_alone(
    engine: Engine, caplog: pytest.LogCaptureFixture, cause: Exception
) -> None:
    def break_down(tx: Transaction, _request: Custom, now_ms: int) -> wire.EmptyResponse:
        write(tx, now_ms, b"half")
        raise cause

    await create(engine, "q")
    teach(engine, Custom, break_down)
    with caplog.at_level(logging.ERROR, "mqlite.engine"):
        answers = await group(
            engine, sending("q", b"a"), Custom(), taking("q"), sending("q", b"b"), Custom()
        )
    assert [type(answer) for answer in answers] == [
        wire.SendResponse,
        Internal,
        wire.MessagesResponse,
        wire.SendResponse,
        Internal,
    ]
    assert await bodies(engine, "q") == [b"a", b"b"]
    for answer in (answers[1], answers[4]):
        assert "secret" not in str(answer)
        assert type(cause).__name__ in str(answer)
    assert any(record.exc_info for record in caplog.records), "the log has the cause"
    await engine.call(sending("q", b"after"))


async def test_events_are_counted_once_whatever_was_run_again(engine: Engine) -> None:
    def break_down(_tx: Transaction, _request: Custom, _now_ms: int) -> wire.EmptyResponse:
        raise RuntimeError

    await create(engine, "q")
    teach(engine, Custom, break_down)
    await group(engine, sending("q", b"a", b"b"), Custom(), taking("q"))
    events = engine.statistics()["events"]
    assert events[("q", "enqueued")] == 2
    assert events[("q", "delivered")] == 1


async def test_later_commands_of_a_group_see_earlier_ones(engine: Engine) -> None:
    made, sent, taken = await group(
        engine, wire.CreateQueueRequest(name="new"), sending("new", b"x"), taking("new")
    )
    assert isinstance(made, wire.EmptyResponse)
    assert isinstance(sent, wire.SendResponse)
    assert isinstance(taken, wire.MessagesResponse)
    assert [message.body for message in taken.messages] == [b"x"]


async def test_a_command_is_judged_by_the_clock_at_its_own_start(
    engine: Engine, clock: ManualClock
) -> None:
    """Not by when it was queued: the lease that ran out while it waited is over."""

    def let_time_pass(_tx: Transaction, _request: Custom, _now_ms: int) -> wire.EmptyResponse:
        clock.advance(5000)
        return wire.EmptyResponse()

    await create(engine, "q", config=wire.QueueConfig(lock_duration_ms=5000))
    await engine.call(sending("q", b"held"))
    held = (await take(engine, "q"))[0]
    teach(engine, Custom, let_time_pass)
    before, _, sent, lost = await group(
        engine, sending("q", b"1"), Custom(), sending("q", b"2"), completing("q", held)
    )
    assert isinstance(before, wire.SendResponse)
    assert isinstance(sent, wire.SendResponse)
    assert isinstance(lost, LockLost)
    page = (await engine.call(wire.PeekRequest(queue="q"))).messages
    assert page[2].enqueued_at_ms - page[1].enqueued_at_ms == 5000
