"""One message in each situation that a message can be in, and each thing that can be done to it.

Data of tests/semantics/test_lifecycle_matrix.py. SITUATIONS says how to bring a message there,
DEEDS how to do something to it; both only make requests, move the clock, or send one of the
engine's own commands.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import wire
from mqlite_actor.contract.wire import Message, QueueConfig
from mqlite_actor.engine import commands
from mqlite_actor.engine.engine import Engine
from tests.conformance import asking
from tests.semantics import deeds_ext

QUEUE: Final = "q"
LOCK_MS: Final = 60_000
LIFE_MS: Final = 10_000
"""Shorter than a lease, so that a life can end under one."""

LATER_MS: Final = 5_000
STRANGER: Final = "f" * 32
"""A token that was never given out."""


class Stage:
    """An engine with one queue, and the message that everything is about."""

    __slots__ = ("clock", "engine", "seq", "token")

    def __init__(self, engine: Engine, clock: ManualClock) -> None:
        self.engine = engine
        self.clock = clock
        self.seq = 0
        self.token = STRANGER

    async def configure(self, *, limit: int = 5, keeps_expired: bool = True) -> None:
        config = QueueConfig(
            lock_duration_ms=LOCK_MS, max_delivery_count=limit, dead_letter_on_expire=keeps_expired
        )
        await asking.make(self.engine, QUEUE, config)

    async def send(self, *, group_id: str = "", after_ms: int = 0, ttl_ms: int = 0) -> None:
        at = self.clock.now_ms() + after_ms if after_ms else 0
        self.seq = await asking.send_one(
            self.engine, QUEUE, group_id=group_id, at=at, ttl_ms=ttl_ms
        )

    async def claim(self) -> Message:
        return await asking.take_one(self.engine, QUEUE)

    async def seen(self) -> Message | None:
        """The message as Peek shows it."""
        shown = await asking.look(self.engine, QUEUE)
        return next((message for message in shown if message.seq_number == self.seq), None)

    @property
    def lease(self) -> asking.Lease:
        return {"queue": QUEUE, "seq_number": self.seq, "lock_token": self.token}


# -- situations ------------------------------------------------------------------------------------

Arrange = Callable[[Stage], Awaitable[None]]


async def none(stage: Stage) -> None:
    stage.seq = 12_345


async def active(stage: Stage) -> None:
    await stage.send()


async def waiting(stage: Stage) -> None:
    await stage.send(group_id="g")
    await stage.claim()
    await stage.send(group_id="g")


async def locked(stage: Stage) -> None:
    await stage.send()
    stage.token = (await stage.claim()).lock_token
    stage.clock.advance(1)


async def lease_over(stage: Stage) -> None:
    await locked(stage)
    stage.clock.advance(LOCK_MS - 1)


async def scheduled(stage: Stage) -> None:
    await stage.send(after_ms=LATER_MS)


async def scheduled_due(stage: Stage) -> None:
    await scheduled(stage)
    stage.clock.advance(LATER_MS)


async def retry(stage: Stage) -> None:
    await stage.send()
    await asking.abandon(stage.engine, QUEUE, await stage.claim(), delay_ms=LATER_MS)


async def retry_due(stage: Stage) -> None:
    await retry(stage)
    stage.clock.advance(LATER_MS)


async def deferred(stage: Stage) -> None:
    await stage.send()
    await asking.defer(stage.engine, QUEUE, await stage.claim())


async def dead(stage: Stage) -> None:
    await stage.send()
    await asking.reject(stage.engine, QUEUE, await stage.claim())


async def active_life_over(stage: Stage) -> None:
    await stage.send(ttl_ms=LIFE_MS)
    stage.clock.advance(LIFE_MS)


async def waiting_life_over(stage: Stage) -> None:
    await stage.send(group_id="g")
    await stage.claim()
    await stage.send(group_id="g", ttl_ms=LIFE_MS)
    stage.clock.advance(LIFE_MS)


async def locked_life_over(stage: Stage) -> None:
    await stage.send(ttl_ms=LIFE_MS)
    stage.token = (await stage.claim()).lock_token
    stage.clock.advance(LIFE_MS)


async def scheduled_life_over(stage: Stage) -> None:
    await stage.send(after_ms=LATER_MS, ttl_ms=LIFE_MS)
    stage.clock.advance(LATER_MS + LIFE_MS)


async def retry_life_over(stage: Stage) -> None:
    await stage.send(ttl_ms=LIFE_MS)
    await asking.abandon(stage.engine, QUEUE, await stage.claim(), delay_ms=LIFE_MS + 1)
    stage.clock.advance(LIFE_MS)


async def deferred_life_over(stage: Stage) -> None:
    await stage.send(ttl_ms=LIFE_MS)
    await asking.defer(stage.engine, QUEUE, await stage.claim())
    stage.clock.advance(LIFE_MS)


SITUATIONS: Final[dict[str, tuple[str, Arrange]]] = {
    "none": ("none", none),
    "active": ("active", active),
    "waiting": ("active", waiting),
    "locked": ("locked", locked),
    "lease over": ("locked", lease_over),
    "scheduled": ("scheduled", scheduled),
    "scheduled, due": ("scheduled", scheduled_due),
    "retry": ("scheduled", retry),
    "retry, due": ("scheduled", retry_due),
    "deferred": ("deferred", deferred),
    "dead": ("dead_lettered", dead),
    "active, life over": ("active", active_life_over),
    "waiting, life over": ("active", waiting_life_over),
    "locked, life over": ("locked", locked_life_over),
    "scheduled, life over": ("scheduled", scheduled_life_over),
    "retry, life over": ("scheduled", retry_life_over),
    "deferred, life over": ("deferred", deferred_life_over),
}
"""Situation to the state on the wire, and the way there."""

# -- deeds -----------------------------------------------------------------------------------------

Do = Callable[[Stage], Awaitable[str]]
"""Does something to the message; what was answered."""


def taken(stage: Stage, batch: list[Message]) -> str:
    return "taken" if stage.seq in {message.seq_number for message in batch} else "nothing"


async def receive(stage: Stage) -> str:
    return taken(stage, await asking.take(stage.engine, QUEUE))


async def remove(stage: Stage) -> str:
    return taken(stage, await asking.take(stage.engine, QUEUE, mode=1))


async def receive_deferred(stage: Stage) -> str:
    return taken(stage, await asking.take_deferred(stage.engine, QUEUE, stage.seq))


async def complete(stage: Stage) -> str:
    return await asking.refusal(stage.engine, wire.CompleteRequest(**stage.lease))


async def complete_batch(stage: Stage) -> str:
    items = [wire.SettleItem(stage.seq, stage.token)]
    return "ok" if await asking.complete_batch(stage.engine, QUEUE, items) == [True] else "not ok"


async def abandon(stage: Stage) -> str:
    return await asking.refusal(stage.engine, wire.AbandonRequest(**stage.lease))


async def abandon_early(stage: Stage) -> str:
    request = wire.AbandonRequest(**stage.lease, delay_ms=-LATER_MS)
    return await asking.refusal(stage.engine, request)


async def abandon_later(stage: Stage) -> str:
    return await asking.refusal(stage.engine, wire.AbandonRequest(**stage.lease, delay_ms=LATER_MS))


async def reject(stage: Stage) -> str:
    return await asking.refusal(stage.engine, wire.RejectRequest(**stage.lease))


async def defer(stage: Stage) -> str:
    return await asking.refusal(stage.engine, wire.DeferRequest(**stage.lease))


async def renew(stage: Stage) -> str:
    return await asking.refusal(stage.engine, wire.RenewRequest(**stage.lease))


async def renew_batch(stage: Stage) -> str:
    items = [wire.SettleItem(stage.seq, stage.token)]
    (result,) = await asking.renew_batch(stage.engine, QUEUE, items)
    return "ok" if result.ok else "not ok"


async def cancel(stage: Stage) -> str:
    request = wire.CancelRequest(queue=QUEUE, seq_number=stage.seq)
    return await asking.refusal(stage.engine, request)


async def peek(stage: Stage) -> str:
    await stage.seen()
    await asking.stats(stage.engine, QUEUE)
    return "done"


def a_pass(command: type[commands.Slice]) -> Do:
    async def do(stage: Stage) -> str:
        await stage.engine._submit(command())
        return "done"

    return do


def hand_back(*, is_counted: bool) -> Do:
    async def do(stage: Stage) -> str:
        claim = Message(seq_number=stage.seq, lock_token=stage.token)
        reply = wire.MessagesResponse(messages=[claim])
        request = wire.ReceiveRequest(queue=QUEUE)
        await stage.engine.hand_back(request, reply, is_counted=is_counted)
        return "done"

    return do


def at_the_limit(do: Do) -> Do:
    """The same after the queue's limit was lowered to one delivery."""

    async def limited(stage: Stage) -> str:
        await stage.configure(limit=1)
        return await do(stage)

    return limited


async def expire_and_discard(stage: Stage) -> str:
    await stage.configure(keeps_expired=False)
    return await a_pass(commands.Expire)(stage)


async def redrive(stage: Stage) -> str:
    return await asking.refusal(stage.engine, wire.RedriveRequest(queue=QUEUE))


async def redrive_elsewhere(stage: Stage) -> str:
    await asking.make(stage.engine, "other")
    request = wire.RedriveRequest(queue=QUEUE, target="other")
    return await asking.refusal(stage.engine, request)


async def purge(stage: Stage) -> str:
    return await asking.refusal(stage.engine, wire.PurgeRequest(queue=QUEUE))


DEEDS: Final[dict[str, Do]] = {
    "receive": receive,
    "remove": remove,
    "receive deferred": receive_deferred,
    "complete": complete,
    "complete batch": complete_batch,
    "abandon": abandon,
    "abandon early": abandon_early,
    "abandon later": abandon_later,
    "abandon at the limit": at_the_limit(abandon),
    "abandon later at the limit": at_the_limit(abandon_later),
    "reject": reject,
    "defer": defer,
    "renew": renew,
    "renew batch": renew_batch,
    "cancel": cancel,
    "peek": peek,
    "redrive": redrive,
    "redrive elsewhere": redrive_elsewhere,
    "purge": purge,
    "reap": a_pass(commands.Reap),
    "reap at the limit": at_the_limit(a_pass(commands.Reap)),
    "recover": a_pass(commands.Recover),
    "recover at the limit": at_the_limit(a_pass(commands.Recover)),
    "activate": a_pass(commands.Activate),
    "expire": a_pass(commands.Expire),
    "expire and discard": expire_and_discard,
    "prune receipts": a_pass(commands.PruneReceipts),
    "prune duplicates": a_pass(commands.PruneDuplicates),
    "retain": a_pass(commands.Retain),
    "hand back": hand_back(is_counted=False),
    "hand back counted": hand_back(is_counted=True),
    "hand back counted at the limit": at_the_limit(hand_back(is_counted=True)),
    **deeds_ext.DEEDS,
}
