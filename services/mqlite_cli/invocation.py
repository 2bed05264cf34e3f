"""One run of one command: its arguments, its output, and a way to whatever it talks to.

Made by `dispatch`, handed to a handler. `ask` and `session` decide where the call goes (`target`)
and open it: a broker through the light HTTP client, a store through an engine in this process
(`store`). Handlers are plain blocking functions over a `Caller` and never learn which of the two it
is. `held_session` is for commands that hold leases: a signal reaches them as a call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol, Self, TypeVar

from mqlite_actor.contract.wire import Request
from mqlite_actor.sdk.address import dial, without_tokens
from mqlite_cli.grammar import Arguments, Command
from mqlite_cli.output import Output
from mqlite_cli.refusals import Refusal
from mqlite_cli.securing import patience_seconds, refuse_for_store, tls_context
from mqlite_cli.streams import Streams
from mqlite_cli.target import BrokerTarget, StoreTarget, choose_target

R = TypeVar("R")
T = TypeVar("T")


class Caller(Protocol):
    """Whatever answers the calls of the contract. Safe to share between threads."""

    def call(self, request: Request[R]) -> R:
        """The response, or the contract's error raised."""

    def twin(self) -> Self:
        """Another caller of the same; ending one does not end the other."""

    def now_ms(self) -> int | None:
        """The time by which the other side ends leases, early rather than late; None while it has
        not told it."""

    def reached_ms(self) -> int | None:
        """The time that it is at the other side at least; None while it has not told it."""

    def hang_up(self) -> None:
        """End calls in flight gently: claims go back, an answer that is under way still comes."""

    def cut(self) -> None:
        """End calls in flight at once."""


class StoreCaller(Caller, Protocol):
    """What only a store in this process can do."""

    def compact(self, *, is_full: bool) -> None:
        """Give free pages back to the disk, or write the file anew."""


class Invocation:
    """What a handler gets. `arguments` are read and `output` is checked; nothing is opened yet."""

    __slots__ = ("_target", "arguments", "command", "environ", "output", "streams")

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
        self._target: BrokerTarget | StoreTarget | None = None

    def choose(self) -> None:
        """Decide where this command goes; errors as for `target`."""
        self._target = self._target or choose_target(self.arguments, self.environ, warn=self.warn)

    @property
    def target(self) -> BrokerTarget | StoreTarget:
        """Where this command goes; decided once, so that a warning is said once."""
        self.choose()
        assert self._target is not None
        return self._target

    @property
    def is_local(self) -> bool:
        """Whether the command works on a store in this process."""
        return isinstance(self.target, StoreTarget)

    def ask(self, request: Request[R]) -> R:
        """One call in a session of its own."""
        return self.session(lambda caller: caller.call(request))

    def session(self, work: Callable[[Caller], T]) -> T:
        """Run `work` with an open caller and close it. Errors of opening, calling and work pass."""
        target = self.target
        if isinstance(target, BrokerTarget):
            with _client(target, self.arguments) as client:
                return work(_patient(client, self.arguments))
        return self._run_on_store(target, work)

    def held_session(
        self,
        work: Callable[[Caller], T],
        *,
        leave: Callable[[], None],
        at_once: Callable[[], None] | None = None,
    ) -> T:
        """The same for work that holds leases. SIGINT and SIGTERM do not end it: they call `leave`,
        in another thread than `work`, and then raise Interrupted. A second one calls `at_once`, and
        ends the process."""
        from mqlite_cli.supervision import supervised  # noqa: PLC0415 - needed by few commands

        self.choose()  # its warnings and refusals belong in front of everything else
        return supervised(lambda: self.session(work), leave=leave, at_once=at_once)

    def on_store(self, work: Callable[[StoreCaller], T]) -> T:
        """Run `work` on the local store; the handler has refused anything else."""
        target = self.target
        assert isinstance(target, StoreTarget)
        return self._run_on_store(target, work)

    def in_memory(self, work: Callable[[Caller], T]) -> T:
        """Run `work` on an engine that has no file and ends with the command."""
        return self._run_on_store(None, work)

    def _run_on_store(self, target: StoreTarget | None, work: Callable[[StoreCaller], T]) -> T:
        # Each way of calling is imported only where it is used: a second of start-up otherwise.
        from mqlite_cli.store import run_on_store  # noqa: PLC0415 - see above

        if target is not None:
            refuse_for_store(self.arguments)
        is_reader = self.command.is_reader
        return run_on_store(target, work, environ=self.environ, warn=self.warn, is_reader=is_reader)

    def warn(self, text: str) -> None:
        """One warning line. It shows no token, as errors do not (`dispatch`)."""
        self.streams.complain(without_tokens(f"warning: {text}"))


def _client(target: BrokerTarget, arguments: Arguments) -> AbstractContextManager[Caller]:
    from mqlite_actor.sdk import http_sync  # noqa: PLC0415 - for a broker alone

    seconds, usual = patience_seconds(arguments), http_sync.CONNECT_SECONDS
    return http_sync.HttpSyncClient(
        target.endpoint,
        token=target.token,
        connect_seconds=min(seconds or usual, usual),
        patience_seconds=seconds,
        tls=tls_context(arguments, target.files, is_tls=dial(target.endpoint).is_tls),
    )


def _patient(client: Caller, arguments: Arguments) -> Caller:
    """The client, or one that asks again."""
    if not arguments.has("retries"):
        return client
    from mqlite_cli.retrying import RETRIES_MAX, RetryingCaller  # noqa: PLC0415 - for few

    retries = arguments.number("retries")
    if not 0 <= retries <= RETRIES_MAX:
        raise Refusal(f"--retries must be 0 to {RETRIES_MAX}")
    return RetryingCaller(client, retries)
