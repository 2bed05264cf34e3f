"""Commands about topics: subscribe, delete-subscription, list-subscriptions,
test-filter.

Called by `dispatch` through the command table. `test-filter` without a broker tries the filter in
memory: it needs no file and opens none.
"""

from __future__ import annotations

import msgspec

from mqlite_actor.contract.errors import QueueNotEmpty, QueueNotFound
from mqlite_actor.contract.ext import DeleteSubscriptionRequest, DeleteSubscriptionResponse
from mqlite_actor.contract.wire import (
    Filter,
    ListSubscriptionsRequest,
    Message,
    StatsRequest,
    SubscribeRequest,
    SubscriptionInfo,
    TestFilterRequest,
    TestFilterResponse,
)
from mqlite_cli.bodies import read_body
from mqlite_cli.escaping import field, quoted, visible
from mqlite_cli.foretelling import tell
from mqlite_cli.invocation import Caller, Invocation
from mqlite_cli.output import key_values
from mqlite_cli.queues import look_up_generation
from mqlite_cli.refusals import Refusal

_SAMPLE_FLAGS = ("file", "subject", "group", "prop")


def subscribe(run: Invocation) -> int:
    """`subscribe TOPIC NAME`: a new subscription, or another filter for an old one."""
    topic, name = run.arguments.words
    run.ask(SubscribeRequest(topic, name, Filter(run.arguments.text("expr"))))
    run.output.done({"action": "subscribe", "subscription": name, "topic": topic})
    return 0


def delete_subscription(run: Invocation) -> int:
    """`delete-subscription TOPIC NAME`: messages that it holds keep it, unless they may go."""
    topic, name = run.arguments.words
    discards, generation = run.arguments.is_on("discard"), run.arguments.text("generation")
    if run.arguments.is_on("dry-run"):
        return _foretell_deletion(run, topic, name, discards=discards)

    def work(caller: Caller) -> DeleteSubscriptionResponse:
        # Messages may go only with the queue that was meant, so a broker wants its generation.
        is_needed = discards and not generation
        chosen = look_up_generation(run, caller, name) if is_needed else generation
        return caller.call(DeleteSubscriptionRequest(topic, name, chosen, discards))

    ended = run.session(work)
    run.output.took_effect(
        {
            "action": "delete-subscription",
            "subscription": name,
            "topic": topic,
            "deleted": ended.deleted,
            "discarded": ended.discarded,
        },
        line="ok: "
        + key_values(
            {
                "action": "delete-subscription",
                "subscription": name,
                "topic": topic,
                "discarded": ended.discarded,
            }
        ),
    )
    if not ended.deleted:
        raise Refusal("the broker ended before all messages were deleted; repeat the command")
    return 0


def _foretell_deletion(run: Invocation, topic: str, name: str, *, discards: bool) -> int:
    """What its queue holds, or what the deletion would raise."""

    def work(caller: Caller) -> int:
        there = caller.call(ListSubscriptionsRequest()).subscriptions
        if not any((each.topic, each.name) == (topic, name) for each in there):
            raise QueueNotFound(f"topic {quoted(topic)} has no subscription {quoted(name)}")
        return caller.call(StatsRequest(name)).total

    total = run.session(work)
    if total and not discards:
        raise QueueNotEmpty(f"the queue {quoted(name)} holds {total} message(s)")
    return tell(run, {"subscription": name, "topic": topic, "would_discard": total})


def list_subscriptions(run: Invocation) -> int:
    """`list-subscriptions`: by topic, then name."""
    found = run.ask(ListSubscriptionsRequest()).subscriptions
    run.output.rows(found, [_line(each) for each in found], empty="(no subscriptions)")
    return 0


def test_filter(run: Invocation) -> int:
    """`test-filter EXPR`: 0 also when it does not match; the JSON is printed in any case."""
    expr, *words = run.arguments.words
    request = TestFilterRequest(expr=expr, message=_sample(run, words))
    if run.is_local:
        verdict = run.in_memory(lambda caller: caller.call(request))
    else:
        verdict = run.ask(request)
    error = "" if verdict.error is msgspec.UNSET else verdict.error
    is_fault = bool(error) or not verdict.valid
    result: dict[str, object] = {
        "valid": verdict.valid,
        **({"error": error} if error else {}),
        "ran": verdict.ran,
        "matched": verdict.matched,
    }
    run.output.record(result, line=None if is_fault else _verdict(verdict))
    if is_fault:
        reason = error or "the filter is not valid"
        raise Refusal(f"the filter failed on the sample: {reason}" if verdict.valid else reason)
    return 0


def _sample(run: Invocation, words: list[str]) -> Message | None:
    """The message that the flags describe; None if they describe none."""
    arguments = run.arguments
    if not words and not any(arguments.has(name) for name in _SAMPLE_FLAGS):
        return None
    has_body = bool(words) or arguments.has("file")
    body = read_body(words, file=arguments.text("file"), streams=run.streams) if has_body else b""
    return Message(
        subject=arguments.text("subject"),
        group_id=arguments.text("group"),
        properties=arguments.pairs("prop"),
        body=body,
    )


def _verdict(verdict: TestFilterResponse) -> str:
    if not verdict.ran:
        return "ok: valid=true"
    return f"ok: valid=true matched={'true' if verdict.matched else 'false'}"


def _line(each: SubscriptionInfo) -> str:
    # A filter is a text of several words for people to read; that it cannot end the line is enough.
    shown = f"filter={visible(each.expr)}" if each.expr.strip() else "(match all)"
    return f"{field(each.name):<20} topic={field(each.topic):<20} {shown}"
