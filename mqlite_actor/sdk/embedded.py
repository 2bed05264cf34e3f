"""A handle over an engine in this process: no socket, same verbs.

`open_embedded` for a block, `run_embedded` for a nursery of your own. Under trio the engine lives
in the caller's own run; under asyncio in a background trio thread, and the handle takes each call
there and back. Blocking programs have theirs in `blocking`. The only file of this floor that opens
an engine. Rules: a handle of another process (after a fork) or inside its own transaction refuses
at once.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial, wraps
from typing import Any, TypeVar, Unpack, cast

import trio

from mqlite_actor.clock import Clock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import Closed
from mqlite_actor.engine.engine import Engine
from mqlite_actor.engine.interrupts import block
from mqlite_actor.engine.opening import open_engine, run_engine
from mqlite_actor.engine.outbox import Hold, check_outside, inside_of
from mqlite_actor.sdk.address import parse_store
from mqlite_actor.sdk.background import Background
from mqlite_actor.sdk.durations import Duration
from mqlite_actor.sdk.handing import undo_of
from mqlite_actor.sdk.handle import Handle
from mqlite_actor.sdk.message import settled_if_committed
from mqlite_actor.sdk.opening_options import EmbeddedOptions, engine_options
from mqlite_actor.sdk.origin import check_process, here
from mqlite_actor.sdk.serve import ServeInfo, ServeOptions, serve
from mqlite_actor.sdk.transaction import SyncTx, Tx, plainly
from mqlite_actor.version import __version__

R = TypeVar("R")
T = TypeVar("T")


class Embedded(Handle):
    """A handle whose calls go straight to an engine of this program."""

    __slots__ = ("_origin", "engine")

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._origin = here()

    def call(self, request: wire.Request[R]) -> Coroutine[Any, Any, R]:
        check_process(self._origin)
        return self.engine.call(request)  # not awaited here: each frame more costs every call

    def now_ms(self) -> int:
        return self.engine.clock.now_ms()

    async def give_back(
        self,
        queue: str,
        messages: Sequence[wire.Message],
        *,
        attempt_id: str = "",
    ) -> None:
        if attempt_id:  # the attempt is to be forgotten, too
            with suppress(Closed):  # the next opening ends the leases
                await super().give_back(queue, messages, attempt_id=attempt_id)
            return
        request = wire.ReceiveRequest(queue=queue)
        await self.engine.hand_back(request, wire.MessagesResponse(messages=list(messages)))

    @block
    async def tx(self, *, seconds: Duration = limits.TX_SECONDS) -> AsyncIterator[Tx]:
        """A transaction of your rows and our messages; commits when the block ends well.

        An exception or a cancellation rolls back, shielded; a cancellation that comes during the
        commit is seen behind the block. Everything else in the engine waits meanwhile, so keep it
        short: after `seconds` (at most 30; on a remote store 5, which is what such servers give) it
        is rolled back and TxTimeout raised. Prefer `run_tx` where no awaiting is needed between
        the statements.
        """
        hold = await self.engine.hold(seconds)
        is_commit = False
        with settled_if_committed() as settled:
            try:
                with inside_of(hold):
                    yield Tx(hold, settled)
                    await trio.lowlevel.checkpoint_if_cancelled()
                is_commit = True
            finally:
                await hold.end(is_commit=is_commit)

    async def run_tx(
        self, function: Callable[[SyncTx], T], *, seconds: Duration = limits.TX_SECONDS
    ) -> T:
        """Run a plain function inside a transaction in the storage thread; its result.

        Commits when it returns, rolls back when it raises. Cancelled while it waits, it did not
        run; cancelled while it runs, it ends and is rolled back. A cancellation that comes during
        the commit is seen at the next await.
        """
        with settled_if_committed() as settled:
            return await self.engine.run_tx(
                lambda each: plainly(function, SyncTx(each, settled)), seconds
            )
        raise AssertionError("it swallows nothing")

    async def serve(
        self,
        addr: str = "127.0.0.1:6754",
        *,
        tokens: str | Sequence[str] | None = None,
        monitor_tokens: str | Sequence[str] = (),
        metrics: bool = False,
        cors: str = "",
        ui: bool = True,
        version: str = __version__,
        docs_url: str = "",
        tls: ssl.SSLContext | tuple[str, str] | None = None,
        connections_max: int | None = None,
        backup_dir: str = "",
        insecure_allow_remote: bool = False,
        task_status: trio.TaskStatus[ServeInfo] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Be a broker until cancelled, while your own calls go on.

        `info = await nursery.start(q.serve)` tells where it listens, and the token: with `tokens`
        None one is generated. Else `tokens` is one, several, or "off" for no authentication, on a
        loopback address only. `ui` False leaves the console out. `tls` is a context, or the paths
        of certificate and key. Clients' backups go into `backup_dir` and below, "" is the folder of
        the store; `backup` of this handle goes anywhere. Refuses what `mqlite serve` refuses:
        InvalidArgument, or OpenError for an address in use; Unsupported without the packages of
        mqlite-actor[broker]. Cancelled, it answers polls at once and others within 2 s, cuts the
        rest, and leaves the engine open.
        """
        options = ServeOptions(
            addr=addr,
            tokens=tokens,
            monitor_tokens=monitor_tokens,
            metrics=metrics,
            cors=cors,
            ui=ui,
            version=version,
            docs_url=docs_url,
            tls=tls,
            connections_max=connections_max,
            backup_dir=backup_dir,
            insecure_allow_remote=insecure_allow_remote,
        )
        await serve(self.engine, options, task_status=task_status)

    async def compact(self, *, is_full: bool = False) -> None:
        """Shrink the file: by its free pages, or (full) by writing it anew, which needs its size
        again as free space and lets everybody wait."""
        await self.engine.compact(is_full=is_full)

    async def run_maintenance(self) -> None:
        """Run every pass once, on the engine's clock: ended leases, schedules, expiry, retention.

        For tests and for engines that were opened with `background` False.
        """
        await self.engine.run_maintenance_once()


class AsyncioEmbedded(Embedded):
    """The same for a program on asyncio: the engine runs in a background trio thread.

    Any loop and any number of tasks may call it. A cancelled call is cancelled over there and
    waited for; a cancelled `receive` gives back what it had claimed.
    """

    __slots__ = ("_background",)

    def __init__(self, background: Background[Embedded]) -> None:
        super().__init__(background.inner.engine)
        self._background = background

    async def call(self, request: wire.Request[R]) -> R:
        check_outside()
        inner = self._background.inner
        return await self._background.call_async(
            partial(inner.call, request), undo=undo_of(inner, request)
        )

    async def give_back(
        self,
        queue: str,
        messages: Sequence[wire.Message],
        *,
        attempt_id: str = "",
    ) -> None:
        inner = self._background.inner
        giving = partial(inner.give_back, queue, messages, attempt_id=attempt_id)
        await self._background.call_async(giving)

    @asynccontextmanager
    async def tx(self, *, seconds: Duration = limits.TX_SECONDS) -> AsyncIterator[Tx]:
        check_outside()
        call = self._background.call_async
        hold = await call(partial(self.engine.hold, seconds), undo=leave)
        is_commit = False
        with settled_if_committed() as settled:
            try:
                with inside_of(hold):
                    yield Tx(_DistantHold(self._background, hold), settled)
                    await asyncio.sleep(0)  # the last moment at which a cancellation rolls back
                is_commit = True
            finally:
                await self._background.finish_async(
                    partial(hold.end, is_commit=is_commit), is_late=True
                )

    async def run_tx(
        self, function: Callable[[SyncTx], T], *, seconds: Duration = limits.TX_SECONDS
    ) -> T:
        check_outside()
        running = partial(self._background.inner.run_tx, function, seconds=seconds)
        return await self._background.finish_async(running, is_cancellable=True)

    async def compact(self, *, is_full: bool = False) -> None:
        check_outside()
        inner = self._background.inner
        await self._background.call_async(partial(inner.compact, is_full=is_full))

    @wraps(Embedded.serve)
    async def serve(  # type: ignore[override]  # the same arguments, passed on
        self,
        *arguments: Any,  # noqa: ANN401  # those of `Embedded.serve`
        **options: Any,  # noqa: ANN401  # the same
    ) -> None:
        check_outside()
        status = options.pop("task_status", None)
        if status is not None:
            options["task_status"] = _Told(asyncio.get_running_loop(), status)
        serving = partial(self._background.inner.serve, *arguments, **options)
        await self._background.call_async(serving)

    async def run_maintenance(self) -> None:
        check_outside()
        await self._background.call_async(self._background.inner.run_maintenance)


class _Told:
    """Passes what a server in the background thread says on to whoever started it on a loop."""

    __slots__ = ("_loop", "_status")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        status: Any,  # noqa: ANN401  # anything with `started`
    ) -> None:
        self._loop = loop
        self._status = status

    def started(self, info: ServeInfo) -> None:
        self._loop.call_soon_threadsafe(self._status.started, info)


class _DistantHold:
    """A transaction in the background thread, for the verbs of `Tx`."""

    __slots__ = ("_background", "_hold")

    def __init__(self, background: Background[Embedded], hold: Hold) -> None:
        self._background = background
        self._hold = hold

    async def execute(self, sql: str, arguments: Sequence[Any]) -> list[Any]:
        return await self._background.call_async(
            partial(self._hold.execute, sql, arguments), is_late=True
        )

    async def call(self, request: Any) -> Any:  # noqa: ANN401  # the verbs of Tx pair the types
        return await self._background.call_async(partial(self._hold.call, request), is_late=True)


async def leave(hold: Hold) -> None:
    """Give the writer back when whoever asked for it is gone."""
    await hold.end(is_commit=False)


@block
async def open_embedded(
    store: str,
    *,
    synchronous: str = "NORMAL",
    message_bytes_max: int = limits.MESSAGE_BYTES_DEFAULT,
    clock: Clock | None = None,
    background: bool = True,
    auth_token: str | None = None,
    leaves_log: bool = False,
) -> AsyncIterator[Embedded]:
    """An engine for the length of a block; `store` is `file:PATH`, `:memory:` or a remote database
    (`libsql://HOST`, with `auth_token` or MQLITE_DB_AUTH_TOKEN).

    `synchronous` FULL survives a power cut with every acknowledged message, NORMAL may lose the
    last ones then (never after a crash of the program). `background` False runs no maintenance by
    itself, `leaves_log` True makes no checkpoints: a program that replicates the file does. Raises
    InvalidArgument, DatabaseLocked, SchemaVersionMismatch or OpenError, changing nothing. Leaving
    the block lets running calls end, then closes the file. Works under trio and under asyncio.
    """
    opener = opener_of(
        store,
        synchronous=synchronous,
        message_bytes_max=message_bytes_max,
        clock=clock,
        background=background,
        **({} if auth_token is None else {"auth_token": auth_token}),
        leaves_log=leaves_log,
    )
    if trio.lowlevel.in_trio_run():
        async with opener() as handle:
            yield handle
        return
    thread = Background(opener)
    await thread.start_async()
    try:
        yield AsyncioEmbedded(thread)
    finally:
        await thread.close_async()


def opener_of(
    store: str, **options: Unpack[EmbeddedOptions]
) -> Callable[[], AbstractAsyncContextManager[Embedded]]:
    """Checks the options now; what it returns opens the store under trio."""
    chosen = parse_store(store)
    opening = engine_options(chosen, **options)

    @asynccontextmanager
    async def opened() -> AsyncIterator[Embedded]:
        async with open_engine(chosen.dsn, opening) as engine:
            yield Embedded(engine)

    return opened


async def run_embedded(
    store: str,
    *,
    synchronous: str = "NORMAL",
    message_bytes_max: int = limits.MESSAGE_BYTES_DEFAULT,
    clock: Clock | None = None,
    background: bool = True,
    auth_token: str | None = None,
    leaves_log: bool = False,
    task_status: trio.TaskStatus[Embedded] = trio.TASK_STATUS_IGNORED,
) -> None:
    """`handle = await nursery.start(run_embedded, "file:./mq.db")`: the engine lives in that
    nursery.

    Cancelling the nursery closes the engine in order; a crash of the writer cancels the nursery
    with its cause. Options and errors as for `open_embedded`.
    """
    chosen = parse_store(store)
    options = engine_options(
        chosen,
        synchronous=synchronous,
        message_bytes_max=message_bytes_max,
        clock=clock,
        background=background,
        auth_token=auth_token,
        leaves_log=leaves_log,
    )
    engine_status = cast("trio.TaskStatus[Engine]", _Embedding(task_status))
    await run_engine(chosen.dsn, options, task_status=engine_status)


class _Embedding:
    """Passes an engine on as the handle over it."""

    __slots__ = ("_task_status",)

    def __init__(self, task_status: trio.TaskStatus[Embedded]) -> None:
        self._task_status = task_status

    def started(self, value: Engine) -> None:
        self._task_status.started(Embedded(value))
