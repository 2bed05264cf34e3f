"""An application on an address: bind, serve, and stop when told. Shared by `serve.py` and
`embedding.py`.

Called with an application whose engine is open; closes neither. The listeners are bound before
anything is said to be ready, and belong to `host` from then on.
"""

from __future__ import annotations

import errno
import ssl
from collections.abc import Sequence
from typing import Final, NamedTuple

import trio

from mqlite_actor.contract.errors import InvalidArgument, OpenError
from mqlite_broker import lane_watch
from mqlite_broker.app import BrokerApp
from mqlite_broker.door import Door, DoorLimits, serve_door
from mqlite_broker.settings import Settings

NEAR: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  # not bound
"""By what means every address of a kind, the one of this machine. One on `::` takes no IPv4."""


class Base(NamedTuple):
    """Where a bound broker is reached from this machine."""

    host: str
    port: int
    url: str


async def bind(settings: Settings) -> list[trio.SocketListener]:
    """Listeners on the address of the settings; OpenError or InvalidArgument in one line."""
    try:
        return await trio.open_tcp_listeners(settings.port, host=settings.host or None)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise OpenError(
                f"{settings.address} is in use by another program; stop it or choose another --addr"
            ) from error
        raise InvalidArgument(f"cannot listen on {settings.address}: {error.strerror}") from error


async def host(
    app: BrokerApp,
    listeners: Sequence[trio.SocketListener],
    *,
    tls: ssl.SSLContext | None,
    stopping: trio.Event,
    poll_seconds: float = 0.0,
    task_status: trio.TaskStatus[Base] = trio.TASK_STATUS_IGNORED,
) -> int:
    """Serve until `stopping` is set; how many requests were cut then. Started with the base address
    once connecting succeeds.

    Whoever sets `stopping` also ends the application's visit, so that no poll is waited for.
    Cancelled, everything is closed at once.
    """
    has_lane = app.settings.has_lane and lane_watch.IS_POSSIBLE and tls is None
    base = base_of(app.settings, listeners, "https" if tls else "http")
    cut = 0
    async with trio.open_nursery() as nursery:

        @trio.lowlevel.enable_ki_protection
        async def door(task_status: trio.TaskStatus[Door]) -> None:
            nonlocal cut
            cut = await serve_door(
                app,
                listeners,
                limits=DoorLimits(
                    connections_max=app.settings.connections_max, poll_seconds=poll_seconds
                ),
                tls=tls,
                rpc=app.rpc if has_lane else None,
                stopping=stopping,
                task_status=task_status,
            )

        await nursery.start(door)
        task_status.started(base)
    return cut


def base_of(settings: Settings, listeners: Sequence[trio.SocketListener], scheme: str) -> Base:
    """Where bound listeners are reached."""
    port = listeners[0].socket.getsockname()[1]
    name = NEAR.get(settings.host, settings.host)
    shown = f"[{name}]" if ":" in name else name
    return Base(name, port, f"{scheme}://{shown}:{port}")
