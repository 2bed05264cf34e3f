"""A stream socket with a bounded outbox: the transport of one link, alike at both ends.

Called by `server.py` and `client.py`; calls `frames` and the kernel. `say` never waits and may be
called from anywhere in the trio thread; one task (`run`) writes, so that items that come together
travel together. Rules: whoever takes nothing for LINK_STALL_SECONDS is given up; `flush_now` hands
to the kernel what it takes at once, for what must be out of this process before something else
happens.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import trio

from mqlite_actor.contract import limits
from mqlite_actor.link import frames

RECEIVE_BYTES: Final = 256 * limits.KIB
"""At once from the kernel: what a Unix socket buffers by default, and a little more."""


class Bell:
    """Wakes everybody who waits for something to have changed; they look again themselves."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = trio.Event()

    def ring(self) -> None:
        """Wake all who wait now."""
        self._event.set()
        self._event = trio.Event()

    async def wait(self) -> None:
        """Until the next ring."""
        await self._event.wait()


class Pipe:
    """One connected socket. `unsent`: bytes said that the kernel has not taken whole.

    `is_deaf`: nothing more can be said to the peer, because it left, stalled, or this side closed;
    what it had sent before can still be read.
    """

    __slots__ = ("_bell", "_items", "_rest", "_sock", "_weight", "_work", "is_deaf", "said",
                 "sent", "started", "unsent")  # fmt: skip

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._bell = Bell()  # rung when the kernel took something
        self._work = Bell()  # rung when there is something to write
        self._items: deque[bytes] = deque()
        self._rest = memoryview(b"")  # of the frame that is being written
        self._weight = 0  # of the items in that frame
        self.unsent = 0
        self.said = 0  # items, counted
        self.started = 0  # those of which the kernel may have seen something
        self.sent = 0  # those that it has whole
        self.is_deaf = False

    # -- writing -----------------------------------------------------------------------------------

    def say(self, item: bytes) -> int:
        """Queue an item; its number, to be compared with `started`. Nothing is kept for the
        deaf."""
        self.said += 1
        if not self.is_deaf:
            self._items.append(item)
            if not self.unsent:
                self._work.ring()
            self.unsent += len(item)
        return self.said

    def flush_now(self) -> bool:
        """Hand over what the kernel takes without waiting; whether that is everything."""
        while self.unsent and self._push():
            pass
        return not self.is_deaf and not self.unsent

    async def flushed(self) -> bool:
        """Wait until the kernel has everything said so far; False if it never will."""
        mark = self.said
        self.flush_now()
        while self.sent < mark and not self.is_deaf:
            await self._bell.wait()
        return self.sent >= mark

    @property
    def has_room(self) -> bool:
        """Whether at most LINK_UNSENT_BYTES wait to be written; for the deaf nothing does."""
        return self.unsent <= limits.LINK_UNSENT_BYTES

    async def room(self) -> None:
        """Wait for that. One at a time should wait: each thing that the kernel takes wakes all."""
        while not self.has_room:
            await self._bell.wait()

    async def write(self) -> bool:
        """Write what is said, until the peer is gone (False: what it had sent can still be read) or
        took nothing for LINK_STALL_SECONDS (True: it may never end)."""
        while not self.is_deaf:
            if not self.unsent:
                await self._work.wait()
                await trio.lowlevel.checkpoint()  # what is said in this pass travels together
            elif not self._push():
                with trio.move_on_after(limits.LINK_STALL_SECONDS) as patience:
                    await trio.lowlevel.wait_writable(self._sock)
                if patience.cancelled_caught:
                    self._deafen()
                    return True
        return False

    def _push(self) -> bool:
        """One write; False if it got nowhere."""
        if not self._rest:
            self._rest = memoryview(self._next_frame())
        try:
            number = self._sock.send(self._rest)
        except BlockingIOError:
            return False
        except OSError:  # the peer left, which whoever reads learns too
            self._deafen()
            return False
        self._rest = self._rest[number:]
        if not self._rest:
            self.unsent -= self._weight
            self.sent = self.started
            self._bell.ring()
        return True

    def _next_frame(self) -> bytes:
        taken: list[bytes] = []
        self._weight = 0
        while self._items and len(taken) < limits.LINK_ITEMS_MAX:
            size = len(self._items[0])
            if taken and self._weight + size > limits.LINK_ITEMS_BYTES:
                break
            taken.append(self._items.popleft())
            self._weight += size
        self.started += len(taken)
        return frames.frame(taken)

    def _deafen(self) -> None:
        self.is_deaf = True
        self._items.clear()
        self._rest = memoryview(b"")
        self.unsent = 0
        self._bell.ring()
        self._work.ring()

    # -- reading -----------------------------------------------------------------------------------

    async def receive(self) -> bytes:
        """The next bytes; b"" at the end, however it came about."""
        while True:
            try:
                return self._sock.recv(RECEIVE_BYTES)
            except BlockingIOError:
                try:
                    await trio.lowlevel.wait_readable(self._sock)
                except trio.ClosedResourceError:
                    return b""
            except OSError:
                return b""

    def last_bytes(self) -> Iterator[bytes]:
        """Stop the peer from sending, then what had arrived before: nothing is sent after this, or
        the peer's write fails, so that both sides know what was said."""
        with suppress(OSError):  # the peer has closed already
            self._sock.shutdown(socket.SHUT_RD)
        while True:
            try:
                data = self._sock.recv(RECEIVE_BYTES)
            except OSError:
                return
            if not data:
                return
            yield data

    def close(self) -> None:
        """Close the socket; what was not written is dropped."""
        if self._sock.fileno() >= 0:
            self._deafen()
            trio.lowlevel.notify_closing(self._sock)
            self._sock.close()
