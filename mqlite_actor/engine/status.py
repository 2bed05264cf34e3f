"""What an engine says of itself in one line: version, store, how many queues.

Called by `Engine.call` for the request of that name; the door adds whether it asks for credentials.
The location is fit for everybody's eyes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from mqlite_actor.clock import Clock
from mqlite_actor.contract.wire import StatusResponse
from mqlite_actor.engine import commands
from mqlite_actor.storage.schema import WIRE_SCHEMA_VERSION
from mqlite_actor.storage.store import Store
from mqlite_actor.version import __version__


async def status(
    store: Store, ask: Callable[[Any], Awaitable[Any]], clock: Clock, since: float
) -> StatusResponse:
    """How the store is now; `since` is when the engine started, on the monotonic clock."""
    started = clock.monotonic()
    queues, subscriptions = await ask(commands.CountEntities())
    ended = clock.monotonic()
    return StatusResponse(
        version=__version__,
        backend=store.backend.status,
        remote=store.backend.is_remote,
        location=store.location,
        schema_version=WIRE_SCHEMA_VERSION,
        ping_ms=int((ended - started) * 1000),
        db_size_bytes=store.size_bytes(),
        queues=queues,
        subscriptions=subscriptions,
        uptime_ms=int((ended - since) * 1000),
        auth=False,
    )
