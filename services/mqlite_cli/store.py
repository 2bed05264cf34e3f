"""A command on a local store: an engine in this process for as long as the command runs.

Called by `invocation` when no broker is in force. trio runs in the main thread, the blocking
command in a worker thread whose every call is handed to the engine. Rules: a command that only
looks never creates a missing file; an interrupt abandons the worker, whose next call then fails, so
that nothing is settled after it; the engine is closed in order before the command's error is told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

import trio

from mqlite_actor.contract.errors import Unsupported
from mqlite_actor.contract.limits import MESSAGE_BYTES_DEFAULT
from mqlite_actor.contract.wire import Request
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine
from mqlite_actor.sdk.address import StoreKind
from mqlite_actor.sdk.notation import parse_size
from mqlite_cli.target import StoreTarget

if TYPE_CHECKING:
    from mqlite_cli.invocation import Caller

R = TypeVar("R")
T = TypeVar("T")


class EngineCaller:
    """The engine as a blocking caller, for the one worker thread."""

    __slots__ = ("_engine",)

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def call(self, request: Request[R]) -> R:
        """The engine's response or its error."""
        return trio.from_thread.run(self._engine.call, request)


def run_on_store(
    target: StoreTarget,
    work: Callable[[Caller], T],
    *,
    environ: Mapping[str, str],
    warn: Callable[[str], None],
    is_reader: bool,
) -> T:
    """Open the store, run `work` on it, close it. Errors of opening and of work pass."""
    if target.store.kind is StoreKind.REMOTE:
        raise Unsupported("remote stores are not supported; use file:PATH, or call a broker")
    options = EngineOptions(
        synchronous=environ.get("MQLITE_SYNC") or "NORMAL",
        message_bytes_max=_message_bytes_max(environ, warn=warn),
        create=not is_reader,
    )

    async def run() -> T:
        async with open_engine(target.dsn, options) as engine:
            return await trio.to_thread.run_sync(work, EngineCaller(engine), abandon_on_cancel=True)

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
