"""`ping` and `wait-ready`: is it there, how far away, and does it take our credential?

Called by `dispatch` through the command table. Both ask for Status, which needs a credential and
changes nothing. Rule: what waiting can mend is waited for, everything else is said at once.
"""

from __future__ import annotations

import threading

from mqlite_actor.clock import SystemClock
from mqlite_actor.contract.errors import DatabaseLocked, OutcomeUnknown, Unavailable
from mqlite_actor.contract.wire import StatusRequest
from mqlite_actor.sdk.durations import nanoseconds_to_ms
from mqlite_cli.invocation import Caller, Invocation
from mqlite_cli.refusals import Refusal

_WITHIN_MS = 30_000
"""Well over the start of a broker, short for a person."""

_PAUSE_SECONDS = 0.05
_PAUSE_SECONDS_MAX = 1.0
"""Between two attempts, doubled each time."""

PINGS_MAX = 1_000


def ping(run: Invocation) -> int:
    """`ping`: the first call includes connecting, or opening the file."""
    count = run.arguments.number("count", 1)
    if not 1 <= count <= PINGS_MAX:
        raise Refusal(f"--count must be 1 to {PINGS_MAX}")
    clock = SystemClock()
    before = clock.monotonic()
    took: list[float] = []

    def work(caller: Caller) -> None:
        nonlocal before
        for _ in range(count):
            caller.call(StatusRequest())
            now = clock.monotonic()
            took.append(1000 * (now - before))
            before = now

    run.session(work)
    took.sort()
    figures = {
        "min_ms": round(took[0], 3),
        "avg_ms": round(sum(took) / count, 3),
        "max_ms": round(took[-1], 3),
        "p50_ms": round(took[(count - 1) // 2], 3),
        "p99_ms": round(took[(99 * count - 1) // 100], 3),
    }
    line = " ".join(f"{name}={value:.3f}" for name, value in figures.items())
    run.output.took_effect(
        {"action": "ping", "calls": count, **figures}, line=f"ok: action=ping calls={count} {line}"
    )
    return 0


def wait_ready(run: Invocation) -> int:
    """`wait-ready`: 0 once Status is answered; the last error, and 1, when time is out."""
    arguments = run.arguments
    within_ms = _WITHIN_MS
    if arguments.has("within"):
        within_ms = nanoseconds_to_ms(
            arguments.number("within"), field="--within", is_zero_allowed=True
        )
    clock = SystemClock()
    start = clock.monotonic()
    pause, attempts = _PAUSE_SECONDS, 0
    while True:
        attempts += 1
        try:
            run.ask(StatusRequest())
            break
        except (Unavailable, OutcomeUnknown, DatabaseLocked) as error:
            waited = clock.monotonic() - start
            if 1000 * (waited + pause) > within_ms:
                error.add_note(f"not ready after {attempts} attempt(s) in {waited:.1f}s")
                raise
        threading.Event().wait(pause)
        pause = min(2 * pause, _PAUSE_SECONDS_MAX)
    waited_ms = round(1000 * (clock.monotonic() - start))
    run.output.done({"action": "wait-ready", "attempts": attempts, "waited_ms": waited_ms})
    return 0
