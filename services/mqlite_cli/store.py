"""A command on a local store: an engine in this process for as long as the command runs.

Called by `invocation` when no broker is in force. trio runs in the calling thread, the blocking
command in a worker thread whose every call is handed to the engine. Rules: a command that only
looks never creates a missing file; an interrupt abandons the worker, whose next call then fails, so
that nothing is settled after it; the engine is closed in order before the command's error is told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

import trio

from mqlite_actor.contract.errors import Closed
from mqlite_actor.contract.limits import MESSAGE_BYTES_DEFAULT
from mqlite_actor.contract.wire import Request
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine
from mqlite_actor.sdk.address import Store, StoreKind
from mqlite_actor.sdk.notation import parse_size
from mqlite_cli.target import StoreTarget

if TYPE_CHECKING:
    from mqlite_cli.invocation import StoreCaller

R = TypeVar("R")
T = TypeVar("T")


class EngineCaller:
    """The engine as a blocking caller, for any thread but trio's own."""

    __slots__ = ("_calls", "_engine", "_is_closed", "_trio")

    def __init__(self, engine: Engine, token: trio.lowlevel.TrioToken) -> None:
        self._engine = engine
        self._trio = token
        self._is_closed = False
        self._calls: set[trio.CancelScope] = set()

    def call(self, request: Request[R]) -> R:
        """The engine's response or its error; Closed after `hang_up`."""
        try:
            return trio.from_thread.run(self._call, request, trio_token=self._trio)
        except (trio.RunFinishedError, trio.Cancelled) as error:
            raise Closed("the store was closed") from error

    def twin(self) -> EngineCaller:
        """Another caller of the same engine."""
        return EngineCaller(self._engine, self._trio)

    def now_ms(self) -> int | None:
        """The engine's time."""
        return self._engine.clock.now_ms()

    def reached_ms(self) -> int | None:
        """The same, which is no estimate."""
        return self._engine.clock.now_ms()

    def hang_up(self) -> None:
        """End calls in flight; the engine takes back a claim that nobody got, uncounted."""
        try:
            trio.from_thread.run_sync(self._hang_up, trio_token=self._trio)
        except trio.RunFinishedError:
            return

    def cut(self) -> None:
        """The same: nothing here can hang on a network."""
        self.hang_up()

    def compact(self, *, is_full: bool) -> None:
        """Shrink the file."""

        async def compact() -> None:
            await self._engine.compact(is_full=is_full)

        trio.from_thread.run(compact, trio_token=self._trio)

    async def _call(self, request: Request[R]) -> R:
        if self._is_closed:
            raise Closed("this caller has hung up")
        with trio.CancelScope() as scope:
            self._calls.add(scope)
            try:
                return await self._engine.call(request)
            finally:
                self._calls.discard(scope)
        raise Closed("the caller hung up; nothing was done")

    def _hang_up(self) -> None:
        self._is_closed = True
        for scope in self._calls:
            scope.cancel()


def run_on_store(
    target: StoreTarget | None,
    work: Callable[[StoreCaller], T],
    *,
    environ: Mapping[str, str],
    warn: Callable[[str], None],
    is_reader: bool,
) -> T:
    """Open the store (None: one in memory), run `work` on it, close it. Errors of opening and of
    work pass."""
    store = target.store if target else Store(StoreKind.MEMORY)
    options = EngineOptions(
        synchronous=environ.get("MQLITE_SYNC") or "NORMAL",
        message_bytes_max=_message_bytes_max(environ, warn=warn),
        create=not is_reader,
        auth_token=store.token or environ.get("MQLITE_DB_AUTH_TOKEN", "").strip(),
    )

    async def run() -> T:
        async with open_engine(store.dsn, options) as engine:
            caller = EngineCaller(engine, trio.lowlevel.current_trio_token())
            return await trio.to_thread.run_sync(work, caller, abandon_on_cancel=True)

    return trio.run(run)


def _message_bytes_max(environ: Mapping[str, str], *, warn: Callable[[str], None]) -> int:
    """MQLITE_MAX_MESSAGE_BYTES; a word that makes no sense leaves the default, with a warning."""
    word = environ.get("MQLITE_MAX_MESSAGE_BYTES", "").strip()
    if not word:
        return MESSAGE_BYTES_DEFAULT
    size = parse_size(word)
    if size is None:
        warn(f"MQLITE_MAX_MESSAGE_BYTES is no positive integer; {MESSAGE_BYTES_DEFAULT} is used")
    return size or MESSAGE_BYTES_DEFAULT
