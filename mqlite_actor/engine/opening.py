"""Opening an engine: for a block, or for a nursery of the caller's own.

Called by the embedded handle, the broker and the command line. The file is opened in a thread;
before anybody is served, every lease that a dead process left behind is ended. Whatever happens,
the file is closed and its lock released last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from functools import partial

import trio

from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import StorageFull
from mqlite_actor.engine import commands
from mqlite_actor.engine.disk import fewer
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.group import run_group
from mqlite_actor.engine.interrupts import block
from mqlite_actor.engine.leaving import begin_to_its_end, close_store, open_to_its_end
from mqlite_actor.storage.opening import open_any
from mqlite_actor.storage.store import Store


@trio.lowlevel.enable_ki_protection
async def run_engine(
    dsn: str,
    options: EngineOptions | None = None,
    *,
    task_status: trio.TaskStatus[Engine] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Open an engine, hand it out through `task_status`, run it until it is closed or cancelled.

    For `nursery.start`. Raises what opening raises; a crash of the writer ends the task with its
    cause. Cancelling it closes in order: commands that were let in still run.
    """
    options = options or EngineOptions()
    opening = partial(
        open_any,
        dsn,
        synchronous=options.synchronous,
        create=options.create,
        auth_token=options.auth_token,
    )
    store = await open_to_its_end(opening)
    store.leaves_log = options.leaves_log
    failure: BaseException | None = None
    try:
        recovered = await _recover(store, options)
        engine = Engine(store, options)
        engine.happened(recovered)
        try:
            await engine.run(task_status)
        except BaseExceptionGroup as group:
            failure = engine.crash or _single(group)
        finally:
            with trio.CancelScope(shield=True):  # a copy of a database in memory hangs on it
                await engine.backups.settled()
    finally:
        await close_store(store)
    if failure is not None:
        raise failure


async def _recover(store: Store, options: EngineOptions) -> Counter[tuple[str, str]]:
    """End the leases of a dead process, a slice per transaction, before anybody is served; what
    happened by it. Slices become smaller where a disk has no room for the log of so many rows."""
    events: Counter[tuple[str, str]] = Counter()
    table = commands.Table(commands.INTERNAL)
    limit = limits.RECOVERY_ROWS

    def step() -> bool:
        """Whether there may be more."""
        nonlocal limit
        result = run_group(store, table, [commands.Recover(limit=limit)], options.clock)
        try:
            found: int = result.outcomes[0].unwrap()
        except StorageFull:
            if limit == 1:
                raise
            limit = fewer(limit)
            return True
        events.update(result.events)
        return found >= limit

    while await begin_to_its_end(store, step):
        continue
    return events


@block
async def open_engine(dsn: str, options: EngineOptions | None = None) -> AsyncIterator[Engine]:
    """An engine for the length of a block. Leaving the block closes it in order.

    An error of the block comes out as it is, the same object, not wrapped in a group; a crash of
    the writer cancels the block and comes out as its cause.
    """
    engine: Engine | None = None
    failure: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            engine = await nursery.start(run_engine, dsn, options)
            try:
                yield engine
            except BaseException as error:
                failure = error
                raise
            finally:
                engine.close()
    except BaseExceptionGroup as group:
        crash = engine.crash if engine is not None else None
        failure = crash or failure or _single(group)
    if failure is not None:
        raise failure


def _single(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one exception in nested groups of one; else the group itself."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
