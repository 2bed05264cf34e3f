"""EXTENDED: the tools that `--extended` adds, as data like TOOLS.

Calls that an agent needs rarely, and that can do more harm or need more care. Same rules; arguments
are the request's fields under their own names.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from mqlite_actor.contract import ext, wire
from mqlite_mcp.arguments import Json, field_type
from mqlite_mcp.tools import (
    DESTROYS,
    ENDS,
    LEASE,
    READS,
    WORDS,
    WRITES,
    Request,
    Tool,
    bounded,
    words,
)

TEXT = Annotated[str, Meta(description="The content, as plain text.")]
EXPR = Annotated[
    str, Meta(description='A predicate like subject == "order" and properties.vip == "yes".')
]
GENERATION = "The queue's generation, as list_queues shows it."
NUMBER = field_type(wire.CancelRequest, "seq_number", WORDS["seq_number"], ge=1)


def _schedule(given: Json) -> Request:
    message = wire.Message(
        body=given["body"].encode(),
        message_id=given.get("message_id", ""),
        group_id=given.get("group_id", ""),
    )
    return wire.ScheduleRequest(
        queue=given["queue"],
        messages=[message],
        scheduled_enqueue_time_ms=given["scheduled_enqueue_time_ms"],
    )


def _subscribe(given: Json) -> Request:
    return wire.SubscribeRequest(
        topic=given["topic"], name=given["name"], filter=wire.Filter(expr=given.get("expr", ""))
    )


def _test_filter(given: Json) -> Request:
    sample: Json = {key: given[key] for key in ("subject", "properties") if key in given}
    if "body" in given:
        sample["body"] = given["body"].encode()
    return wire.TestFilterRequest(
        expr=given["expr"], message=wire.Message(**sample) if sample else None
    )


def _release(given: Json) -> Request:
    item = wire.SettleItem(seq_number=given["seq_number"], lock_token=given["lock_token"])
    return ext.ReleaseRequest(queue=given["queue"], messages=[item])


EXTENDED: Final[tuple[Tool, ...]] = (
    Tool("schedule", "Send later", wire.ScheduleRequest, WRITES,
         "Store one message that is delivered from a time on. Answers its number; cancel takes it"
         " back before its first delivery.",
         required={"queue": "Queue, or topic to publish to.", "body": TEXT,
                   **bounded(wire.ScheduleRequest, "scheduled_enqueue_time_ms",
                             "From when on, in Unix milliseconds.", ge=1)},
         optional={each: field_type(wire.Message, each, WORDS[each])
                   for each in ("message_id", "group_id")},
         make=_schedule),
    Tool("cancel", "Cancel a scheduled message", wire.CancelRequest, DESTROYS,
         "DELETE a scheduled message before its first delivery.",
         required={**words("queue"), "seq_number": NUMBER}),
    Tool("release", "Release a message", ext.ReleaseRequest, WRITES,
         "Give a message back as if it had not been delivered: the try does not count.",
         required=LEASE, make=_release),
    Tool("explain", "Explain a delay", ext.ExplainRequest, READS,
         "Say why a message, or anything of a queue, is not delivered.",
         required=words("queue"),
         optional=bounded(ext.ExplainRequest, "seq_number",
                          "The message; absent: the queue's front.", ge=1)),
    Tool("search", "Search a queue", ext.SearchRequest, READS,
         "Find messages that are all of what is given, some hundred a call; repeat with"
         " next_page_token. Shows bodies only with include_bodies.",
         required=words("queue"),
         optional={"state": "Only this state.", "message_id": "Exactly this id.",
                   "group_id": "Of this group.", "correlation_id": "Exactly this one.",
                   "subject": "Exactly this one.", "properties": "Each of these properties.",
                   "body_text": "Text that the body holds.",
                   "dead_letter_reason": "Exactly this one.",
                   "filter": 'A predicate like properties.vip == "yes", asked last.',
                   "enqueued_from_ms": "Sent then or later, in Unix milliseconds.",
                   "enqueued_before_ms": "Sent before then.", "from_seq": "From this number on.",
                   "to_seq": "Up to this number.", "newest_first": "From the highest number down.",
                   "include_bodies": "Show bodies as well.", "max": "Messages a page.",
                   "page_token": "The next_page_token of before."}),
    Tool("status", "Broker status", wire.StatusRequest, READS,
         "Version, store, sizes and uptime of the broker."),
    Tool("describe_queue", "Describe a queue", ext.DescribeQueueRequest, READS,
         "Show a queue's whole configuration and how full it is.",
         required={"name": "Name of the queue."}),
    Tool("update_queue", "Change a queue's settings", ext.UpdateQueueRequest, ENDS,
         "Change the settings that are given and leave the others.",
         required={"name": "Name of the queue.", "config": "The settings to change."},
         optional={"generation": GENERATION}),
    Tool("delete_queue", "Delete a queue", wire.DeleteQueueRequest, ENDS,
         "DELETE an empty queue. Ask the person you work for before you call this.",
         required={"name": "Name of the queue.", "generation": GENERATION}),
    Tool("subscribe", "Subscribe to a topic", wire.SubscribeRequest, ENDS,
         "Route a topic's messages into a queue of its own; repeated, it replaces only the filter,"
         " and without expr removes it.",
         required={"topic": "Name of the topic.", "name": "Name of the subscription's queue."},
         optional={"expr": EXPR}, make=_subscribe),
    Tool("list_subscriptions", "List subscriptions", wire.ListSubscriptionsRequest, READS,
         "List which subscription listens to which topic, and its filter."),
    Tool("test_filter", "Test a filter", wire.TestFilterRequest, READS,
         "Compile a filter and try it on a sample message. Stores nothing.",
         required={"expr": EXPR},
         optional={"subject": field_type(wire.Message, "subject", "Of the sample."),
                   "properties": field_type(wire.Message, "properties", "Of the sample."),
                   "body": TEXT},
         make=_test_filter),
    Tool("redrive_selected", "Redrive chosen dead letters", ext.RedriveSelectedRequest, WRITES,
         "Make the dead letters of these numbers active again, each answered for itself.",
         required={**words("queue"),
                   **bounded(ext.RedriveSelectedRequest, "seq_numbers",
                             "Numbers of dead letters.", min_length=1)},
         optional={"target": "Another queue to put them into."}),
)  # fmt: skip
"""Offered after TOOLS when asked for."""
