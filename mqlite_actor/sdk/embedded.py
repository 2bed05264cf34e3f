"""A handle over an engine in this process: no socket, same verbs.

`open_embedded` for a block, `run_embedded` for a nursery of your own. The only file of this floor
that knows the engine.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar, cast

import trio

from mqlite_actor.clock import Clock, SystemClock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import Unsupported
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine, run_engine
from mqlite_actor.engine.outbox import inside
from mqlite_actor.sdk.address import StoreKind, parse_store
from mqlite_actor.sdk.handle import Handle
from mqlite_actor.sdk.serve import ServeInfo, ServeOptions, serve
from mqlite_actor.sdk.transaction import SyncTx, Tx
from mqlite_actor.version import __version__

R = TypeVar("R")
T = TypeVar("T")


class Embedded(Handle):
    """A handle whose calls go straight to an engine of this program."""

    __slots__ = ("engine",)

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    async def call(self, request: wire.Request[R]) -> R:
        return await self.engine.call(request)

    @asynccontextmanager
    async def tx(self, *, seconds: float = limits.TX_SECONDS) -> AsyncIterator[Tx]:
        """A transaction of your rows and our messages; commits when the block ends well.

        An exception or a cancellation rolls back, shielded. Everything else in the engine waits
        meanwhile, so keep it short: after `seconds` (at most 30) it is rolled back and TxTimeout
        raised. Prefer `run_tx` where no awaiting is needed between the statements.
        """
        hold = await self.engine.hold(seconds)
        token = inside.set(hold)
        is_commit = False
        try:
            yield Tx(hold)
            await trio.lowlevel.checkpoint_if_cancelled()
            is_commit = True
        finally:
            inside.reset(token)
            await hold.end(is_commit=is_commit)

    async def run_tx(
        self, function: Callable[[SyncTx], T], *, seconds: float = limits.TX_SECONDS
    ) -> T:
        """Run a plain function inside a transaction in the storage thread; its result.

        Commits when it returns, rolls back when it raises. Cancelled while it waits, it did not
        run; cancelled while it runs, it ends and is rolled back.
        """
        return await self.engine.run_tx(lambda each: function(SyncTx(each)), seconds)

    async def serve(
        self,
        addr: str = "127.0.0.1:6754",
        *,
        tokens: str | Sequence[str] | None = None,
        monitor_tokens: str | Sequence[str] = (),
        metrics: bool = False,
        cors: str = "",
        version: str = __version__,
        docs_url: str = "",
        tls: ssl.SSLContext | tuple[str, str] | None = None,
        connections_max: int | None = None,
        insecure_allow_remote: bool = False,
        task_status: trio.TaskStatus[ServeInfo] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Be a broker until cancelled, while your own calls go on.

        `info = await nursery.start(q.serve)` tells where it listens, and the token: with `tokens`
        None one is generated. Else `tokens` is one, several, or "off" for no authentication, on a
        loopback address only. `tls` is a context, or the paths of certificate and key. Refuses what
        `mqlite serve` refuses: InvalidArgument, or OpenError for an address in use; Unsupported
        without the packages of mqlite-actor[broker]. Cancelled, it answers long polls at once and
        other requests within two seconds, cuts the rest, and leaves the engine open.
        """
        options = ServeOptions(
            addr=addr,
            tokens=tokens,
            monitor_tokens=monitor_tokens,
            metrics=metrics,
            cors=cors,
            version=version,
            docs_url=docs_url,
            tls=tls,
            connections_max=connections_max,
            insecure_allow_remote=insecure_allow_remote,
        )
        await serve(self.engine, options, task_status=task_status)

    async def compact(self, *, is_full: bool = False) -> None:
        """Shrink the file: by its free pages, or (full) by writing it anew, which needs its size
        again as free space and lets everybody wait."""
        await self.engine.compact(is_full=is_full)


@asynccontextmanager
async def open_embedded(
    store: str,
    *,
    synchronous: str = "NORMAL",
    message_bytes_max: int = limits.MESSAGE_BYTES_DEFAULT,
    clock: Clock | None = None,
    background: bool = True,
) -> AsyncIterator[Embedded]:
    """An engine for the length of a block; `store` is `file:PATH` or `:memory:`.

    `synchronous` FULL survives a power cut with every acknowledged message, NORMAL may lose the
    last ones then (never after a crash of the program). `background` False runs no maintenance by
    itself. Raises InvalidArgument, DatabaseLocked, SchemaVersionMismatch or OpenError, changing
    nothing. Leaving the block lets running calls end, then closes the file.
    """
    options = _options(synchronous, message_bytes_max, clock, background=background)
    async with open_engine(_local(store), options) as engine:
        yield Embedded(engine)


async def run_embedded(
    store: str,
    *,
    synchronous: str = "NORMAL",
    message_bytes_max: int = limits.MESSAGE_BYTES_DEFAULT,
    clock: Clock | None = None,
    background: bool = True,
    task_status: trio.TaskStatus[Embedded] = trio.TASK_STATUS_IGNORED,
) -> None:
    """`handle = await nursery.start(run_embedded, "file:./mq.db")`: the engine lives in that
    nursery.

    Cancelling the nursery closes the engine in order; a crash of the writer cancels the nursery
    with its cause. Options and errors as for `open_embedded`.
    """
    options = _options(synchronous, message_bytes_max, clock, background=background)
    engine_status = cast("trio.TaskStatus[Engine]", _Embedding(task_status))
    await run_engine(_local(store), options, task_status=engine_status)


class _Embedding:
    """Passes an engine on as the handle over it."""

    __slots__ = ("_task_status",)

    def __init__(self, task_status: trio.TaskStatus[Embedded]) -> None:
        self._task_status = task_status

    def started(self, value: Engine) -> None:
        self._task_status.started(Embedded(value))


def _options(
    synchronous: str, message_bytes_max: int, clock: Clock | None, *, background: bool
) -> EngineOptions:
    return EngineOptions(
        synchronous=synchronous,
        message_bytes_max=message_bytes_max,
        clock=clock or SystemClock(),
        background=background,
    )


def _local(text: str) -> str:
    """The engine's spelling of a local store."""
    store = parse_store(text)
    if store.kind is StoreKind.REMOTE:
        raise Unsupported("this version opens local stores only: file:PATH or :memory:")
    return ":memory:" if store.kind is StoreKind.MEMORY else f"file:{store.location}"
