"""What each verb is asked when its requests are counted, and the ground that it needs before.

Used by `test_every_verb.py`. A case makes its ground by ordinary calls of an engine on the
reference server, under names that nobody had before, and returns the request that is to be counted.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any, Final

from mqlite_actor.contract import ext, keys, wire
from mqlite_actor.engine.engine import Engine
from tests.hrana.server import HranaServer

PLAIN: Final = wire.QueueConfig()
FIFO: Final = wire.QueueConfig(ordering_mode="group_fifo")
STRICT: Final = wire.QueueConfig(ordering_mode="strict_fifo")

_numbers = count()


class Ground:
    """An engine on the reference server, and the steps that a case needs before it."""

    def __init__(self, server: HranaServer, engine: Engine) -> None:
        self.server = server
        self.engine = engine

    def name(self) -> str:
        """One that nobody has, nor had on this server."""
        return f"n{next(_numbers)}"

    async def queue(self, config: wire.QueueConfig = PLAIN) -> str:
        """A new queue."""
        name = self.name()
        await self.engine.call(wire.CreateQueueRequest(name=name, config=config))
        return name

    async def filled(
        self, number: int = 4, config: wire.QueueConfig = PLAIN, *, group: str = ""
    ) -> str:
        """A new queue with messages."""
        name = await self.queue(config)
        batch = [wire.Message(body=b"%d" % each, group_id=group) for each in range(number)]
        await self.engine.call(wire.SendRequest(queue=name, messages=batch))
        return name

    async def taken(
        self, number: int = 1, config: wire.QueueConfig = PLAIN
    ) -> tuple[str, list[wire.Message]]:
        """A queue, and messages of it under a lease."""
        name = await self.filled(config=config)
        page = await self.engine.call(wire.ReceiveRequest(queue=name, max_messages=number))
        return name, page.messages

    async def lease(self, kind: type[wire.SettleRequest], delay_ms: int) -> wire.SettleRequest:
        """A request that settles or renews a lease."""
        name, (message,) = await self.taken()
        return kind(
            queue=name,
            seq_number=message.seq_number,
            lock_token=message.lock_token,
            delay_ms=delay_ms,
        )

    async def pairs(self) -> tuple[str, list[wire.SettleItem]]:
        """A queue, and leases of it."""
        name, found = await self.taken(3)
        return name, [wire.SettleItem(each.seq_number, each.lock_token) for each in found]

    async def buried(self, number: int = 3) -> tuple[str, list[int]]:
        """A queue with dead letters."""
        name, found = await self.taken(number)
        for message in found:
            await self.engine.call(
                wire.RejectRequest(
                    queue=name, seq_number=message.seq_number, lock_token=message.lock_token
                )
            )
        return name, [message.seq_number for message in found]

    async def generation(self, name: str) -> str:
        """Of a queue."""
        described = await self.engine.call(ext.DescribeQueueRequest(name=name))
        return described.generation


Case = Callable[[Ground], Awaitable[wire.Request[Any]]]


async def send(on: Ground) -> wire.Request[Any]:
    return wire.SendRequest(queue=await on.queue(), messages=[wire.Message(body=b"a")] * 3)


async def send_once(on: Ground) -> wire.Request[Any]:
    name = await on.queue(wire.QueueConfig(dedup_window_ms=60_000))
    return wire.SendRequest(queue=name, messages=[wire.Message(message_id="a")])


async def publish(on: Ground) -> wire.Request[Any]:
    topic = (await subscribe(on)).topic
    for _ in range(3):
        await on.engine.call(wire.SubscribeRequest(topic=topic, name=on.name()))
    return wire.SendRequest(queue=topic, messages=[wire.Message(body=b"a")] * 2)


async def schedule(on: Ground) -> wire.Request[Any]:
    return wire.ScheduleRequest(
        queue=await on.queue(), messages=[wire.Message()], scheduled_enqueue_time_ms=2**47
    )


async def send_result(on: Ground) -> wire.Request[Any]:
    name = await on.queue(wire.QueueConfig(dedup_window_ms=60_000))
    return ext.SendResultRequest(
        queue=name, messages=[wire.Message(message_id="a")], request_id="again"
    )


async def receive(on: Ground) -> wire.Request[Any]:
    return wire.ReceiveRequest(queue=await on.filled(), max_messages=3)


async def receive_none(on: Ground) -> wire.Request[Any]:
    return wire.ReceiveRequest(queue=await on.queue(), max_messages=3)


async def receive_in_line(on: Ground) -> wire.Request[Any]:
    name = await on.filled(config=FIFO, group="g")
    return wire.ReceiveRequest(queue=name, max_messages=3)


async def receive_attempt(on: Ground) -> wire.Request[Any]:
    name = await on.filled()
    return wire.ReceiveRequest(queue=name, max_messages=3, receive_attempt_id="again")


async def receive_behind_expired(on: Ground) -> wire.Request[Any]:
    name = await on.queue(STRICT)
    brief = [wire.Message(body=b"gone", ttl_ms=1)] * 4
    await on.engine.call(wire.SendRequest(queue=name, messages=brief))
    await on.engine.call(wire.SendRequest(queue=name, messages=[wire.Message(body=b"a")]))
    return wire.ReceiveRequest(queue=name, max_messages=3)


async def drain(on: Ground) -> wire.Request[Any]:
    return wire.ReceiveRequest(queue=await on.filled(), max_messages=3, receive_mode=1)


async def drain_attempt(on: Ground) -> wire.Request[Any]:
    return wire.ReceiveRequest(
        queue=await on.filled(), max_messages=3, receive_mode=1, receive_attempt_id="again"
    )


async def drain_line(on: Ground) -> wire.Request[Any]:
    name = await on.filled(6, STRICT)
    return wire.ReceiveRequest(queue=name, max_messages=10, receive_mode=1)


async def receive_deferred(on: Ground) -> wire.Request[Any]:
    name, found = await on.taken(3)
    for message in found:
        await on.engine.call(
            wire.DeferRequest(
                queue=name, seq_number=message.seq_number, lock_token=message.lock_token
            )
        )
    return wire.ReceiveDeferredRequest(
        queue=name, seq_numbers=[message.seq_number for message in found]
    )


async def cancel(on: Ground) -> wire.Request[Any]:
    later = await schedule(on)
    assert isinstance(later, wire.ScheduleRequest)
    sent = await on.engine.call(later)
    return wire.CancelRequest(queue=later.queue, seq_number=(sent.seq_numbers or [0])[0])


async def complete_batch(on: Ground) -> wire.Request[Any]:
    name, pairs = await on.pairs()
    return wire.CompleteBatchRequest(queue=name, messages=pairs)


async def complete_foreign(on: Ground) -> wire.Request[Any]:
    """Leases that this engine does not remember: some hold, some are lost."""
    name, pairs = await on.pairs()
    on.engine._store.ledger.forget()
    await on.engine.call(wire.SendRequest(queue=name, messages=[wire.Message()]))
    strange = wire.SettleItem(10**9, "00" * 16)
    return wire.CompleteBatchRequest(queue=name, messages=[*pairs, strange])


async def renew_batch(on: Ground) -> wire.Request[Any]:
    name, pairs = await on.pairs()
    return wire.RenewBatchRequest(queue=name, messages=pairs)


async def release(on: Ground) -> wire.Request[Any]:
    name, pairs = await on.pairs()
    return ext.ReleaseRequest(queue=name, messages=pairs)


async def release_attempt(on: Ground) -> wire.Request[Any]:
    taking = await receive_attempt(on)
    assert isinstance(taking, wire.ReceiveRequest)
    page = await on.engine.call(taking)
    return ext.ReleaseRequest(
        queue=taking.queue,
        messages=[wire.SettleItem(each.seq_number, each.lock_token) for each in page.messages],
        receive_attempt_id=taking.receive_attempt_id,
    )


async def abandon_last(on: Ground) -> wire.Request[Any]:
    """At its limit it becomes a dead letter, and the next of its line comes."""
    name, (message,) = await on.taken(
        config=wire.QueueConfig(max_delivery_count=1, ordering_mode="strict_fifo")
    )
    return wire.AbandonRequest(
        queue=name, seq_number=message.seq_number, lock_token=message.lock_token
    )


async def peek(on: Ground) -> wire.Request[Any]:
    return wire.PeekRequest(queue=await on.filled(), max=10)


async def subscribe(on: Ground) -> wire.SubscribeRequest:
    request = wire.SubscribeRequest(topic=on.name(), name=on.name())
    await on.engine.call(request)
    return request


async def resubscribe(on: Ground) -> wire.Request[Any]:
    return await subscribe(on)


async def redrive(on: Ground) -> wire.Request[Any]:
    name, _ = await on.buried()
    return wire.RedriveRequest(queue=name)


async def purge(on: Ground) -> wire.Request[Any]:
    name, _ = await on.buried()
    return wire.PurgeRequest(queue=name)


async def delete(on: Ground) -> wire.Request[Any]:
    name = await on.queue()
    return wire.DeleteQueueRequest(name=name, generation=await on.generation(name))


async def explain_line(on: Ground) -> wire.Request[Any]:
    """Many groups, each of which stands behind a lease."""
    name = await on.queue(FIFO)
    for group in ("a", "b", "c"):
        batch = [wire.Message(group_id=group)] * 2
        await on.engine.call(wire.SendRequest(queue=name, messages=batch))
    await on.engine.call(wire.ReceiveRequest(queue=name, max_messages=3))
    return ext.ExplainRequest(queue=name)


async def explain_message(on: Ground) -> wire.Request[Any]:
    name = await on.filled(3, STRICT)
    page = await on.engine.call(wire.PeekRequest(queue=name, max=10))
    return ext.ExplainRequest(queue=name, seq_number=page.messages[-1].seq_number)


async def explain_empty(on: Ground) -> wire.Request[Any]:
    return ext.ExplainRequest(queue=await on.queue())


async def explain_gone(on: Ground) -> wire.Request[Any]:
    name = await on.filled()
    page = await on.engine.call(wire.ReceiveRequest(queue=name, receive_mode=1))
    return ext.ExplainRequest(queue=name, seq_number=page.messages[0].seq_number)


async def search(on: Ground) -> wire.Request[Any]:
    return ext.SearchRequest(queue=await on.filled(20), body_text="1", include_bodies=True, max=10)


async def search_state(on: Ground) -> wire.Request[Any]:
    return ext.SearchRequest(queue=await on.filled(20), state="active", max=10)


async def update(on: Ground) -> wire.Request[Any]:
    """The ordering changes: every message is put in line anew."""
    patch = ext.QueuePatch(ordering_mode="strict_fifo")
    return ext.UpdateQueueRequest(name=await on.filled(), config=patch)


async def delete_subscription(on: Ground) -> wire.Request[Any]:
    made = await subscribe(on)
    batch = [wire.Message()] * 3
    await on.engine.call(wire.SendRequest(queue=made.topic, messages=batch))
    return ext.DeleteSubscriptionRequest(
        topic=made.topic, name=made.name, discard_messages=True,
        generation=await on.generation(made.name),
    )  # fmt: skip


async def purge_active(on: Ground) -> wire.Request[Any]:
    return ext.PurgeActiveRequest(queue=await on.filled(3), expected_count=3)


async def redrive_selected(on: Ground) -> wire.Request[Any]:
    name, numbers = await on.buried()
    return ext.RedriveSelectedRequest(queue=name, seq_numbers=numbers, target=await on.queue())


async def resubmit(on: Ground) -> wire.Request[Any]:
    name, (number, *_) = await on.buried()
    return ext.ResubmitRequest(
        queue=name, seq_number=number, message=ext.MessagePatch(body=b"new", subject="s")
    )


def new_key() -> keys.CreateKeyRequest:
    """Make one that nobody has."""
    return keys.CreateKeyRequest(id=secrets.token_hex(16), name="k", permissions=["send"])


async def revoke(on: Ground) -> wire.Request[Any]:
    made = await on.engine.call(new_key())
    return keys.RevokeKeyRequest(id=made.key.id)


def settling(kind: type[wire.SettleRequest], delay_ms: int = 0) -> Case:
    """A lease is settled or renewed."""

    async def case(on: Ground) -> wire.Request[Any]:
        return await on.lease(kind, delay_ms)

    return case


def just(request: wire.Request[Any]) -> Case:
    async def case(_: Ground) -> wire.Request[Any]:
        return request

    return case


async def stats(on: Ground) -> wire.Request[Any]:
    return wire.StatsRequest(queue=await on.filled())


async def describe(on: Ground) -> wire.Request[Any]:
    return ext.DescribeQueueRequest(name=await on.filled())
