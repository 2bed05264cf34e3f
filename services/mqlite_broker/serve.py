"""`mqlite serve`: open, announce, bind, serve, stop in order.

Called by the command line with checked settings; owns signals and the exit code. The order is the
contract's: the file before the port, the ready line only after the bind (spec/tools.md 1.3, 5.1).
The first SIGTERM or SIGINT closes the listeners, answers every long poll with an empty list and
lets running requests finish within the grace period; a second one ends at once, unless it comes so
soon that it is the first one's echo. Serving itself is `hosting.py`, which `q.serve` shares.
"""

from __future__ import annotations

import logging
import signal
import ssl
import sys
from collections.abc import Sequence

import trio

from mqlite_actor.clock import SystemClock
from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import InvalidArgument, MqliteError
from mqlite_actor.engine.diagnostics import (
    BROKER,
    STARTED,
    STOPPED,
    DiagnosticsLog,
    Trouble,
    open_log,
)
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine
from mqlite_actor.engine.sweeper import Retention
from mqlite_actor.logs import logger
from mqlite_actor.sdk.address import parse_store, without_tokens
from mqlite_actor.sdk.stopping import StopSignals
from mqlite_actor.version import __version__
from mqlite_broker import (
    collector,
    descriptors,
    hosting,
    lane_poll,
    logs,
    standard_streams,
    tls,
    tokens,
    ui,
)
from mqlite_broker.app import BrokerApp
from mqlite_broker.link_socket import link_listener, serve_local
from mqlite_broker.settings import Settings
from mqlite_broker.tally import Sums
from mqlite_broker.tokens import Tokens
from mqlite_broker.workers import Workers

_log = logger("mqlite.broker")

Listeners = Sequence[trio.SocketListener]

FORCED = 130
"""Exit code after a second signal."""


def run(settings: Settings) -> int:
    """Serve until a signal; the exit code: 0 stopped in order, 1 refused or cut, 130 forced."""
    standard_streams.hold()
    lines = logs.set_up(settings.log_level, settings.log_format)
    try:
        return trio.run(_serve, settings, lines)
    except (MqliteError, OSError) as error:
        reason = error.message if isinstance(error, MqliteError) else str(error)
        line = without_tokens(logs.printable(reason))
        print(f"error: {line}", file=sys.stderr)  # noqa: T201  # the one line of a refusal
        return 1


class _Stopping:
    """The two stages of the end."""

    __slots__ = ("asked", "failure", "forced")

    def __init__(self) -> None:
        self.asked = trio.Event()
        self.forced = False
        self.failure: MqliteError | None = None


async def _serve(settings: Settings, lines: logs.Lines) -> int:
    store = parse_store(settings.db, bare_paths=True)
    context = tls.server_context(settings.tls_cert, settings.tls_key) if settings.tls_cert else None
    diagnostics = _diagnostics(settings)
    settings = descriptors.make_room(settings)
    for warning in settings.warnings:
        _log.warning("%s", warning)
    stopping = _Stopping()
    options = _options(settings, store.token, diagnostics)
    async with open_engine(store.dsn, options) as engine:
        _announce(settings, engine)
        cut = await _host(engine, settings, context, stopping, lines, diagnostics)
    if diagnostics is not None:
        _note(diagnostics, STOPPED, "forced" if stopping.forced else "")
    if stopping.failure is not None:
        raise stopping.failure
    if stopping.forced:
        return FORCED
    logs.line(_log, logging.INFO, "stopped", ("cut", cut))
    return 1 if cut else 0


async def _host(
    engine: Engine,
    settings: Settings,
    context: ssl.SSLContext | None,
    stopping: _Stopping,
    lines: logs.Lines,
    diagnostics: DiagnosticsLog | None,
) -> int:
    """Serve from the bind to the last answer; how many requests were cut."""
    with link_listener(settings.link_socket) as links:
        listeners = await _bound(settings)
        if diagnostics is not None:  # a start that was refused is none
            _note(diagnostics, STARTED, __version__)
        sums, cut = Sums(engine.meter), 0
        collector.settle()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lines.gather)
            async with trio.open_nursery() as serving:
                serving.start_soon(serve_local, links, engine, sums, stopping.asked)
                everything = nursery.cancel_scope
                if settings.workers:
                    nursery.start_soon(_watch_signals, stopping, engine, everything)
                    cut = await _by_workers(engine, settings, listeners, sums, stopping)
                else:
                    app = BrokerApp(engine, settings)
                    app.rpc.count_into(sums.traffic, sums.checks)
                    nursery.start_soon(_watch_signals, stopping, engine, everything, app)
                    cut = await _by_itself(app, listeners, context, stopping)
                stopping.asked.set()
            nursery.cancel_scope.cancel()
    return cut


async def _bound(settings: Settings) -> Listeners:
    """The address taken, and the generated token kept; neither if either fails."""
    listeners = await hosting.bind(settings)
    if settings.token_file:
        try:
            tokens.keep(Tokens(settings.tokens, is_generated=True, file=settings.token_file))
        except MqliteError:
            for listener in listeners:
                await listener.aclose()
            raise
    return listeners


async def _by_itself(
    app: BrokerApp,
    listeners: Listeners,
    context: ssl.SSLContext | None,
    stopping: _Stopping,
) -> int:
    cut = 0
    async with trio.open_nursery() as nursery:

        async def host(task_status: trio.TaskStatus[hosting.Base]) -> None:
            nonlocal cut
            cut = await hosting.host(
                app,
                listeners,
                tls=context,
                stopping=stopping.asked,
                poll_seconds=lane_poll.fitting_seconds(),
                task_status=task_status,
            )

        base = await nursery.start(host)
        if not stopping.asked.is_set():
            _announce_ready(app.settings, base)
    return cut


async def _by_workers(
    engine: Engine, settings: Settings, listeners: Listeners, sums: Sums, stopping: _Stopping
) -> int:
    base = hosting.base_of(settings, listeners, "https" if settings.tls_cert else "http")
    workers = Workers(engine, settings, listeners, sums=sums, stopping=stopping.asked)
    async with trio.open_nursery() as nursery:
        await nursery.start(workers.run, settings.workers)
        if workers.failure is None and not stopping.asked.is_set():
            _announce_ready(settings, base)
    stopping.failure = workers.failure
    return workers.cut


async def _watch_signals(
    stopping: _Stopping,
    engine: Engine,
    everything: trio.CancelScope,
    app: BrokerApp | None = None,
) -> None:
    heard = StopSignals()
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for number in signals:
            if heard.is_echo():
                continue
            name = signal.Signals(number).name
            if stopping.asked.is_set():
                logs.line(_log, logging.WARNING, "forced to stop", ("signal", name))
                stopping.forced = True
                everything.cancel()
                return
            logs.line(_log, logging.INFO, "stopping", ("signal", name))
            stopping.asked.set()
            engine.stop_waiting()  # paced redrives and purges end too (ruling R25)
            if app is not None:
                app.rpc.visit.end()


# -- opening ---------------------------------------------------------------------------------------


def _options(
    settings: Settings, auth_token: str, diagnostics: DiagnosticsLog | None
) -> EngineOptions:
    return EngineOptions(
        synchronous=settings.synchronous,
        message_bytes_max=settings.message_bytes_max,
        room_seconds=limits.MAILBOX_WAIT_SECONDS,
        inline=True,
        retention=Retention(
            settings.dlq_max_age_ms, settings.dlq_max_count, settings.dlq_max_bytes
        ),
        diagnostics=diagnostics,
        auth_token=auth_token or settings.db_auth_token,
        # Whoever may manage queues must not write wherever this process may.
        backup_folder=settings.backup_dir,
        leaves_log=settings.leaves_log,
    )


def _diagnostics(settings: Settings) -> DiagnosticsLog | None:
    if not settings.diagnostics_dir:
        return None
    try:
        return open_log(settings.diagnostics_dir)
    except InvalidArgument as error:
        raise InvalidArgument(f"MQLITE_DIAGNOSTICS_DIR: {error.message}") from error


def _note(log: DiagnosticsLog, code: str, detail: str) -> None:
    log.report(Trouble(at_ms=SystemClock().now_ms(), task=BROKER, code=code, detail=detail))


# -- what the start says ---------------------------------------------------------------------------


def _announce(settings: Settings, engine: Engine) -> None:
    logs.line(
        _log,
        logging.INFO,
        "mqlite broker",
        ("version", __version__),
        ("addr", settings.address),
        ("db", engine.location),
        ("sync", settings.synchronous.upper()),
        ("backend", engine.backend.observe),
    )
    if settings.tokens is None:
        reach = "this machine" if settings.is_loopback else "anyone on the network"
        _log.warning("authentication is off: open to %s", reach)
    elif settings.token_file:
        logs.line(_log, logging.INFO, "a new administrator token", ("file", settings.token_file))
    elif settings.is_token_generated:
        token = settings.tokens[0]
        logs.line_at_any_level("generated an administrator token", ("token", token))
    else:
        logs.line(_log, logging.INFO, "administrator tokens given", ("n", len(settings.tokens)))
    logs.line(_log, logging.INFO, "cross-origin requests", ("cors", settings.cors or "off"))


def _announce_ready(settings: Settings, base: hosting.Base) -> None:
    credential = "-H 'Authorization: Bearer TOKEN' " if settings.tokens else ""
    if settings.console:
        logs.line(_log, logging.INFO, "console", ("url", f"{base.url}{ui.HOME}"))
    logs.line(_log, logging.INFO, "ready", ("url", base.url))
    _log.info("try: curl %s-X POST %s/mqlite.v1.AdminService/ListQueues", credential, base.url)
