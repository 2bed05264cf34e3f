"""The verbs of our own routes against a broker that does not have them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from mqlite_actor.contract import wire
from mqlite_actor.contract.calls import EXT
from mqlite_actor.contract.errors import LockLost, Unsupported
from mqlite_actor.engine.engine import Engine
from mqlite_actor.sdk import exchange
from mqlite_actor.sdk.handle import Handle

R = TypeVar("R")

OURS = {call.request for call in EXT}


class Older(Handle):
    """An engine as a broker without our routes shows it: they are answered with its 404."""

    __slots__ = ("engine",)

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    async def call(self, request: wire.Request[R]) -> R:
        if type(request) in OURS:
            path = exchange.to_http(request).path
            content = b'{"code":"not_found","message":"no such path: %s"}' % path.encode()
            return exchange.from_http(request, status=404, content=content)
        return await self.engine.call(request)


@pytest.fixture
async def older(engine: Engine) -> Older:
    handle = Older(engine)
    await handle.create_queue("q", max_delivery_count=2)
    await handle.send("q", [b"1", b"2", b"3"])
    return handle


VERBS: dict[str, Callable[[Handle], Coroutine[Any, Any, object]]] = {
    "explain": lambda q: q.explain("q"),
    "search": lambda q: q.search("q"),
    "send_result": lambda q: q.send_result("q", [b"x"]),
    "describe_queue": lambda q: q.describe_queue("q"),
    "update_queue": lambda q: q.update_queue("q", max_delivery_count=9),
    "delete_subscription": lambda q: q.delete_subscription("t", "q"),
    "purge_active": lambda q: q.purge_active("q", expected_count=3),
    "redrive_selected": lambda q: q.redrive_selected("q", [1]),
    "resubmit": lambda q: q.resubmit("q", 1, body=b"x"),
    "backup": lambda q: q.backup("x.db"),
}


@pytest.mark.parametrize("verb", VERBS)
async def test_a_verb_that_the_broker_lacks_is_unsupported_and_nothing_else_is_tried(
    older: Older, verb: str
) -> None:
    before = await older.peek("q")
    with pytest.raises(Unsupported, match="no such path"):
        await VERBS[verb](older)
    assert await older.peek("q") == before


async def test_a_release_becomes_an_abandon_and_the_delivery_counts(older: Older) -> None:
    first, second, third = await older.receive("q", max_messages=3)
    await second.complete()
    assert await older.release([first, second, third]) == [True, False, True]
    again = await older.receive("q", max_messages=3)
    assert [(m.body, m.delivery_count) for m in again] == [(b"1", 2), (b"3", 2)]


async def test_a_message_in_hand_is_released_the_same_way(older: Older) -> None:
    (message,) = await older.receive("q")
    await message.release()
    with pytest.raises(LockLost):
        await message.reject()
    (again,) = await older.receive("q")
    assert again.delivery_count == 2


async def test_everything_of_ours_has_a_verb() -> None:
    verbs = {*VERBS, "release"}
    names = {call.name.partition("/")[2] for call in EXT}
    spelled = {name.replace("_", "").lower() for name in verbs}
    assert spelled == {name.lower() for name in names}
