"""Receive on a distant store: a claim in one request, COMMIT included.

Called by the engine (`engine/waves.py`) for claims that stand beside each other; those under an
attempt id are left to `neighbours.py` and `receive.py`. Nothing is asked first: the database
takes the rows itself, and the replies, which are given at once, are filled when its answer is
there. Rules: a reply that is left without its messages although there may be more is taken back,
and its caller's command runs again; so is every one when the front of the queue turns out to be
stale, and then what is overdue is expired first. What is overdue beyond MAINTENANCE_ROWS is left to
the expiry pass, and the claim looks behind it.

What is received and deleted has to be known before it is gone, so that takes two requests, and one
more where lanes are to be followed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from mqlite_actor.contract import limits
from mqlite_actor.contract.wire import Message, MessagesResponse, ReceiveRequest
from mqlite_actor.semantics import lifecycle, neighbours, receive
from mqlite_actor.semantics.lifecycle import Event, check_step, instant
from mqlite_actor.semantics.receive import TOKEN_BYTES
from mqlite_actor.storage import messages, queues, rows, taking
from mqlite_actor.storage.database import Recall, Row, Stored, Transaction
from mqlite_actor.storage.queues import Queue


def receive_afar(
    tx: Transaction, requests: Sequence[ReceiveRequest], now_ms: int
) -> list[MessagesResponse]:
    """Replies to the first of these claims, empty until the transaction has run; those that are
    missing then are to be run again."""
    if requests[0].receive_mode == receive.RECEIVE_AND_DELETE:
        return [drain_afar(tx, requests[0], now_ms)]
    plain = list(takewhile(lambda each: not each.receive_attempt_id, requests))
    queue = queues.lookup(tx, plain[0].queue) if plain else None
    wanted = neighbours.wanted(plain) if plain else []
    if queue is None or not wanted:
        return []
    claim = _Claim(tx, queue, wanted, now_ms)
    claim.send()
    return claim.replies


def drain_afar(tx: Transaction, request: ReceiveRequest, now_ms: int) -> MessagesResponse:
    """Receive and delete, in at most two questions: the heads, and who stands behind them."""
    queue = queues.find(tx, request.queue)
    number = receive.bounded(request).max_messages
    attempt_id = request.receive_attempt_id
    if attempt_id:
        receive.expect_front(tx, queue, number, now_ms)
        known = receive.recorded(tx, queue, attempt_id, now_ms)
        if known is not None:
            return known
    check_step(Event.TAKE, lifecycle.ACTIVE, lifecycle.NONE)
    chosen, is_late = receive.front_afar(tx, queue, number, now_ms)
    if receive.is_cut(tx, chosen, number):
        receive.leave_to_others(tx, queue, number)
    elif not is_late:
        chosen = sorted([*chosen, *_behind(tx, queue, chosen, number - 1, now_ms)])
    found = _remove(tx, queue, chosen[:number])
    reply = MessagesResponse(messages=found)
    receive.record(tx, queue, attempt_id, reply, now_ms)
    return reply


def _remove(tx: Transaction, queue: Queue, chosen: list[Row]) -> list[Message]:
    """Delete these and let who stands behind them come."""
    writes = tx.writes()
    for row in chosen:
        writes.add(*messages.delete(row[0], has_body_apart=bool(row[rows.IS_APART])))
    for lane in dict.fromkeys(lifecycle.lane_of(queue, row[rows.GROUP_ID]) for row in chosen):
        if lane is not None:
            writes.place(messages.promote(queue.id, lane), queue)
    writes.run()
    found = [rows.delivered(row, token=None, locked_until=0) for row in chosen]
    if found:
        tx.moved(queue, before=Stored.READY, number=len(found))
    tx.happened(queue.name, "receive_deleted", len(found))
    receive.count_deliveries(tx, queue, found)
    return found


def _behind(tx: Transaction, queue: Queue, front: list[Row], number: int, now_ms: int) -> list[Row]:
    """Up to `number` of each lane that come forward when its head is taken, as far as nobody holds
    them up; some may stand in front of other heads."""
    heads = {lifecycle.lane_of(queue, row[rows.GROUP_ID]): row[0] for row in front}
    heads.pop(None, None)
    room = tx.ledger.page_bytes - sum(map(rows.weight, front))
    if not heads or number <= 0 or room <= 0:
        return []
    asked = [
        taking.followers(queue.id, lane, head, number, room // len(heads))
        for lane, head in heads.items()
        if lane is not None
    ]
    return [
        row
        for lane in tx.run(asked)
        for row in takewhile(lambda row: _comes_forward(row, now_ms), lane)
    ]


def _comes_forward(row: Row, now_ms: int) -> bool:
    return row[rows.STATE] == Stored.WAITING and not 0 < row[rows.EXPIRES_AT] <= now_ms


class _Claim:
    """Claims of one queue that were sent and not yet heard of."""

    __slots__ = ("_now_ms", "_queue", "_tokens", "_tx", "_until", "_wanted", "replies")

    def __init__(self, tx: Transaction, queue: Queue, wanted: list[int], now_ms: int) -> None:
        self._tx = tx
        self._queue = queue
        self._wanted = wanted
        self._now_ms = now_ms
        self._until = instant(now_ms, queue.lock_duration_ms)
        self._tokens = tx.random(TOKEN_BYTES * sum(wanted))
        self.replies = [MessagesResponse(messages=[]) for _ in wanted]

    def send(self) -> None:
        """Expire what is known to be in the way, and take what comes next."""
        tx, queue, number = self._tx, self._queue, sum(self._wanted)
        is_guarded = queue.id not in tx.ledger.stale_fronts
        if not is_guarded:
            self._expire()
        check_step(Event.CLAIM, lifecycle.ACTIVE, lifecycle.LOCKED)
        statements = taking.take(
            queue.id,
            self._now_ms,
            number=number,
            bytes_max=tx.ledger.page_bytes,
            guarded=number if is_guarded else 0,
            tokens=self._tokens,
            locked_until=self._until,
        )
        recall = Recall(taking.leased(queue.id, self._until), self._recalled)
        tx.later(statements, self._told, recall)

    def _expire(self) -> None:
        tx, queue = self._tx, self._queue
        asked = taking.overdue(queue.id, self._now_ms, limits.MAINTENANCE_ROWS)
        writes = tx.writes()
        for held in map(rows.held, tx.run([asked])[0]):
            lifecycle.expire(tx, writes, queue, held)
        writes.run()

    def _told(self, found: list[list[Row]]) -> None:
        stale, front, *_ = found
        if stale:
            self._tx.ledger.stale_fronts.add(self._queue.id)
            self.replies.clear()
            return
        self._tx.ledger.stale_fronts.discard(self._queue.id)
        self._deal(front)

    def _recalled(self, found: list[Row]) -> None:
        """The answer was lost after COMMIT: what stands under our tokens was ours. If nothing does,
        there was nothing, or the front was stale: these claims run again."""
        ours = set(self._cut())
        front = [taking.before_lock(row) for row in found if row[rows.LOCK_TOKEN] in ours]
        if front:
            self._deal(front)
        else:
            self.replies.clear()

    def _deal(self, front: list[Row]) -> None:
        """Fill the replies in their order."""
        tx, until = self._tx, self._until
        found = [
            rows.delivered(row, token=token, locked_until=until)
            for row, token in zip(front, self._cut(), strict=False)
        ]
        for row, token in zip(front, self._cut(), strict=False):
            receive.remember(tx, row, token, until)
        is_page_full = receive.is_cut(tx, front, sum(self._wanted))
        if is_page_full:
            receive.leave_to_others(tx, self._queue, sum(self._wanted))
        begin = 0
        for place, number in enumerate(self._wanted):
            if is_page_full and begin >= len(found):
                del self.replies[place:]  # there may be more, but not in this page
                break
            self.replies[place].messages.extend(found[begin : begin + number])
            begin += number
        if found:
            tx.due("locks", until)
        receive.count_deliveries(tx, self._queue, found)

    def _cut(self) -> list[bytes]:
        """The tokens one by one."""
        tokens = self._tokens
        return [tokens[at : at + TOKEN_BYTES] for at in range(0, len(tokens), TOKEN_BYTES)]
