"""A handle is not closed by what its closing would wait for."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import trio

import mqlite_actor as mq
from mqlite_actor.sdk.blocking_receiver import SyncReceiver
from mqlite_actor.sdk.blocking_typed import SyncTypedReceiver
from tests.sdk.loops import BOUND_SECONDS


class Closing(mq.ReceiverHooks):
    """Calls something when a message was claimed."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call

    def claimed(self, messages: int) -> None:
        if messages:
            self._call()


@pytest.mark.parametrize("place", ["handler", "typed handler", "hook", "policy"])
def test_closing_from_inside_a_receiver_is_refused_at_once(place: str) -> None:
    refusals: list[str] = []
    with mq.open_embedded_sync(":memory:") as q:
        q.create_queue("q")
        q.send_one("q", {})

        def close() -> None:
            with pytest.raises(mq.InvalidArgument) as refused:
                q.close()
            refusals.append(refused.value.message)

        def handle(*_: object) -> None:
            receiver.stop()
            if "handler" in place:
                close()
            if place == "policy":
                raise ValueError("for the policy")

        def decide(*_: object) -> mq.Verdict:
            close()
            return mq.DeadLetter()

        options: mq.ReceiverOptions = {}
        if place == "hook":
            options["hooks"] = Closing(close)
        if place == "policy":
            options["on_failure"] = decide
        receiver: SyncReceiver | SyncTypedReceiver[dict[str, str]]
        if place == "typed handler":
            typed = receiver = q.queue("q", dict[str, str]).receiver(**options)
            runner = threading.Thread(target=typed.run, args=(handle,))
        else:
            plain = receiver = q.receiver("q", **options)
            runner = threading.Thread(target=plain.run, args=(handle,))
        runner.start()
        runner.join(BOUND_SECONDS)
        assert not runner.is_alive()
        assert len(refusals) == 1
        assert refusals[0].startswith("close() in a handler")
        assert q.stats("q").total == (1 if place == "policy" else 0), "the handle is open"


def test_a_handler_of_one_handle_closes_another_one() -> None:
    with mq.open_embedded_sync(":memory:") as q:
        q.create_queue("q")
        q.send_one("q", b"x")
        receiver = q.receiver("q")

        def handle(_: mq.SyncHeldMessage) -> None:
            receiver.stop()
            with mq.open_embedded_sync(":memory:") as other:
                other.create_queue("q")

        receiver.run(handle)
        assert q.stats("q").total == 0


def test_a_thread_that_another_trio_run_has_lent_closes_a_handle() -> None:
    async def main() -> None:
        with mq.open_embedded_sync(":memory:") as q, trio.fail_after(BOUND_SECONDS):
            await trio.to_thread.run_sync(q.close)
            q.close()  # in a task of another run

    trio.run(main)
