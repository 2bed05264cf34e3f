"""A program at a link that stops at a known place, says so, and waits to be killed.

`python link_worker.py PATH PHASE`; the phases are the functions of PHASES.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Awaitable, Callable

import trio
import trio.testing

from mqlite_actor.contract import wire
from mqlite_actor.link import frames
from mqlite_actor.sdk.linked import open_link

Phase = Callable[[str], Awaitable[None]]


async def stand_still() -> None:
    print("here", flush=True)
    await trio.sleep_forever()


async def waiting(path: str) -> None:
    """In a long poll that found nothing."""
    async with open_link(path) as q, trio.open_nursery() as nursery:
        nursery.start_soon(lambda: q.receive("empty", wait=20))
        await trio.testing.wait_all_tasks_blocked()
        await q.stats("q")  # a later call that was answered: the poll is there too
        await stand_still()


async def unconfirmed(path: str) -> None:
    """With messages in its hand that it has not confirmed."""
    with socket.socket(socket.AF_UNIX) as plain:
        plain.connect(path)
        request = wire.ReceiveRequest(queue="q", max_messages=2)
        plain.sendall(frames.frame([frames.hello(), frames.encoded_ask(1, request)]))
        reader, heard = frames.Frames(is_upward=False), 0
        while heard < 2:
            heard += len(list(reader.feed(plain.recv(65536))))
        await stand_still()


async def held(path: str) -> None:
    """With messages that it works on."""
    async with open_link(path) as q:
        assert len(await q.receive("q", max_messages=2)) == 2
        await stand_still()


async def settled(path: str) -> None:
    """With one message completed and one in hand."""
    async with open_link(path) as q:
        first, _ = await q.receive("q", max_messages=2)
        await first.complete()
        await stand_still()


async def amid(path: str) -> None:
    """In the middle of the frame of a send."""
    with socket.socket(socket.AF_UNIX) as plain:
        plain.connect(path)
        request = wire.SendRequest(queue="q", messages=[wire.Message(body=b"half")])
        data = frames.frame([frames.hello(), frames.encoded_ask(1, request)])
        plain.sendall(data[:-1])
        await stand_still()


PHASES: dict[str, Phase] = {
    phase.__name__: phase for phase in (waiting, unconfirmed, held, settled, amid)
}

if __name__ == "__main__":
    trio.run(PHASES[sys.argv[2]], sys.argv[1])
