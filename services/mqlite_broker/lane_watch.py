"""Tells when a client has closed its half of a connection, without reading from it.

`Lane` owns one `Watch`; every connection of the lane is under it from its first moment. The kernel
reports the end (EPOLLRDHUP) beside unread bytes, so that a client's leaving shows during a long
poll however much it has pipelined (faults.md B64), and nothing has to be read ahead or bounded for
it. Costs one system call per connection, none per request. Linux only; elsewhere there is no lane.
"""

from __future__ import annotations

import select
import sys
from typing import Final, Protocol

import trio

EVENTS_MAX: Final = 1024
"""Ends told by one look; more of them make another."""

IS_POSSIBLE: Final = sys.platform == "linux"


class Watched(Protocol):
    """Who wants to know."""

    def left(self) -> None:
        """Its client sends nothing more, and may be gone."""


class Watch:
    """All watched sockets, by descriptor."""

    __slots__ = ("_epoll", "_watched")

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._watched: dict[int, Watched] = {}

    def add(self, descriptor: int, watched: Watched) -> None:
        """From now on; an end that came before is told too."""
        self._epoll.register(descriptor, select.EPOLLRDHUP | select.EPOLLET)
        self._watched[descriptor] = watched

    def remove(self, descriptor: int) -> None:
        """Before its socket is closed or given away."""
        del self._watched[descriptor]
        self._epoll.unregister(descriptor)

    def look(self) -> None:
        """Tell everybody whose end the kernel knows of in this moment."""
        for descriptor, _ in self._epoll.poll(0, EVENTS_MAX):
            watched = self._watched.get(descriptor)
            if watched is not None:
                watched.left()

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """Tell whenever there is something to tell. Runs until cancelled."""
        while True:
            await trio.lowlevel.wait_readable(self._epoll.fileno())
            self.look()

    def close(self) -> None:
        """Once only, when nobody is watched any more."""
        self._epoll.close()
