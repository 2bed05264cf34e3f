"""A broker's link socket for every colour of program; the link itself lives in a trio run.

Called by `connect` and `connect_sync`; built on `linked` and, outside of trio, on `background`.
Rule: a receive whose caller left gives back what it had claimed, as everywhere.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, TypeVar

import trio

from mqlite_actor.contract import wire
from mqlite_actor.sdk.background import Background
from mqlite_actor.sdk.blocking import SyncHandle
from mqlite_actor.sdk.handle import Handle
from mqlite_actor.sdk.linked import Linked, open_link

R = TypeVar("R")


class AsyncioLinked(Handle):
    """A link for a program on asyncio, in a background trio thread."""

    __slots__ = ("_background",)

    def __init__(self, background: Background[Linked]) -> None:
        self._background = background

    async def call(self, request: wire.Request[R]) -> R:
        inner = self._background.inner
        return await self._background.call_async(
            partial(inner.call, request), undo=_undo_of(inner, request)
        )


class SyncLinked(SyncHandle):
    """The same for a program without a loop."""

    __slots__ = ("_background",)

    def __init__(self, background: Background[Linked]) -> None:
        super().__init__(self._ask)
        self._background = background

    @contextmanager
    def _lend(self) -> Iterator[Background[Any]]:
        yield self._background

    def _ask(self, request: wire.Request[R]) -> R:
        inner = self._background.inner
        return self._background.call(partial(inner.call, request), undo=_undo_of(inner, request))


def _undo_of(inner: Linked, request: wire.Request[R]) -> Callable[[R], Any] | None:
    if not isinstance(request, wire.ReceiveRequest) or request.receive_mode:
        return None
    queue, attempt = request.queue, request.receive_attempt_id

    async def give_back(reply: Any) -> None:  # noqa: ANN401  # the pair of a ReceiveRequest
        messages: Sequence[wire.Message] = reply.messages
        if messages:
            await inner.give_back(queue, messages, attempt_id=attempt)

    return give_back


@asynccontextmanager
async def open_linked(path: str) -> AsyncIterator[Handle]:
    """A link for the length of a block, under trio or asyncio."""
    if trio.lowlevel.in_trio_run():
        async with open_link(path) as linked:
            yield linked
        return
    background = Background(partial(open_link, path))
    await background.start_async()
    try:
        yield AsyncioLinked(background)
    finally:
        await background.close_async()


@contextmanager
def open_linked_sync(path: str) -> Iterator[SyncLinked]:
    """The same for a program without a loop."""
    background = Background(partial(open_link, path))
    background.start()
    try:
        yield SyncLinked(background)
    finally:
        background.close()
