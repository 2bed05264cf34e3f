"""`q.serve`: a broker over an engine that its program has opened and goes on using (ruling R39).

Called by `mqlite_actor.sdk.serve` with what the caller said; makes the same settings by the same
rules as `serve`, and refuses what `serve` refuses. The engine keeps its own options, and stays open
when the broker ends. The program's logging stays the program's: nothing here sets it up. Clients
get no more than those of `serve`, though the program itself may do anything.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from typing import Any, TypeVar, cast

import trio

from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import InvalidArgument
from mqlite_actor.contract.ext import BackupRequest
from mqlite_actor.contract.keys import Right
from mqlite_actor.engine.engine import Engine
from mqlite_actor.logs import logger
from mqlite_actor.sdk.address import without_tokens
from mqlite_actor.sdk.serve import ServeInfo, ServeOptions
from mqlite_broker import descriptors, hosting, origins, settings, tokens, ui
from mqlite_broker.app import BrokerApp
from mqlite_broker.door_limits import DoorLimits
from mqlite_broker.settings import CONNECTIONS_MAX, DOCS_URL, Settings
from mqlite_broker.tls import server_context
from mqlite_broker.tokens import Tokens

R = TypeVar("R")

_log = logger("mqlite.broker")


@trio.lowlevel.enable_ki_protection
async def serve_engine(
    engine: Engine, options: ServeOptions, *, task_status: trio.TaskStatus[ServeInfo]
) -> None:
    """Serve until cancelled, then stop in order: within the grace period running requests are
    answered, and long polls at once."""
    chosen = settings_of(options)
    context = _context(options.tls)
    listeners = await hosting.bind(chosen)
    for warning in chosen.warnings:
        _log.warning("%s", without_tokens(warning))
    app = BrokerApp(_Lent(engine, chosen.backup_dir), chosen)
    stopping = trio.Event()

    @trio.lowlevel.enable_ki_protection
    async def watch() -> None:
        try:
            await trio.sleep_forever()
        finally:  # cancelled from outside, or because serving has ended
            stopping.set()
            app.rpc.visit.end()

    @trio.lowlevel.enable_ki_protection
    async def host(task_status: trio.TaskStatus[ServeInfo]) -> None:
        started = _Started(task_status, chosen)
        with trio.CancelScope(shield=True):  # so that the stop is one in order
            await hosting.host(app, listeners, tls=context, stopping=stopping, task_status=started)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        task_status.started(await nursery.start(host))


class _Lent:
    """The engine as clients get it: backups of theirs are made in `backup_dir` and below ("": the
    folder of the store), for whoever may manage queues must not write wherever the program may."""

    __slots__ = ("_backup_dir", "_engine", "served")

    def __init__(self, engine: Engine, backup_dir: str) -> None:
        self._engine = engine
        self._backup_dir = backup_dir
        self.served: frozenset[type[Any]] = engine.served

    @property
    def unready(self) -> str:
        """As the engine says."""
        return self._engine.unready

    async def call(self, request: wire.Request[R], *, is_clean: bool = False) -> R:
        """As `Engine.call`."""
        if isinstance(request, BackupRequest):
            return cast("R", await self._engine.backups.within(self._backup_dir, request))
        return await self._engine.call(request, is_clean=is_clean)

    async def authenticate(self, token: str) -> tuple[str, frozenset[Right]]:
        """As `Engine.authenticate`."""
        return await self._engine.authenticate(token)

    async def hand_back(
        self,
        request: wire.ReceiveRequest,
        reply: wire.MessagesResponse,
        *,
        is_counted: bool = False,
    ) -> None:
        """As `Engine.hand_back`."""
        await self._engine.hand_back(request, reply, is_counted=is_counted)


class _Started(trio.TaskStatus[hosting.Base]):
    """Passes the base address on as the caller's ServeInfo."""

    def __init__(self, task_status: trio.TaskStatus[ServeInfo], chosen: Settings) -> None:
        self._task_status = task_status
        self._chosen = chosen

    def started(self, value: hosting.Base) -> None:
        generated = self._chosen.tokens if self._chosen.is_token_generated else None
        shown = f"[{value.host}]" if ":" in value.host else value.host
        self._task_status.started(
            ServeInfo(
                address=f"{shown}:{value.port}",
                url=value.url,
                token=generated[0] if generated else "",
            )
        )


def settings_of(options: ServeOptions) -> Settings:
    """The settings that `serve` would have made. InvalidArgument names the argument."""
    host, port = settings.address(options.addr.strip(), source="addr")
    found = _administrators(options.tokens)
    settings.check_reach(found, host, insecure_allow_remote=options.insecure_allow_remote)
    limit = options.connections_max
    if limit is not None and not 1 <= limit <= CONNECTIONS_MAX:
        raise InvalidArgument(f"connections_max is from 1 to {CONNECTIONS_MAX}")
    is_auth_on = found.values is not None
    cors = origins.allowed(options.cors.strip(), "cors", found)
    return Settings(
        host=host,
        port=port,
        tokens=found.values,
        is_token_generated=found.is_generated,
        monitor_tokens=_monitors(options.monitor_tokens, found),
        has_metrics=settings.check_metrics(is_on=options.metrics, is_auth_on=is_auth_on),
        cors=cors,
        console=ui.ANY if options.ui else ui.OFF,
        docs_url=options.docs_url or DOCS_URL,
        version=options.version,
        connections_max=descriptors.left(limit or DoorLimits.connections_max),
        backup_dir=options.backup_dir,
        insecure_allow_remote=options.insecure_allow_remote,
        warnings=tuple(origins.doubts(cors, "cors")),
    )


def _administrators(given: str | Sequence[str] | None) -> Tokens:
    if given is None:
        return tokens.generated()
    if isinstance(given, str):
        if not given.strip():  # meant as a token, it would come out as one that nobody knows
            raise InvalidArgument("tokens is empty; give tokens, None for a generated one, or off")
        return tokens.administrators(given.strip(), source="tokens")
    return Tokens(tokens.checked([each.strip() for each in given], source="tokens"))


def _monitors(given: str | Sequence[str], administrator: Tokens) -> tuple[str, ...]:
    text = given if isinstance(given, str) else ",".join(given)
    return tokens.monitors(text.strip(), administrator, source="monitor_tokens")


def _context(tls: ssl.SSLContext | tuple[str, str] | None) -> ssl.SSLContext | None:
    return server_context(*tls) if isinstance(tls, tuple) else tls
