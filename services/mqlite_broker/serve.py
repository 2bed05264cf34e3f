"""`mqlite serve`: open, announce, bind, serve, stop in order.

Called by the command line with checked settings; owns signals and the exit code. The order is the
contract's: the file before the port, the ready line only after the bind (spec/tools.md 1.3, 5.1).
The first SIGTERM or SIGINT closes the listeners, answers every long poll with an empty list and
lets running requests finish within the grace period; a second one ends at once.
"""

from __future__ import annotations

import errno
import logging
import signal
import sys
from collections.abc import Sequence
from typing import Final

import trio

from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import InvalidArgument, MqliteError, OpenError, Unsupported
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine
from mqlite_actor.engine.sweeper import Retention
from mqlite_actor.sdk.address import StoreKind, masked, parse_store
from mqlite_actor.version import __version__
from mqlite_broker import logs
from mqlite_broker.app import BrokerApp
from mqlite_broker.door import Door, DoorLimits, serve_door
from mqlite_broker.settings import Settings

_log = logging.getLogger("mqlite.broker")

FORCED: Final = 130
"""Exit code after a second signal."""


def run(settings: Settings) -> int:
    """Serve until a signal; the exit code: 0 stopped in order, 1 refused or cut, 130 forced."""
    logs.set_up(settings.log_level, settings.log_format)
    try:
        return trio.run(_serve, settings)
    except (MqliteError, OSError) as error:
        reason = error.message if isinstance(error, MqliteError) else str(error)
        line = logs.printable(reason)
        print(f"error: {line}", file=sys.stderr)  # noqa: T201  # the one line of a refusal
        return 1


class _Stopping:
    """The two stages of the end."""

    __slots__ = ("asked", "forced")

    def __init__(self) -> None:
        self.asked = trio.Event()
        self.forced = False


async def _serve(settings: Settings) -> int:
    options = EngineOptions(
        synchronous=settings.synchronous,
        message_bytes_max=settings.message_bytes_max,
        room_seconds=limits.MAILBOX_WAIT_SECONDS,
        inline=True,
        retention=Retention(
            settings.dlq_max_age_ms, settings.dlq_max_count, settings.dlq_max_bytes
        ),
        # Whoever may manage queues must not write wherever this process may.
        backup_folder=settings.backup_dir,
    )
    location = _store(settings.db)
    for warning in settings.warnings:
        _log.warning("%s", warning)
    stopping = _Stopping()
    async with open_engine(location, options) as engine:
        _announce(settings, location)
        listeners = await _bind(settings)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_watch_signals, stopping, engine, nursery.cancel_scope)
            cut = await _serve_door(engine, settings, listeners, stopping)
            nursery.cancel_scope.cancel()
    if stopping.forced:
        return FORCED
    logs.line(_log, logging.INFO, "stopped", ("cut", cut))
    return 1 if cut else 0


async def _serve_door(
    engine: Engine,
    settings: Settings,
    listeners: Sequence[trio.SocketListener],
    stopping: _Stopping,
) -> int:
    app = BrokerApp(engine, settings)
    cut = 0
    async with trio.open_nursery() as nursery:

        async def door(task_status: trio.TaskStatus[Door]) -> None:
            nonlocal cut
            cut = await serve_door(
                app,
                listeners,
                limits=DoorLimits(),
                stopping=stopping.asked,
                task_status=task_status,
            )

        await nursery.start(door)
        _announce_ready(settings, listeners)
    return cut


async def _watch_signals(stopping: _Stopping, engine: Engine, everything: trio.CancelScope) -> None:
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for number in signals:
            name = signal.Signals(number).name
            if stopping.asked.is_set():
                logs.line(_log, logging.WARNING, "forced to stop", ("signal", name))
                stopping.forced = True
                everything.cancel()
                return
            logs.line(_log, logging.INFO, "stopping", ("signal", name))
            stopping.asked.set()
            engine.stop_waiting()


# -- opening ---------------------------------------------------------------------------------------


def _store(text: str) -> str:
    store = parse_store(text, bare_paths=True)
    if store.kind is StoreKind.REMOTE:
        raise Unsupported("this version serves local stores only: file:PATH or :memory:")
    return ":memory:" if store.kind is StoreKind.MEMORY else f"file:{store.location}"


async def _bind(settings: Settings) -> list[trio.SocketListener]:
    try:
        return await trio.open_tcp_listeners(settings.port, host=settings.host or None)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise OpenError(
                f"{settings.address} is in use by another program; stop it or choose another --addr"
            ) from error
        raise InvalidArgument(f"cannot listen on {settings.address}: {error.strerror}") from error


# -- what the start says ---------------------------------------------------------------------------


def _announce(settings: Settings, location: str) -> None:
    logs.line(
        _log,
        logging.INFO,
        "mqlite broker",
        ("version", __version__),
        ("addr", settings.address),
        ("db", masked(location)),
        ("sync", settings.synchronous.upper()),
        ("backend", "memory" if location == ":memory:" else "local"),
    )
    if settings.tokens is None:
        reach = "this machine" if settings.is_loopback else "anyone on the network"
        _log.warning("authentication is off: open to %s", reach)
    elif settings.is_token_generated:
        token = settings.tokens[0]
        logs.line(_log, logging.INFO, "generated an administrator token", ("token", token))
    else:
        number = len(settings.tokens)
        logs.line(_log, logging.INFO, "administrator tokens from MQLITE_TOKENS", ("n", number))
    logs.line(_log, logging.INFO, "cross-origin requests", ("cors", settings.cors or "off"))


def _announce_ready(settings: Settings, listeners: Sequence[trio.SocketListener]) -> None:
    port = listeners[0].socket.getsockname()[1]
    everywhere = ("", "0.0.0.0", "::")  # noqa: S104  # compared with, not bound
    host = "127.0.0.1" if settings.host in everywhere else settings.host
    base = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    credential = "-H 'Authorization: Bearer TOKEN' " if settings.tokens else ""
    logs.line(_log, logging.INFO, "ready", ("url", base))
    _log.info("try: curl %s-X POST %s/mqlite.v1.AdminService/ListQueues", credential, base)
