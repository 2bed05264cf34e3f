"""Threads that are all in use, or cannot be had: the engine goes on, and tells its caller."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest
import trio
import trio.testing

from mqlite_actor.contract import ext, limits
from mqlite_actor.contract.errors import Unavailable
from mqlite_actor.engine import leaving
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.meters import outcome_of
from mqlite_actor.engine.opening import open_engine
from mqlite_actor.engine.outbox import Hold
from mqlite_actor.engine.thread import StorageThread
from tests.engine.gate import bodies, bounded, sending, settled, until
from tests.engine.outbox_scene import nothing_is_there, shop
from tests.storage.foreign import start_holder, stop

T = TypeVar("T")


@contextmanager
def all_threads_in_use() -> Iterator[None]:
    """As a program with long work has them."""
    limiter = trio.to_thread.current_default_thread_limiter()
    borrowers = [object() for _ in range(int(limiter.total_tokens))]
    for each in borrowers:
        limiter.acquire_on_behalf_of_nowait(each)
    try:
        yield
    finally:
        for each in borrowers:
            limiter.release_on_behalf_of(each)


async def test_an_engine_needs_none_of_the_threads_that_its_program_has(tmp_path: Path) -> None:
    options = EngineOptions(background=False)
    with bounded(), all_threads_in_use():
        async with open_engine(f"file:{tmp_path}/a.db", options) as engine:
            q = await shop(engine)
            await q.send_one("q", b"a")
            await engine.call(ext.BackupRequest(path=f"{tmp_path}/copy.db"))
            await q.run_tx(lambda tx: tx.send_one("q", b"b"))
            await engine._keeper._move_log()
            assert engine._keeper.checkpoints == 1
    assert (tmp_path / "copy.db").exists()


@pytest.mark.parametrize("missing", range(5))
@pytest.mark.parametrize("is_lasting", [False, True], ids=["once", "from then on"])
async def test_a_thread_that_cannot_be_started_ends_a_transaction_and_not_the_engine(
    engine: Engine, missing: int, *, is_lasting: bool
) -> None:
    q = await shop(engine)
    asked = 0

    async def in_thread(function: Callable[..., T], *arguments: object) -> T:
        nonlocal asked
        asked += 1
        if asked > missing if is_lasting else asked == missing + 1:
            raise RuntimeError("can't start new thread")
        return await engine._actor.in_thread(function, *arguments)

    async def work() -> None:
        hold = Hold(engine._begin, in_thread, 5.0)
        await engine._submit(hold)
        is_commit = False
        try:
            await hold.call(sending("q", b"a"))
            is_commit = True
        finally:
            await hold.end(is_commit=is_commit)

    with bounded():
        try:
            await work()
        except Unavailable:
            assert missing == 0
            await nothing_is_there(q)
        except RuntimeError:
            assert missing in {1, 2}, "the step, or the commit"
            await nothing_is_there(q)
        else:
            assert missing >= 3, "only the rollback behind the commit"
            assert await bodies(engine, "q") == [b"a"]
            await q.send_one("q", b"the engine goes on")


async def test_a_transaction_that_got_no_thread_is_counted_once(engine: Engine) -> None:
    async def in_thread(*_: object) -> object:
        raise RuntimeError("can't start new thread")

    def counted() -> int:
        shown = engine._actor.storage_meter.shown()
        key = ("transaction", *outcome_of(Unavailable("")))
        return sum(
            each.duration.count
            for each in shown
            if (each.operation, each.outcome, each.error_code) == key
        )

    before = counted()
    with pytest.raises(Unavailable):
        await engine._submit(Hold(engine._begin, in_thread, 5.0))
    assert counted() == before + 1


async def test_a_store_is_closed_although_no_thread_can_be_started_for_it(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(_: object) -> None:
        raise RuntimeError("can't start new thread")

    options = EngineOptions(background=False)
    async with open_engine(str(store), options) as engine:
        await shop(engine)
        monkeypatch.setattr(leaving, "run_apart", refused)
    monkeypatch.undo()
    async with open_engine(str(store), options):  # else it is locked
        pass


async def test_groups_run_in_one_thread_which_ends_with_them() -> None:
    thread = StorageThread()
    served = {await thread.run(threading.get_ident) for _ in range(3)}
    assert len(served) == 1
    thread.close()
    assert not served & {each.ident for each in threading.enumerate()}


async def test_a_step_that_is_dialled_after_it_was_given_up_is_ended_at_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    step, ended = leaving._Step(), trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(step.watch)
        await settled()
        nursery.cancel_scope.cancel()
    assert autojump_clock.current_time() >= limits.LEAVE_SECONDS
    step.dialled(ended.set)
    assert ended.is_set()


async def test_a_function_whose_caller_left_while_its_transaction_could_not_begin_never_runs(
    engine: Engine, store: Path
) -> None:
    q = await shop(engine)
    ran: list[str] = []
    scope = trio.CancelScope()
    ended = trio.Event()

    async def work() -> None:
        with scope:
            await q.run_tx(lambda _: ran.append("it charged the card"))
        ended.set()

    holder = start_holder(store, "BEGIN IMMEDIATE")
    try:
        async with trio.open_nursery() as nursery:
            with bounded():
                nursery.start_soon(work)
                await until(lambda: bool(engine._actor.busy_with))
                scope.cancel()
    finally:
        stop(holder)
    assert ended.is_set()
    assert ran == []
    await nothing_is_there(q)
