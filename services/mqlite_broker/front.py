"""A front-end process: the doors on inherited sockets, the writer at the other end of a link.

Started by `workers.py` as `python -P -m mqlite_broker.front LINK LISTENER…` (descriptors), its
orders on standard input, so that no token stands in its arguments or environment. SIGTERM ends it
in order. Rule: without the writer there is nothing to serve, so the end of the link closes the
doors and the process.
"""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Sequence
from typing import Final, cast

import msgspec
import trio

from mqlite_actor.engine.beside import Beside
from mqlite_actor.link.client import Link, LinkLost
from mqlite_broker import collector, hosting, logs, standard_streams, tls
from mqlite_broker.app import BrokerApp
from mqlite_broker.engines import FarEngine
from mqlite_broker.settings import Settings
from mqlite_broker.tally import ReportedChecks, ReportedLooks, ReportedTraffic, Reports

READY: Final = "ready"
CUT: Final = "cut"
"""Topics of its notes: connections are accepted; so many requests stayed unanswered."""

WRITER_GONE: Final = 3
"""Exit code when the link ended first."""

REPORT_SECONDS: Final = 0.1
"""What no request's end took along is told after this: checks of paths that are no call."""


class Orders(msgspec.Struct, frozen=True):
    """What a front-end process is told on standard input."""

    settings: Settings
    served: list[str]
    file: str = ""
    """The writer's database, to be looked at from here; "" when it has no file."""


def main(arguments: Sequence[str]) -> int:
    """Serve until told to stop; the exit code: 0 stopped, WRITER_GONE."""
    standard_streams.hold()
    orders = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Orders)
    lines = logs.set_up(orders.settings.log_level, orders.settings.log_format)
    link, *listeners = (socket.socket(fileno=int(number)) for number in arguments)
    return trio.run(_serve, orders, Link(link), listeners, lines)


async def _serve(
    orders: Orders, link: Link, sockets: list[socket.socket], lines: logs.Lines
) -> int:
    stopping = trio.Event()
    async with trio.open_nursery() as nursery:
        try:
            await nursery.start(link.run)
        except LinkLost:
            return WRITER_GONE
        nursery.start_soon(lines.gather)
        reports = Reports(link.note)
        nursery.start_soon(_report, reports)
        beside = Beside(orders.file, ReportedLooks(reports)) if orders.file else None
        writer = FarEngine(link, orders.served, reports.send, beside)
        app = BrokerApp(writer, orders.settings)
        app.rpc.count_into(ReportedTraffic(reports), ReportedChecks(reports))
        nursery.start_soon(_watch, stopping, app, link)
        nursery.start_soon(_listen_to_signals, stopping, app)
        collector.settle()
        await nursery.start(writer.listen)
        cut = await _open_doors(app, link, sockets, stopping)
        is_orphan = link.lost.is_set()
        if not is_orphan:
            reports.send()
            link.note(CUT, cut)
        if beside is not None:
            beside.close()
        nursery.cancel_scope.cancel()
    return WRITER_GONE if is_orphan else 0


async def _open_doors(
    app: BrokerApp, link: Link, sockets: list[socket.socket], stopping: trio.Event
) -> int:
    listeners = [trio.SocketListener(trio.socket.from_stdlib_socket(each)) for each in sockets]
    cert, key = app.settings.tls_cert, app.settings.tls_key
    return await hosting.host(
        app,
        listeners,
        tls=tls.server_context(cert, key) if cert else None,
        stopping=stopping,
        task_status=cast("trio.TaskStatus[hosting.Base]", _Ready(link)),
    )


class _Ready:
    """Tells the writer's process that connections are accepted."""

    __slots__ = ("_link",)

    def __init__(self, link: Link) -> None:
        self._link = link

    def started(self, _: hosting.Base | None = None) -> None:
        self._link.note(READY, None)


async def _watch(stopping: trio.Event, app: BrokerApp, link: Link) -> None:
    await link.lost.wait()
    stopping.set()
    app.rpc.visit.end()


async def _listen_to_signals(stopping: trio.Event, app: BrokerApp) -> None:
    with trio.open_signal_receiver(signal.SIGTERM) as signals:
        async for _ in signals:
            stopping.set()
            app.rpc.visit.end()


async def _report(reports: Reports) -> None:
    while True:
        await trio.sleep(REPORT_SECONDS)
        reports.send()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
