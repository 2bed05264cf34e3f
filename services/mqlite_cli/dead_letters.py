"""Commands about dead letters: redrive, purge-dlq.

Called by `dispatch` through the command table. Rule: on the wire 0 means "no bound", so a purge
that would come out as 0 is refused unless `--all` says so: nobody deletes everything by a slip.
"""

from __future__ import annotations

from mqlite_actor.contract.errors import InvalidArgument
from mqlite_actor.contract.wire import PurgeRequest, RedriveRequest
from mqlite_actor.sdk.durations import nanoseconds_to_ms
from mqlite_cli.grammar import Arguments
from mqlite_cli.invocation import Invocation
from mqlite_cli.refusals import Refusal


def redrive(run: Invocation) -> int:
    """`redrive QUEUE`: in place, or to another queue."""
    (queue,) = run.arguments.words
    request = RedriveRequest(
        queue=queue,
        target=run.arguments.text("to"),
        max=_bound(run.arguments, "max"),
        older_than_ms=nanoseconds_to_ms(
            run.arguments.number("older-than"), field="--older-than", is_zero_allowed=True
        ),
        rate_per_sec=_bound(run.arguments, "rate"),
    )
    moved = run.ask(request).moved
    run.output.done({"action": "redrive", "moved": moved})
    return 0


def purge(run: Invocation) -> int:
    """`purge-dlq QUEUE`: never without a bound that was meant."""
    arguments = run.arguments
    (queue,) = arguments.words
    is_bound = arguments.has("max") or arguments.has("older-than")
    if arguments.is_on("all") and is_bound:
        raise Refusal("--all deletes every dead letter, --max and --older-than bound it; give one")
    if not arguments.is_on("all") and not is_bound:
        raise Refusal("say which dead letters: --max, --older-than, or --all for every one")
    maximum = _bound(arguments, "max")
    if arguments.has("max") and maximum == 0:
        raise Refusal("--max 0 bounds nothing; to delete every dead letter give --all")
    older_than_ms = 0
    if arguments.has("older-than"):
        older_than_ms = nanoseconds_to_ms(arguments.number("older-than"), field="--older-than")
    purged = run.ask(PurgeRequest(queue=queue, max=maximum, older_than_ms=older_than_ms)).purged
    run.output.done({"action": "purge-dlq", "purged": purged})
    return 0


def _bound(arguments: Arguments, name: str) -> int:
    number = arguments.number(name)
    if number < 0:
        raise InvalidArgument(f"--{name}: must not be negative")
    return number
