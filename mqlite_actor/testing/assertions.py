"""Assertions about what a queue holds, with a difference that can be read.

Used by tests of programs; calls the handle's `peek` and `stats`, so it changes nothing. Bodies are
compared as they are sent: bytes, text as UTF-8, anything else as JSON by value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from mqlite_actor.contract.wire import Message
from mqlite_actor.sdk import requests
from mqlite_actor.sdk.blocking import SyncHandle
from mqlite_actor.sdk.handle import Handle
from mqlite_actor.sdk.requests import Body

PAGE = 1000
"""Messages of one peek, which is the most."""


def assert_queue(
    q: SyncHandle, queue: str, *bodies: Body, state: str = "", in_order: bool = True
) -> None:
    """Assert that a queue holds exactly these bodies, of one state or (\"\") of any.

    AssertionError shows what is missing and what is there unasked, each with its state.
    """
    found: list[Message] = []
    while page := q.peek(queue, from_seq=_after(found), state=state, max_messages=PAGE):
        found += page
    _compare(queue, bodies, found, in_order=in_order)


async def assert_queue_async(
    q: Handle, queue: str, *bodies: Body, state: str = "", in_order: bool = True
) -> None:
    """The same for an async handle."""
    found: list[Message] = []
    while page := await q.peek(queue, from_seq=_after(found), state=state, max_messages=PAGE):
        found += page
    _compare(queue, bodies, found, in_order=in_order)


def _after(found: Sequence[Message]) -> int:
    return found[-1].seq_number + 1 if found else 0


def _compare(
    queue: str, bodies: Iterable[Body], found: Sequence[Message], *, in_order: bool
) -> None:
    wanted = [_comparable(*requests.payload(body)) for body in bodies]
    there = [_comparable(message.body, message.content_type) for message in found]
    missing, unasked = list(wanted), []
    for each, message in zip(there, found, strict=True):
        if each in missing:
            missing.remove(each)
        else:
            unasked.append(f"{each!r} ({message.state})")
    lines = [
        *(f"  missing: {each!r}" for each in missing),
        *(f"  not expected: {each}" for each in unasked),
    ]
    if not lines and in_order and there != wanted:
        lines = [f"  in another order: {there!r}"]
    if lines:
        raise AssertionError("\n".join([f"{queue} does not hold exactly that:", *lines]))


def _comparable(body: bytes, content_type: str) -> object:
    """JSON by its value, so that the order of keys does not matter."""
    if content_type == requests.JSON_TYPE:
        try:
            return msgspec.json.decode(body)
        except msgspec.DecodeError:
            return body
    return body
