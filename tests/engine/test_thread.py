"""The storage thread: everything that is handed over runs, in order, and nothing stays behind."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import trio

import mqlite_actor as mq
from mqlite_actor.contract.errors import Internal
from mqlite_actor.engine.thread import StorageThread


def _storage_threads() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name == "mqlite-storage"}


def _broken(_: object) -> None:
    raise AssertionError("a fault of ours")


async def test_a_result_and_an_exception_come_back() -> None:
    thread = StorageThread()
    try:
        assert await thread.run(divmod, 7, 2) == (3, 1)
        with pytest.raises(ZeroDivisionError):
            await thread.run(divmod, 7, 0)
        assert await thread.run(divmod, 9, 2) == (4, 1)
    finally:
        thread.close()


async def test_it_is_always_the_same_thread_and_not_the_loop_s() -> None:
    thread = StorageThread()
    try:
        idents = {await thread.run(threading.get_ident) for _ in range(20)}
    finally:
        thread.close()
    assert len(idents) == 1
    assert threading.get_ident() not in idents


async def test_what_has_begun_is_not_given_up_when_its_caller_is_cancelled() -> None:
    thread, begun, may_end = StorageThread(), trio.Event(), threading.Event()
    token, done = trio.lowlevel.current_trio_token(), []

    def work() -> str:
        token.run_sync_soon(begun.set)
        assert may_end.wait(15)
        return "done"

    async def ask(scope: trio.CancelScope) -> None:
        with scope:
            done.append(await thread.run(work))

    try:
        with trio.fail_after(15):
            async with trio.open_nursery() as nursery:
                scope = trio.CancelScope()
                nursery.start_soon(ask, scope)
                await begun.wait()
                scope.cancel()
                may_end.set()
    finally:
        thread.close()
    assert done == ["done"]


async def test_the_loop_goes_on_meanwhile() -> None:
    thread, may_end = StorageThread(), threading.Event()

    async def let_go() -> None:
        may_end.set()

    try:
        with trio.fail_after(15):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(thread.run, may_end.wait, 15)
                nursery.start_soon(let_go)
    finally:
        thread.close()


async def test_an_engine_leaves_no_thread_behind(tmp_path: Path) -> None:
    before = _storage_threads()
    async with mq.open_embedded(f"file:{tmp_path / 'mq.db'}") as q:
        await q.create_queue("q")
        (own,) = _storage_threads() - before
        assert own.daemon, "a program that cannot close ends all the same"
    assert not own.is_alive()
    assert _storage_threads() == before


async def test_neither_does_one_whose_writer_broke(tmp_path: Path) -> None:
    before = _storage_threads()
    with pytest.raises(AssertionError, match="a fault of ours"):
        async with mq.open_embedded(f"file:{tmp_path / 'mq.db'}") as q:
            await _break(q)
    assert _storage_threads() == before


async def _break(q: mq.Embedded) -> None:
    await q.create_queue("q")
    q.engine._actor._ran = _broken
    with pytest.raises(Internal):
        await q.send("q", [b"x"])


async def test_it_may_be_closed_unused_and_twice_and_used_again() -> None:
    before, thread = _storage_threads(), StorageThread()
    thread.close()
    for _ in range(2):
        assert await thread.run(int) == 0
        thread.close()
    thread.close()
    assert _storage_threads() == before
