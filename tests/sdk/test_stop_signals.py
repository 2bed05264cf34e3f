"""A receiver that is to heed signals runs in the main thread, or says so before it claims."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

import mqlite_actor as mq
from tests.sdk.loops import BOUND_SECONDS, both_loops
from tests.sdk.receiving_scene import on_queue

WORDS = "stop_signals: signals arrive in the main thread"


async def nothing(*_: object) -> None:
    return


def plainly(*_: object) -> None:
    return


def elsewhere(function: Callable[[], None]) -> None:
    """Run it in another thread; raises what it raised."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            function()
        except BaseException as error:  # noqa: BLE001  # it is raised in the test
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(BOUND_SECONDS)
    assert not thread.is_alive()
    if raised:
        raise raised[0]


@both_loops
def test_outside_of_the_main_thread_signals_are_refused_before_a_claim(backend: str) -> None:
    async def body(q: mq.Embedded) -> None:
        await q.send_one("q", b"1")
        options: mq.ReceiverOptions = {"stop_signals": mq.STOP_SIGNALS}
        for handler in (nothing, plainly):
            for receiver in (q.receiver("q", **options), q.queue("q", int).receiver(**options)):
                with pytest.raises(mq.InvalidArgument, match=WORDS):
                    await receiver.run(handler)
        (message,) = await q.peek("q")
        assert (message.state, message.delivery_count) == ("active", 0)

    elsewhere(lambda: on_queue(backend, body))


def test_a_blocking_program_is_told_the_same() -> None:
    def body() -> None:
        with mq.open_embedded_sync(":memory:") as q:
            q.create_queue("q")
            q.send_one("q", b"1")
            options: mq.ReceiverOptions = {"stop_signals": mq.STOP_SIGNALS}
            for receiver in (q.receiver("q", **options), q.queue("q", int).receiver(**options)):
                with pytest.raises(mq.InvalidArgument, match=WORDS):
                    receiver.run(plainly)
            (message,) = q.peek("q")
            assert (message.state, message.delivery_count) == ("active", 0)

    elsewhere(body)
