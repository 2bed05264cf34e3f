"""A worker for a container: SIGTERM lets it finish what it has, and takes nothing new.

python graceful_worker.py mqlite://TOKEN@127.0.0.1:6754
"""

import sys

import mqlite_actor as mq


def handle(message: mq.SyncHeldMessage) -> None:
    print("working on", message.text, flush=True)


class Told(mq.ReceiverHooks):
    """Where a real worker would count for its metrics."""

    def trouble(self, error: mq.MqliteError) -> None:
        print("trouble:", error, file=sys.stderr)


with mq.connect_sync(sys.argv[1]) as q:
    q.wait_ready(seconds=30)
    q.create_queue("jobs", lock_duration=30)
    worker = q.receiver(
        "jobs",
        concurrency=4,
        auto_renew=True,
        on_failure=mq.by_exception(
            {ValueError: mq.reject()}, otherwise=mq.retry_exponentially(first=1, longest=60)
        ),
        stop_signals=mq.STOP_SIGNALS,
        stop_seconds=20,
        hooks=Told(),
    )
    print("ready", flush=True)
    worker.run(handle)
print("stopped in order")
