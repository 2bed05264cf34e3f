"""The blocking face: every verb of `Handle` again, made from it by delegation.

Used by programs without a loop: scripts, Flask, Django, threads. `blocking` turns an async verb
into a plain one with the same signature and docstring: the verb awaits nothing but its `call`, so
over a `call` that blocks it runs to its end in one go. A test compares the faces name by name.
Rules: a handle may be shared by any number of threads; KeyboardInterrupt leaves the outcome open
and the handle usable; after a fork, after the end and inside its own transaction it raises at once.
"""

from __future__ import annotations

import functools
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    contextmanager,
    nullcontext,
)
from functools import partial
from importlib import import_module
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    ParamSpec,
    Protocol,
    TypeVar,
    Unpack,
    cast,
)

from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import Unsupported
from mqlite_actor.contract.wire import Message
from mqlite_actor.sdk.address import Endpoint
from mqlite_actor.sdk.durations import Duration
from mqlite_actor.sdk.handle import Handle
from mqlite_actor.sdk.http_clock import BrokerClock
from mqlite_actor.sdk.http_sync import HttpSyncClient
from mqlite_actor.sdk.message import Received, ReceivedMessage
from mqlite_actor.sdk.origin import check_process, here

if TYPE_CHECKING:
    from mqlite_actor.sdk.background import Background
    from mqlite_actor.sdk.blocking_receiver import SyncReceiver
    from mqlite_actor.sdk.blocking_typed import SyncTypedQueue
    from mqlite_actor.sdk.receiving import ReceiverOptions

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Ask(Protocol):
    """How a request gets its answer, blocking."""

    def __call__(self, request: wire.Request[R]) -> R: ...


class GiveBack(Protocol):
    """How unseen claims go back, blocking."""

    def __call__(self, queue: str, messages: Sequence[Message], *, attempt_id: str) -> None: ...


def finished(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a verb whose `call` blocks, and which therefore never waits for a loop."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return cast("T", stop.value)
    coroutine.close()
    raise AssertionError("the verb waited for something other than its call")


def blocking(
    verb: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """The same verb for a class that keeps its async twin as `_twin`.

    The twin's own method is asked, which may override the one that is named here.
    """
    name = verb.__name__

    @functools.wraps(verb)
    def run(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:  # noqa: ANN401  # any of ours
        return cast("T", finished(getattr(self._twin, name)(*args, **kwargs)))

    return run


def blocking_messages(
    verb: Callable[Concatenate[Any, P], Coroutine[Any, Any, list[ReceivedMessage]]],
) -> Callable[Concatenate[Any, P], list[SyncReceivedMessage]]:
    """The same for a verb whose messages come with blocking verbs of their own."""
    name = verb.__name__

    @functools.wraps(verb)
    def run(
        self: Any,  # noqa: ANN401  # any of ours
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> list[SyncReceivedMessage]:
        return [
            SyncReceivedMessage(m) for m in finished(getattr(self._twin, name)(*args, **kwargs))
        ]

    return run


class Twin(Handle):
    """The async handle behind a blocking one; its `call` never waits for a loop."""

    __slots__ = ("_ask", "_now_ms", "_return")

    def __init__(
        self,
        ask: Ask,
        *,
        now_ms: Callable[[], int] | None = None,
        give_back: GiveBack | None = None,
    ) -> None:
        self._ask = ask
        self._now_ms = now_ms
        self._return = give_back

    async def call(self, request: wire.Request[R]) -> R:
        return self._ask(request)

    def now_ms(self) -> int:
        return super().now_ms() if self._now_ms is None else self._now_ms()

    async def give_back(
        self, queue: str, messages: Sequence[Message], *, attempt_id: str = ""
    ) -> None:
        if self._return is None:
            await super().give_back(queue, messages, attempt_id=attempt_id)
        else:
            self._return(queue, messages, attempt_id=attempt_id)

    async def pause(self, seconds: float) -> None:
        threading.Event().wait(seconds)

    def _guarded(self, *_: object, **__: object) -> AbstractAsyncContextManager[None]:
        return nullcontext()  # nobody cancels what blocks; after an interrupt the leases end


class SyncReceivedMessage(Received):
    """A message in hand, for a blocking program. Settle it exactly once."""

    __slots__ = ("_twin",)

    def __init__(self, twin: ReceivedMessage) -> None:
        super().__init__(twin.queue, twin.raw)
        self._twin = twin

    complete = blocking(ReceivedMessage.complete)
    abandon = blocking(ReceivedMessage.abandon)
    reject = blocking(ReceivedMessage.reject)
    defer = blocking(ReceivedMessage.defer)
    release = blocking(ReceivedMessage.release)
    renew = blocking(ReceivedMessage.renew)


async def _next(messages: AsyncIterator[ReceivedMessage]) -> ReceivedMessage | None:
    return await anext(messages, None)


class SyncHandle:
    """Queues, messages and their verbs, blocking. Any number of threads may share it.

    The same verbs with the same errors as `Handle`. An interrupt (KeyboardInterrupt) leaves open
    whether the call took effect; an interrupted `receive` gives back what it had claimed where the
    engine is in this process.
    """

    __slots__ = ("_twin",)

    def __init__(
        self,
        ask: Ask,
        *,
        now_ms: Callable[[], int] | None = None,
        give_back: GiveBack | None = None,
    ) -> None:
        self._twin: Handle = Twin(ask, now_ms=now_ms, give_back=give_back)

    def receiver(self, queue: str, **options: Unpack[ReceiverOptions]) -> SyncReceiver:
        """A consumer of this queue, to be `run` with a handler. Options: `ReceiverOptions`.

        Handlers run in threads of their own, `concurrency` at once.
        """
        module = import_module("mqlite_actor.sdk.blocking_receiver")
        return cast("SyncReceiver", module.SyncReceiver(self._lend, queue, options))

    def _lend(self) -> AbstractContextManager[Background[Any]]:
        """A trio thread with an async handle to the same engine open in it."""
        raise Unsupported("this handle cannot run a receiver")

    call = blocking(Handle.call)
    wait_ready = blocking(Handle.wait_ready)
    send_all = blocking(Handle.send_all)
    reply = blocking(Handle.reply)

    def consume(
        self, queue: str, *, wait: Duration = 20, until_empty: bool = False
    ) -> Iterator[SyncReceivedMessage]:
        """`for message in q.consume("orders")`: one message after the other, as `Handle.consume`
        does it."""
        messages = self._twin.consume(queue, wait=wait, until_empty=until_empty)
        while (message := finished(_next(messages))) is not None:
            yield SyncReceivedMessage(message)

    def queue(self, name: str, kind: type[T]) -> SyncTypedQueue[T]:
        """A queue of JSON bodies of one type (struct, dataclass, list[int] …), or a refusal."""
        module = import_module("mqlite_actor.sdk.blocking_typed")
        return cast("SyncTypedQueue[T]", module.SyncTypedQueue(self, self._twin, name, kind))

    create_queue = blocking(Handle.create_queue)
    list_queues = blocking(Handle.list_queues)
    delete_queue = blocking(Handle.delete_queue)
    subscribe = blocking(Handle.subscribe)
    test_filter = blocking(Handle.test_filter)
    list_subscriptions = blocking(Handle.list_subscriptions)
    stats = blocking(Handle.stats)
    status = blocking(Handle.status)
    send_one = blocking(Handle.send_one)
    send = blocking(Handle.send)
    cancel = blocking(Handle.cancel)
    receive = blocking_messages(Handle.receive)
    receive_deferred = blocking_messages(Handle.receive_deferred)
    peek = blocking(Handle.peek)
    redrive = blocking(Handle.redrive)
    purge = blocking(Handle.purge)
    complete_batch = blocking(Handle.complete_batch)
    renew_batch = blocking(Handle.renew_batch)
    give_back = blocking(Handle.give_back)
    pause = blocking(Handle.pause)
    send_result = blocking(Handle.send_result)
    release = blocking(Handle.release)
    explain = blocking(Handle.explain)
    search = blocking(Handle.search)
    describe_queue = blocking(Handle.describe_queue)
    update_queue = blocking(Handle.update_queue)
    delete_subscription = blocking(Handle.delete_subscription)
    purge_active = blocking(Handle.purge_active)
    redrive_selected = blocking(Handle.redrive_selected)
    resubmit = blocking(Handle.resubmit)
    backup = blocking(Handle.backup)
    observe = blocking(Handle.observe)
    create_key = blocking(Handle.create_key)
    find_key = blocking(Handle.find_key)
    list_keys = blocking(Handle.list_keys)
    revoke_key = blocking(Handle.revoke_key)

    def now_ms(self) -> int:
        """The engine's wall clock, as far as it is known here."""
        return self._twin.now_ms()

    def message(self, queue: str, seq_number: int, lock_token: str) -> SyncReceivedMessage:
        """A message in hand rebuilt from its lease, to settle it; asks nobody."""
        return SyncReceivedMessage(self._twin.message(queue, seq_number, lock_token))


@contextmanager
def open_http_sync(
    endpoint: Endpoint, *, token: str | None = None, tls: ssl.SSLContext | None = None
) -> Iterator[SyncHandle]:
    """A broker over the light HTTP client, for the length of a block."""
    origin, clock = here(), BrokerClock()
    with HttpSyncClient(endpoint, token=token, tls=tls, broker_clock=clock) as client:

        def ask(request: wire.Request[R]) -> R:
            check_process(origin)
            return client.call(request)

        yield SyncHttp(ask, partial(_open_async, endpoint, token, tls), now_ms=clock.now_ms)


class SyncHttp(SyncHandle):
    """A broker over the light HTTP client; its receivers use the other one, in a trio thread."""

    __slots__ = ("_opening",)

    def __init__(
        self,
        ask: Ask,
        opening: Callable[[], AbstractAsyncContextManager[Any]],
        *,
        now_ms: Callable[[], int],
    ) -> None:
        super().__init__(ask, now_ms=now_ms)
        self._opening = opening

    @contextmanager
    def _lend(self) -> Iterator[Background[Any]]:
        module = import_module("mqlite_actor.sdk.background")
        background: Background[Any] = module.Background(self._opening)
        background.start()
        try:
            yield background
        finally:
            background.close()


def _open_async(
    endpoint: Endpoint, token: str | None, tls: ssl.SSLContext | None
) -> AbstractAsyncContextManager[Any]:
    opening = client_of_loops().open_http(endpoint, token=token, tls=tls)
    return cast("AbstractAsyncContextManager[Any]", opening)


def client_of_loops() -> Any:  # noqa: ANN401  # a module is of no type
    """The HTTP client of trio and asyncio, which a blocking receiver and requester use as well."""
    try:
        return import_module("mqlite_actor.sdk.http_async")
    except ModuleNotFoundError as error:
        if error.name != "httpcore":
            raise
        raise Unsupported(
            "install mqlite-actor[client] to reach a broker from a loop, a receiver or a requester"
        ) from error
