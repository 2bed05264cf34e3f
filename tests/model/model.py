"""What a queue does, in the plainest words: dictionaries, no lanes, no counts, no indexes.

The judge of tests/model/test_model.py. It answers the same requests as the engine and must agree
with every answer. It is written from the specification: who may be claimed is decided by looking
at all messages each time. Three things it learns from the engine: the tokens that a claim gave out,
the generations of queues, and that an expired message was cleared away before the pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from mqlite_actor.contract import errors, wire
from mqlite_actor.contract.wire import Message
from mqlite_actor.semantics.sweep import OFF_MS
from tests.model.names import Names
from tests.model.rows import Receipt, Row, altered, delivered, receipt_of

RECEIPT_MS: Final = 1_800_000
ATTEMPT_MS: Final = 300_000
LIVE: Final = ("active", "locked", "scheduled", "deferred")
HOLDING: Final = ("locked", "scheduled", "deferred")


@dataclass
class Model(Names):
    """All queues of one store."""

    generations: dict[str, str] = field(default_factory=dict)
    tombs: set[tuple[str, str]] = field(default_factory=set)
    rows: dict[int, Row] = field(default_factory=dict)
    last_seq: int = 0
    keys: dict[tuple[str, str], tuple[bytes, int, int]] = field(default_factory=dict)
    receipts: dict[Receipt, int] = field(default_factory=dict)
    attempts: dict[tuple[str, str], tuple[int, list[Message]]] = field(default_factory=dict)

    def answer(self, request: wire.Request[Any], now: int, tokens: Iterator[str]) -> wire.Response:
        """The response, or the contract's error raised. `tokens`: what the engine gave out."""
        return ANSWERS[type(request)](self, request, now, tokens)

    def of(self, queue: str) -> list[Row]:
        """Rows of a queue by number."""
        return [row for _, row in sorted(self.rows.items()) if row.queue == queue]

    # -- queues ------------------------------------------------------------------------------------

    def delete(self, request: wire.DeleteQueueRequest, *_: object) -> wire.Response:
        name, known = request.name, self.queues.get(request.name)
        if name in self.topics.values() or (known and known.kind == "subscription"):
            raise errors.NameConflict(name)
        if self.generations.get(name) != request.generation:
            if (name, request.generation) in self.tombs:
                return wire.OkResponse()
            raise errors.GenerationConflict(name) if known else errors.QueueNotFound(name)
        if self.of(name):
            raise errors.QueueNotEmpty(name)
        del self.queues[name], self.generations[name]
        self.tombs.add((name, request.generation))
        self.keys = {key: kept for key, kept in self.keys.items() if key[0] != name}
        self.attempts = {key: kept for key, kept in self.attempts.items() if key[0] != name}
        self.receipts = {key: kept for key, kept in self.receipts.items() if key[0] != name}
        return wire.OkResponse()

    # -- sending -----------------------------------------------------------------------------------

    def send(self, request: wire.SendRequest, now: int, _: object) -> wire.Response:
        at = request.scheduled_enqueue_time_ms
        if at and at <= now:
            raise errors.InvalidArgument("past")
        targets = self.targets(request.queue)
        is_grouped = any(self.queues[name].ordering_mode == "group_fifo" for name in targets)
        if is_grouped and not all(message.group_id for message in request.messages):
            raise errors.GroupRequired("group")
        first = [self._known(name, request.messages[0], now) for name in targets]
        if len(request.messages) == 1 and all(known == 0 for known in first):
            raise errors.DedupConflict("conflict")
        slots = []
        for message in request.messages:
            slot = 0
            for name in targets:
                known = self._known(name, message, now)
                number = self._store(name, request, message, now) if known is None else known
                slot = number or slot
            slots.append(slot)
        return wire.SendResponse(seq_numbers=slots)

    def _known(self, queue: str, message: Message, now: int) -> int | None:
        """0 for a conflict, the first number for a duplicate, None for a message to store."""
        window = self.queues[queue].dedup_window_ms
        known = self.keys.get((queue, message.message_id or repr(message.body)))
        if window <= 0 or known is None or known[2] <= now - window:
            return None
        return known[1] if known[0] == message.body else 0

    def _store(self, queue: str, request: wire.SendRequest, message: Message, now: int) -> int:
        at = request.scheduled_enqueue_time_ms
        config = self.queues[queue]
        ttl = max(message.ttl_ms or request.ttl_ms, 0)
        if config.default_ttl_ms:
            ttl = min(ttl, config.default_ttl_ms) if ttl else config.default_ttl_ms
        self.last_seq += 1
        shown = altered(
            message,
            seq_number=self.last_seq,
            enqueued_at_ms=now,
            visible_at_ms=at or now,
            expires_at_ms=(at or now) + ttl if ttl else 0,
            state="scheduled" if at else "active",
            ttl_ms=0,
        )
        self.rows[self.last_seq] = Row(queue, shown)
        if config.dedup_window_ms > 0:
            key = (queue, message.message_id or repr(message.body))
            self.keys[key] = (message.body, self.last_seq, now)
        return self.last_seq

    def cancel(self, request: wire.CancelRequest, *_: object) -> wire.Response:
        row = self.rows.get(request.seq_number)
        if row is None or row.queue != request.queue:
            raise errors.NotFound("none")
        if row.shown.state != "scheduled" or row.shown.delivery_count:
            raise errors.NotFound("not scheduled")
        del self.rows[request.seq_number]
        return wire.OkResponse()

    # -- receiving ---------------------------------------------------------------------------------

    def receive(
        self, request: wire.ReceiveRequest, now: int, tokens: Iterator[str]
    ) -> wire.Response:
        config = self.queue(request.queue)
        key = (request.queue, request.receive_attempt_id)
        if request.receive_attempt_id and key in self.attempts:
            expires_at, batch = self.attempts[key]
            if expires_at > now:
                return wire.MessagesResponse(messages=batch)
        batch = []
        while len(batch) < max(request.max_messages, 1):
            row = next((row for row in self.of(request.queue) if self._is_next(row, now)), None)
            if row is None:
                break
            if request.receive_mode == 1:
                del self.rows[row.shown.seq_number]
                count = row.shown.delivery_count + 1
                batch.append(delivered(altered(row.shown, delivery_count=count)))
            else:
                batch.append(self._lock(row, now, tokens))
        if request.receive_attempt_id and batch:
            self.attempts[key] = (now + max(config.lock_duration_ms, ATTEMPT_MS), batch)
        return wire.MessagesResponse(messages=batch)

    def _is_next(self, row: Row, now: int) -> bool:
        """Active, alive, and nothing earlier of its line is locked, scheduled or deferred."""
        if row.shown.state != "active" or row.is_over(now):
            return False
        is_strict = self.queues[row.queue].ordering_mode == "strict_fifo"
        group = row.shown.group_id
        earlier = [r.shown for r in self.of(row.queue) if r.shown.seq_number < row.shown.seq_number]
        line = [m for m in earlier if is_strict or (group and m.group_id == group)]
        return not any(message.state in HOLDING for message in line)

    def _lock(self, row: Row, now: int, tokens: Iterator[str]) -> Message:
        until = now + self.queues[row.queue].lock_duration_ms
        row.becomes("locked", locked_until_ms=until, delivery_count=row.shown.delivery_count + 1)
        row.token = next(tokens, "no token was given out")
        return altered(delivered(row.shown), lock_token=row.token, locked_until_ms=until)

    def receive_deferred(
        self, request: wire.ReceiveDeferredRequest, now: int, tokens: Iterator[str]
    ) -> wire.Response:
        self.queue(request.queue)
        batch = []
        for seq in request.seq_numbers:
            row = self.rows.get(seq)
            is_here = row is not None and row.queue == request.queue
            if row and is_here and row.shown.state == "deferred" and not row.is_over(now):
                batch.append(self._lock(row, now, tokens))
        return wire.MessagesResponse(messages=batch)

    # -- settling ----------------------------------------------------------------------------------

    def held(self, queue: str, seq: int, token: str, now: int) -> Row | None:
        """The row, if this lease is alive."""
        row = self.rows.get(seq)
        if row is None or row.queue != queue or row.shown.state != "locked":
            return None
        return row if row.token == token and row.shown.locked_until_ms > now else None

    def settle(self, request: wire.SettleRequest, now: int, _: object) -> wire.Response:
        row = self.held(request.queue, request.seq_number, request.lock_token, now)
        receipt = receipt_of(request)
        if row is None:
            if self.receipts.get(receipt, 0) <= now:
                raise errors.LockLost("lost")
            return wire.OkResponse()
        self.receipts[receipt] = now + RECEIPT_MS
        if isinstance(request, wire.CompleteRequest):
            del self.rows[request.seq_number]
        elif isinstance(request, wire.DeferRequest):
            row.becomes("deferred")
        elif isinstance(request, wire.RejectRequest):
            self._bury(row, receipt[4][0], request.dead_letter_description)
        elif row.shown.delivery_count >= self.queues[row.queue].max_delivery_count:
            self._bury(row, "MaxDeliveryCountExceeded")
        else:
            later = "scheduled" if request.delay_ms > 0 else "active"
            row.becomes(later, visible_at_ms=now + request.delay_ms)
        return wire.OkResponse()

    def _bury(self, row: Row, reason: object, description: str = "") -> None:
        row.becomes("dead_lettered", dead_letter_reason=reason, dead_letter_description=description)

    def complete_batch(
        self, request: wire.CompleteBatchRequest, now: int, _: object
    ) -> wire.Response:
        singles = [
            wire.CompleteRequest(
                queue=request.queue, seq_number=item.seq_number, lock_token=item.lock_token
            )
            for item in request.messages
        ]
        known = {receipt for receipt, expires_at in self.receipts.items() if expires_at > now}
        done = {
            receipt_of(each)
            for each in singles
            if self.held(each.queue, each.seq_number, each.lock_token, now)
        }
        for receipt in done:
            del self.rows[receipt[1]]
            self.receipts[receipt] = now + RECEIPT_MS
        oks = [receipt_of(each) in done | known for each in singles]
        results = [
            wire.SettleItemResult(seq_number=each.seq_number, ok=ok)
            for each, ok in zip(singles, oks, strict=True)
        ]
        return wire.CompleteBatchResponse(results=results)

    def renew(self, request: wire.RenewRequest, now: int, _: object) -> wire.Response:
        self.queue(request.queue)
        row = self.held(request.queue, request.seq_number, request.lock_token, now)
        if row is None:
            raise errors.LockLost("lost")
        self._extend(row, now)
        return wire.OkResponse()

    def _extend(self, row: Row, now: int) -> None:
        until = now + self.queues[row.queue].lock_duration_ms
        row.shown = altered(row.shown, locked_until_ms=max(row.shown.locked_until_ms, until))

    def renew_batch(self, request: wire.RenewBatchRequest, now: int, _: object) -> wire.Response:
        if any(item.lock_token for item in request.messages):
            self.queue(request.queue)
        results = []
        for item in request.messages:
            row = self.held(request.queue, item.seq_number, item.lock_token, now)
            if row:
                self._extend(row, now)
            until = row.shown.locked_until_ms if row else 0
            results.append(wire.RenewItemResult(item.seq_number, row is not None, until))
        return wire.RenewBatchResponse(results=results)

    # -- dead letters ------------------------------------------------------------------------------

    def redrive(self, request: wire.RedriveRequest, now: int, _: object) -> wire.Response:
        chosen = self._dead(request.queue, request.max, request.older_than_ms, now)
        config = self.queue(request.target or request.queue)
        for row in chosen:
            fresh = {"delivery_count": 0, "visible_at_ms": 0, "dead_letter_reason": ""}
            if request.target in ("", request.queue):
                row.becomes("active", **fresh, dead_letter_description="")
                if row.is_over(now):
                    ttl = config.default_ttl_ms
                    row.shown = altered(row.shown, expires_at_ms=now + ttl if ttl else 0)
                continue
            del self.rows[row.shown.seq_number]
            self.last_seq += 1
            times = {"seq_number": self.last_seq, "enqueued_at_ms": now, "expires_at_ms": 0}
            row.becomes("active", **fresh, **times, dead_letter_description="")
            self.rows[self.last_seq] = Row(request.target, row.shown)
        return wire.RedriveResponse(moved=len(chosen))

    def purge(self, request: wire.PurgeRequest, now: int, _: object) -> wire.Response:
        chosen = self._dead(request.queue, request.max, request.older_than_ms, now)
        for row in chosen:
            del self.rows[row.shown.seq_number]
        return wire.PurgeResponse(purged=len(chosen))

    def _dead(self, queue: str, most: int, older_than: int, now: int) -> list[Row]:
        """The first dead letters of a queue that are old enough."""
        self.queue(queue)
        dead = [row for row in self.of(queue) if row.shown.state == "dead_lettered"]
        old = [r for r in dead if not older_than or r.shown.enqueued_at_ms < now - older_than]
        return old[:most] if most else old

    # -- looking, and time -------------------------------------------------------------------------

    def peek(self, request: wire.PeekRequest, *_: object) -> wire.Response:
        return wire.MessagesResponse(messages=[row.shown for row in self.of(request.queue)])

    def stats(self, request: wire.StatsRequest, now: int, _: object) -> wire.Response:
        self.queue(request.queue)
        shown = [row.shown for row in self.of(request.queue)]
        counts = {state: sum(m.state == state for m in shown) for state in (*LIVE, "dead_lettered")}
        waiting = [m.enqueued_at_ms for m in shown if m.state in ("active", "locked")]
        return wire.StatsResponse(
            queue=request.queue,
            total=len(shown),
            oldest_message_age_ms=max(0, now - min(waiting, default=now)),
            **counts,
        )

    def end_leases(self, now: int | None = None) -> None:
        """Leases that are over; all of them when the store is opened (now None)."""
        for row in self.rows.values():
            if row.shown.state != "locked" or (now and row.shown.locked_until_ms > now):
                continue
            if row.shown.delivery_count >= self.queues[row.queue].max_delivery_count:
                self._bury(row, "MaxDeliveryCountExceeded")
            else:
                row.becomes("active")

    def expire(self, seq: int) -> None:
        row = self.rows[seq]
        if self.queues[row.queue].dead_letter_on_expire is False:
            del self.rows[seq]
        else:
            self._bury(row, "TTLExpired")

    def maintain(self, now: int) -> None:
        """All passes once, in their order."""
        self.end_leases(now)
        for row in self.rows.values():
            if row.shown.state == "scheduled" and row.shown.visible_at_ms <= now:
                row.becomes("active")
        for seq in [s for s, r in self.rows.items() if r.shown.state in LIVE and r.is_over(now)]:
            self.expire(seq)
        self.keys = {
            key: known
            for key, known in self.keys.items()
            if known[2] > now - (self.queues[key[0]].dedup_window_ms or OFF_MS)
        }
        self.receipts = {key: end for key, end in self.receipts.items() if end >= now}
        self.attempts = {key: kept for key, kept in self.attempts.items() if kept[0] >= now}


ANSWERS: Final[dict[type[Any], Callable[..., wire.Response]]] = {
    wire.CreateQueueRequest: Model.create,
    wire.SubscribeRequest: Model.subscribe,
    wire.DeleteQueueRequest: Model.delete,
    wire.SendRequest: Model.send,
    wire.CancelRequest: Model.cancel,
    wire.ReceiveRequest: Model.receive,
    wire.ReceiveDeferredRequest: Model.receive_deferred,
    wire.CompleteRequest: Model.settle,
    wire.AbandonRequest: Model.settle,
    wire.RejectRequest: Model.settle,
    wire.DeferRequest: Model.settle,
    wire.RenewRequest: Model.renew,
    wire.RenewBatchRequest: Model.renew_batch,
    wire.CompleteBatchRequest: Model.complete_batch,
    wire.RedriveRequest: Model.redrive,
    wire.PurgeRequest: Model.purge,
    wire.PeekRequest: Model.peek,
    wire.StatsRequest: Model.stats,
}
