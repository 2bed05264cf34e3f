"""Answers of Observe with chosen numbers, and the frames that the monitor must make of them.

`python -m tests.services.monitor_scene` writes the frames of GOLDEN anew into tests/data/monitor;
read the difference before you keep it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from mqlite_actor.contract.observe import (
    BOUNDS_SECONDS,
    MAINTENANCE_TASKS,
    ObserveResponse,
    QueueDepth,
)
from mqlite_monitor.frame import Scene
from mqlite_monitor.sampling import Sampler
from mqlite_monitor.snapshot import Blocked, Detail, Letter, Snapshot
from mqlite_monitor.steering import Steering, View
from mqlite_monitor.view import frame

DATA = Path(__file__).resolve().parents[1] / "data" / "monitor"
START_MS = 1_800_000_000_000
EMPTY = {
    "bounds_seconds": list(BOUNDS_SECONDS),
    "bucket_counts": [0] * len(BOUNDS_SECONDS),
    "count": 0,
    "sum_seconds": 0.0,
}

RUNTIME = {
    "schema_version": "5", "ping_seconds": 0.0004, "read_available": True,
    "db_size_bytes": 1_250_000, "db_size_available": True, "wal_bytes": 830_000,
    "free_bytes": 0, "disk_free_bytes": 71_000_000_000,
}  # fmt: skip
PROCESS = {
    "start_time_seconds": 0.0, "resident_bytes": 61_000_000, "virtual_bytes": 0,
    "open_descriptors": 20, "max_descriptors": 1024,
}  # fmt: skip
STORAGE = {
    "operations": [],
    "pool": {
        "max_open": 5, "open": 2, "in_use": 0, "idle": 2, "wait_count": 0,
        "wait_duration_seconds": 0.0,
    },
}  # fmt: skip


def depth(
    queue: str, *, active: int = 0, dead: int = 0, age_ms: int = 0, **more: int
) -> QueueDepth:
    """The counts of a queue; what is not named is 0."""
    states = {"locked": 0, "deferred": 0, "scheduled": 0, "unexpected": 0, **more}
    return QueueDepth(
        queue=queue,
        active=active,
        dead_lettered=dead,
        total=active + dead + sum(states.values()),
        oldest_message_age_ms=age_ms,
        kind="queue",
        **states,
    )


def answer(
    seconds: float,
    depths: list[QueueDepth] | None,
    events: Mapping[str, Mapping[str, int]] = {},
    *,
    calls: Mapping[str, int] = {},
    waiters: Mapping[str, int] = {},
    failing: str = "",
    started_at_ms: int | None = START_MS,
) -> ObserveResponse:
    """What a broker would answer so many seconds after its start."""
    document = {
        "sampled_at_ms": START_MS + round(seconds * 1000),
        "started_at_ms": started_at_ms,
        "backend": "local",
        "runtime": RUNTIME,
        "collection": {
            "state": "available" if depths is not None else "unavailable",
            "last_success_at_ms": START_MS, "duration_seconds": 0.001,
            "error_code": "" if depths is not None else "busy",
        },
        "queue_count": len(depths or ()),
        "subscription_count": 0,
        "queues": depths,
        "messages": [
            {"queue": queue, "event": event, "count": count}
            for queue, counts in events.items()
            for event, count in counts.items()
        ],
        "storage": STORAGE,
        "maintenance": [_task(task, is_failing=task == failing) for task in MAINTENANCE_TASKS],
        "filters": [],
        "version": "1.2.3",
        "access": "manage",
        "http": {
            "state": "available",
            "requests": [
                {"rpc": rpc, "code": "ok", "count": count, "duration_seconds": 0.0}
                for rpc, count in calls.items()
            ],
            "authentication": [{"outcome": "success", "count": 7}],
            "handler_latency": [
                {
                    "rpc": rpc, "count": count, "sum_seconds": 0.0,
                    "buckets": [
                        {"upper_bound_seconds": bound, "count": count if bound > 0.004 else 0}
                        for bound in BOUNDS_SECONDS
                    ],
                }
                for rpc, count in calls.items()
            ],
        },
        "diagnostics": {"state": "off", "boot_id": "", "earlier_boots": []},
        "mailbox_depth": 0,
        "receive_waiters": [{"queue": name, "count": count} for name, count in waiters.items()],
        "process": {**PROCESS, "cpu_seconds": seconds / 10},
    }  # fmt: skip
    return msgspec.convert(document, ObserveResponse)


def _task(task: str, *, is_failing: bool) -> dict[str, object]:
    return {
        "enabled": True, "task": task, "runs": 4, "interrupted": 0, "failures": int(is_failing),
        "last_success_at_ms": START_MS, "duration": {**EMPTY, "count": 4, "sum_seconds": 0.002},
        "last_failure_at_ms": 0, "last_error_code": "io" if is_failing else "",
        "consecutive_failures": int(is_failing), "recovered_at_ms": 0,
        "health": "failing" if is_failing else "ok",
    }  # fmt: skip


def busy(*, failing: str = "") -> Snapshot:
    """Six seconds of a broker with one queue that nobody reads, one that fails, one in order, and
    one with a hostile name."""
    sampler = Sampler()
    snapshots = [
        sampler.take(
            answer(
                3600 + tick,
                [
                    depth("audit", active=tick * 20, age_ms=tick * 1000),
                    depth("mail", active=2, dead=tick, locked=1, age_ms=300),
                    depth("orders", active=3, locked=4, scheduled=12, age_ms=90),
                    depth("[/red]\x1b[2J\u202e", active=1, age_ms=5000),
                ],
                {
                    "audit": {"enqueued": tick * 20},
                    "mail": {"enqueued": tick, "delivered": tick, "dead_lettered": tick},
                    "orders": {"enqueued": tick * 50, "delivered": tick * 50,
                               "completed": tick * 50},
                },
                calls={"QueueService/Send": 100 * tick, "QueueService/Receive": 60 * tick,
                       "AdminService/Observe": tick},
                waiters={"orders": 2},
                failing=failing,
            )
        )
        for tick in range(1, 8)
    ]  # fmt: skip
    return snapshots[-1]


DETAIL = Detail(
    queue="mail",
    letters=[
        Letter(seq_number=17, enqueued_at_ms=START_MS + 3_600_000, delivery_count=10,
               reason="MaxDeliveryCountExceeded", description=""),
        Letter(seq_number=19, enqueued_at_ms=START_MS + 3_605_000, delivery_count=1,
               reason="[b", description="bad \x1b]52;c;aGk=\x07 address"),
    ],
    blocked=[Blocked(group_id="g\u202e1", seq_number=18, explanation="it is locked", waiting=3)],
    explanation="message 18 is locked",
)  # fmt: skip

QUEUES = Scene(snapshot=busy(), state=Steering(selected="mail"), source="http://127.0.0.1:6754")
LOOK = msgspec.structs.replace(
    QUEUES, state=Steering(view=View.QUEUE, selected="mail"), detail=DETAIL
)
REFUSED = Detail(queue="mail", letters="needs a credential with the right listen",
                 blocked="needs a credential with the right listen", explanation="")  # fmt: skip

GOLDEN: dict[str, tuple[Scene, int, int]] = {
    "queues-120x20": (QUEUES, 120, 20),
    "queues-80x24": (QUEUES, 80, 24),
    "queues-40x10": (QUEUES, 40, 10),
    "stale-80x10": (
        msgspec.structs.replace(QUEUES, stale="for 3s, trying again: cannot connect"), 80, 10
    ),
    "connecting-40x10": (Scene(snapshot=None, state=Steering(), source="mq.db"), 40, 10),
    "queue-80x24": (LOOK, 80, 24),
    "queue-refused-80x30": (msgspec.structs.replace(LOOK, detail=REFUSED), 80, 30),
    "queue-40x10": (LOOK, 40, 10),
    "calls-80x12": (msgspec.structs.replace(QUEUES, state=Steering(view=View.CALLS)), 80, 12),
    "maintenance-80x24": (
        Scene(snapshot=busy(failing="ttl"), state=Steering(view=View.MAINTENANCE), source="x"),
        80, 24,
    ),
    "help-60x20": (msgspec.structs.replace(QUEUES, state=Steering(view=View.HELP)), 60, 20),
}  # fmt: skip
"""Name of the file → scene, width, height."""


def text(scene: Scene, width: int, height: int) -> str:
    """The frame as a terminal shows it, without colours; trailing spaces do not count."""
    return "".join(f"{line.plain.rstrip()}\n" for line in frame(scene, width=width, height=height))


if __name__ == "__main__":
    DATA.mkdir(exist_ok=True)
    for name, (scene, width, height) in GOLDEN.items():
        (DATA / f"{name}.txt").write_text(text(scene, width, height), encoding="utf-8")
