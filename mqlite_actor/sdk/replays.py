"""Which messages of a repeated claim are still ours.

Asked by `claiming` and by `Handle.consume`. The answer to a claim that is repeated under its
attempt id is that of the first try, word for word, however long ago that was, and others may have
the messages by now. So their leases are renewed first. Where that cannot be had, from an older
broker or on a bad line, the time of the broker has to do, which a handle knows early, never late.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from msgspec.structs import replace

from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import Unsupported, WorldError

R = TypeVar("R")


class Caller(Protocol):
    """What a handle is to this module."""

    async def call(self, request: wire.Request[R], /) -> R: ...

    def now_ms(self) -> int: ...


async def still_held(
    handle: Caller, queue: str, messages: Sequence[wire.Message]
) -> list[wire.Message]:
    """Those that are under their lease, in order, with its end as it is now. Raises what a renewal
    raises, but for what says nothing about them."""
    items = [
        wire.SettleItem(seq_number=each.seq_number, lock_token=each.lock_token) for each in messages
    ]
    if not items:
        return []
    try:
        reply = await handle.call(wire.RenewBatchRequest(queue=queue, messages=items))
    except (Unsupported, WorldError):
        now_ms = handle.now_ms()
        return [each for each in messages if each.locked_until_ms > now_ms]
    return [
        replace(each, locked_until_ms=result.locked_until_ms)
        for each, result in zip(messages, reply.results, strict=True)
        if result.ok
    ]
