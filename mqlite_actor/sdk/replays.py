"""A claim under an attempt id: asked again when its answer was lost, and looked at then.

Called by `Handle.receive` and `consume`; `claiming`, which repeats by rules of its own, shares the
look. The answer to a claim that is repeated under its attempt id is that of the first try, word for
word, however long ago that was, and others may have the messages by now. So their leases are
renewed first. Where that cannot be had, from an older broker or on a bad line, the time of the
broker has to do, which a handle knows early, never late. What was removed as it was handed out has
no lease to look at: the repetition is the only copy, and is handed out whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol, TypeVar

from msgspec.structs import replace

from mqlite_actor.clock import SystemClock
from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import MqliteError, OutcomeUnknown, Unsupported, WorldError
from mqlite_actor.sdk import exchange

R = TypeVar("R")


class Caller(Protocol):
    """What a handle is to this module."""

    async def call(self, request: wire.Request[R], /) -> R: ...

    def now_ms(self) -> int: ...


Guard = Callable[[str, Sequence[wire.Message], str], AbstractAsyncContextManager[None]]
"""Makes the block in which a claim is on its way to whoever gets it (`handing.guarded`)."""


class Claim(NamedTuple):
    """What a claim brought."""

    held: Sequence[wire.Message]
    """To be handed out."""
    was_empty: bool
    """Whether there was nothing to take. What was found and is held no longer is not in `held`."""


async def claimed(
    handle: Caller,
    request: wire.ReceiveRequest,
    guard: Guard,
    *,
    repeats: type[MqliteError] = OutcomeUnknown,
) -> Claim:
    """Claim under an attempt id; after an error of `repeats` once more, for the rest of its wait.

    Raises what the last try raises, but OutcomeUnknown where it leaves open what became of the
    first. Cancelled, what had come is given back by the guard.
    """
    clock = SystemClock()
    ends = clock.monotonic() + request.wait_time_ms / 1000
    is_repeated = False
    try:
        found: Sequence[wire.Message] = (await handle.call(request)).messages
    except repeats as error:
        left_ms = max(0, int(1000 * (ends - clock.monotonic())))
        again = replace(request, wait_time_ms=min(request.wait_time_ms, left_ms))
        found = await _repeated(handle, again, error)
        is_repeated = True
    held = found
    if any(each.lock_token for each in found):
        async with guard(request.queue, found, request.receive_attempt_id):
            if is_repeated:
                held = await still_held(handle, request.queue, found)
    return Claim(held, not found)


async def _repeated(
    handle: Caller, request: wire.ReceiveRequest, first: MqliteError
) -> Sequence[wire.Message]:
    try:
        return (await handle.call(request)).messages
    except MqliteError as error:
        is_doubtful = isinstance(first, OutcomeUnknown)
        unknown = exchange.unknown_since(request, error) if is_doubtful else None
        if unknown is None:
            raise
        raise unknown from error


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
