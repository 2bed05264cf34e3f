"""Commands about dead letters: resubmit and purge-dlq; and purge, of active messages.

Called by `dispatch` through the command table; `redrive` is in `redriving`. Rule: on the wire 0
means "no bound", so a purge that would come out as 0 is refused unless `--all` says so: nobody
deletes everything by a slip.
"""

from __future__ import annotations

import msgspec

from mqlite_actor.contract.ext import DescribeQueueRequest, PurgeActiveRequest, ResubmitRequest
from mqlite_actor.contract.wire import PurgeRequest, StatsRequest
from mqlite_actor.contract.words import State
from mqlite_actor.sdk.durations import nanoseconds_to_ms
from mqlite_cli.bodies import read_body
from mqlite_cli.confirming import can_ask, confirm
from mqlite_cli.escaping import field
from mqlite_cli.foretelling import foretell
from mqlite_cli.invocation import Invocation
from mqlite_cli.mending import FIELDS, patch
from mqlite_cli.numbers import read_bound, read_seq
from mqlite_cli.refusals import Refusal


def resubmit(run: Invocation) -> int:
    """`resubmit QUEUE SEQ [BODY…]`: what is given replaces what the dead letter has."""
    arguments = run.arguments
    queue, word, *words = arguments.words
    seq = read_seq(word, name="SEQ")
    changes: dict[str, object] = {
        wire_name: arguments.text(flag) for flag, wire_name in FIELDS.items() if arguments.has(flag)
    }
    if arguments.has("prop"):
        changes["properties"] = arguments.pairs("prop")
    if words or arguments.has("file"):
        changes["body"] = read_body(words, file=arguments.text("file"), streams=run.streams)
    put = run.ask(ResubmitRequest(queue, seq, patch(changes), arguments.text("to")))
    run.output.done({"action": "resubmit", "queue": arguments.text("to") or queue,
                     "seq": put.seq_number})  # fmt: skip
    return 0


def purge_active(run: Invocation) -> int:
    """`purge QUEUE`: active messages, under a guard: the number that was seen, a word of the
    command line, or the queue's name typed at a terminal."""
    (queue,) = run.arguments.words
    maximum = read_bound(run.arguments, "max")
    older_than = run.arguments.number("older-than")
    if (run.arguments.has("max") and not maximum) or (
        run.arguments.has("older-than") and not older_than
    ):
        raise Refusal("a bound of 0 bounds nothing; leave it out to delete all there are")
    request = PurgeActiveRequest(
        queue=queue,
        max=maximum,
        older_than_ms=nanoseconds_to_ms(older_than, field="--older-than", is_zero_allowed=True),
    )
    expected = read_bound(run.arguments, "expect") if run.arguments.has("expect") else None
    if run.arguments.is_on("dry-run"):
        return foretell(run, request, State.ACTIVE, "would_purge")
    if expected is not None:
        guarded = msgspec.structs.replace(request, expected_count=expected)
    elif run.arguments.is_on("yes"):
        generation = run.ask(DescribeQueueRequest(queue)).generation
        guarded = msgspec.structs.replace(request, generation=generation)
    else:
        guarded = _confirmed(run, request)
    run.output.done({"action": "purge", "queue": queue, "purged": run.ask(guarded).purged})
    return 0


def _confirmed(run: Invocation, request: PurgeActiveRequest) -> PurgeActiveRequest:
    """Guarded by the number that somebody was shown before they typed the queue's name."""
    queue = request.queue
    active = run.ask(StatsRequest(queue)).active
    if not active:
        return msgspec.structs.replace(request, expected_count=0)
    if not can_ask(run):
        raise Refusal(
            f"{queue} holds {active} active message(s); --expect {active} deletes them, --yes"
            " however many there are"
        )
    number = min(active, request.max) if request.max else active
    how = "up to " if request.older_than_ms else ""
    confirm(run, queue, f"This deletes {how}{number} active message(s) of {field(queue)} for good.")
    return msgspec.structs.replace(request, expected_count=active)


def purge(run: Invocation) -> int:
    """`purge-dlq QUEUE`: never without a bound that was meant."""
    arguments = run.arguments
    (queue,) = arguments.words
    is_bound = arguments.has("max") or arguments.has("older-than")
    if arguments.is_on("all") and is_bound:
        raise Refusal("--all deletes every dead letter, --max and --older-than bound it; give one")
    if not arguments.is_on("all") and not is_bound:
        raise Refusal("say which dead letters: --max, --older-than, or --all for every one")
    maximum = read_bound(arguments, "max")
    if arguments.has("max") and maximum == 0:
        raise Refusal("--max 0 bounds nothing; to delete every dead letter give --all")
    older_than_ms = 0
    if arguments.has("older-than"):
        older_than_ms = nanoseconds_to_ms(arguments.number("older-than"), field="--older-than")
    request = PurgeRequest(queue=queue, max=maximum, older_than_ms=older_than_ms)
    if arguments.is_on("dry-run"):
        return foretell(run, request, State.DEAD_LETTERED, "would_purge")
    run.output.done({"action": "purge-dlq", "purged": run.ask(request).purged})
    return 0
