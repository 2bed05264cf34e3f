"""The MCP server as a real process: spoken to by the official client, or line by line.

`Agent` is the official client; `Lines` writes and reads raw lines, for what no client would send.
Neither inherits an MQLITE_ variable of the machine. Every wait has a bound.
"""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any, Final

import mcp_types as types
from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.client.stdio import stdio_client

from tests.conformance.broker import BOUND_SECONDS, Broker
from tests.services.cli_process import clean_environ
from tests.warm.process import Popen, started_by_others

Json = Any
"""An argument: whatever JSON holds."""

PROGRAM: Final = (sys.executable, "-m", "mqlite_mcp")

INITIALIZE: Final = {
    "jsonrpc": "2.0",
    "id": "init",
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


def environ_for(broker: Broker) -> dict[str, str]:
    """The two variables that lead to a broker."""
    return {"MQLITE_ENDPOINT": broker.url, "MQLITE_TOKEN": broker.token}


class Agent:
    """What an agent does with the official client."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, tool: str, /, **arguments: Json) -> types.CallToolResult:
        return await self.client.call_tool(tool, arguments)

    async def ok(self, tool: str, /, **arguments: Json) -> dict[str, Any]:
        """The data of a call that must succeed, after a look whether its text says the same."""
        result = await self.call(tool, **arguments)
        assert not result.is_error, text_of(result)
        data: dict[str, Any] = result.structured_content
        assert without_texts(data) == json.loads(text_of(result))
        return data

    async def refused(self, tool: str, /, **arguments: Json) -> dict[str, Any]:
        """The data of a call that must not."""
        result = await self.call(tool, **arguments)
        assert result.is_error, text_of(result)
        data: dict[str, Any] = result.structured_content
        assert f"HTTP {data['http_status']}" in text_of(result)
        assert data["code"] in text_of(result)
        return data

    async def one(self, queue: str, **arguments: int) -> dict[str, Any]:
        """The one message that a receive must give."""
        (message,) = (await self.ok("receive", queue=queue, **arguments))["messages"]
        found: dict[str, Any] = message
        return found


def lease(queue: str, message: dict[str, Any]) -> dict[str, Any]:
    """The arguments that name a message in hand."""
    return {
        "queue": queue,
        "seq_number": message["seq_number"],
        "lock_token": message["lock_token"],
    }


def text_of(result: types.CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


def without_texts(data: dict[str, Any]) -> dict[str, Any]:
    """Structured data as the broker said it."""
    if not isinstance(data.get("messages"), list):
        return data
    return {**data, "messages": [_plain(each) for each in data["messages"]]}


def _plain(entry: dict[str, Any]) -> dict[str, Any]:
    if isinstance(entry.get("message"), dict):
        return {**entry, "message": _plain(entry["message"])}
    return {key: value for key, value in entry.items() if key != "body_text"}


@asynccontextmanager
async def agent(
    folder: Path, *words: str, mode: str = "auto", **environ: str
) -> AsyncIterator[Agent]:
    """The official client on a server of its own; what that says on stderr is in `folder`."""
    parameters = StdioServerParameters(
        command=PROGRAM[0],
        args=[*PROGRAM[1:], *words],
        env=clean_environ(environ),
        cwd=folder,
    )
    with (folder / "stderr").open("a", encoding="utf-8") as errors:
        async with AsyncExitStack() as stack:
            with started_by_others():
                client = Client(stdio_client(parameters, errlog=errors), mode=mode)
                await stack.enter_async_context(client)
            yield Agent(client)


class Lines:
    """The server as a process that takes lines and gives lines."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def say(self, *lines: object) -> None:
        """Write objects as JSON, and bytes as they are, each with its line end."""
        assert self.process.stdin is not None
        for line in lines:
            raw = line if isinstance(line, bytes) else json.dumps(line).encode()
            self.process.stdin.write(raw + b"\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """The next line, which must be one JSON object in ASCII."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], BOUND_SECONDS)
        assert ready, "no answer"
        line = self.process.stdout.readline()
        assert line.endswith(b"\n")
        assert line.isascii()
        value: dict[str, Any] = json.loads(line)
        return value

    def begin(self) -> None:
        self.say(INITIALIZE)
        assert self.answer()["id"] == "init"
        self.say({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def call(self, request_id: object, tool: str, /, **arguments: object) -> None:
        """Ask for a tool; the answer comes when it comes."""
        params = {"name": tool, "arguments": arguments}
        self.say({"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params})

    def end(self) -> tuple[int, str]:
        """Close stdin; exit code and stderr, after a look that stdout held nothing more."""
        out, errors = self.process.communicate(timeout=BOUND_SECONDS)
        assert out == b""
        return self.process.returncode, errors.decode()


@contextmanager
def lines(folder: Path, *words: str, **environ: str) -> Iterator[Lines]:
    """A server to speak to line by line; killed at the end if it still runs then."""
    process = Popen[bytes](
        [*PROGRAM, *words],
        cwd=folder,
        env=clean_environ(environ),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    )
    with process:
        try:
            yield Lines(process)
        finally:
            process.kill()


def result(answer: dict[str, Any]) -> dict[str, Any]:
    """Of an answer that is no error."""
    found: dict[str, Any] = answer["result"]
    return found


@contextmanager
def silent() -> Iterator[socket.socket]:
    """Something that listens and never says a word."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        yield listener


def endpoint_of(listener: socket.socket) -> str:
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


def await_exit(process_id: int) -> None:
    """Return when a process that need not be our child has ended."""
    try:
        descriptor = os.pidfd_open(process_id)
    except ProcessLookupError:
        return  # gone already
    try:
        ended, _, _ = select.select([descriptor], [], [], BOUND_SECONDS)
    finally:
        os.close(descriptor)
    assert ended, f"process {process_id} still runs"
