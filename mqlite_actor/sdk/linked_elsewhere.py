"""A link for programs that do not run trio: it lives in a background trio thread.

Opened by `connect("unix:PATH")` under asyncio and by `connect_sync`. Any number of threads or tasks
may share the handle. A call that is cancelled is cancelled over there and waited for; a receive
whose caller left gives back what it had claimed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextlib import nullcontext as lent
from functools import partial
from typing import Any, TypeVar

import trio

from mqlite_actor.contract import wire
from mqlite_actor.engine.interrupts import block
from mqlite_actor.sdk.background import Background
from mqlite_actor.sdk.blocking import SyncHandle
from mqlite_actor.sdk.handing import undo_of
from mqlite_actor.sdk.handle import Handle
from mqlite_actor.sdk.linked import Linked, open_link

R = TypeVar("R")


class AsyncioLinked(Handle):
    """A handle on a link for tasks of asyncio, of whatever loop."""

    __slots__ = ("_background",)

    def __init__(self, background: Background[Linked]) -> None:
        self._background = background

    async def call(self, request: wire.Request[R]) -> R:
        inner = self._background.inner
        return await self._background.call_async(
            partial(inner.call, request), undo=undo_of(inner, request)
        )


class SyncLinked(SyncHandle):
    """A handle on a link for programs without a loop."""

    __slots__ = ("_background",)

    def __init__(self, background: Background[Linked]) -> None:
        super().__init__(self._ask, give_back=self._return)
        self._background = background

    def _lend(self) -> AbstractContextManager[Background[Any]]:
        return lent(self._background)

    def _ask(self, request: wire.Request[R]) -> R:
        inner = self._background.inner
        undo = undo_of(inner, request)
        return self._background.call(partial(inner.call, request), undo=undo, is_noted=undo is None)

    def _return(self, queue: str, messages: Sequence[wire.Message], *, attempt_id: str) -> None:
        inner = self._background.inner
        self._background.call(partial(inner.give_back, queue, messages, attempt_id=attempt_id))


@block
async def open_link_here(path: str) -> AsyncIterator[Handle]:
    """The link in this run of trio, or in a thread beside a loop of asyncio."""
    if trio.lowlevel.in_trio_run():
        async with open_link(path) as linked:
            yield linked
        return
    thread = Background(partial(open_link, path))
    await thread.start_async()
    try:
        yield AsyncioLinked(thread)
    finally:
        await thread.close_async()


@contextmanager
def open_link_sync(path: str) -> Iterator[SyncLinked]:
    """The link for the length of a block, for a program without a loop."""
    thread = Background(partial(open_link, path))
    thread.start()
    try:
        yield SyncLinked(thread)
    finally:
        thread.close()
