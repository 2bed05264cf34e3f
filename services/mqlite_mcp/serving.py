"""The life of the process: open the handle, serve one session, leave in time.

Called by `main`; calls `stdio` for the stream and `session` for the answers. Runs under trio. Rules
(fault B86): the end of stdin, a client that reads no more and a signal all end it; short calls that
are under way get GRACE_SECONDS to answer, then all are cancelled; what the agent still held is
given back; and after LEAVING_SECONDS the process is gone even if a broker does not answer.
"""

from __future__ import annotations

import os
import signal
import threading

import anyio
from mcp.shared.message import SessionMessage

from mqlite_actor.sdk.connect import ConnectOptions, connect
from mqlite_mcp.session import Session
from mqlite_mcp.stdio import REPLIES_MAX, Wire, complain, guarded
from mqlite_mcp.tools import TOOLS
from mqlite_mcp.tools_extended import EXTENDED

GRACE_SECONDS = 0.2
"""For calls that were made just before stdin ended, as a pipe of lines makes them."""

GIVE_BACK_SECONDS = 0.3
"""For putting back what the agent held; a broker near by needs some milliseconds."""

LEAVING_SECONDS = 0.9
"""From the end of stdin to that of the process, whatever happens: a second is promised."""

CLOSING_SECONDS = 10.0
"""The same with a file of our own, which is better closed than left; leaving it does no harm."""

SIGNALS = [
    each
    for name in ("SIGINT", "SIGTERM", "SIGHUP")
    if (each := getattr(signal, name, None)) is not None
]


def serve(
    dsn: str,
    options: ConnectOptions,
    *,
    is_embedded: bool,
    is_extended: bool,
    keeps_leases: bool,
) -> None:
    """Serve one session on this process's stdin and stdout; returns when it has ended.

    Raises what opening raises, before anything is read.
    """
    tools = TOOLS + EXTENDED if is_extended else TOOLS
    ending = Ending(CLOSING_SECONDS if is_embedded else LEAVING_SECONDS)

    async def main() -> None:
        async with connect(dsn, **options) as handle:
            session = Session(handle, tools)
            try:
                await _converse(session, wire, ending)
            finally:
                if not keeps_leases:
                    left = await session.leases.give_back(handle, seconds=GIVE_BACK_SECONDS)
                    if left:
                        complain(f"{left} messages stay locked until their leases end")

    with guarded() as wire:
        try:
            anyio.run(main, backend="trio")
        finally:
            ending.over()


class Ending:
    """The last resort: from `begin` on, the process has so many seconds to be over."""

    __slots__ = ("_is_over", "_seconds", "_thread")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """The session ends now; a second call changes nothing."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()

    def over(self) -> None:
        """Everything was left in order."""
        self._is_over.set()

    def _watch(self) -> None:
        if not self._is_over.wait(self._seconds):
            complain("the broker does not answer; leaving without it")
            os._exit(0)


async def _converse(session: Session, wire: Wire, ending: Ending) -> None:
    """Read, answer and write until one side is over."""
    server = session.server()
    received, inbox = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outbox, replies = anyio.create_memory_object_stream[SessionMessage](REPLIES_MAX)
    refused = outbox.clone()
    hearing = anyio.CancelScope()
    written = anyio.Event()

    async def hear() -> None:
        async with received, refused:
            with hearing:
                await wire.read(received, refused)
                ending.begin()
                with anyio.move_on_after(GRACE_SECONDS):
                    await wire.idle()

    async def speak() -> None:
        try:
            async with replies:
                await wire.write(replies)
        except OSError:
            hearing.cancel()  # nobody reads: what is under way is for nobody
            ending.begin()
        finally:
            written.set()

    async def heed_signals() -> None:
        with anyio.open_signal_receiver(*SIGNALS) as signals:
            async for _ in signals:
                ending.begin()
                hearing.cancel()

    async with anyio.create_task_group() as tasks:
        for each in (heed_signals, speak, hear):
            tasks.start_soon(each)
        await server.run(inbox, outbox, server.create_initialization_options())
        with anyio.move_on_after(GRACE_SECONDS):
            await written.wait()
        tasks.cancel_scope.cancel()
