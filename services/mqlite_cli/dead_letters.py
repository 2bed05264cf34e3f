"""Commands about dead letters: redrive, resubmit, purge-dlq; and purge, of active messages.

Called by `dispatch` through the command table. Rule: on the wire 0 means "no bound", so a purge
that would come out as 0 is refused unless `--all` says so: nobody deletes everything by a slip.
"""

from __future__ import annotations

import msgspec

from mqlite_actor.contract.errors import InvalidArgument
from mqlite_actor.contract.ext import (
    MessagePatch,
    PurgeActiveRequest,
    RedriveOutcome,
    RedriveSelectedRequest,
    ResubmitRequest,
)
from mqlite_actor.contract.wire import PurgeRequest, RedriveRequest, StatsRequest
from mqlite_actor.contract.words import State
from mqlite_actor.sdk.durations import nanoseconds_to_ms
from mqlite_cli.bodies import read_body
from mqlite_cli.foretelling import count_chosen, tell
from mqlite_cli.grammar import Arguments
from mqlite_cli.invocation import Invocation
from mqlite_cli.numbers import read_seq, read_seqs
from mqlite_cli.refusals import Refusal

_PATCHED = {
    "message-id": "message_id",
    "correlation-id": "correlation_id",
    "reply-to": "reply_to",
    "group": "group_id",
    "content-type": "content_type",
    "subject": "subject",
}
"""Flag → the field of a dead letter that it replaces."""


def redrive(run: Invocation) -> int:
    """`redrive QUEUE`: in place, or to another queue."""
    (queue,) = run.arguments.words
    if run.arguments.has("seq"):
        return _redrive_selected(run, queue)
    request = RedriveRequest(
        queue=queue,
        target=run.arguments.text("to"),
        max=_bound(run.arguments, "max"),
        older_than_ms=nanoseconds_to_ms(
            run.arguments.number("older-than"), field="--older-than", is_zero_allowed=True
        ),
        rate_per_sec=_bound(run.arguments, "rate"),
    )
    if run.arguments.is_on("dry-run"):
        return _foretell(run, request, State.DEAD_LETTERED, "would_move")
    moved = run.ask(request).moved
    run.output.done({"action": "redrive", "moved": moved})
    return 0


def _redrive_selected(run: Invocation, queue: str) -> int:
    """`redrive QUEUE --seq A,B`: 1 if not all of them were dead letters."""
    if any(run.arguments.has(name) for name in ("max", "older-than", "rate")):
        raise Refusal("--seq names the messages, --max, --older-than and --rate choose; give one")
    if run.arguments.is_on("dry-run"):
        raise Refusal("--dry-run counts what is chosen by --max and --older-than; --seq names it")
    numbers = read_seqs(run.arguments.text("seq"), name="--seq")
    moved = run.ask(RedriveSelectedRequest(queue, numbers, run.arguments.text("to")))
    run.output.took_effect(
        {
            "action": "redrive",
            "moved": moved.moved,
            "results": [msgspec.to_builtins(result) for result in moved.results],
        },
        line=f"ok: action=redrive moved={moved.moved}",
    )
    left = [each for each in moved.results if each.outcome is not RedriveOutcome.MOVED]
    if left:
        why = ", ".join(f"{each.seq_number} ({each.outcome})" for each in left)
        raise Refusal(f"{len(left)} of {len(numbers)} message(s) were not moved: seq {why}")
    return 0


def resubmit(run: Invocation) -> int:
    """`resubmit QUEUE SEQ [BODY…]`: what is given replaces what the dead letter has."""
    arguments = run.arguments
    queue, word, *words = arguments.words
    seq = read_seq(word, name="SEQ")
    changes: dict[str, object] = {
        wire_name: arguments.text(flag)
        for flag, wire_name in _PATCHED.items()
        if arguments.has(flag)
    }
    if arguments.has("prop"):
        changes["properties"] = arguments.pairs("prop")
    if words or arguments.has("file"):
        changes["body"] = read_body(words, file=arguments.text("file"), streams=run.streams)
    patch = MessagePatch(**changes)  # type: ignore[arg-type]  # each value is of its field's type
    put = run.ask(ResubmitRequest(queue, seq, patch, arguments.text("to")))
    run.output.done({"action": "resubmit", "queue": arguments.text("to") or queue,
                     "seq": put.seq_number})  # fmt: skip
    return 0


def purge_active(run: Invocation) -> int:
    """`purge QUEUE --expect N`: active messages, if there are as many as were seen."""
    (queue,) = run.arguments.words
    maximum = _bound(run.arguments, "max")
    older_than = run.arguments.number("older-than")
    if (run.arguments.has("max") and not maximum) or (
        run.arguments.has("older-than") and not older_than
    ):
        raise Refusal("a bound of 0 bounds nothing; leave it out to delete all that --expect saw")
    is_dry = run.arguments.is_on("dry-run")
    if not run.arguments.has("expect") and not is_dry:
        active = run.ask(StatsRequest(queue)).active
        raise Refusal(f"{queue} holds {active} active message(s); --expect {active} deletes them")
    request = PurgeActiveRequest(
        queue=queue,
        expected_count=_bound(run.arguments, "expect"),
        max=maximum,
        older_than_ms=nanoseconds_to_ms(older_than, field="--older-than", is_zero_allowed=True),
    )
    if is_dry:
        return _foretell(run, request, State.ACTIVE, "would_purge")
    run.output.done({"action": "purge", "queue": queue, "purged": run.ask(request).purged})
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
    request = PurgeRequest(queue=queue, max=maximum, older_than_ms=older_than_ms)
    if arguments.is_on("dry-run"):
        return _foretell(run, request, State.DEAD_LETTERED, "would_purge")
    run.output.done({"action": "purge-dlq", "purged": run.ask(request).purged})
    return 0


def _foretell(
    run: Invocation,
    request: RedriveRequest | PurgeRequest | PurgeActiveRequest,
    state: State,
    verb: str,
) -> int:
    count = run.session(
        lambda caller: count_chosen(
            caller,
            request.queue,
            state,
            older_than_ms=request.older_than_ms,
            maximum=request.max,
        )
    )
    return tell(run, {"queue": request.queue, verb: count})


def _bound(arguments: Arguments, name: str) -> int:
    number = arguments.number(name)
    if number < 0:
        raise InvalidArgument(f"--{name}: must not be negative")
    return number
