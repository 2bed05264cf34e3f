"""What a program catches does not depend on where its engine runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from mqlite_actor.contract.errors import InvalidFilter, MqliteError, NotFound, QueueNotFound
from mqlite_actor.sdk.handle import Handle

FAILURES: dict[str, tuple[Callable[[Handle, str], Awaitable[object]], type[MqliteError]]] = {
    "send": (lambda q, name: q.send_one(name, b"x"), QueueNotFound),
    "receive": (lambda q, name: q.receive(name), QueueNotFound),
    "deferred": (lambda q, name: q.receive_deferred(name, [1]), QueueNotFound),
    "peek": (lambda q, name: q.peek(name), QueueNotFound),
    "stats": (lambda q, name: q.stats(name), QueueNotFound),
    "describe": (lambda q, name: q.describe_queue(name), QueueNotFound),
    "filter": (lambda q, name: q.subscribe(f"{name}-t", name, filter="1 +"), InvalidFilter),
    "cancel": (lambda q, name: q.cancel(name, 1), NotFound),
}


async def test_a_failure_is_of_the_same_class_through_every_handle(
    handle: Handle, queue: str
) -> None:
    for name, (fail, expected) in FAILURES.items():
        with pytest.raises(expected) as caught:
            await fail(handle, queue)
        assert type(caught.value) is expected, name
