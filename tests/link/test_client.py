"""The caller's end: cancelled, cut off, reconnected, crowded; nothing is lost or held in secret."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio

from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import (
    Closed,
    InvalidArgument,
    LockLost,
    NotFound,
    Unavailable,
    Unsupported,
)
from mqlite_actor.engine.engine import Engine
from mqlite_actor.link import frames
from mqlite_actor.link.frames import Hello
from mqlite_actor.sdk.linked import Linked, open_link
from tests.conformance.handles import served_links
from tests.engine.gate import (
    Call,
    Gate,
    Hold,
    bodies,
    bounded,
    completing,
    create,
    parked,
    sending,
    take,
    taking,
    until,
)
from tests.link.peer import rogue, short_path


@pytest.fixture
async def path() -> AsyncIterator[str]:
    with short_path() as path:
        yield path


@pytest.fixture
async def linked(engine: Engine, path: str) -> AsyncIterator[Linked]:
    """A handle over a link to `engine`, which has a queue q."""
    await create(engine, "q")
    async with served_links(engine, path), open_link(path) as linked:
        yield linked


# -- cancellation ----------------------------------------------------------------------------------


async def test_a_cancelled_poll_claims_nothing(engine: Engine, linked: Linked) -> None:
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(linked.call, taking("q", wait_ms=20_000))
            await parked(engine, "q", 1)
            scope.cancel()
    assert engine.statistics()["waiters"] == {}
    await engine.call(sending("q", b"x"))
    assert len(await take(engine, "q")) == 1


async def test_a_call_cancelled_before_its_turn_never_runs(
    engine: Engine, linked: Linked, nursery: trio.Nursery
) -> None:
    gate = Gate(engine, nursery)
    stop = await gate.stop()
    call = Call(engine, sending("q", b"x"))
    call.engine = linked  # type: ignore[assignment]  # all it needs is `call`
    nursery.start_soon(call.run)
    await until(lambda: engine.statistics()["mailbox_commands"] == 1)
    call.scope.cancel()
    with bounded():
        await call.ended.wait()
    assert call.was_cancelled
    stop.release()
    assert await bodies(engine, "q") == []


async def taken_then_cancelled(
    engine: Engine, linked: Linked, nursery: trio.Nursery, request: wire.Request[Any]
) -> Call:
    """A call over the link that is cancelled after the writer took it."""
    gate = Gate(engine, nursery)
    stop = await gate.stop()
    call = Call(engine, request)
    call.engine = linked  # type: ignore[assignment]  # all it needs is `call`
    nursery.start_soon(call.run)
    await until(lambda: engine.statistics()["mailbox_commands"] == 1)
    behind = gate.later()
    await until(lambda: engine.statistics()["mailbox_commands"] == 2)
    stop.release()
    with bounded():
        await behind.entered.wait()
    call.scope.cancel()
    behind.release()
    with bounded():
        await call.ended.wait()
    return call


async def test_a_send_cancelled_too_late_returns_its_number(
    engine: Engine, linked: Linked, nursery: trio.Nursery
) -> None:
    call = await taken_then_cancelled(engine, linked, nursery, sending("q", b"x"))
    assert call.reply == wire.SendResponse(seq_numbers=[1])
    assert await bodies(engine, "q") == [b"x"]


async def test_a_receive_cancelled_too_late_gives_its_messages_back(
    engine: Engine, linked: Linked, nursery: trio.Nursery
) -> None:
    await engine.call(sending("q", b"x"))
    call = await taken_then_cancelled(engine, linked, nursery, taking("q"))
    assert call.was_cancelled
    (message,) = await take(engine, "q")
    assert message.delivery_count == 1


async def test_a_thousand_calls_cancelled_at_random_leave_nothing_held(
    engine: Engine, linked: Linked
) -> None:
    """Each is cancelled after another number of steps of the event loop."""
    await engine.call(sending("q", *[b"x"] * 50))

    async def one(number: int) -> None:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(linked.call, taking("q"))
                for _ in range(number % 23):
                    await trio.lowlevel.checkpoint()
                scope.cancel()

    with bounded():
        for start in range(0, 1000, 100):
            async with trio.open_nursery() as nursery:
                for number in range(start, start + 100):
                    nursery.start_soon(one, number)
    left = await take(engine, "q", 50)
    # A receive that returned before its scope was cancelled keeps what it got: nobody settled it.
    locked = await bodies(engine, "q", "locked")
    assert len(locked) == 50
    assert {message.delivery_count for message in left} <= {1}


# -- claims ----------------------------------------------------------------------------------------


async def test_what_was_received_stays_held_when_the_link_is_closed(
    engine: Engine, path: str
) -> None:
    await create(engine, "q")
    await engine.call(sending("q", b"x"))
    async with served_links(engine, path):
        async with open_link(path) as linked:
            (message,) = await linked.receive("q")
        assert await take(engine, "q") == []
        async with open_link(path) as linked:
            await linked.message("q", message.seq_number, message.lock_token).complete()
    assert await bodies(engine, "q") == []


# -- a lost link -----------------------------------------------------------------------------------


async def test_nobody_there_is_said_at_once(path: str) -> None:
    with pytest.raises(Unavailable, match=f"unix:{path}: No such file"):
        async with open_link(path):
            pass


async def test_an_empty_path_is_refused() -> None:
    with pytest.raises(InvalidArgument):
        async with open_link(""):
            pass


async def test_another_version_is_named(path: str, nursery: trio.Nursery) -> None:
    async def answer() -> None:
        sock = await other.accept()
        await sock.send(frames.frame([frames.encoded(Hello("0.0.9", "feedface"))]))

    with rogue(path) as other:
        nursery.start_soon(answer)
        with pytest.raises(Unavailable, match=r"'0\.0\.9' with another contract"):
            async with open_link(path):
                pass


async def test_a_closed_handle_says_so(engine: Engine, path: str) -> None:
    async with served_links(engine, path):
        async with open_link(path) as linked:
            pass
        with pytest.raises(Closed):
            await linked.status()


async def test_a_block_raises_its_own_error(engine: Engine, path: str) -> None:
    async with served_links(engine, path):
        error = ValueError("mine")
        with pytest.raises(ValueError, match="mine") as caught:
            async with open_link(path):
                raise error
    assert caught.value is error


# -- errors and crowds -----------------------------------------------------------------------------


async def test_errors_are_those_of_the_contract(linked: Linked) -> None:
    with pytest.raises(NotFound):
        await linked.send_one("none", b"x")
    with pytest.raises(InvalidArgument, match="surrogate"):
        await linked.send_one("q", b"x", subject="\ud800")
    with pytest.raises(LockLost):
        await linked.message("q", 1, "none").complete()
    with pytest.raises(Unsupported):
        await linked.call(Hold())
    await linked.send_one("q", b"the link lives on")


async def test_ten_thousand_calls_at_once_are_answered_in_bounded_memory(linked: Linked) -> None:
    body = bytes(4096)
    most = 0

    async def one() -> None:
        nonlocal most
        await linked.send_one("q", body)
        link = linked._link
        assert link is not None
        most = max(most, link._pipe.unsent)

    async with trio.open_nursery() as nursery:
        for _ in range(10_000):
            nursery.start_soon(one)
    assert (await linked.stats("q")).active == 10_000
    # Nobody passes the bound by more than the calls that saw room in the same moment.
    assert most <= limits.LINK_UNSENT_BYTES + 2 * limits.LINK_ITEMS_BYTES


async def test_two_thousand_polls_wait_at_once_and_each_gets_one(
    engine: Engine, linked: Linked
) -> None:
    got: list[int] = []

    async def one() -> None:
        got.extend(m.seq_number for m in await linked.receive("q", wait=20))

    async with trio.open_nursery() as nursery:
        for _ in range(2_000):
            nursery.start_soon(one)
        await until(lambda: engine.statistics()["waiters"].get("q", 0) == 2_000)
        for _ in range(8):
            await engine.call(sending("q", *[b"x"] * 250))
    assert len(got) == len(set(got)) == 2_000


async def test_a_large_page_crosses_whole(engine: Engine, linked: Linked) -> None:
    sent = [bytes([n]) * limits.MESSAGE_BYTES_DEFAULT for n in range(20)]
    for start in range(0, 20, 5):
        await linked.send("q", sent[start : start + 5])
    messages = await linked.receive("q", max_messages=20)
    assert [message.body for message in messages] == sent
    await engine.call(completing("q", messages[0].raw))
