"""The model of our own routes: what they do to the same plain dictionaries.

Used by tests/model/test_model_ext.py. Explain and Search are answered by looking at all messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec import UNSET

from mqlite_actor.contract import errors, ext, wire
from mqlite_actor.contract.ext import Reason, RedriveOutcome, SlotOutcome
from mqlite_actor.contract.wire import Message, QueueConfig
from tests.model.model import LIVE, RECEIPT_MS, Model
from tests.model.names import filled
from tests.model.rows import Receipt, Row, altered


@dataclass
class ExtModel(Model):
    """Also the requests of our own routes."""

    sends: dict[tuple[str, str], tuple[int, list[Message], ext.SendResultResponse]] = field(
        default_factory=dict
    )

    def answer(self, request: wire.Request[Any], now: int, tokens: Iterator[str]) -> wire.Response:
        ours = EXT_ANSWERS.get(type(request))
        return ours(self, request, now) if ours else super().answer(request, now, tokens)

    # -- messages ----------------------------------------------------------------------------------

    def release(self, request: ext.ReleaseRequest, now: int) -> wire.Response:
        known = {receipt for receipt, end in self.receipts.items() if end > now}
        asked: list[Receipt] = [
            (request.queue, item.seq_number, item.lock_token, "release", ())
            for item in request.messages
        ]
        done = {each for each in asked if self.held(*each[:3], now)}
        for each in done:
            row = self.rows[each[1]]
            row.becomes("active", delivery_count=row.shown.delivery_count - 1)
            self.receipts[each] = now + RECEIPT_MS
        return ext.ReleaseResponse(
            results=[wire.SettleItemResult(each[1], each in done | known) for each in asked]
        )

    def send_result(self, request: ext.SendResultRequest, now: int) -> wire.Response:
        key = (request.queue, request.request_id)
        kept = self.sends.get(key)
        if request.request_id and kept and kept[0] > now:
            if kept[1] != request.messages:
                raise errors.DedupConflict("used")
            return kept[2]
        targets = self.targets(request.queue)
        is_grouped = any(self.queues[name].ordering_mode == "group_fifo" for name in targets)
        if is_grouped and not all(message.group_id for message in request.messages):
            raise errors.GroupRequired("group")
        plain = wire.SendRequest(queue=request.queue)
        slots = [self._slot(targets, plain, message, now) for message in request.messages]
        reply = ext.SendResultResponse(results=slots)
        if request.request_id:
            self.sends[key] = (now + RECEIPT_MS, request.messages, reply)
        return reply

    def _slot(
        self, targets: list[str], plain: wire.SendRequest, message: Message, now: int
    ) -> ext.SendSlot:
        copies = slot = 0
        is_known = False
        for name in targets:
            known = self._known(name, message, now)
            copies += known is None
            is_known |= bool(known)
            number = self._store(name, plain, message, now) if known is None else known
            slot = number or slot
        outcome = SlotOutcome.DUPLICATE if is_known else SlotOutcome.CONFLICT
        return ext.SendSlot(SlotOutcome.INSERTED if copies else outcome, slot, copies)

    # -- dead letters ------------------------------------------------------------------------------

    def redrive_selected(self, request: ext.RedriveSelectedRequest, now: int) -> wire.Response:
        self.queue(request.queue)
        self.queue(request.target or request.queue)
        results = []
        for seq in request.seq_numbers:
            row = self.rows.get(seq)
            if row is None or row.queue != request.queue:
                results.append(ext.RedriveResult(seq, RedriveOutcome.NOT_FOUND))
            elif row.shown.state != "dead_lettered":
                results.append(ext.RedriveResult(seq, RedriveOutcome.NOT_DEAD_LETTERED))
            else:
                new = self._put_back(row, request.target or request.queue, now)
                results.append(ext.RedriveResult(seq, RedriveOutcome.MOVED, new))
        moved = sum(each.outcome is RedriveOutcome.MOVED for each in results)
        return ext.RedriveSelectedResponse(moved=moved, results=results)

    def resubmit(self, request: ext.ResubmitRequest, now: int) -> wire.Response:
        self.queue(request.queue)
        target = request.target or request.queue
        config = self.queue(target)
        row = self.rows.get(request.seq_number)
        if row is None or row.queue != request.queue or row.shown.state != "dead_lettered":
            raise errors.NotFound("no dead letter")
        patch = request.message
        changes = {
            name: getattr(patch, name)
            for name in patch.__struct_fields__
            if getattr(patch, name) is not UNSET
        }
        edited = altered(row.shown, **changes)
        if config.ordering_mode == "group_fifo" and not edited.group_id:
            raise errors.GroupRequired("group")
        row.shown = edited
        return ext.ResubmitResponse(seq_number=self._put_back(row, target, now))

    def _put_back(self, row: Row, target: str, now: int) -> int:
        row.becomes(
            "active",
            delivery_count=0,
            visible_at_ms=0,
            dead_letter_reason="",
            dead_letter_description="",
        )
        if target == row.queue:
            if row.is_over(now):
                ttl = self.queues[target].default_ttl_ms
                row.shown = altered(row.shown, expires_at_ms=now + ttl if ttl else 0)
            return row.shown.seq_number
        del self.rows[row.shown.seq_number]
        self.last_seq += 1
        times = {"seq_number": self.last_seq, "enqueued_at_ms": now, "expires_at_ms": 0}
        self.rows[self.last_seq] = Row(target, altered(row.shown, **times))
        return self.last_seq

    # -- queues ------------------------------------------------------------------------------------

    def delete_queue(self, request: wire.DeleteQueueRequest, _: int) -> wire.Response:
        reply = self.delete(request)
        if request.name not in self.queues:  # one made later under the name is another target
            self.sends = {key: kept for key, kept in self.sends.items() if key[0] != request.name}
        return reply

    def purge_active(self, request: ext.PurgeActiveRequest, now: int) -> wire.Response:
        self.queue(request.queue)
        active = [row.shown for row in self.of(request.queue) if row.shown.state == "active"]
        if request.expected_count != len(active):
            raise errors.GenerationConflict("count")
        before = now - request.older_than_ms
        old = [m for m in active if not request.older_than_ms or m.enqueued_at_ms < before]
        chosen = old[: request.max] if request.max else old
        for each in chosen:
            del self.rows[each.seq_number]
        return ext.PurgeActiveResponse(purged=len(chosen))

    def update(self, name: str, patch: ext.QueuePatch) -> QueueConfig:
        """The configuration that holds afterwards."""
        config = self.queues[name]
        fields = {each: getattr(config, each) for each in config.__struct_fields__}
        changes = {
            each: value
            for each in patch.__struct_fields__
            if (value := getattr(patch, each)) is not UNSET
        }
        self.queues[name] = filled(QueueConfig(**{**fields, **changes}))
        return self.queues[name]

    # -- looking -----------------------------------------------------------------------------------

    def why(self, queue: str, seq: int, now: int) -> tuple[Reason, int]:
        """The reason that Explain gives for a message, and the one that it waits for."""
        row = self.rows.get(seq)
        if row is None or row.queue != queue:
            return Reason.GONE, 0
        shown = row.shown
        if shown.state == "locked":
            return (Reason.LOCKED if shown.locked_until_ms > now else Reason.LEASE_OVER), 0
        if shown.state == "dead_lettered":
            return Reason.DEAD_LETTERED, 0
        if row.is_over(now):
            return Reason.EXPIRED, 0
        if shown.state == "deferred":
            return Reason.DEFERRED, 0
        if shown.state == "scheduled":
            return (Reason.SCHEDULED if shown.visible_at_ms > now else Reason.DUE), 0
        line = self.line_before(row)
        return (Reason.BLOCKED, line[0]) if line else (Reason.DELIVERABLE, 0)

    def line_before(self, row: Row) -> list[int]:
        """Numbers of the live messages in front of it in its line."""
        is_strict = self.queues[row.queue].ordering_mode == "strict_fifo"
        group = row.shown.group_id
        return [
            each.shown.seq_number
            for each in self.of(row.queue)
            if each.shown.state in LIVE
            and each.shown.seq_number < row.shown.seq_number
            and (is_strict or (group and each.shown.group_id == group))
        ]


EXT_ANSWERS: Final[dict[type[Any], Callable[..., wire.Response]]] = {
    wire.DeleteQueueRequest: ExtModel.delete_queue,
    ext.ReleaseRequest: ExtModel.release,
    ext.SendResultRequest: ExtModel.send_result,
    ext.RedriveSelectedRequest: ExtModel.redrive_selected,
    ext.ResubmitRequest: ExtModel.resubmit,
    ext.PurgeActiveRequest: ExtModel.purge_active,
}
