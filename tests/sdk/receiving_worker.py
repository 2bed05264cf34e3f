"""A worker under SIGTERM: python receiving_worker.py DSN TOKEN FACE BACKEND SECONDS

Started by test_receiver_signals.py. Says what its handlers saw, one line each, and "stopped" when
it ended in order. Handlers of "quick" messages end at once; "slow" ones end when the stop is known
and the broker has been asked once more, "stuck" ones never.
"""

from __future__ import annotations

import sys
import threading

import anyio

import mqlite_actor as mq


def options(seconds: float) -> mq.ReceiverOptions:
    return {
        "concurrency": 3, "auto_renew": True, "stop_signals": mq.STOP_SIGNALS,
        "stop_seconds": seconds,
    }  # fmt: skip


def say(*words: object) -> None:
    """A line as a whole: handlers in threads say theirs at the same time."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


async def on_a_loop(dsn: str, token: str, seconds: float) -> None:
    async with mq.connect(dsn, token=token) as q:
        receiver = q.receiver("q", **options(seconds))

        async def handle(message: mq.HeldMessage) -> None:
            say("saw", message.text, message.delivery_count)
            if message.text == "slow":
                await receiver.stopping.wait()
                await q.stats("q")
            elif message.text == "stuck":
                await anyio.sleep_forever()
            say("did", message.text)

        await receiver.run(handle)
    say("stopped")


def blocking(dsn: str, token: str, seconds: float) -> None:
    with mq.connect_sync(dsn, token=token) as q:
        stopped = threading.Event()
        receiver = q.receiver("q", **options(seconds))

        def handle(message: mq.SyncHeldMessage) -> None:
            say("saw", message.text, message.delivery_count)
            if message.text == "slow":
                while not receiver.is_stopping:
                    stopped.wait(0.01)
            say("did", message.text)

        receiver.run(handle)
    say("stopped")


if __name__ == "__main__":
    dsn, token, face, seconds = sys.argv[1:]
    if face == "blocking":
        blocking(dsn, token, float(seconds))
    else:
        anyio.run(on_a_loop, dsn, token, float(seconds), backend=face)
