"""Every verb and every pass at least once, each with something to do.

Run by test_plans.py under a trace, so that a statement that runs is one whose plan was looked at.
"""

from __future__ import annotations

from typing import Any

from mqlite_actor.contract import keys, limits, wire
from mqlite_actor.contract.words import State
from mqlite_actor.engine import commands
from mqlite_actor.semantics.keys import digest
from mqlite_actor.semantics.receive import EXPIRED_ROUNDS_MAX
from tests.storage.workload_ext import our_own
from tests.storage.writer import Writer

HOUR_MS = 3_600_000

FIFO = wire.QueueConfig(ordering_mode="group_fifo", dedup_window_ms=HOUR_MS)
STRICT = wire.QueueConfig(ordering_mode="strict_fifo")

BIG = bytes(limits.INLINE_BYTES_MAX + 1)


def everything(writer: Writer) -> None:
    """All of it."""
    every_command(writer)
    dead_letter_work(writer)
    every_pass(writer)
    topics_and_deletion(writer)
    access_keys(writer)
    our_own(writer)


def every_command(writer: Writer) -> None:
    """Each operation at least once, with something to do."""
    for queue, config in (("f", FIFO), ("s", STRICT), ("s", FIFO), ("p", wire.QueueConfig())):
        writer.create(queue, config)
    writer.create("s", STRICT)
    for queue in ("f", "s", "p"):
        batch = [wire.Message(group_id="g", body=bytes([n])) for n in range(8)]
        writer.ask(wire.SendRequest(queue=queue, messages=batch, ttl_ms=HOUR_MS))
        later = writer.clock.now_ms() + 1000
        scheduled = writer.ask(
            wire.ScheduleRequest(
                queue=queue,
                messages=[wire.Message(group_id="h"), wire.Message(group_id="i", body=b"i")],
                scheduled_enqueue_time_ms=later,
            )
        )
        assert scheduled.seq_numbers
        writer.ask(wire.CancelRequest(queue=queue, seq_number=scheduled.seq_numbers[0]))
        settle_all_ways(writer, queue)
        writer.ask(wire.PeekRequest(queue=queue))
        for state in State:
            writer.ask(wire.PeekRequest(queue=queue, state=state))
        writer.ask(wire.StatsRequest(queue=queue))
    claim_in_other_ways(writer)
    writer.ask(wire.ListQueuesRequest())
    writer.group(commands.CountEntities())
    writer.group(commands.Collect())


def settle_all_ways(writer: Writer, queue: str) -> None:
    for kind in (wire.CompleteRequest, wire.RejectRequest, wire.DeferRequest, wire.AbandonRequest):
        for message in writer.take(queue):
            seq, token = message.seq_number, message.lock_token
            items = [wire.SettleItem(seq_number=seq, lock_token=token)]
            writer.ask(wire.RenewRequest(queue=queue, seq_number=seq, lock_token=token))
            writer.ask(wire.RenewBatchRequest(queue=queue, messages=items))
            for _ in range(2):  # the second one finds the receipt
                writer.ask(kind(queue=queue, seq_number=seq, lock_token=token))
            writer.ask(wire.CompleteBatchRequest(queue=queue, messages=items))
            writer.ask(wire.ReceiveDeferredRequest(queue=queue, seq_numbers=[seq]))


def claim_in_other_ways(writer: Writer) -> None:
    """Under an attempt id, for good, and past heads that are over (so many that a claim leaves the
    rest to the pass)."""
    for _ in range(2):
        writer.send("p", b"a", b"b", BIG)
        writer.ask(wire.ReceiveRequest(queue="p", receive_attempt_id="a"))
        writer.ask(wire.ReceiveRequest(queue="p", receive_mode=1, max_messages=9))
    front = EXPIRED_ROUNDS_MAX * limits.MAINTENANCE_ROWS + 1
    writer.ask(wire.SendRequest(queue="p", messages=[wire.Message()] * front, ttl_ms=1))
    writer.send("p", b"fresh")
    writer.clock.advance(1)
    assert [message.body for message in writer.take("p", 2)] == [b"fresh"]


def every_pass(writer: Writer) -> None:
    """All maintenance, first with nothing over, then with everything over."""
    for _ in range(2):
        writer.store.ledger.forget()  # as after opening
        for command in (
            commands.Reap(),
            commands.Recover(),
            commands.Activate(),
            commands.Expire(),
            commands.PruneDuplicates(),
            commands.PruneReceipts(),
        ):
            for outcome in writer.group(command):
                outcome.unwrap()
        writer.clock.advance(10 * HOUR_MS)


def run(writer: Writer, *requests: object) -> list[Any]:
    """One group; all of it must succeed."""
    return [outcome.unwrap() for outcome in writer.group(*requests)]


def dead_letter_work(writer: Writer) -> None:
    """Redrive in place and to every kind of queue, purge, and retention by each bound."""
    kinds = {"dead f": FIFO, "dead s": STRICT, "dead p": wire.QueueConfig()}
    for queue, config in kinds.items():
        writer.create(queue, config)
    for queue in kinds:
        for target in kinds:
            bury(writer, queue, 4)
            last = run(writer, commands.LastDeadLetter(queue, target))[0]
            run(writer, commands.RedriveChunk(queue, target, 0, last, limits.INT64_MAX, 100))
        bury(writer, queue, 5)
        run(writer, commands.PurgeChunk(queue, 0, limits.INT64_MAX, limits.INT64_MAX, 1))
    run(writer, commands.Retain(limit=100, max_count=3))
    run(writer, commands.Retain(limit=100, max_bytes=1))
    bury(writer, "dead p", 2)
    writer.clock.advance(2)
    run(writer, commands.Retain(limit=100, max_age_ms=1))


def bury(writer: Writer, queue: str, number: int) -> None:
    """Turn the next messages into dead letters, with and without a group, one of them large."""
    groups = ["", *[f"g{each}" for each in range(number - 1)]]
    batch = [wire.Message(group_id=group or "a" * queue.endswith("f")) for group in groups]
    batch[-1] = wire.Message(group_id="big", body=BIG)
    writer.ask(wire.SendRequest(queue=queue, messages=batch))
    for _ in range(number):
        for message in writer.take(queue):
            writer.ask(
                wire.RejectRequest(
                    queue=queue, seq_number=message.seq_number, lock_token=message.lock_token
                )
            )


def topics_and_deletion(writer: Writer) -> None:
    """Fan-out, and the end of a queue, asked for twice."""
    for name in ("sub1", "sub2", "sub1"):
        writer.ask(wire.SubscribeRequest(topic="t", name=name))
    writer.ask(wire.ListSubscriptionsRequest())
    writer.send("t", b"to both")
    writer.create("short lived", FIFO)
    found = writer.ask(wire.ListQueuesRequest()).queues
    generation = next(each.generation for each in found if each.name == "short lived")
    for _ in range(2):
        writer.ask(wire.DeleteQueueRequest(name="short lived", generation=generation))
    writer.clock.advance(limits.TOMBSTONE_MS + 1)
    run(writer, commands.PruneReceipts())


def access_keys(writer: Writer) -> None:
    """Made, listed both ways, used, revoked."""
    for number in range(3):
        key = keys.CreateKeyRequest(id=f"{number:032x}", name="k", permissions=["send"])
        token = writer.ask(key).token
        run(writer, commands.Authenticate(digest(token)))
    for sort in ("id_asc", "created_desc"):
        after = writer.ask(keys.ListKeysRequest(sort=sort, limit=1)).next_after_id
        writer.ask(keys.ListKeysRequest(sort=sort, after_id=after))
    writer.ask(keys.RevokeKeyRequest(id=f"{0:032x}"))
