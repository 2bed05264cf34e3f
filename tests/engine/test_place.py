"""Small groups may run in the trio thread; they change nothing but the time it takes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest
import trio

from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import LockLost, QueueNotFound
from mqlite_actor.engine import place
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine
from tests.engine.gate import bounded, create, sending, settled, take


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


def test_what_looks_at_whole_tables_is_not_light() -> None:
    assert not {wire.ListQueuesRequest, wire.PeekRequest, wire.PurgeRequest} & set(place.LIGHT)
