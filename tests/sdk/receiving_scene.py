"""The receiver's tests: an engine with a queue, hooks that listen, calls that fail."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import mqlite_actor as mq
from mqlite_actor.contract import wire
from mqlite_actor.sdk.handle import Handle
from tests.sdk.loops import run

R = TypeVar("R")

Body = Callable[[mq.Embedded], Awaitable[None]]


def on_queue(backend: str, body: Body) -> None:
    """Run a test's body with an engine that has the queue "q"."""

    async def main() -> None:
        async with mq.open_embedded(":memory:") as q:
            await q.create_queue("q", lock_duration=30, max_delivery_count=5)
            await body(q)

    run(backend, main)


class Heard(mq.ReceiverHooks):
    """Keeps what a receiver told; stops it after so many handled messages."""

    def __init__(self) -> None:
        self.claims: list[int] = []
        self.ended: list[tuple[int, Exception | None]] = []
        self.verdicts: list[tuple[int, mq.Verdict | None]] = []
        self.lost: list[int] = []
        self.errors: list[Exception] = []

    def claimed(self, messages: int) -> None:
        self.claims.append(messages)

    def handled(self, message: mq.Received, seconds: float, error: Exception | None) -> None:
        assert seconds >= 0
        self.ended.append((message.seq_number, error))

    def settled(self, message: mq.Received, verdict: mq.Verdict | None) -> None:
        self.verdicts.append((message.seq_number, verdict))

    def lease_lost(self, message: mq.Received) -> None:
        self.lost.append(message.seq_number)

    def trouble(self, error: mq.MqliteError) -> None:
        self.errors.append(error)


class Stopping(Heard):
    """Stops its receiver behind the first message."""

    receiver: Any

    def settled(self, message: mq.Received, verdict: mq.Verdict | None) -> None:
        super().settled(message, verdict)
        self.receiver.stop()


class Failing(Handle):
    """A handle whose calls of one kind fail with the given errors first."""

    def __init__(self, q: Handle, kind: type, errors: list[Exception]) -> None:
        self._q = q
        self._kind = kind
        self.errors = errors
        self.asked: list[Any] = []

    async def call(self, request: wire.Request[R]) -> R:
        if isinstance(request, self._kind):
            self.asked.append(request)
            if self.errors:
                raise self.errors.pop(0)
        return await self._q.call(request)


async def nothing(_: object) -> None:
    return
