"""Looks of a process that has no engine, at the file of the engine that serves it.

Used by the front-end processes of a broker (`--workers`): what only looks they answer from the file
themselves, through read-only connections that stay open, and use a core of their own for it. Where
anything is odd about the file the answer is None, and the engine has to be asked. It sees
everything that was acknowledged before it was asked, whoever wrote it.
"""

from __future__ import annotations

from typing import Any

from mqlite_actor.clock import SystemClock
from mqlite_actor.contract import limits
from mqlite_actor.contract.keys import Right
from mqlite_actor.engine import commands
from mqlite_actor.engine.engine import Engine
from mqlite_actor.engine.mailbox import Command
from mqlite_actor.engine.readers import READS, CountsCalls, LookOut
from mqlite_actor.semantics import keys
from mqlite_actor.storage.beside import BesideFile
from mqlite_actor.storage.reading import NoReader
from mqlite_actor.storage.store import FILE


def file_of(engine: Engine) -> str:
    """What `Beside` is opened with; "" when the engine has no file on this machine."""
    return f"file:{engine.location}" if engine.backend == FILE else ""


class Beside:
    """Answers what only looks. `calls` counts them."""

    __slots__ = ("_file", "_look_out")

    def __init__(self, file: str, calls: CountsCalls) -> None:
        """InvalidArgument or OpenError for what is no file."""
        self._file = BesideFile(file)
        self._look_out = LookOut(
            self._file,
            commands.table(message_bytes_max=limits.MESSAGE_BYTES_DEFAULT),  # it sends nothing
            SystemClock(),
            calls,
            room_seconds=limits.MAILBOX_WAIT_SECONDS,
        )

    async def look(self, request: Command) -> Any:  # noqa: ANN401  # the table pairs the types
        """The response; None when the engine has to be asked, and for whatever does more than look.

        Raises what the call refuses, and Unavailable for a look that took too long. Cancelled, it
        is stopped.
        """
        if type(request) not in READS:
            return None
        try:
            return await self._look_out.look(request)
        except NoReader:
            return None

    async def authenticate(self, token: str) -> tuple[str, frozenset[Right]] | None:
        """As `Engine.authenticate`; None when that has to be asked."""
        found: tuple[str, frozenset[Right]] | None
        found = await self.look(commands.Authenticate(keys.digest(token)))
        return found

    def close(self) -> None:
        """Stop the looks that run, and let go of the file."""
        self._file.close()
