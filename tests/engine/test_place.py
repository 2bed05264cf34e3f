"""Small groups may run in the trio thread; they change nothing but the time it takes."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path

import apsw
import pytest
import trio

from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import Internal, LockLost, QueueNotFound
from mqlite_actor.engine import place
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine
from mqlite_actor.engine.outcomes import GroupResult
from mqlite_actor.engine.place import Inline
from tests.engine.gate import (
    Call,
    Gate,
    bounded,
    create,
    parked,
    sending,
    settled,
    take,
    taking,
)
from tests.storage.writer import writing


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "q.db"


@pytest.fixture
async def swift(path: Path) -> AsyncIterator[Engine]:
    """An engine that may run groups where its callers are."""
    options = EngineOptions(inline=True, background=False)
    async with open_engine(f"file:{path}", options) as engine:
        await create(engine, "q")
        yield engine


def inline(engine: Engine) -> int:
    number: int = engine.statistics()["inline_groups"]
    return number


@pytest.mark.usefixtures("unhurried")
async def test_a_small_group_runs_at_once_and_a_large_one_in_the_thread(swift: Engine) -> None:
    before = inline(swift)
    await swift.call(sending("q", b"x"))
    assert inline(swift) == before + 1
    many = [wire.Message(body=b"")] * (limits.INLINE_ROWS + 1)
    await swift.call(wire.SendRequest(queue="q", messages=many))
    big = wire.Message(body=bytes(limits.INLINE_GROUP_BYTES))
    await swift.call(wire.SendRequest(queue="q", messages=[big]))
    await swift.call(wire.ListQueuesRequest())
    await swift.call(wire.ReceiveRequest(queue="q", max_messages=limits.RECEIVE_MESSAGES_MAX))
    assert inline(swift) == before + 2


async def test_answers_and_refusals_are_the_same(swift: Engine) -> None:
    reply = await swift.call(sending("q", b"x"))
    assert reply.seq_numbers == [1]
    (message,) = await take(swift, "q")
    settle = wire.CompleteRequest(
        queue="q", seq_number=message.seq_number, lock_token=message.lock_token
    )
    assert (await swift.call(settle)).ok
    assert (await swift.call(settle)).ok
    with pytest.raises(LockLost):
        await swift.call(wire.CompleteRequest(queue="q", seq_number=9, lock_token="0" * 32))
    with pytest.raises(QueueNotFound):
        await swift.call(sending("nowhere", b"x"))


async def test_a_foreign_lock_does_not_hold_up_the_loop(
    swift: Engine, path: Path, nursery: trio.Nursery
) -> None:
    foreign = apsw.Connection(str(path))
    try:
        foreign.execute("BEGIN IMMEDIATE")
        done = trio.Event()

        async def send() -> None:
            await swift.call(sending("q", b"x"))
            done.set()

        before = inline(swift)
        nursery.start_soon(send)
        await settled()  # the loop turns: the writer waits in its thread
        assert not done.is_set()
        foreign.execute("COMMIT")
        with bounded():
            await done.wait()
        assert inline(swift) == before
    finally:
        foreign.close()


@pytest.mark.parametrize(
    ("synchronous", "is_inline"), [("NORMAL", True), ("OFF", True), ("FULL", False)]
)
async def test_a_commit_that_waits_for_the_disk_never_runs_in_the_loop(
    path: Path, synchronous: str, *, is_inline: bool
) -> None:
    options = EngineOptions(inline=True, background=False, synchronous=synchronous)
    async with open_engine(f"file:{path}", options) as engine:
        await create(engine, "q")
        await engine.call(sending("q", b"x"))
        assert (inline(engine) > 0) is is_inline


async def test_nothing_runs_in_the_loop_of_an_embedding_program(path: Path) -> None:
    async with open_engine(f"file:{path}", EngineOptions(background=False)) as engine:
        await create(engine, "q")
        await engine.call(sending("q", b"x"))
        assert inline(engine) == 0


async def test_a_group_that_took_long_sends_the_next_ones_to_the_thread(
    swift: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "INLINE_SECONDS", 0.0)  # every group takes longer than that
    before = inline(swift)
    await swift.call(sending("q", b"x"))
    await swift.call(sending("q", b"x"))
    assert inline(swift) == before + 1
    monkeypatch.setattr(limits, "INLINE_PAUSE_SECONDS", 0.0)


async def test_the_loop_turns_between_two_groups(swift: Engine, nursery: trio.Nursery) -> None:
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    nursery.start_soon(turn)
    async with trio.open_nursery() as senders:
        for _ in range(4 * limits.GROUP_COMMANDS_MAX):
            senders.start_soon(swift.call, sending("q", b"x"))
    assert turns >= 4  # at least once a group
    nursery.cancel_scope.cancel()


# -- a caller who is alone -------------------------------------------------------------------------


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group may take as long as it takes, however busy the machine is."""
    monkeypatch.setattr(limits, "INLINE_SECONDS", math.inf)


async def turns_of(call: Callable[[], Awaitable[object]]) -> int:
    """How often another task ran while the call did."""
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(turn)
        await settled_turns()
        before = turns
        await call()
        found = turns - before
        nursery.cancel_scope.cancel()
    return found


async def settled_turns() -> None:
    """Everybody who can run has run."""
    for _ in range(4):
        await trio.lowlevel.checkpoint()


@pytest.mark.usefixtures("unhurried")
async def test_a_lone_caller_is_served_in_its_own_turn_and_the_others_get_theirs(
    swift: Engine,
) -> None:
    async def one() -> None:
        await swift.call(sending("q", b"x"))

    async def many() -> None:
        for _ in range(10 * limits.INLINE_TURNS):
            await one()

    await one()
    assert await turns_of(one) == 0
    assert await turns_of(many) >= 9
    assert inline(swift) == 3 + 10 * limits.INLINE_TURNS - 1
    numbers = [message.seq_number for message in await take(swift, "q", 256)]
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.usefixtures("unhurried")
async def test_a_lone_caller_has_so_many_turns_and_then_the_loop_has_one(
    swift: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "INLINE_TURNS", 2)

    async def one() -> None:
        await swift.call(sending("q", b"x"))

    assert [await turns_of(one) == 0 for _ in range(6)] == [False, True, True] * 2


@pytest.mark.usefixtures("unhurried")
async def test_a_lone_caller_passes_nobody_who_runs_or_waits(
    swift: Engine, nursery: trio.Nursery
) -> None:
    stop = await Gate(swift, nursery).stop()
    groups = swift.statistics()["groups"]
    first, second = Call(swift, sending("q", b"a")), Call(swift, sending("q", b"b"))
    for each in (first, second):
        nursery.start_soon(each.run)
        await settled()
    assert swift.statistics()["groups"] == groups
    assert swift.statistics()["mailbox_commands"] == 2
    stop.release()
    with bounded():
        await second.ended.wait()
    assert [message.body for message in await take(swift, "q", 2)] == [b"a", b"b"]


@pytest.mark.usefixtures("unhurried")
async def test_a_lone_caller_waits_for_a_message_like_all_others(swift: Engine) -> None:
    received: list[bytes] = []

    async def alone() -> None:
        await swift.call(sending("q", b"first"))
        for _ in range(2):
            (message,) = (await swift.call(taking("q", wait_ms=15_000))).messages
            received.append(message.body)

    with bounded():
        async with trio.open_nursery() as waiting:
            waiting.start_soon(alone)
            await parked(swift, "q", 1)
            await swift.call(sending("q", b"second"))
    assert received == [b"first", b"second"]


@pytest.mark.usefixtures("unhurried")
async def test_callers_who_come_together_share_a_group(swift: Engine) -> None:
    await swift.call(sending("q", b"x"))
    groups = swift.statistics()["groups"]
    async with trio.open_nursery() as senders:
        for _ in range(64):
            senders.start_soon(swift.call, sending("q", b"y"))
    assert swift.statistics()["groups"] == groups + 1


@pytest.mark.promise("E142")
@pytest.mark.usefixtures("unhurried")
async def test_a_lone_caller_who_is_cancelled_already_does_nothing(swift: Engine) -> None:
    await swift.call(sending("q", b"x"))
    groups = swift.statistics()["groups"]
    with trio.CancelScope() as scope:
        scope.cancel()
        await swift.call(sending("q", b"y"))
    assert scope.cancelled_caught
    assert swift.statistics()["groups"] == groups


@pytest.mark.usefixtures("unhurried")
async def test_what_a_lone_caller_sends_wakes_who_waits(swift: Engine) -> None:
    received: list[bytes] = []

    async def wait() -> None:
        waiting = wire.ReceiveRequest(queue="q", wait_time_ms=15_000)
        received.extend(m.body for m in (await swift.call(waiting)).messages)

    await create(swift, "other")
    with bounded():
        async with trio.open_nursery() as waiting:
            waiting.start_soon(wait)
            await parked(swift, "q", 1)
            await swift.call(sending("other", b"x"))
            groups = swift.statistics()["groups"]
            assert await turns_of(partial(swift.call, sending("q", b"x"))) == 0
    assert received == [b"x"]
    assert swift.statistics()["groups"] == groups + 2, "the send, and who was woken by it"
    assert swift.statistics()["events"]["q", "enqueued"] == 1


@pytest.mark.usefixtures("unhurried")
async def test_a_refusal_in_a_lone_turn_reaches_its_caller_and_nobody_else(swift: Engine) -> None:
    await swift.call(sending("q", b"x"))
    with pytest.raises(QueueNotFound):
        await swift.call(sending("nowhere", b"x"))
    assert (await swift.call(sending("q", b"y"))).seq_numbers == [2]


@pytest.mark.usefixtures("unhurried")
async def test_a_fault_of_ours_in_a_lone_turn_ends_the_engine_with_its_cause(path: Path) -> None:
    def broken(_: object) -> None:
        raise ZeroDivisionError

    told: list[Exception] = []

    async def use() -> None:
        async with open_engine(
            f"file:{path}", EngineOptions(inline=True, background=False)
        ) as engine:
            await create(engine, "q")
            await engine.call(sending("q", b"x"))
            engine._actor._ran = broken
            try:
                await engine.call(sending("q", b"y"))
            except Internal as error:
                told.append(error)
            await trio.sleep_forever()

    with pytest.raises(ZeroDivisionError):
        await use()
    assert str(told[0]) == "the engine stopped: ZeroDivisionError"


def test_a_group_is_small_up_to_its_bounds_and_on_a_sound_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "INLINE_ROWS", 2)
    monkeypatch.setattr(limits, "INLINE_SECONDS", math.inf)
    settle, heaviest = wire.CompleteRequest(queue="q"), limits.INLINE_GROUP_BYTES
    with writing(":memory:") as writer:
        inline = Inline(writer.store, lambda requests: GroupResult(len(requests)), is_allowed=True)
        assert inline.started == 0
        for number, weight, runs in (
            (1, heaviest, True),
            (2, heaviest, True),
            (3, 0, False),
            (1, heaviest + 1, False),
        ):
            assert (inline.attempt([settle] * number, weight) is not None) is runs
        writer.store.healthy = False
        assert inline.attempt([settle], 0) is None
        writer.store.healthy = True
        assert inline.started == 2


def test_what_looks_at_whole_tables_is_not_light() -> None:
    assert not {wire.ListQueuesRequest, wire.PeekRequest, wire.PurgeRequest} & set(place.LIGHT)
