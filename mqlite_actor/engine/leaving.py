"""The end of an engine whose store is far away and may be silent: bounded, whatever it waits for.

Called by the engine, which runs its actor in here, and by whoever opened the store. A group that is
in the storage thread cannot be cancelled, and one on a dead database tries for half a minute; so
once the end is near, a group that takes longer than LEAVE_SECONDS, or a caller's transaction longer
than any may, has the store cut off under it. What is cut off ends as it would after its patience:
nothing was done, or nobody knows (`hrana.py`). A store of this machine is never cut.
"""

from __future__ import annotations

from functools import partial
from typing import cast

import trio

from mqlite_actor.contract import limits
from mqlite_actor.engine.actor import Actor
from mqlite_actor.engine.outbox import Hold
from mqlite_actor.storage.store import DistantStore, Store


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
            await trio.to_thread.run_sync(store.close)
            return
        async with trio.open_nursery() as nursery:
            cut = partial(_cut_after, cast("DistantStore", store), limits.GOODBYE_SECONDS)
            nursery.start_soon(cut)
            await trio.to_thread.run_sync(store.close)
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
