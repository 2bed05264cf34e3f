"""The outbox of a link: what it says of the kernel is so."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import trio

from mqlite_actor.contract import limits
from mqlite_actor.link import frames
from mqlite_actor.link.frames import Cancel
from mqlite_actor.link.pipe import Pipe
from tests.engine.gate import bounded, settled, until

LARGE = bytes(1 << 20)
"""More than a Unix socket buffers."""


@pytest.fixture
def ends() -> Iterator[tuple[Pipe, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Pipe(ours), theirs


def drain(sock: socket.socket) -> None:
    sock.setblocking(False)
    while True:
        try:
            if not sock.recv(1 << 20):
                return
        except BlockingIOError:
            return


async def test_flushed_at_once_means_that_the_kernel_has_it_all(
    ends: tuple[Pipe, socket.socket],
) -> None:
    pipe, theirs = ends
    pipe.say(b"small")
    assert pipe.flush_now() is True
    assert (pipe.said, pipe.started, pipe.sent, pipe.unsent) == (1, 1, 1, 0)
    pipe.say(LARGE)
    assert pipe.flush_now() is False, "the kernel has a part of it"
    assert (pipe.said, pipe.started, pipe.sent) == (2, 2, 1)
    for _ in range(len(LARGE)):
        drain(theirs)
        if pipe.flush_now():
            break
    assert (pipe.sent, pipe.unsent) == (2, 0)


async def test_to_a_peer_that_left_nothing_is_flushed(ends: tuple[Pipe, socket.socket]) -> None:
    pipe, theirs = ends
    theirs.close()
    pipe.say(b"small")
    assert pipe.flush_now() is False
    assert pipe.is_deaf
    pipe.say(b"more")
    assert pipe.flush_now() is False
    assert pipe.unsent == 0, "nothing is kept for the deaf"


@pytest.mark.parametrize("leaves", [False, True])
async def test_flushed_waits_until_the_kernel_has_it_or_never_will(
    ends: tuple[Pipe, socket.socket], nursery: trio.Nursery, *, leaves: bool
) -> None:
    pipe, theirs = ends
    pipe.say(LARGE)
    nursery.start_soon(pipe.write)
    flushed: list[bool] = []

    async def flush() -> None:
        flushed.append(await pipe.flushed())

    with bounded():
        async with trio.open_nursery() as inner:
            inner.start_soon(flush)
            await settled()
            assert flushed == [], "the kernel has a part of it"
            if leaves:
                theirs.close()
            while not flushed:
                if not leaves:
                    drain(theirs)
                await settled()
    assert flushed == [not leaves]
    pipe.close()


async def test_a_frame_takes_what_waits_up_to_its_bound(ends: tuple[Pipe, socket.socket]) -> None:
    pipe, theirs = ends
    half = frames.encoded(Cancel(1)) + bytes(limits.LINK_ITEMS_BYTES // 2)
    for _ in range(3):
        pipe.say(half)
    pipe.flush_now()
    size = int.from_bytes(theirs.recv(frames.LENGTH_BYTES), "big")
    assert len(half) < size < 2 * len(half), "two would be over the bound"


async def test_after_the_last_bytes_the_peer_can_say_nothing_more(
    ends: tuple[Pipe, socket.socket],
) -> None:
    pipe, theirs = ends
    theirs.send(b"last words")
    assert b"".join(pipe.last_bytes()) == b"last words"
    with pytest.raises(BrokenPipeError):
        theirs.send(b"more")


# -- frames and ends -------------------------------------------------------------------------------


@contextmanager
def pair() -> Iterator[tuple[Pipe, socket.socket]]:
    ours, theirs = socket.socketpair()
    pipe = Pipe(ours)
    try:
        yield pipe, theirs
    finally:
        pipe.close()
        theirs.close()


async def test_a_frame_holds_as_many_items_and_bytes_as_it_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "LINK_ITEMS_MAX", 3)
    monkeypatch.setattr(limits, "LINK_ITEMS_BYTES", 10)
    with pair() as (pipe, _):
        for size in (1, 1, 1, 1, 5, 4, 6, 11, 1):
            pipe.say(bytes(size))
        counts = []
        while pipe._items:
            before = pipe.started
            pipe._next_frame()
            counts.append(pipe.started - before)
        assert counts == [3, 3, 1, 1, 1]


async def test_whose_peer_is_gone_says_so_and_keeps_nothing() -> None:
    with pair() as (pipe, theirs):
        theirs.send(b"last words")
        theirs.close()
        pipe.say(b"x" * 100)
        pipe.say(b"y" * 100)
        with bounded():
            assert await pipe.write() is False, "what it had sent can still be read"
        assert (pipe.is_deaf, pipe.unsent, len(pipe._items), bytes(pipe._rest)) == (True, 0, 0, b"")
        assert await pipe.receive() == b"last words"


async def test_a_writer_that_has_nothing_to_do_ends_with_its_pipe(nursery: trio.Nursery) -> None:
    for end in ("peer", "close"):
        with pair() as (pipe, theirs):
            results: list[object] = []

            async def write() -> None:
                results.append(await pipe.write())  # noqa: B023  # awaited in this round

            async def read() -> None:
                results.append(await pipe.receive())  # noqa: B023  # the same

            nursery.start_soon(write)
            nursery.start_soon(read)
            await settled()
            assert not results
            if end == "peer":
                theirs.close()
                pipe.say(b"x")
                assert not pipe.flush_now()
            else:
                pipe.close()
            await until(lambda: len(results) == 2)  # noqa: B023  # waited for in this round
            assert sorted(results, key=repr) == [False, b""]


async def test_a_closed_pipe_keeps_nothing_that_is_said() -> None:
    with pair() as (pipe, _):
        pipe.say(b"x" * 100)
        pipe.close()
        pipe.say(b"y")
        pipe.close()
        assert (pipe.is_deaf, pipe.unsent, len(pipe._items), pipe.flush_now()) == (
            True, 0, 0, False,
        )  # fmt: skip
