"""One run of one command: its arguments, its output, and a way to whatever it talks to.

Made by `main`, handed to a handler. `ask` and `session` decide where the call goes (`target`) and
open it: a broker through the light HTTP client, a store through an engine in this process
(`store`). Handlers are plain blocking functions over a `Caller` and never learn which of the two it
is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from mqlite_actor.contract.wire import Request
from mqlite_cli.grammar import Arguments, Command
from mqlite_cli.output import Output
from mqlite_cli.streams import Streams
from mqlite_cli.target import BrokerTarget, choose_target

R = TypeVar("R")
T = TypeVar("T")


class Caller(Protocol):
    """Whatever answers the calls of the contract."""

    def call(self, request: Request[R]) -> R:
        """The response, or the contract's error raised."""


class Invocation:
    """What a handler gets. `arguments` are read and `output` is checked; nothing is opened yet."""

    __slots__ = ("arguments", "command", "environ", "output", "streams")

    def __init__(
        self,
        command: Command,
        arguments: Arguments,
        *,
        environ: Mapping[str, str],
        streams: Streams,
        output: Output,
    ) -> None:
        self.command = command
        self.arguments = arguments
        self.environ = environ
        self.streams = streams
        self.output = output

    def ask(self, request: Request[R]) -> R:
        """One call in a session of its own."""
        return self.session(lambda caller: caller.call(request))

    def session(self, work: Callable[[Caller], T]) -> T:
        """Run `work` with an open caller and close it. Errors of opening, calling and work pass."""
        target = choose_target(self.arguments, self.environ, warn=self.warn)
        if isinstance(target, BrokerTarget):
            # Each way of calling is imported only where it is used: a second of start-up otherwise.
            from mqlite_actor.sdk.http_sync import HttpSyncClient  # noqa: PLC0415 - see above

            with HttpSyncClient(target.endpoint, token=target.token) as client:
                return work(client)
        from mqlite_cli.store import run_on_store  # noqa: PLC0415 - see above

        return run_on_store(
            target, work, environ=self.environ, warn=self.warn, is_reader=self.command.is_reader
        )

    def warn(self, text: str) -> None:
        """One warning line."""
        self.streams.complain(f"warning: {text}")
