"""Short forms of the calls that the suites make: nothing but requests and their replies.

Used by tests/conformance, tests/semantics and tests/model with any handle. They check nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypedDict, TypeVar

from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import MqliteError
from mqlite_actor.contract.wire import Message, QueueConfig

R = TypeVar("R")

PLAIN = QueueConfig()


class Callee(Protocol):
    """A handle or an engine."""

    async def call(self, request: wire.Request[R]) -> R: ...


class Lease(TypedDict):
    """The three fields that name a lease."""

    queue: str
    seq_number: int
    lock_token: str


async def make(handle: Callee, queue: str, config: QueueConfig = PLAIN) -> None:
    """Create or reconfigure a queue."""
    await handle.call(wire.CreateQueueRequest(name=queue, config=config))


async def send(
    handle: Callee, queue: str, *batch: Message, at: int = 0, ttl_ms: int = 0
) -> list[int]:
    """Send a batch; its slots."""
    request = wire.SendRequest(
        queue=queue, messages=list(batch), scheduled_enqueue_time_ms=at, ttl_ms=ttl_ms
    )
    return (await handle.call(request)).seq_numbers or []


async def send_bodies(handle: Callee, queue: str, *bodies: bytes, group_id: str = "") -> list[int]:
    """Send a batch of plain messages, all of one group; their numbers."""
    return await send(handle, queue, *(Message(body=body, group_id=group_id) for body in bodies))


async def send_one(
    handle: Callee,
    queue: str,
    body: bytes = b"x",
    *,
    group_id: str = "",
    message_id: str = "",
    at: int = 0,
    ttl_ms: int = 0,
) -> int:
    """Send one message; its number."""
    message = Message(body=body, group_id=group_id, message_id=message_id)
    return (await send(handle, queue, message, at=at, ttl_ms=ttl_ms))[0]


async def take(handle: Callee, queue: str, number: int = 1, *, mode: int = 0) -> list[Message]:
    """Receive up to `number` messages without waiting."""
    request = wire.ReceiveRequest(queue=queue, max_messages=number, receive_mode=mode)
    return (await handle.call(request)).messages


async def take_one(handle: Callee, queue: str) -> Message:
    """Receive the one message that must be there."""
    (message,) = await take(handle, queue)
    return message


async def take_deferred(handle: Callee, queue: str, *numbers: int) -> list[Message]:
    """Receive deferred messages by number."""
    request = wire.ReceiveDeferredRequest(queue=queue, seq_numbers=list(numbers))
    return (await handle.call(request)).messages


def lease(queue: str, message: Message) -> Lease:
    """The lease of a received message, as fields of a settlement."""
    return {
        "queue": queue,
        "seq_number": message.seq_number,
        "lock_token": message.lock_token,
    }


def item(message: Message) -> wire.SettleItem:
    """The lease of a received message, as an item of a batch."""
    return wire.SettleItem(seq_number=message.seq_number, lock_token=message.lock_token)


async def complete(handle: Callee, queue: str, message: Message) -> None:
    await handle.call(wire.CompleteRequest(**lease(queue, message)))


async def abandon(handle: Callee, queue: str, message: Message, *, delay_ms: int = 0) -> None:
    await handle.call(wire.AbandonRequest(**lease(queue, message), delay_ms=delay_ms))


async def reject(
    handle: Callee, queue: str, message: Message, *, reason: str = "", description: str = ""
) -> None:
    request = wire.RejectRequest(
        **lease(queue, message), dead_letter_reason=reason, dead_letter_description=description
    )
    await handle.call(request)


async def defer(handle: Callee, queue: str, message: Message) -> None:
    await handle.call(wire.DeferRequest(**lease(queue, message)))


async def renew(handle: Callee, queue: str, message: Message) -> None:
    await handle.call(wire.RenewRequest(**lease(queue, message)))


async def complete_batch(
    handle: Callee, queue: str, items: Sequence[wire.SettleItem]
) -> list[bool]:
    reply = await handle.call(wire.CompleteBatchRequest(queue=queue, messages=list(items)))
    assert [result.seq_number for result in reply.results] == [each.seq_number for each in items]
    return [result.ok for result in reply.results]


async def renew_batch(
    handle: Callee, queue: str, items: Sequence[wire.SettleItem]
) -> list[wire.RenewItemResult]:
    reply = await handle.call(wire.RenewBatchRequest(queue=queue, messages=list(items)))
    assert [result.seq_number for result in reply.results] == [each.seq_number for each in items]
    return reply.results


async def cancel(handle: Callee, queue: str, seq_number: int) -> None:
    await handle.call(wire.CancelRequest(queue=queue, seq_number=seq_number))


async def look(handle: Callee, queue: str, state: str = "", *, limit: int = 1000) -> list[Message]:
    """Peek from the front."""
    request = wire.PeekRequest(queue=queue, state=state, max=limit)
    return (await handle.call(request)).messages


async def states(handle: Callee, queue: str) -> dict[int, str]:
    """The state of each message by number."""
    return {message.seq_number: message.state for message in await look(handle, queue)}


async def stats(handle: Callee, queue: str) -> wire.StatsResponse:
    return await handle.call(wire.StatsRequest(queue=queue))


async def info(handle: Callee, queue: str) -> wire.QueueInfo:
    """A queue's row of ListQueues."""
    listed = (await handle.call(wire.ListQueuesRequest())).queues
    (found,) = [each for each in listed if each.name == queue]
    return found


async def refusal(handle: Callee, request: wire.Request[R]) -> str:
    """The wire code with which a request is refused; "ok" if it is not."""
    try:
        await handle.call(request)
    except MqliteError as error:
        return error.code
    return "ok"


async def subscribe(handle: Callee, topic: str, name: str, expr: str = "") -> None:
    """Route a topic into a subscription."""
    request = wire.SubscribeRequest(topic=topic, name=name, filter=wire.Filter(expr=expr))
    await handle.call(request)


async def subscriptions(handle: Callee, topic: str) -> list[wire.SubscriptionInfo]:
    """The rows of ListSubscriptions that name this topic."""
    listed = (await handle.call(wire.ListSubscriptionsRequest())).subscriptions
    return [each for each in listed if each.topic == topic]


async def kill(handle: Callee, queue: str, number: int = 1, *, reason: str = "") -> list[int]:
    """Send that many messages, numbered in their bodies, and reject them; their numbers."""
    batch = [Message(body=str(index).encode()) for index in range(number)]
    numbers = await send(handle, queue, *batch)
    for message in await take(handle, queue, number):
        await reject(handle, queue, message, reason=reason)
    return numbers


async def redrive(
    handle: Callee, queue: str, target: str = "", *, most: int = 0, older_than_ms: int = 0
) -> int:
    request = wire.RedriveRequest(queue=queue, target=target, max=most, older_than_ms=older_than_ms)
    return (await handle.call(request)).moved


async def purge(handle: Callee, queue: str, *, most: int = 0, older_than_ms: int = 0) -> int:
    request = wire.PurgeRequest(queue=queue, max=most, older_than_ms=older_than_ms)
    return (await handle.call(request)).purged


async def delete(handle: Callee, queue: str, generation: str) -> None:
    await handle.call(wire.DeleteQueueRequest(name=queue, generation=generation))
