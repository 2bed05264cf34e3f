"""A handle over a link that is lost: what is repeated over the next one, and what is told of the
rest."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import OutcomeUnknown, Unavailable
from mqlite_actor.link import frames
from mqlite_actor.link.frames import Ask, Hello, Item, Refusal
from mqlite_actor.sdk.linked import open_link
from tests.conformance.handles import opened, served_links
from tests.engine.gate import bounded, sending, taking, until
from tests.link.peer import Rogue, rogue, short_path


@pytest.fixture
async def path() -> AsyncIterator[str]:
    with short_path() as path:
        yield path


WRITES = {
    "send": sending("q", b"x"),
    "cancel": wire.CancelRequest(queue="q", seq_number=1),
    "receive": taking("q"),
    "attempt": wire.ReceiveRequest(queue="q", receive_attempt_id="a"),
    "create": wire.CreateQueueRequest(name="q"),
}


@pytest.mark.parametrize("request_", WRITES.values(), ids=WRITES.keys())
async def test_a_write_whose_answer_was_lost_is_not_repeated(
    path: str, request_: wire.Request[Any]
) -> None:
    heard: list[Item] = []

    async def answer(other: Rogue) -> None:
        sock = await other.accept_and_greet()
        assert len(await other.heard(sock, 2)) == 2
        sock.close()
        sock = await other.accept_and_greet()
        heard.extend(await other.heard(sock, 2))

    with rogue(path) as other:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer, other)
            async with open_link(path) as linked:
                with pytest.raises(OutcomeUnknown):
                    await linked.call(request_)
                await until(lambda: linked._link is not None)
    assert [type(item) for item in heard] == [Hello], "nothing is asked over the next link"


STATS = wire.StatsResponse(
    queue="q", active=0, locked=0, deferred=0, scheduled=0, dead_lettered=0, total=0,
    oldest_message_age_ms=0,
)  # fmt: skip

REPEATED: dict[str, tuple[wire.Request[Any], wire.Response]] = {
    "read": (wire.StatsRequest(queue="q"), STATS),
    "settle": (wire.CompleteRequest(queue="q", lock_token="t"), wire.OkResponse()),
    "removal": (
        wire.ReceiveRequest(queue="q", receive_mode=1, receive_attempt_id="a"),
        wire.MessagesResponse(messages=[]),
    ),
}


CLAIMED = wire.MessagesResponse(
    messages=[wire.Message(seq_number=each, lock_token="t", locked_until_ms=9) for each in (1, 2)]
)
LOOKED = wire.RenewBatchResponse(
    results=[
        wire.RenewItemResult(seq_number=1, ok=False),
        wire.RenewItemResult(seq_number=2, ok=True, locked_until_ms=99),
    ]
)


@pytest.mark.parametrize(("request_", "reply"), REPEATED.values(), ids=REPEATED.keys())
async def test_what_may_be_repeated_is_repeated_over_the_next_link(
    path: str, request_: wire.Request[Any], reply: wire.Response
) -> None:
    async def answer(other: Rogue) -> None:
        sock = await other.accept_and_greet()
        await other.heard(sock, 2)
        sock.close()
        sock = await other.accept_and_greet()
        _, ask = await other.heard(sock, 2)
        assert isinstance(ask, Ask)
        await sock.send(frames.frame([frames.encoded_reply(ask.id, reply)]))

    with rogue(path) as other:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer, other)
            async with open_link(path) as linked:
                with bounded():
                    assert await linked.call(request_) == reply


async def test_a_claim_whose_answer_was_lost_is_asked_for_over_the_next_link_and_looked_at(
    path: str,
) -> None:
    """One of its leases is over by then."""
    asked: list[Ask] = []

    async def answer(other: Rogue) -> None:
        sock = await other.accept_and_greet()
        asked.extend(each for each in await other.heard(sock, 2) if isinstance(each, Ask))
        sock.close()
        sock = await other.accept_and_greet()
        (claim,) = (each for each in await other.heard(sock, 2) if isinstance(each, Ask))
        await sock.send(frames.frame([frames.encoded_reply(claim.id, CLAIMED)]))
        (look,) = await other.heard(sock, 1)
        assert isinstance(look, Ask)
        await sock.send(frames.frame([frames.encoded_reply(look.id, LOOKED)]))
        asked.extend([claim, look])

    with rogue(path) as other:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer, other)
            async with open_link(path) as linked:
                with bounded():
                    found = await linked.receive("q", max_messages=2, attempt_id="a")
    assert [(each.seq_number, each.raw.locked_until_ms) for each in found] == [(2, 99)]
    assert [each.call for each in asked] == [
        f"QueueService/{name}" for name in ("Receive", "Receive", "RenewBatch")
    ]


@pytest.mark.parametrize("is_back", [True, False])
@pytest.mark.parametrize(
    ("request_", "is_doubtful"),
    [
        (REPEATED["read"][0], False),
        (REPEATED["settle"][0], True),
        (REPEATED["removal"][0], True),
        (WRITES["attempt"], True),
    ],
    ids=["read", "settle", "removal", "attempt"],
)
async def test_what_cannot_be_repeated_after_all_is_in_doubt(
    path: str,
    monkeypatch: pytest.MonkeyPatch,
    request_: wire.Request[Any],
    *,
    is_doubtful: bool,
    is_back: bool,
) -> None:
    """Nobody comes back, or somebody who does nothing now."""
    monkeypatch.setattr(limits, "LINK_WAIT_SECONDS", 15 if is_back else 0.05)

    async def answer(other: Rogue) -> None:
        sock = await other.accept_and_greet()
        await other.heard(sock, 2)
        sock.close()
        if is_back:
            sock = await other.accept_and_greet()
            for ask in (await other.heard(sock, 2))[1:]:
                assert isinstance(ask, Ask)
                await sock.send(frames.frame([frames.encoded(Refusal(ask.id, "unavailable", ""))]))

    with rogue(path) as other:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer, other)
            async with open_link(path) as linked:
                with bounded(), pytest.raises((OutcomeUnknown, Unavailable)) as caught:
                    await linked.call(request_)
    assert isinstance(caught.value, OutcomeUnknown) == is_doubtful


async def test_a_reply_that_is_no_reply_ends_the_link(path: str) -> None:
    async def answer(other: Rogue) -> None:
        sock = await other.accept_and_greet()
        await other.heard(sock, 2)
        await sock.send(b"HTTP/1.1 200 OK\r\n\r\n")

    with rogue(path) as other:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer, other)
            async with open_link(path) as linked:
                with pytest.raises(OutcomeUnknown, match="a frame of"):
                    await linked.send_one("q", b"x")


async def test_an_engine_that_comes_back_is_found_again(
    store: Path, clock: ManualClock, path: str
) -> None:
    async def serve_once(
        stop: trio.Event, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        async with opened(store, clock) as engine, served_links(engine, path):
            task_status.started()
            await stop.wait()

    first, second = trio.Event(), trio.Event()
    async with trio.open_nursery() as nursery:
        await nursery.start(serve_once, first)
        async with open_link(path) as linked:
            await linked.create_queue("q")
            await linked.send_one("q", b"1")
            first.set()
            await until(lambda: linked._link is None)
            await until(lambda: not nursery.child_tasks)
            await nursery.start(serve_once, second)
            with bounded():
                await linked.send_one("q", b"2")
            assert [m.body for m in await linked.peek("q")] == [b"1", b"2"]
        second.set()


async def test_without_an_engine_a_call_ends_as_unavailable(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LINK_WAIT_SECONDS", 0.2)

    async def answer(other: Rogue) -> None:
        await other.heard(await other.accept_and_greet(), 1)

    with rogue(path) as other:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer, other)
            async with open_link(path) as linked:
                other.accepted[0].close()
                await until(lambda: linked._link is None)
                with bounded(), pytest.raises(Unavailable):
                    await linked.send_one("q", b"x")
