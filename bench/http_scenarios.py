"""Scenarios over HTTP: a broker process under wrk, beside an empty route of stock quart-trio.

Each starts its own server with authentication, access log and counters on, loads it for some
seconds, and reads the server's processor time, memory and bytes written.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Final

from bench import http, wrk
from bench.scenario import Sample, Scenario, disk_bytes, usage

SECONDS: Final = 4.0
SERVICE: Final = "/mqlite.v1.QueueService/"
CREATE: Final = "/mqlite.v1.AdminService/CreateQueue"

Server = Callable[[Path], AbstractContextManager[http.Server]]


def _load(
    server: Server,
    paths: list[str],
    bodies: list[bytes],
    connections: int,
    *,
    per_request: float = 1,
    filled: int = 0,
) -> Callable[[Path, float], Sample]:
    """`per_request` operations are counted for each request."""

    def run(folder: Path, scale: float) -> Sample:
        with server(folder) as running:
            _prepare(running, int(filled * scale), is_ours=server is not vanilla)
            before = usage(running.process)
            seen = wrk.load(
                f"http://127.0.0.1:{running.port}",
                paths,
                bodies,
                token=http.TOKEN,
                connections=connections,
                seconds=SECONDS * scale,
                folder=folder,
            )
            after = usage(running.process)
            number = int(seen.requests * per_request)
            return Sample(
                rate=number / seen.seconds,
                operations=number,
                p50_ms=seen.p50 * 1000,
                p99_ms=seen.p99 * 1000,
                max_ms=seen.max * 1000,
                cpu_seconds=after.cpu_seconds - before.cpu_seconds,
                rss_mib=after.rss_mib,
                written_bytes=after.written_bytes - before.written_bytes,
                disk_bytes=disk_bytes(folder),
            )

    return run


def vanilla(_: Path) -> AbstractContextManager[http.Server]:
    """The empty route."""
    return http.vanilla()


def broker(
    folder: Path, *, workers: int = 0, synchronous: str = "NORMAL"
) -> AbstractContextManager[http.Server]:
    """A broker with one queue to come."""
    return http.broker(folder, synchronous, workers=workers)


def _prepare(running: http.Server, filled: int, *, is_ours: bool) -> None:
    if not is_ours:
        return
    http.post(running.port, CREATE, b'{"name":"q","config":{"lock_duration_ms":300000}}')
    for _ in range(filled // 500):
        http.post(running.port, f"{SERVICE}Send", http.send_body(500))


def start_times(arguments: list[str], *, needs_broker: bool) -> Callable[[Path, float], Sample]:
    """How often a second a command runs from start to end."""

    def run(folder: Path, scale: float) -> Sample:
        number = max(3, int(20 * scale))
        if not needs_broker:
            return _commands(arguments, number, {})
        with http.broker(folder, "NORMAL") as running:
            _prepare(running, 0, is_ours=True)
            where = {
                "MQLITE_ENDPOINT": f"http://127.0.0.1:{running.port}",
                "MQLITE_TOKEN": http.TOKEN,
            }
            return _commands(arguments, number, where)

    return run


def _commands(arguments: list[str], number: int, where: dict[str, str]) -> Sample:
    latencies: list[float] = []
    http.run(arguments, where)  # the first may have to compile
    started = time.perf_counter()
    for _ in range(number):
        began = time.perf_counter()
        http.run(arguments, where)
        latencies.append(time.perf_counter() - began)
    seconds = time.perf_counter() - started
    ordered = sorted(latencies)
    return Sample(
        rate=number / seconds,
        operations=number,
        p50_ms=ordered[number // 2] * 1000,
        p99_ms=ordered[-1] * 1000,
        max_ms=ordered[-1] * 1000,
    )


def idle(folder: Path, _: float) -> Sample:
    """A broker that has a queue and nothing to do; latency is its start until it answers."""
    began = time.perf_counter()
    with broker(folder) as running:
        _prepare(running, 0, is_ours=True)
        seconds = time.perf_counter() - began
        return _memory(running, seconds, 1)


def million(folder: Path, scale: float) -> Sample:
    """Very many messages pass through: sent 500 a call, removed 256 a call."""
    number = max(500, int(1_000_000 * scale)) // 500 * 500
    taking = json.dumps({"queue": "q", "max_messages": 256, "receive_mode": 1}).encode()
    send = http.send_body(500)
    with broker(folder) as running:
        _prepare(running, 0, is_ours=True)
        began = time.perf_counter()
        for _ in range(number // 500):
            http.post(running.port, f"{SERVICE}Send", send)
            for _ in range(2):
                http.post(running.port, f"{SERVICE}Receive", taking)
        return _memory(running, time.perf_counter() - began, number)


def _memory(running: http.Server, seconds: float, number: int) -> Sample:
    used = usage(running.process)
    return Sample(
        rate=number / seconds,
        operations=number,
        cpu_seconds=used.cpu_seconds,
        rss_mib=used.rss_mib,
        written_bytes=used.written_bytes,
    )


_SEND: Final = [http.send_body()]
_SENDS: Final = [http.send_body(64)]
_RECEIVE: Final = [json.dumps({"queue": "q"}).encode()]


def _send(server: Server, connections: int) -> Callable[[Path, float], Sample]:
    return _load(server, [f"{SERVICE}Send"], _SEND, connections)


_empty = partial(_load, vanilla, ["/send"], _SEND)

SCENARIOS: Final = (
    Scenario("empty route 1", "stock quart-trio and hypercorn, 1 connection", _empty(1), "wrk"),
    Scenario("empty route 16", "16 connections", _empty(16), "wrk"),
    Scenario("empty route 64", "64 connections", _empty(64), "wrk"),
    Scenario("HTTP send 1", "single sends, 1 connection", _send(broker, 1), "wrk"),
    Scenario("HTTP send 16", "16 connections", _send(broker, 16), "wrk"),
    Scenario("HTTP send 64", "64 connections", _send(broker, 64), "wrk"),
    Scenario("HTTP send 64 FULL", "each commit flushed",
             _send(partial(broker, synchronous="FULL"), 64), "wrk"),
    Scenario("HTTP batch 64", "64 messages a call, 16 connections; counted in messages",
             _load(broker, [f"{SERVICE}Send"], _SENDS, 16, per_request=64), "wrk"),
    Scenario("HTTP cycle 64", "receive one and complete it, 64 connections; counted in cycles",
             _load(broker, [f"{SERVICE}Receive", f"{SERVICE}Complete"], _RECEIVE, 64,
                   per_request=0.5, filled=60_000), "wrk"),
    Scenario("HTTP send 64, 1 worker", "a front-end process before the writer",
             _send(partial(broker, workers=1), 64), "wrk"),
    Scenario("idle broker", "from its start to a queue", idle),
    Scenario("million", "1,000,000 messages through a broker, 500 a call", million),
    Scenario("python -c pass", "the interpreter alone",
             start_times([sys.executable, "-c", "pass"], needs_broker=False)),
    Scenario("mqlite version", "the command from start to end",
             start_times([sys.executable, "-m", "mqlite_cli", "version"], needs_broker=False)),
    Scenario("mqlite send", "one message to a broker",
             start_times([sys.executable, "-m", "mqlite_cli", "send", "q", "x"],
                         needs_broker=True)),
)  # fmt: skip
