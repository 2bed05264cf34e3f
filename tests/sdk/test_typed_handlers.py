"""Handlers of values: each kind of function runs as what it is; none is taken for done unrun."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import anyio
import anyio.from_thread
import pytest

import mqlite_actor as mq
from tests.sdk.loops import both_loops
from tests.sdk.receiving_scene import Heard, on_queue


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, not to be told by its looks."""

    @functools.wraps(function)
    def outer(*given: object) -> Any:  # noqa: ANN401  # what the inner one returns
        return function(*given)

    return outer


@both_loops
@pytest.mark.parametrize("kind", ["plain", "coroutine", "decorated", "lambda"])
def test_a_typed_receiver_runs_a_handler_of_any_kind_once(backend: str, kind: str) -> None:
    async def body(q: mq.Embedded) -> None:
        await q.queue("q", str).send(["first", "stop"])
        receiver = q.queue("q", str).receiver()
        seen: list[tuple[str, bool]] = []
        here = threading.get_ident()

        async def handle(value: str, message: mq.HeldMessage) -> None:
            seen.append((value, threading.get_ident() == here))
            await message.complete()
            if value == "stop":
                receiver.stop()

        def plain(value: str, message: mq.SyncHeldMessage) -> None:
            seen.append((value, threading.get_ident() == here))
            message.complete()
            if value == "stop":
                anyio.from_thread.run_sync(receiver.stop)

        handlers: dict[str, Any] = {
            "plain": plain,
            "coroutine": handle,
            "decorated": decorated(handle),
            "lambda": lambda *given: handle(*given),  # noqa: PLW0108  # that is the question
        }
        await receiver.run(handlers[kind])
        assert seen == [("first", kind != "plain"), ("stop", kind != "plain")]
        assert (await q.stats("q")).total == 0

    on_queue(backend, body)


class Stopping(Heard):
    """Stops its receiver behind the first message."""

    receiver: Any

    def settled(self, message: mq.Received, verdict: mq.Verdict | None) -> None:
        super().settled(message, verdict)
        self.receiver.stop()


@pytest.mark.parametrize("face", ["plain", "typed"])
def test_a_blocking_program_never_completes_what_no_handler_ran_for(face: str) -> None:
    async def handle(*_: object) -> None:
        raise AssertionError("no loop runs it")

    def hidden(*given: object) -> object:
        return handle(*given)

    with mq.open_embedded_sync(":memory:") as q:
        q.create_queue("q", max_delivery_count=1)
        q.queue("q", str).send_one("paid")
        heard = Stopping()
        if face == "typed":
            heard.receiver = q.queue("q", str).receiver(hooks=heard)
        else:
            heard.receiver = q.receiver("q", hooks=heard)
        heard.receiver.run(hidden)
        assert heard.verdicts == [(1, mq.Retry())]
        assert q.stats("q").dead_lettered == 1


@both_loops
def test_a_coroutine_function_in_place_of_a_plain_one_commits_nothing(backend: str) -> None:
    async def work(_: mq.SyncTx) -> None:
        raise AssertionError("no loop runs it")

    def half(tx: mq.SyncTx) -> object:
        tx.send_one("q", b"x")
        return work(tx)

    async def body(q: mq.Embedded) -> None:
        with pytest.raises(mq.InvalidArgument, match="function: a plain one"):
            await q.run_tx(half)
        assert (await q.stats("q")).total == 0

    on_queue(backend, body)
    with mq.open_embedded_sync(":memory:") as q, pytest.raises(mq.InvalidArgument, match="plain"):
        q.run_tx(work)  # type: ignore[unused-coroutine]  # it gives none
