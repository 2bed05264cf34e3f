"""`--link-socket`: programs of this machine beside the HTTP clients, on a Unix socket.

`serve.py` makes the socket before it binds the port, so that a start whose path is taken is refused
before anybody is served, and serves links beside the door. What travels there is the floor below's
business (`mqlite_actor/link`); here is only when it begins and ends.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import trio

from mqlite_actor.contract import limits
from mqlite_actor.engine.engine import Engine
from mqlite_actor.link.listening import bound, serve_links
from mqlite_actor.logs import logger
from mqlite_broker import logs
from mqlite_broker.tally import Sums

_log = logger("mqlite.broker")


@contextmanager
def link_listener(path: str) -> Iterator[socket.socket | None]:
    """The socket at `path` for the length of a block, None for an empty path.

    Raises OpenError or InvalidArgument when it cannot be had; then nothing was changed.
    """
    if not path:
        yield None
        return
    with bound(path) as listener:
        logs.line(_log, logging.INFO, "link socket", ("path", path))
        yield listener


async def serve_local(
    listener: socket.socket | None, engine: Engine, sums: Sums, stopping: trio.Event
) -> None:
    """Serve programs until `stopping`, then what runs for GRACE_SECONDS more."""
    if listener is not None:
        await serve_links(
            listener,
            engine,
            stopping=stopping,
            grace_seconds=limits.GRACE_SECONDS,
            completed=sums.completed,
        )
