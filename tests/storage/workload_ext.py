"""The verbs of our own routes, each with something to do; a part of workload.everything."""

from __future__ import annotations

from typing import Any

from mqlite_actor.contract import ext, limits, wire
from mqlite_actor.contract.words import State
from mqlite_actor.engine import commands
from tests.storage.writer import Writer

BIG = bytes(limits.INLINE_BYTES_MAX + 1)

KINDS = {
    "ext f": wire.QueueConfig(ordering_mode="group_fifo"),
    "ext s": wire.QueueConfig(ordering_mode="strict_fifo"),
    "ext p": wire.QueueConfig(),
}


def our_own(writer: Writer) -> None:
    """All of them."""
    for queue, config in KINDS.items():
        writer.create(queue, config)
        send_results(writer, queue)
        release(writer, queue)
        look(writer, queue)
    for queue in KINDS:
        for target in KINDS:
            put_back(writer, queue, target)
    for queue in KINDS:
        purge_active(writer, queue)
    writer.ask(ext.UpdateQueueRequest("ext p", ext.QueuePatch(ordering_mode="strict_fifo")))
    writer.ask(ext.UpdateQueueRequest("ext p", ext.QueuePatch(ordering_mode="standard")))
    end_subscriptions(writer)


def run(writer: Writer, *requests: object) -> list[Any]:
    """One group; all of it must succeed."""
    return [outcome.unwrap() for outcome in writer.group(*requests)]


def send_results(writer: Writer, queue: str) -> None:
    batch = [wire.Message(group_id=f"g{each % 2}", body=b"body") for each in range(6)]
    for _ in range(2):
        writer.ask(ext.SendResultRequest(queue=queue, messages=batch, request_id="r"))


def release(writer: Writer, queue: str) -> None:
    attempt = wire.ReceiveRequest(queue=queue, receive_attempt_id="attempt")
    (taken,) = writer.ask(attempt).messages
    items = [wire.SettleItem(taken.seq_number, taken.lock_token)]
    for _ in range(2):
        writer.ask(ext.ReleaseRequest(queue, items, "attempt"))


def look(writer: Writer, queue: str) -> None:
    """While one message is held and others wait behind it."""
    (taken,) = writer.take(queue)
    seqs = [m.seq_number for m in writer.ask(wire.PeekRequest(queue=queue)).messages]
    for seq in (0, *seqs, 10**9):
        writer.ask(ext.ExplainRequest(queue, seq))
    for state in ("", *State):
        writer.ask(ext.SearchRequest(queue, state, body_text="body", include_bodies=True))
        writer.ask(ext.SearchRequest(queue, state, newest_first=True))
    writer.ask(ext.DescribeQueueRequest(queue))
    writer.ask(
        wire.CompleteRequest(queue=queue, seq_number=taken.seq_number, lock_token=taken.lock_token)
    )
    writer.ask(ext.ExplainRequest(queue, taken.seq_number))


def put_back(writer: Writer, queue: str, target: str) -> None:
    """Dead letters by number, as they are and edited: a short body and a long one, each way."""
    for body in (b"short", BIG):
        for patch in (
            ext.MessagePatch(),
            ext.MessagePatch(body=b"s", group_id="other"),
            ext.MessagePatch(body=BIG, properties={"k": "v"}),
        ):
            seq = bury_one(writer, queue, body)
            writer.ask(ext.ResubmitRequest(queue, seq, patch, target))
        seq = bury_one(writer, queue, body)
        run(writer, commands.RedriveSelectedChunk(queue, target, (seq, seq, 10**9)))


def bury_one(writer: Writer, queue: str, body: bytes) -> int:
    """A dead letter; everything in front of it is handled."""
    batch = [wire.Message(group_id="dying", body=body)]
    (seq,) = writer.ask(wire.SendRequest(queue=queue, messages=batch)).seq_numbers or []
    while True:
        for each in writer.take(queue, 256):
            lease = wire.SettleItem(each.seq_number, each.lock_token)
            if each.seq_number == seq:
                writer.ask(
                    wire.RejectRequest(queue=queue, seq_number=seq, lock_token=each.lock_token)
                )
                return seq
            writer.ask(wire.CompleteBatchRequest(queue=queue, messages=[lease]))


def purge_active(writer: Writer, queue: str) -> None:
    writer.ask(wire.SendRequest(queue=queue, messages=[wire.Message(group_id="g")] * 5))
    described = writer.ask(ext.DescribeQueueRequest(queue))
    guard = ext.PurgeActiveRequest(queue, expected_count=described.active)
    ((last, generation),) = run(writer, commands.LastActive(guard))
    for before in (writer.clock.now_ms(), limits.INT64_MAX):
        run(writer, commands.PurgeActiveChunk(queue, generation, 0, last, before, 2))


def end_subscriptions(writer: Writer) -> None:
    """An empty one, twice; and one that holds a message."""
    for name in ("ext empty", "ext full"):
        writer.ask(wire.SubscribeRequest(topic="ext topic", name=name))
    generation = writer.ask(ext.DescribeQueueRequest("ext empty")).generation
    for _ in range(2):
        request = ext.DeleteSubscriptionRequest("ext topic", "ext empty", generation)
        run(writer, commands.EndSubscription(request))
    writer.send("ext topic", b"x")
    generation = writer.ask(ext.DescribeQueueRequest("ext full")).generation
    request = ext.DeleteSubscriptionRequest(
        "ext topic", "ext full", generation, discard_messages=True
    )
    writer.send("ext topic", b"y")
    run(writer, commands.EndSubscription(request, 1))
    run(writer, commands.DiscardChunk("ext full", generation, 100))
