"""A client of a simulated engine: it uses every verb, as its dice say, and keeps the ledger.

Each call runs in a scope of its own that an Interruption may cancel; the client then goes on with
its life. It ends early, without a word, when the engine is closed.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import trio

from mqlite_actor.clock import Clock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import CallerError, LockLost
from mqlite_actor.engine.engine import Engine
from mqlite_actor.engine.outbox import UserTransaction
from tests.simulation.ledger import Lease, Ledger, Told

T = TypeVar("T")

LOCK_MS: Final = 10_000
QUEUES: Final = {
    "q": wire.QueueConfig(lock_duration_ms=LOCK_MS, max_delivery_count=100),
    "group": wire.QueueConfig(
        lock_duration_ms=LOCK_MS, max_delivery_count=100, ordering_mode="group_fifo"
    ),
    "dedup": wire.QueueConfig(
        lock_duration_ms=LOCK_MS, max_delivery_count=100, dedup_window_ms=600_000
    ),
    "poison": wire.QueueConfig(lock_duration_ms=LOCK_MS, max_delivery_count=2),
    "attempts": wire.QueueConfig(lock_duration_ms=LOCK_MS, max_delivery_count=100),
}
TOPIC: Final = "topic"
SUBSCRIPTIONS: Final = ("s1", "s2")
EVERYWHERE: Final = (*QUEUES, *SUBSCRIPTIONS)
THINKING: Final = (0.0, 0.0, 0.0, 0.01, 0.5, 4.0)
"""Seconds between two calls of a client; some leases end meanwhile."""

SETTLES: Final[dict[type[wire.SettleRequest], dict[str, Any]]] = {
    wire.CompleteRequest: {},
    wire.AbandonRequest: {},
    wire.RejectRequest: {"dead_letter_reason": "r"},
    wire.DeferRequest: {},
}


class Cancelled:
    """In place of a reply: the call was cancelled, and raised."""


class Client:
    """One client; `live` is its life."""

    def __init__(self, name: str, engine: Engine, clock: Clock, ledger: Ledger, seed: str) -> None:
        self.name = name
        self.scope = trio.CancelScope()
        self.trace: list[tuple[float, str, str]] = []
        self._engine = engine
        self._clock = clock
        self._ledger = ledger
        self._dice = random.Random(seed)
        self._number = 0
        self._leases: list[Lease] = []
        self._deferred: list[tuple[str, int]] = []
        self._scheduled: list[tuple[Told, int]] = []
        self._repeatable: list[tuple[wire.SendRequest, list[int] | None]] = []
        self._habits: dict[Callable[[], Awaitable[None]], int] = {
            self._send: 6, self._publish: 2, self._schedule: 2, self._repeat: 1, self._receive: 8,
            self._attempt: 2, self._drain: 1, self._settle: 9, self._complete_several: 2,
            self._renew: 2, self._fetch: 2, self._cancel: 2, self._look: 2, self._redrive: 1,
            self._purge: 1, self._transact: 3,
        }  # fmt: skip

    async def live(self, calls: int) -> None:
        """So many calls, with thinking in between."""
        for _ in range(calls):
            habit = self._dice.choices([*self._habits], [*self._habits.values()])[0]
            await habit()
            with trio.CancelScope() as self.scope:
                await trio.sleep(self._dice.choice(THINKING))

    def interrupt(self) -> None:
        """Cancel what it is at now."""
        self.scope.cancel()

    async def ask(self, request: wire.Request[T]) -> T | CallerError | Cancelled:
        """The reply, the refusal, or that it was cancelled; anything else is raised."""
        return await self._noted(type(request).__name__, lambda: self._engine.call(request))

    async def _noted(
        self, what: str, work: Callable[[], Awaitable[T]]
    ) -> T | CallerError | Cancelled:
        answer: T | CallerError | Cancelled = Cancelled()
        with trio.CancelScope() as self.scope:
            try:
                answer = await work()
            except CallerError as error:
                answer = error
        self.trace.append((trio.current_time(), what, summary(answer)))
        return answer

    # -- sending -----------------------------------------------------------------------------------

    def _messages(self, queues: tuple[str, ...]) -> tuple[list[wire.Message], list[Told]]:
        """New messages, intended for each of these queues."""
        group = self._dice.choice("ab")
        batch: list[wire.Message] = []
        told: list[Told] = []
        for _ in range(self._dice.choice((1, 1, 2, 3))):
            self._number += 1
            body = f"{self.name} {self._number}".encode()
            batch.append(wire.Message(body=body, group_id=group, message_id=body.decode()))
            told += [self._ledger.intend(queue, body, group) for queue in queues]
        return batch, told

    async def _send(self) -> None:
        queue = self._dice.choice([*QUEUES])
        batch, told = self._messages((queue,))
        request = wire.SendRequest(queue=queue, messages=batch)
        reply = await self.ask(request)
        if isinstance(reply, wire.SendResponse):
            self._acknowledged(told)
            if queue == "dedup":
                self._repeatable.append((request, reply.seq_numbers))
        elif isinstance(reply, CallerError):
            self._ledger.fault(f"a send was refused: {reply}")

    async def _publish(self) -> None:
        batch, told = self._messages(SUBSCRIPTIONS)
        reply = await self.ask(wire.SendRequest(queue=TOPIC, messages=batch))
        if isinstance(reply, wire.SendResponse):
            self._acknowledged(told)

    async def _schedule(self) -> None:
        batch, told = self._messages(("q",))
        at_ms = self._clock.now_ms() + self._dice.choice((20, 3_000, 15_000))
        request = wire.ScheduleRequest(queue="q", messages=batch, scheduled_enqueue_time_ms=at_ms)
        reply = await self.ask(request)
        if isinstance(reply, wire.SendResponse):
            self._acknowledged(told)
            self._scheduled += zip(told, reply.seq_numbers or [], strict=True)

    async def _repeat(self) -> None:
        """A send whose answer one pretends to have lost: the same numbers, and nothing twice."""
        if self._repeatable:
            request, numbers = self._dice.choice(self._repeatable)
            reply = await self.ask(request)
            if isinstance(reply, wire.SendResponse) and reply.seq_numbers != numbers:
                self._ledger.fault(f"repeated, {numbers} became {reply.seq_numbers}")

    def _acknowledged(self, told: list[Told]) -> None:
        for each in told:
            each.is_sent = True

    # -- receiving ---------------------------------------------------------------------------------

    async def _receive(self) -> None:
        queue = self._dice.choice([name for name in EVERYWHERE if name != "attempts"])
        await self._take(
            wire.ReceiveRequest(
                queue=queue,
                max_messages=self._dice.choice((1, 1, 2, 5)),
                wait_time_ms=self._dice.choice((0, 0, 400, 6_000)),
            )
        )

    async def _attempt(self) -> None:
        self._number += 1
        attempt = f"{self.name} {self._number}"
        request = wire.ReceiveRequest(queue="attempts", max_messages=2, receive_attempt_id=attempt)
        if not await self._take(request):
            self._ledger.lost_attempts.append(request)

    async def _drain(self) -> None:
        queue = self._dice.choice(["q", "poison"])
        await self._take(wire.ReceiveRequest(queue=queue, max_messages=2, receive_mode=1))

    async def _fetch(self) -> None:
        if self._deferred:
            queue, seq = self._deferred.pop(self._dice.randrange(len(self._deferred)))
            if not await self._take(wire.ReceiveDeferredRequest(queue=queue, seq_numbers=[seq])):
                self._deferred.append((queue, seq))

    async def _take(self, request: wire.ReceiveRequest | wire.ReceiveDeferredRequest) -> bool:
        """Whether it was answered."""
        reply = await self.ask(request)
        if isinstance(reply, CallerError):
            self._ledger.fault(f"a receive was refused: {reply}")
        if not isinstance(reply, wire.MessagesResponse):
            return False
        for message in reply.messages:
            lease = self._ledger.delivered(request.queue, message, self._clock.now_ms())
            if lease.token:
                self._ledger.held[lease.seq] = lease
                self._leases.append(lease)
            else:
                lease.told.is_over = True  # it was removed
        return True

    # -- settling ----------------------------------------------------------------------------------

    def _begin(self) -> Lease:
        """A lease that is about to be settled; from now on somebody else may get the message."""
        lease = self._leases.pop(self._dice.randrange(len(self._leases)))
        if self._ledger.held.get(lease.seq) is lease:
            del self._ledger.held[lease.seq]
        return lease

    def _keep(self, lease: Lease) -> None:
        """It was not settled after all."""
        self._leases.append(lease)
        self._ledger.held.setdefault(lease.seq, lease)

    def _judge_loss(self, lease: Lease) -> None:
        if self._clock.now_ms() < lease.ends_ms:
            self._ledger.fault(f"{lease.told.place} {lease.seq}: a live lease was said to be lost")

    def _judge_success(self, lease: Lease, began_ms: int) -> None:
        if began_ms >= lease.ends_by_ms:
            self._ledger.fault(f"{lease.told.place} {lease.seq}: settled after its lease's end")

    async def _settle(self) -> None:
        if not self._leases:
            return
        kind = self._dice.choices([*SETTLES], [5, 2, 2, 1])[0]
        extra = SETTLES[kind]
        if kind is wire.AbandonRequest:
            extra = {"delay_ms": self._dice.choice((0, 0, 2_000))}
        lease, began_ms = self._begin(), self._clock.now_ms()
        queue = lease.told.place[0]
        lease.told.may_be_dead |= kind is wire.RejectRequest
        request: wire.SettleRequest = kind(
            queue=queue, seq_number=lease.seq, lock_token=lease.token, **extra
        )
        reply = await self.ask(request)
        if isinstance(reply, wire.OkResponse):
            self._judge_success(lease, began_ms)
            self._ledger.settled.append(request)
            lease.told.is_over |= kind is wire.CompleteRequest
            if kind is wire.DeferRequest:
                self._deferred.append((queue, lease.seq))
        elif isinstance(reply, LockLost):
            self._judge_loss(lease)
        else:
            self._keep(lease)

    async def _complete_several(self) -> None:
        queues = sorted({lease.told.place[0] for lease in self._leases})
        if not queues:
            return
        queue, began_ms = self._dice.choice(queues), self._clock.now_ms()
        leases = [lease for lease in self._leases if lease.told.place[0] == queue]
        for lease in leases:
            self._leases.remove(lease)
            if self._ledger.held.get(lease.seq) is lease:
                del self._ledger.held[lease.seq]
        items = [wire.SettleItem(lease.seq, lease.token) for lease in leases]
        request = wire.CompleteBatchRequest(queue=queue, messages=items)
        reply = await self.ask(request)
        if not isinstance(reply, wire.CompleteBatchResponse):
            for lease in leases:
                self._keep(lease)
            return
        for lease, result in zip(leases, reply.results, strict=True):
            if result.ok:
                self._judge_success(lease, began_ms)
                lease.told.is_over = True
            else:
                self._judge_loss(lease)

    async def _renew(self) -> None:
        if not self._leases:
            return
        lease = self._dice.choice(self._leases)
        request = wire.RenewRequest(
            queue=lease.told.place[0], seq_number=lease.seq, lock_token=lease.token
        )
        began_ms = self._clock.now_ms()
        reply = await self.ask(request)
        if isinstance(reply, wire.OkResponse):
            self._judge_success(lease, began_ms)
            lease.ends_ms = max(lease.ends_ms, began_ms + LOCK_MS)
            lease.ends_by_ms = max(lease.ends_by_ms, self._clock.now_ms() + LOCK_MS)
        elif isinstance(reply, LockLost):
            self._judge_loss(lease)

    async def _cancel(self) -> None:
        if self._scheduled:
            told, seq = self._scheduled.pop(self._dice.randrange(len(self._scheduled)))
            reply = await self.ask(wire.CancelRequest(queue=told.place[0], seq_number=seq))
            told.is_over |= isinstance(reply, wire.OkResponse)

    # -- the rest ----------------------------------------------------------------------------------

    async def _look(self) -> None:
        queue = self._dice.choice(EVERYWHERE)
        looks: list[wire.Request[Any]] = [
            wire.PeekRequest(queue=queue, max=limits.PEEK_MAX),
            wire.StatsRequest(queue=queue),
            wire.ListQueuesRequest(),
            wire.StatusRequest(),
        ]
        await self.ask(self._dice.choice(looks))

    async def _redrive(self) -> None:
        queue = self._dice.choice(EVERYWHERE)
        self._ledger.redriven.add(queue)
        await self.ask(wire.RedriveRequest(queue=queue))

    async def _purge(self) -> None:
        queue = self._dice.choice(EVERYWHERE)
        reply = await self.ask(wire.PurgeRequest(queue=queue))
        if isinstance(reply, wire.PurgeResponse):
            self._ledger.purged[queue] += reply.purged
        else:
            self._ledger.half_purged.add(queue)

    async def _transact(self) -> None:
        """Complete one message and send others, both or neither."""
        batch, told = self._messages(("q",))
        lease = self._begin() if self._leases else None
        began_ms = self._clock.now_ms()

        def work(tx: UserTransaction) -> bool:
            if lease is not None:
                queue = lease.told.place[0]
                tx.call(
                    wire.CompleteRequest(queue=queue, seq_number=lease.seq, lock_token=lease.token)
                )
            tx.call(wire.SendRequest(queue="q", messages=batch))
            return True

        reply = await self._noted("tx", lambda: self._engine.run_tx(work))
        if reply is True:
            self._acknowledged(told)
            if lease is not None:
                self._judge_success(lease, began_ms)
                lease.told.is_over = True
        elif lease is not None and isinstance(reply, LockLost):
            self._judge_loss(lease)
        elif lease is not None:
            self._keep(lease)


def summary(answer: object) -> str:
    """An answer without what is drawn at random in it."""
    if isinstance(answer, wire.MessagesResponse):
        return " ".join(f"{m.seq_number}x{m.delivery_count}{m.state}" for m in answer.messages)
    if isinstance(answer, CallerError):
        return answer.code
    if isinstance(answer, wire.ListQueuesResponse):
        return " ".join(queue.name for queue in answer.queues)
    if isinstance(answer, wire.StatusResponse):
        return f"{answer.queues}"
    return "cancelled" if isinstance(answer, Cancelled) else str(answer)
