"""Queues whose bodies are values of one type, as JSON: sent, received and handled as such.

Made by `Handle.queue`. A thin layer: everything but the body is the plain queue's. Rule: a body
that does not fit the type is never handed to a program as if it did; a receiver rejects it at once,
because no repetition makes it fit.
"""

from __future__ import annotations

import concurrent.futures
import inspect
import traceback
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from functools import lru_cache, partial
from types import CoroutineType
from typing import Any, Final, Generic, TypeVar, Unpack

import anyio
import msgspec
import msgspec.inspect
import msgspec.json

from mqlite_actor.contract.errors import InvalidArgument, MqliteError
from mqlite_actor.contract.wire import Message
from mqlite_actor.logs import logger
from mqlite_actor.sdk import requests
from mqlite_actor.sdk.durations import Duration
from mqlite_actor.sdk.handle import Handle
from mqlite_actor.sdk.held import EitherHeldMessage, HeldMessage, SyncHeldMessage
from mqlite_actor.sdk.message import Received, ReceivedMessage
from mqlite_actor.sdk.policies import DeadLetter, Policy, Verdict, checked, retry, storable
from mqlite_actor.sdk.receiver import Receiver, is_for_loop
from mqlite_actor.sdk.receiving import CONCURRENCY_MAX, ReceiverOptions
from mqlite_actor.sdk.requests import refuse_unfinished
from mqlite_actor.sdk.unbroken import in_thread

T = TypeVar("T")

UNFIT = "unfit body"
"""The reason of dead letters whose body is not of the queue's type."""

MISSED: Final = object()
"""In place of an answer: the function needs the loop, and did nothing without it."""

LOOPLESS = (
    "no running event loop", "There is no current event loop", "must be called from async context",
    "Not currently running on any", "unknown async library",
)  # fmt: skip
"""How asyncio, trio and anyio begin to say in a thread that no loop runs there."""

CONTAINERS = (
    msgspec.inspect.ListType, msgspec.inspect.SetType, msgspec.inspect.FrozenSetType,
    msgspec.inspect.VarTupleType, msgspec.inspect.DictType,
)  # fmt: skip

_log = logger("mqlite.typed")


class TypedQueue(Generic[T]):
    """One queue and the type of its bodies."""

    __slots__ = ("_handle", "kind", "name")

    def __init__(self, handle: Handle, name: str, kind: type[T]) -> None:
        check_kind(kind)
        self._handle = handle
        self.name = name
        self.kind = kind

    async def send_one(
        self,
        value: T,
        *,
        message_id: str = "",
        group_id: str = "",
        correlation_id: str = "",
        reply_to: str = "",
        subject: str = "",
        properties: Mapping[str, str] | None = None,
        ttl: Duration | None = None,
        at: datetime | None = None,
    ) -> int:
        """As `Handle.send_one`, with a value for a body."""
        return await self._handle.send_one(
            self.name,
            requests.as_json(value),
            message_id=message_id,
            group_id=group_id,
            correlation_id=correlation_id,
            reply_to=reply_to,
            subject=subject,
            content_type=requests.JSON_TYPE,
            properties=properties,
            ttl=ttl,
            at=at,
        )

    async def send(self, values: Iterable[T], *, ttl: Duration | None = None) -> list[int]:
        """As `Handle.send`, with values for bodies."""
        requests.check_many(values)
        messages = [
            Message(body=requests.as_json(value), content_type=requests.JSON_TYPE)
            for value in values
        ]
        return await self._handle.send(self.name, messages, ttl=ttl)

    async def receive(
        self, *, max_messages: int = 1, wait: Duration = 0
    ) -> list[tuple[T, ReceivedMessage]]:
        """As `Handle.receive`, each message with its value.

        One whose body does not fit is rejected, one on which the type itself fails (an exception of
        its `__post_init__`) is abandoned, and both are left out. When that fails it comes again
        after its lease; the others are returned all the same. Cancelled meanwhile, it gives back
        what it has not put aside.
        """
        claimed = await self._handle.receive(self.name, max_messages=max_messages, wait=wait)
        found: list[tuple[T, ReceivedMessage]] = []
        unfit: list[tuple[ReceivedMessage, Callable[[], Awaitable[None]]]] = []
        for message in claimed:
            try:
                found.append((message.decode(self.kind), message))
            except InvalidArgument as error:
                reject = partial(message.reject, UNFIT, storable(error.message))
                unfit.append((message, reject))
            except Exception:  # noqa: BLE001  # the type is the program's own
                _log.exception("message %d of %s made no value", message.seq_number, self.name)
                unfit.append((message, message.abandon))
        if unfit:
            left = [message.raw for message in claimed]
            async with self._handle._guarded(self.name, left, ""):  # noqa: SLF001  # a part of it
                for message, settle in unfit:
                    await self._put_aside(message, settle)
                    left.remove(message.raw)
        return found

    async def _put_aside(
        self, message: ReceivedMessage, settle: Callable[[], Awaitable[None]]
    ) -> None:
        try:
            await settle()
        except MqliteError as error:
            _log.warning(
                "message %d of %s does not fit and could not be settled: %s: %s",
                message.seq_number, self.name, type(error).__name__, error,
            )  # fmt: skip

    def receiver(self, **options: Unpack[ReceiverOptions]) -> TypedReceiver[T]:
        """A consumer whose handler gets the value and the message. Options: `ReceiverOptions`."""
        given: ReceiverOptions = {**options, "on_failure": deciding(options.get("on_failure"))}
        return TypedReceiver(self._handle.receiver(self.name, **given), self.kind)


def check_kind(kind: Any) -> None:  # noqa: ANN401  # whatever a program gives
    """InvalidArgument for a type into which no JSON is decoded: each body would be unfit."""
    try:
        _check_kind(kind)
    except TypeError:  # it has no hash, so nobody remembers it
        _check_kind.__wrapped__(kind)


@lru_cache(256)
def _check_kind(kind: Any) -> None:  # noqa: ANN401  # as above
    try:
        info: object = msgspec.inspect.type_info(kind)
        msgspec.json.Decoder(kind)
    except Exception as error:
        raise InvalidArgument(f"kind: no JSON becomes a {kind!r}: {error}") from error
    while isinstance(info, CONTAINERS):
        info = info.value_type if isinstance(info, msgspec.inspect.DictType) else info.item_type
    if isinstance(info, msgspec.inspect.CustomType) and not _may_be_plain(info.cls):
        raise InvalidArgument(
            f"kind: no JSON becomes a {info.cls.__qualname__}; give a dataclass, a TypedDict, a"
            " msgspec.Struct or a built-in type, or decode plain messages yourself"
        )


def _may_be_plain(kind: type) -> bool:
    """Whether some value of JSON is one as it is: an `object`, an `Iterable`."""
    plain: tuple[object, ...] = ({}, [], "", 0, 0.5, True, None)
    with suppress(TypeError):  # a protocol that cannot be asked
        return any(isinstance(each, kind) for each in plain)
    return True


class UnfitBody(Exception):
    """A body that is not of the queue's type."""


def deciding(policy: Policy | None) -> Policy:
    """The policy, behind the rule that an unfit body becomes a dead letter. InvalidArgument for
    what is none: the receiver sees only the function that is made of it here."""
    rest = checked(policy or retry(), "on_failure")

    def decide(message: Received, error: Exception) -> Verdict:
        return (
            DeadLetter(UNFIT, str(error)) if isinstance(error, UnfitBody) else rest(message, error)
        )

    return decide


class TypedReceiver(Generic[T]):
    """A receiver that decodes before it calls."""

    __slots__ = ("_kind", "_receiver")

    def __init__(self, receiver: Receiver, kind: type[T]) -> None:
        self._receiver = receiver
        self._kind = kind

    async def run(
        self,
        handler: Callable[[T, HeldMessage], Awaitable[object]]
        | Callable[[T, SyncHeldMessage], object],
    ) -> None:
        """As `Receiver.run`; `handler` is a function of the value and the message."""
        await self._receiver.run(_Coloured(handler, self._kind).handle)

    @property
    def stopping(self) -> anyio.Event:
        """Set once no more is claimed, so that a long handler can come to its end."""
        return self._receiver.stopping

    def stop(self) -> None:
        """Claim no more, let running handlers finish within the limit, return from `run`."""
        self._receiver.stop()

    def cut(self) -> None:
        """Stop, and cancel running handlers at once; their messages are abandoned."""
        self._receiver.cut()


class _Coloured:
    """A handler in its colour: on the loop what is to be awaited, in a thread a plain function.

    A lambda or a wrapper looks plain and may return what is to be awaited. What it wraps tells
    nothing, since it may have run that to its end in a loop of its own, and what blocks must not
    come onto ours. So that is seen at its first message: what it returned is awaited on the loop,
    where every later message is handled. It is not called twice for one, since it may have worked
    before it returned; only a decorator's own function that missed the loop in its thread is called
    again there, if nothing of what it wraps can have begun. If it may run elsewhere the message has
    failed, and the next ones are handled on the loop.
    """

    __slots__ = ("_function", "_is_for_loop", "_kind", "_threads")

    def __init__(self, function: Any, kind: Any) -> None:  # noqa: ANN401  # whatever is given
        self._function = function
        self._kind = kind
        self._is_for_loop = is_for_loop(function)
        self._threads = anyio.CapacityLimiter(CONCURRENCY_MAX)  # the receiver bounds them

    async def handle(self, message: HeldMessage) -> None:
        if self._is_for_loop:
            answer = self._called(message)
        else:
            call = partial(self._called_apart, EitherHeldMessage(message))
            answer = await in_thread(call, self._threads)
            if answer is MISSED:
                answer = self._called(message)
        if inspect.isawaitable(answer):
            self._is_for_loop = True
            answer = await answer
        refuse_unfinished(answer, "handler")

    def _called(self, message: HeldMessage | SyncHeldMessage) -> object:
        return self._function(value_of(message, self._kind), message)

    def _called_apart(self, message: SyncHeldMessage) -> object:
        try:
            return self._called(message)
        except RuntimeError as error:
            if not _has_missed_the_loop(self._function, error):
                raise
            self._is_for_loop = True
            if not _is_unbegun(self._function, error):
                raise
            return MISSED


def _has_missed_the_loop(function: Any, error: RuntimeError) -> bool:  # noqa: ANN401  # as above
    """Whether a coroutine function is behind it, and a decorator failed for want of the loop, as
    `asyncio.shield` and `asyncio.create_task` do in a thread."""
    if not inspect.iscoroutinefunction(inspect.unwrap(function)):
        return False
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    if any(frame.f_code.co_flags & inspect.CO_COROUTINE for frame in frames):
        return False  # it ran in a loop of its own
    return str(error).startswith(LOOPLESS)


def _is_unbegun(function: Any, error: RuntimeError) -> bool:  # noqa: ANN401  # as above
    """Whether nothing that the decorator held when it failed had begun, or was given to a loop or
    a thread elsewhere, as `asyncio.run_coroutine_threadsafe` does. Closes it then."""
    inner = inspect.unwrap(function)
    code = getattr(getattr(inner, "__func__", inner), "__code__", None)  # a C function has none
    found: list[CoroutineType[Any, Any, Any]] = []
    for frame, _ in traceback.walk_tb(error.__traceback__):
        for each in frame.f_locals.values():
            if isinstance(each, concurrent.futures.Future):
                return False
            if isinstance(each, CoroutineType):
                found.append(each)
    for each in found:
        is_own = code is None or each.cr_code is code
        if not is_own or inspect.getcoroutinestate(each) != inspect.CORO_CREATED:
            return False
    for each in found:
        each.close()  # else Python warns that nobody awaits it
    return True


def value_of(message: Received, kind: type[T]) -> T:
    """The body as a value; UnfitBody if it is none of the type."""
    try:
        return message.decode(kind)
    except InvalidArgument as error:
        raise UnfitBody(error.message) from error
