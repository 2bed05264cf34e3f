"""The end of an engine whose store is far away and may be silent: bounded, whatever it waits for.

Called by the engine, which runs its actor in here, and by whoever opens the store. What is in the
storage thread cannot be cancelled, and on a dead database it tries for half a minute; so once the
end is near, an opening or a group that takes longer than LEAVE_SECONDS, or a caller's transaction
longer than any may, has the store cut off under it. What is cut off ends as it would after its
patience: nothing was done, or nobody knows (`hrana.py`). A store of this machine is never cut.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar, cast

import outcome
import trio

from mqlite_actor.contract import limits
from mqlite_actor.engine.actor import Actor
from mqlite_actor.engine.outbox import Hold
from mqlite_actor.engine.thread import run_apart
from mqlite_actor.storage.store import DistantStore, Store

T = TypeVar("T")


class _Step:
    """One step of an opening in its thread, and how to end it."""

    __slots__ = ("_end", "_is_given_up", "is_over")

    def __init__(self) -> None:
        self._end: Callable[[], None] | None = None
        self._is_given_up = False
        self.is_over = trio.Event()

    def dialled(self, end: Callable[[], None]) -> None:
        """Called in the thread when there is something to end."""
        self._end = end
        if self._is_given_up:
            end()

    @trio.lowlevel.enable_ki_protection
    async def watch(self) -> None:
        """Once whoever opens is cancelled, give the database LEAVE_SECONDS more."""
        try:
            await self.is_over.wait()
        except trio.Cancelled:  # raised again at whoever opens, once the thread has ended
            with trio.move_on_after(limits.LEAVE_SECONDS, shield=True):
                await self.is_over.wait()
                return
            self._is_given_up = True
            if self._end is not None:
                self._end()

    @trio.lowlevel.enable_ki_protection
    async def taken(self, step: Callable[[], T]) -> T:
        """Run it to its end. An error behind a cancellation is taken for its effect."""
        await trio.lowlevel.checkpoint_if_cancelled()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.watch)
            with trio.CancelScope(shield=True):
                ended = await outcome.acapture(run_apart, step)
            self.is_over.set()
        if isinstance(ended, outcome.Error):
            await trio.lowlevel.checkpoint_if_cancelled()
        return ended.unwrap()


async def open_to_its_end(opening: Callable[..., Store]) -> Store:
    """What `opening(on_dial=…)` opens, in a thread that is never left behind: a file half opened
    would keep its lock. Raises what it raises; cancelled if that was because of a cancellation."""
    own = _Step()
    return await own.taken(partial(opening, on_dial=own.dialled))


async def begin_to_its_end(store: Store, step: Callable[[], T]) -> T:
    """The same for a step on a store that is open and serves nobody yet."""
    own = _Step()
    if store.backend.is_remote:
        own.dialled(cast("DistantStore", store).cut)
    return await own.taken(step)


@trio.lowlevel.enable_ki_protection
async def run_to_its_end(actor: Actor, store: Store) -> None:
    """`Actor.run`. Raises what it raises."""
    if not store.backend.is_remote:
        await actor.run()
        return
    far = cast("DistantStore", store)
    with trio.CancelScope(shield=True):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_cut_off, actor, far)
            await actor.run()
            nursery.cancel_scope.cancel()


@trio.lowlevel.enable_ki_protection
async def close_store(store: Store) -> None:
    """`Store.close`, in a thread and not cancelled; a distant one has a moment to say good-bye."""
    with trio.CancelScope(shield=True):
        if not store.backend.is_remote:
            try:
                await run_apart(store.close)
            except RuntimeError:  # no thread is to be had, and the file has to be free
                store.close()
            return
        async with trio.open_nursery() as nursery:
            cut = partial(_cut_after, cast("DistantStore", store), limits.GOODBYE_SECONDS)
            nursery.start_soon(cut)
            await run_apart(store.close)
            nursery.cancel_scope.cancel()


@trio.lowlevel.enable_ki_protection
async def _cut_off(actor: Actor, store: DistantStore) -> None:
    """Let nothing wait for the store for too long once the end is near."""
    await actor.leaving.wait()
    while True:
        busy = actor.busy_with
        is_lent = bool(busy) and isinstance(busy[0].request, Hold)
        most = limits.TX_SECONDS if is_lent else limits.LEAVE_SECONDS
        left = most - (trio.current_time() - actor.busy_since if busy else 0.0)
        if left <= 0:
            store.cut()
            return
        await trio.sleep(left)


@trio.lowlevel.enable_ki_protection
async def _cut_after(store: DistantStore, seconds: float) -> None:
    await trio.sleep(seconds)
    store.cut()
