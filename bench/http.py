"""A broker, or a stock quart-trio route, in its own process, and a load on it over loopback.

Called by the bench programs. The load is this process: raw keep-alive sockets under trio, one
request in flight on each, bounded in number. Servers are ended by their process object.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple

import trio

from bench.yardstick import BODY

START_SECONDS = 30.0
TOKEN = "bench"  # of a broker on loopback that lives for a minute


class Server(NamedTuple):
    """A running server."""

    port: int
    process: int


@contextmanager
def broker(
    folder: Path, synchronous: str, *, workers: int = 0, link_socket: str = ""
) -> Iterator[Server]:
    """A broker with authentication, access log and counters on."""
    port = _free_port()
    environment = {
        **os.environ,
        "MQLITE_DB": f"file:{folder / f'broker-{port}.db'}",
        "MQLITE_SYNC": synchronous,
        "MQLITE_TOKENS": TOKEN,
        "MQLITE_WORKERS": str(workers),
        "MQLITE_LINK_SOCKET": link_socket,
    }
    command = [sys.executable, "-m", "mqlite_broker", "--addr", f"127.0.0.1:{port}"]
    with _serving(command, port, environment) as process:
        yield Server(port, process)


@contextmanager
def vanilla() -> Iterator[Server]:
    """An empty JSON route on stock quart-trio and stock hypercorn, its log off."""
    port = _free_port()
    command = [
        sys.executable, "-m", "hypercorn", "-k", "trio", "-b", f"127.0.0.1:{port}",
        "bench.vanilla:app",
    ]  # fmt: skip
    with _serving(command, port, dict(os.environ)) as process:
        yield Server(port, process)


def requests(port: int, path: str, body: bytes, *, connections: int, number: int) -> float:
    """POSTs per second over keep-alive connections; every answer must be a 200."""
    return trio.run(partial(_load, port, path, body, connections=connections, number=number))


def send_body(number: int = 1) -> bytes:
    """A Send of messages of the yardstick's size."""
    message = {"body": base64.b64encode(BODY).decode()}
    return json.dumps({"queue": "q", "messages": [message] * number}).encode()


def post(port: int, path: str, body: bytes) -> bytes:
    """One call; RuntimeError for anything but a 200."""
    connection = HTTPConnection("127.0.0.1", port, timeout=START_SECONDS)
    try:
        connection.request("POST", path, body, {"Authorization": f"Bearer {TOKEN}"})
        answer = connection.getresponse()
        text = answer.read()
    finally:
        connection.close()
    if answer.status != HTTPStatus.OK:
        raise RuntimeError(f"{path} answered {answer.status}: {text[:200]!r}")
    return text


def run(arguments: list[str], where: dict[str, str]) -> None:
    """A command of ours from start to end; it has to succeed. Its modules stay compiled for the
    next run, as they are once it is installed."""
    environment = {**os.environ, **where}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    subprocess.run(arguments, env=environment, check=True, stdout=subprocess.DEVNULL)


async def _load(port: int, path: str, body: bytes, *, connections: int, number: int) -> float:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    request = head.encode() + body
    each = number // connections
    started = time.perf_counter()
    async with trio.open_nursery() as nursery:
        for _ in range(connections):
            nursery.start_soon(_client, port, request, each)
    return each * connections / (time.perf_counter() - started)


async def _client(port: int, request: bytes, number: int) -> None:
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    async with stream:
        for _ in range(number):
            await stream.send_all(request)
            answer = b""
            while not _is_whole(answer):
                more = await stream.receive_some(65536)
                assert more, f"the server closed the connection after {answer[:200]!r}"
                answer += more
            assert answer.startswith(b"HTTP/1.1 200"), answer[:200]


def _is_whole(answer: bytes) -> bool:
    head, found, rest = answer.partition(b"\r\n\r\n")
    if not found:
        return False
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return len(rest) >= int(value)
    raise AssertionError(f"an answer without Content-Length: {head[:200]!r}")


@contextmanager
def _serving(command: list[str], port: int, environment: dict[str, str]) -> Iterator[int]:
    server = subprocess.Popen(
        command, env=environment, stderr=subprocess.DEVNULL
    )  # our own command
    try:
        deadline = time.monotonic() + START_SECONDS
        while not _answers(port):
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{command[2]} did not start")
            time.sleep(0.05)
        yield server.pid
    finally:
        server.terminate()
        server.wait(timeout=START_SECONDS)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
