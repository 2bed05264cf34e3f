"""Why messages of a batch were not stored: refused for a used id, or wanted by nobody.

Asked by `Handle.send`, in the words of whoever may send and no more. The messages in question are
sent once more, each answered for itself: what was refused is refused again, and an id that has come
free by now is stored after all. An older broker answers for a single message only.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import DedupConflict, MqliteError, Unsupported
from mqlite_actor.contract.ext import SendResultRequest, SlotOutcome
from mqlite_actor.sdk import requests
from mqlite_actor.sdk.replays import Caller

LOOKS_MAX = 8
"""Calls to an older broker, one for each message: a batch may hold thousands that nobody wants."""


async def refused(
    handle: Caller, request: wire.SendRequest, numbers: list[int], asked: Sequence[int]
) -> tuple[list[int], str]:
    """The numbers of the batch, and why those at `asked` are zeros, "" where nobody wanted them. An
    error of the look does not hide the answer, because the rest is stored."""
    again = replace(request, messages=[request.messages[index] for index in asked])
    try:
        return await _each(handle, again, numbers, asked)
    except Unsupported:
        return await _one_by_one(handle, request, numbers, asked[:LOOKS_MAX])
    except MqliteError as error:
        return numbers, requests.doubt(error)


async def _each(
    handle: Caller, again: wire.SendRequest, numbers: list[int], asked: Sequence[int]
) -> tuple[list[int], str]:
    told = SendResultRequest(
        queue=again.queue,
        messages=again.messages,
        scheduled_enqueue_time_ms=again.scheduled_enqueue_time_ms,
        ttl_ms=again.ttl_ms,
    )
    reason = ""
    slots = (await handle.call(told)).results
    for index, message, slot in zip(asked, again.messages, slots, strict=True):
        numbers[index] = slot.seq_number
        if slot.outcome is SlotOutcome.CONFLICT:
            reason = reason or requests.used(message)
    return numbers, reason


async def _one_by_one(
    handle: Caller, request: wire.SendRequest, numbers: list[int], asked: Sequence[int]
) -> tuple[list[int], str]:
    for index in asked:
        single = replace(request, messages=[request.messages[index]])
        try:
            (numbers[index],) = (await handle.call(single)).seq_numbers or [0]
        except DedupConflict as error:
            return numbers, error.message
        except MqliteError as error:
            return numbers, requests.doubt(error)
    return numbers, ""
