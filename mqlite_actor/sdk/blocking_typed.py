"""The blocking face of `typed`: queues whose bodies are values of one type.

Made by `SyncHandle.queue`; the verbs come from the async class by delegation, as in `blocking`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar, Unpack

from mqlite_actor.contract.errors import InvalidArgument
from mqlite_actor.sdk.blocking import SyncHandle, SyncReceivedMessage, blocking, finished
from mqlite_actor.sdk.blocking_receiver import NOT_PLAIN, SyncReceiver
from mqlite_actor.sdk.durations import Duration
from mqlite_actor.sdk.handle import Handle
from mqlite_actor.sdk.held import SyncHeldMessage
from mqlite_actor.sdk.receiver import is_for_loop
from mqlite_actor.sdk.receiving import ReceiverOptions
from mqlite_actor.sdk.typed import TypedQueue, deciding, value_of

T = TypeVar("T")


class SyncTypedQueue(Generic[T]):
    """One queue and the type of its bodies."""

    __slots__ = ("_handle", "_twin", "kind", "name")

    def __init__(self, handle: SyncHandle, twin: Handle, name: str, kind: type[T]) -> None:
        self._handle = handle
        self._twin = TypedQueue(twin, name, kind)
        self.name = name
        self.kind = kind

    send_one = blocking(TypedQueue[T].send_one)
    send = blocking(TypedQueue[T].send)

    def receive(
        self, *, max_messages: int = 1, wait: Duration = 0
    ) -> list[tuple[T, SyncReceivedMessage]]:
        """As `SyncHandle.receive`, each message with its value.

        One whose body does not fit is rejected, and left out.
        """
        found = finished(self._twin.receive(max_messages=max_messages, wait=wait))
        return [(value, SyncReceivedMessage(message)) for value, message in found]

    def receiver(self, **options: Unpack[ReceiverOptions]) -> SyncTypedReceiver[T]:
        """A consumer whose handler gets the value and the message. Options: `ReceiverOptions`."""
        given: ReceiverOptions = {**options, "on_failure": deciding(options.get("on_failure"))}
        return SyncTypedReceiver(self._handle.receiver(self.name, **given), self.kind)


class SyncTypedReceiver(Generic[T]):
    """A receiver that decodes before it calls."""

    __slots__ = ("_kind", "_receiver")

    def __init__(self, receiver: SyncReceiver, kind: type[T]) -> None:
        self._receiver = receiver
        self._kind = kind

    def run(self, handler: Callable[[T, SyncHeldMessage], object]) -> None:
        """As `SyncReceiver.run`; `handler` is a plain function of the value and the message."""
        if is_for_loop(handler):
            raise InvalidArgument(NOT_PLAIN)

        def handle(message: SyncHeldMessage) -> object:
            return handler(value_of(message, self._kind), message)

        self._receiver.run(handle)

    @property
    def is_stopping(self) -> bool:
        """Whether no more is claimed, so that a long handler can come to its end."""
        return self._receiver.is_stopping

    def stop(self) -> None:
        """Claim no more, let running handlers finish within the limit, return from `run`."""
        self._receiver.stop()
