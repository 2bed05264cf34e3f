"""What a program catches does not depend on where its engine runs."""

from __future__ import annotations

import ast
from collections.abc import Awaitable, Callable

import pytest

from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import (
    InvalidArgument,
    InvalidFilter,
    MqliteError,
    NotFound,
    QueueNotFound,
)
from mqlite_actor.sdk.exchange import narrowed
from mqlite_actor.sdk.handle import Handle
from tests.contract.test_mistakes import MISTAKES
from tests.house.tree import sources

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


async def test_a_mistake_is_refused_by_its_place_through_every_handle(handle: Handle) -> None:
    for words, request in MISTAKES.items():
        with pytest.raises(InvalidArgument) as caught:
            await handle.call(request)
        assert caught.value.message.startswith(words)


def test_words_tell_a_queue_that_is_missing_from_anything_else() -> None:
    """Every raise of the package: so that new words are told apart too."""
    found = set()
    for source in sources(("mqlite_actor/",)):
        for node in source.nodes:
            name = getattr(getattr(node, "func", None), "id", "")
            if not isinstance(node, ast.Call) or name not in ("NotFound", "QueueNotFound"):
                continue
            words = node.args[0]
            first = words.values[0] if isinstance(words, ast.JoinedStr) else words
            said = str(first.value) if isinstance(first, ast.Constant) else "'a name' "
            told = narrowed(wire.CancelRequest(queue="q", seq_number=1), NotFound(said))
            assert type(told).__name__ == name, said
            found.add(name)
    assert found == {"NotFound", "QueueNotFound"}
