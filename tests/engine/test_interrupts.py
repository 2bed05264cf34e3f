"""Ctrl-C in a trio program: it lands in the program's own code, and the engine closes in order.

One test looks at every frame of engine and link that a busy scene runs through; the other
interrupts that scene at moments spread over it. Both watch calls with a profile function, and both
run trio themselves, since the interrupt ends the run.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType

import pytest
import trio

from mqlite_actor.contract import wire
from mqlite_actor.engine import interrupts
from mqlite_actor.link.listening import bound, serve_links
from mqlite_actor.sdk.embedded import Embedded, open_embedded
from mqlite_actor.sdk.handle import Handle
from mqlite_actor.sdk.linked import open_link
from tests.link.peer import short_path

OURS = tuple(str(Path(interrupts.__file__).parents[1] / each) for each in ("engine", "link"))

QUEUES = ("near", "far", "near-empty", "far-empty")

MOMENTS = range(200, 5_000, 700)
"""Calls of ours before the interrupt: from the opening to the middle of the scene's traffic."""


@contextmanager
def watching(
    look: Callable[[FrameType], None], *, within: tuple[str, ...] = OURS
) -> Iterator[None]:
    """Every call of a function of engine or link in this thread is looked at, or of other folders
    of ours."""

    def called(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(within) and code.co_name != "<module>":
            look(frame)

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        yield
    finally:
        sys.setprofile(before)


class Traffic:
    """What tasks of a program did: bodies that were acknowledged, and those that were completed or
    about to be."""

    def __init__(self) -> None:
        self.sent: set[bytes] = set()
        self.taken: set[bytes] = set()

    async def round(self, q: Handle, queue: str) -> None:
        """Messages come and go, a receive waits, and one that waits is cancelled."""
        for _ in range(3):
            body = f"{queue} {len(self.sent)}".encode()
            await q.send_one(queue, body)
            self.sent.add(body)
        for message in await q.receive(queue, max_messages=2, wait=1):
            self.taken.add(bytes(message.body))
            await message.complete()
        with trio.move_on_after(0.001):
            await q.receive(f"{queue}-empty", wait=5)
        await q.stats(queue)
        await q.peek(queue)

    async def transactions(self, q: Embedded, queue: str) -> None:
        async with q.tx() as tx:
            await tx.send_one(queue, b"in a transaction")
        with trio.CancelScope() as scope:
            async with q.tx(seconds=5) as tx:
                await tx.send_one(queue, b"rolled back")
                scope.cancel()
        await q.run_tx(lambda tx: tx.send_one(queue, b"in a plain function"))


async def repeat(function: Callable[[], Awaitable[None]], rounds: int) -> None:
    for _ in range(rounds):
        await function()


async def scene(folder: Path, traffic: Traffic, *, rounds: int) -> None:
    """A program with an engine, its link, and tasks at both."""
    async with open_embedded(f"file:{folder}/mq.db") as q:
        for each in QUEUES:
            await q.create_queue(each)
        with short_path() as path, bound(path) as listener:
            async with trio.open_nursery() as nursery:
                stopping = trio.Event()
                serve = partial(serve_links, stopping=stopping, grace_seconds=1)
                nursery.start_soon(serve, listener, q.engine)
                async with open_link(path) as linked, trio.open_nursery() as tasks:
                    tasks.start_soon(repeat, partial(traffic.round, q, "near"), rounds)
                    tasks.start_soon(repeat, partial(traffic.round, linked, "far"), rounds)
                    tasks.start_soon(repeat, partial(traffic.transactions, q, "near"), rounds)
                stopping.set()
        await q.redrive("near")
        await q.compact()
        await q.run_maintenance()
        await q.engine.call(wire.StatusRequest())


async def stored(folder: Path) -> set[bytes]:
    """What is in the queues, which no other engine holds any more."""
    async with open_embedded(f"file:{folder}/mq.db") as q:
        found = [await q.peek(each, max_messages=1000) for each in QUEUES]
    return {bytes(message.body) for messages in found for message in messages}


def only(error: BaseException) -> BaseException:
    """What is in nested groups of one."""
    while isinstance(error, BaseExceptionGroup):
        assert len(error.exceptions) == 1, error.exceptions
        error = error.exceptions[0]
    return error


def test_no_moment_of_engine_or_link_is_open_to_an_interrupt(tmp_path: Path) -> None:
    open_to_it: set[str] = set()
    seen: set[str] = set()

    def look(frame: FrameType) -> None:
        seen.add(frame.f_code.co_qualname)
        if not trio.lowlevel.currently_ki_protected():
            open_to_it.add(frame.f_code.co_qualname)

    with watching(look):
        trio.run(partial(scene, tmp_path, Traffic(), rounds=1))
    assert open_to_it == set()
    assert {"Actor.run", "Hold.end", "Link._take", "ServedLink._run_one"} <= seen


def test_an_interrupt_at_any_moment_ends_the_program_in_order(tmp_path: Path) -> None:
    traffic = Traffic()
    for moment in MOMENTS:
        left = moment

        def look(_: FrameType) -> None:
            nonlocal left
            left -= 1
            if not left:
                signal.raise_signal(signal.SIGINT)

        with watching(look), pytest.raises((KeyboardInterrupt, BaseExceptionGroup)) as raised:
            trio.run(partial(scene, tmp_path, traffic, rounds=1_000))
        assert isinstance(only(raised.value), KeyboardInterrupt), raised.value
    assert traffic.sent - traffic.taken <= trio.run(stored, tmp_path)
