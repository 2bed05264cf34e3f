"""How long a call over a link may take before its handle withdraws it."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from mqlite_actor.contract import ext, wire
from mqlite_actor.contract.errors import Unavailable
from mqlite_actor.link import frames
from mqlite_actor.link.frames import Ask
from mqlite_actor.sdk import exchange
from mqlite_actor.sdk.linked import open_link
from tests.link.peer import rogue, short_path

IN_PARTS: list[tuple[wire.Request[Any], wire.Response]] = [
    (wire.RedriveRequest(queue="q"), wire.RedriveResponse(moved=1)),
    (wire.PurgeRequest(queue="q"), wire.PurgeResponse(purged=1)),
    (ext.PurgeActiveRequest(queue="q"), ext.PurgeActiveResponse(purged=1)),
    (ext.RedriveSelectedRequest(queue="q"), ext.RedriveSelectedResponse(moved=1, results=[])),
    (
        ext.DeleteSubscriptionRequest(name="q"),
        ext.DeleteSubscriptionResponse(deleted=True, discarded=1),
    ),
]


async def test_what_is_committed_in_parts_is_never_withdrawn_for_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who is told that it was withdrawn takes nothing of it for done."""
    assert {type(request) for request, _ in IN_PARTS} == {*exchange.SLOW} - {ext.BackupRequest}
    monkeypatch.setattr(exchange, "reply_seconds", lambda *_: 0.0)

    async def answer() -> None:
        sock = await other.accept_and_greet()
        for number, (_, reply) in enumerate(IN_PARTS):
            *_, ask = await other.heard(sock, 1 if number else 2)
            assert isinstance(ask, Ask)
            await sock.send(frames.frame([frames.encoded_reply(ask.id, reply)]))

    with short_path() as path, rogue(path) as other:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer)
            async with open_link(path) as linked:
                for request, reply in IN_PARTS:
                    assert await linked.call(request) == reply
                with pytest.raises(Unavailable, match="withdrawn"):
                    await linked.call(wire.StatsRequest(queue="q"))
