"""What the flags of `consume` say, read and checked before anything is claimed.

Called by `consuming`. Rules: a flag that is not given has its default here and nowhere else; what
makes no sense is refused by its name.
"""

from __future__ import annotations

from typing import NamedTuple

from mqlite_actor.sdk.durations import nanoseconds_to_ms
from mqlite_cli.grammar import Arguments
from mqlite_cli.invocation import Invocation
from mqlite_cli.refusals import Refusal

CONCURRENCY_MAX = 256
"""Commands at once; each is a process, a thread and up to two connections."""

DELAY_MS = 1_000
DELAY_MS_MAX = 300_000
"""Before the second delivery by default, doubled for each one after it, and at most: a fault that
passes is retried soon, one that stays costs little."""

GRACE_MS = 30_000
"""What a command gets to end in after a signal by default: as long as the usual lease."""

EXIT_MAX = 255
"""The exit codes that a process has. One that a signal ends has none, whatever its number."""


class Plan(NamedTuple):
    """What the flags say."""

    queue: str
    command: str
    concurrency: int
    most: int
    idle_ms: int
    delay_ms: int
    rejects: bool
    reject_exit: int | None  # by an exit code; None: no code does so
    limit_ms: int
    grace_ms: int


def read_plan(run: Invocation) -> Plan:
    """What they say; Refusal for what makes no sense."""
    arguments = run.arguments
    if not arguments.text("exec"):
        raise Refusal(f"--exec is needed; usage: {run.command.usage}")
    what = arguments.text("on-failure", "abandon")
    if what not in ("abandon", "reject"):
        raise Refusal("--on-failure is abandon or reject")
    concurrency = arguments.number("concurrency", 1)
    if not 1 <= concurrency <= CONCURRENCY_MAX:
        raise Refusal(f"--concurrency must be 1 to {CONCURRENCY_MAX}")
    if arguments.has("count") and arguments.number("count") < 1:
        raise Refusal("--count must be 1 or more")
    reject_exit = arguments.number("reject-exit") if arguments.has("reject-exit") else None
    if reject_exit is not None and not 1 <= reject_exit <= EXIT_MAX:
        raise Refusal(f"--reject-exit must be 1 to {EXIT_MAX}: 0 completes")
    return Plan(
        queue=arguments.words[0],
        command=arguments.text("exec"),
        concurrency=concurrency,
        most=arguments.number("count"),
        idle_ms=_ms(arguments, "idle", 0),
        delay_ms=_ms(arguments, "delay", DELAY_MS),
        rejects=what == "reject",
        reject_exit=reject_exit,
        limit_ms=_ms(arguments, "limit", 0),
        grace_ms=_ms(arguments, "grace", GRACE_MS),
    )


def _ms(arguments: Arguments, name: str, default: int) -> int:
    if not arguments.has(name):
        return default
    return nanoseconds_to_ms(arguments.number(name), field=f"--{name}", is_zero_allowed=True)


def delay_ms(first_ms: int, deliveries: int) -> int:
    """How long to wait after the delivery of this number failed."""
    return min(first_ms << min(max(deliveries - 1, 0), 30), max(first_ms, DELAY_MS_MAX))
