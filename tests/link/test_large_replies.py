"""A reply that no frame holds is refused by itself: the link lives, and so does the claim."""

from __future__ import annotations

import pytest

from mqlite_actor.contract import limits, wire
from mqlite_actor.engine.engine import Engine
from mqlite_actor.link import frames
from tests.engine.gate import bodies, create, parked, sending, take, taking, until
from tests.link.peer import linked

TOO_MUCH = b"x" * 10_000


@pytest.fixture(autouse=True)
def _small_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a message were larger than a page leaves room for."""
    monkeypatch.setattr(limits, "LINK_REPLY_BYTES_MAX", len(TOO_MUCH))


async def test_a_claim_that_cannot_be_told_goes_back_and_the_link_serves_on(
    engine: Engine,
) -> None:
    await create(engine, "q", "other")
    await engine.call(sending("q", TOO_MUCH, b"small"))
    async with linked(engine) as peer:
        await peer.greet()
        await peer.ask(1, taking("other", wait_ms=20_000))
        await parked(engine, "other", 1)
        await peer.ask(2, taking("q", 1))
        assert await peer.refusal(2) == "message_too_large"
        assert await bodies(engine, "q", "active") == [TOO_MUCH, b"small"]
        await engine.call(sending("other", b"y"))
        reply = await peer.reply(1)
        assert isinstance(reply, wire.MessagesResponse)
        assert [message.body for message in reply.messages] == [b"y"]
    (again, _) = await take(engine, "q", 2)
    assert again.delivery_count == 1, "nobody got it, so that was no delivery"


@pytest.mark.parametrize(
    "request_",
    [
        wire.PeekRequest(queue="q"),
        wire.ReceiveRequest(queue="q", receive_attempt_id="a"),
        wire.ReceiveRequest(queue="q", receive_mode=1),
    ],
    ids=["peek", "attempt", "remove"],
)
async def test_whatever_else_cannot_be_told_is_refused(
    engine: Engine, request_: wire.Request[wire.MessagesResponse]
) -> None:
    await create(engine, "q")
    await engine.call(sending("q", TOO_MUCH))
    async with linked(engine) as peer:
        await peer.greet()
        await peer.ask(1, request_)
        assert await peer.refusal(1) == "message_too_large"
        await peer.ask(2, wire.StatsRequest(queue="q"))
        await peer.reply(2)


async def test_a_program_that_leaves_at_once_leaves_the_claim_behind(engine: Engine) -> None:
    await create(engine, "q")
    await engine.call(sending("q", TOO_MUCH))
    async with linked(engine) as peer:
        await peer.greet()
        await peer.ask(1, taking("q"))
        await peer.leave()
    await until(lambda: engine.statistics()["mailbox_commands"] == 0)
    (again,) = await take(engine, "q")
    assert again.delivery_count == 1


def test_the_largest_reply_is_one_frame() -> None:
    reply = wire.MessagesResponse(messages=[wire.Message(body=TOO_MUCH)])
    room = limits.LINK_REPLY_BYTES_MAX - (len(frames.encoded_reply(1, NOTHING)) + 100)
    fits = wire.MessagesResponse(messages=[wire.Message(body=bytes(room))])
    reader = frames.Frames(is_upward=False)
    (item,) = reader.feed(frames.frame([frames.encoded_reply(1, fits)]))
    assert isinstance(item, frames.Reply)
    with pytest.raises(Exception, match="over the 10000 of a link"):
        frames.encoded_reply(1, reply)


NOTHING = wire.EmptyResponse()
