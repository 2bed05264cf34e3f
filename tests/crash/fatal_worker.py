"""A broker, or a program with an engine in it, that dies at a chosen place.

`python -m tests.crash.fatal_worker POINT` is `python -m mqlite_broker` with its settings from the
environment; with PATH SYNCHRONOUS DEED behind it the process opens the file itself, does the deed
of DEEDS, and writes the lease that it holds to stdout. The test does the same deeds over HTTP.
"""

from __future__ import annotations

import faulthandler
import sys
from collections.abc import Awaitable, Callable
from typing import Final

import trio

import mqlite_broker.__main__
from mqlite_actor.contract import ext, limits, wire
from mqlite_actor.sdk.embedded import open_embedded
from mqlite_actor.sdk.handle import Handle
from tests.crash.fatal_vfs import MARK, install

Tell = Callable[[wire.SettleItem], None]
Deed = Callable[[Handle, Tell], Awaitable[None]]

PADDING: Final = bytes(100_000)

HANGS_SECONDS: Final = 25.0
"""It lives for a second; a process that does not die says where it stands."""


def marked_send() -> ext.SendResultRequest:
    """The same send whenever it is made."""
    message = wire.Message(body=MARK.encode())
    return ext.SendResultRequest(queue="q", messages=[message], request_id="of the marked one")


async def send(q: Handle, _tell: Tell) -> None:
    await q.call(marked_send())


async def publish(q: Handle, _tell: Tell) -> None:
    await q.call(wire.SendRequest(queue="topic", messages=[wire.Message(body=MARK.encode())]))


async def receive(q: Handle, _tell: Tell) -> None:
    await q.call(wire.ReceiveRequest(queue="held", receive_attempt_id=MARK))


def marked_reject(lease: wire.SettleItem) -> wire.RejectRequest:
    """The settlement whose reason is the mark."""
    return wire.RejectRequest("held", lease.seq_number, lease.lock_token, dead_letter_reason=MARK)


async def reject(q: Handle, tell: Tell) -> None:
    (message,) = (await q.call(wire.ReceiveRequest(queue="held"))).messages
    lease = wire.SettleItem(message.seq_number, message.lock_token)
    tell(lease)
    await q.call(marked_reject(lease))


async def send_on(q: Handle, tell: Tell) -> None:
    """Until the log is moved into the file."""
    await send(q, tell)
    for _ in range(2 * limits.LOG_PAGES_MAX):
        await q.call(wire.SendRequest(queue="padding", messages=[wire.Message(body=PADDING)]))


DEEDS: Final[dict[str, Deed]] = {
    deed.__name__: deed for deed in (send, publish, receive, reject, send_on)
}


async def embedded(path: str, synchronous: str, deed: str) -> None:
    def tell(lease: wire.SettleItem) -> None:
        print(lease.seq_number, lease.lock_token, flush=True)

    async with open_embedded(f"file:{path}", synchronous=synchronous) as q:
        await DEEDS[deed](q, tell)


if __name__ == "__main__":
    program, point, *words = sys.argv
    faulthandler.dump_traceback_later(HANGS_SECONDS, exit=True)
    install(point)
    if words:
        path, synchronous, deed = words
        trio.run(embedded, path, synchronous, deed)
    else:
        sys.argv = [program]
        sys.exit(mqlite_broker.__main__.main())
