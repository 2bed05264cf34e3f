"""Search: look through a queue for messages that are all of what is asked.

Called through the operations table, and by the engine's Gather for a search with a filter, which it
asks itself and outside of any transaction (`engine/filtering.py`). Looks only, so it may run on a
reader's connection. No index serves it, so each call looks at a bounded number of messages (and of
body bytes, if it looks into bodies) and says where to go on. Bodies are returned only to whoever
asks for them, within the byte budget of a page (faults B60).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import InvalidArgument, quoted
from mqlite_actor.contract.ext import FoundMessage, SearchRequest, SearchResponse
from mqlite_actor.contract.words import State
from mqlite_actor.semantics import routing
from mqlite_actor.semantics.peek import STATES, fitting
from mqlite_actor.semantics.sifting import Gathered, Sieve, page_token, wanted
from mqlite_actor.storage import looking, messages, queues, rows
from mqlite_actor.storage.database import Row, Statement, Transaction
from mqlite_actor.storage.rows import Envelope

_PAGE_TOKEN: Final = re.compile("-?[1-9][0-9]{0,18}")

TEXTS: Final = ("message_id", "group_id", "correlation_id", "subject", "dead_letter_reason")
"""Fields that must be equal where the request names one."""


def search(tx: Transaction, request: SearchRequest, now_ms: int) -> SearchResponse:
    """One page, asked at once: for a search without a filter, or in a transaction of the caller's.

    Raises QueueNotFound, InvalidArgument for a bad state, bound or page token, and InvalidFilter.
    """
    if request.filter:
        filter_ = routing.checked(request.filter)
        found = gather(tx, request, for_filter=True, needs_body=filter_.reads_body)
        sieve = Sieve(request, filter_, found, now_ms)
        while sieve.is_open:
            sieve.go_on()
        return sieve.page()
    found = gather(tx, request)
    return SearchResponse(
        messages=found.messages, scanned=found.scanned, next_page_token=found.next_page_token
    )


def gather(
    tx: Transaction, request: SearchRequest, *, for_filter: bool = False, needs_body: bool = False
) -> Gathered:
    """One page, whatever the filter says; errors as for `search`.

    `for_filter`: as many as were looked at, because most of them may be left out; `needs_body`:
    with their bodies, a bounded number of bytes.
    """
    queue = queues.find(tx, request.queue)
    start = _start(request)
    listed = _listed(tx, request, queue.id, start)
    in_range = [row for row in listed if _is_in_range(request, row[0])]
    looked_at = in_range[: fitting([texts for *_, texts in in_range], tx.ledger.page_bytes)]
    page = _Page(tx, request, for_filter=for_filter, needs_body=needs_body)
    look_into = page.looks_ahead(looked_at)
    tx.expect(look_into)
    envelopes = tx.run([looking.envelope(seq) for seq, *_ in looked_at])
    page.look_ahead(looked_at, look_into)
    for (row,), (*_, texts) in zip(envelopes, looked_at, strict=True):
        if not page.take(rows.envelope(row), texts):
            break
    is_last = len(listed) < limits.SEARCH_ROWS or len(in_range) < len(listed)
    is_end = page.is_whole and is_last and len(looked_at) == len(in_range)
    token = "" if is_end else page_token(request, after=page.last)
    return Gathered(page.found(), page.places, page.scanned, token)


def _listed(tx: Transaction, request: SearchRequest, queue_id: int, start: int) -> list[Row]:
    """Number, body length and TEXT_BYTES of those to look at, in the order of the search."""
    order = looking.downwards if request.newest_first else messages.browse
    return tx.run([order(queue_id, STATES[request.state], start, limits.SEARCH_ROWS)])[0]


def _is_in_range(request: SearchRequest, seq: int) -> bool:
    return request.from_seq <= seq and (not request.to_seq or seq <= request.to_seq)


def _start(request: SearchRequest) -> int:
    """The number to begin at; refuses what cannot be meant."""
    if request.state and request.state not in list(State):
        raise InvalidArgument(
            f"state {quoted(request.state)} is unknown; use {', '.join(State)}, or leave it out"
        )
    for field in ("from_seq", "to_seq", "enqueued_from_ms", "enqueued_before_ms", "max"):
        if getattr(request, field) < 0:
            raise InvalidArgument(f"{field} is negative; use 0 for no bound")
    is_down, token = request.newest_first, request.page_token
    highest = request.to_seq or limits.INT64_MAX
    if not token:
        return highest if is_down else request.from_seq
    if not _PAGE_TOKEN.fullmatch(token) or token.startswith("-") is not is_down:
        raise InvalidArgument(
            "page_token is none of this search; pass the last next_page_token, and nothing else"
            " changed"
        )
    number = min(abs(int(token)), limits.INT64_MAX)
    return min(highest, number) if is_down else max(request.from_seq, number)


class _Page:
    """Gathers matches until the page is full of messages or bytes, or enough was looked at."""

    __slots__ = (
        "_body_bytes", "_body_text", "_bytes", "_for_filter", "_found", "_has_bodies", "_holding",
        "_request", "_tx", "_wanted", "is_whole", "last", "places", "scanned",
    )  # fmt: skip

    def __init__(
        self, tx: Transaction, request: SearchRequest, *, for_filter: bool, needs_body: bool
    ) -> None:
        self._tx = tx
        self._request = request
        self._body_text = request.body_text.encode()
        self._for_filter = for_filter
        self._has_bodies = request.include_bodies or needs_body
        self._wanted = limits.SEARCH_ROWS if for_filter else wanted(request)
        self.places: list[int] = []
        self._found: list[Envelope] = []
        self._holding: dict[int, bool] = {}  # whether a body has the text, as far as was asked
        self._bytes = 0  # of what is to be returned
        self._body_bytes = 0  # of bodies that were looked into
        self.scanned = 0
        self.last = 0  # the highest number that was looked at
        self.is_whole = True  # nothing stopped it before the last candidate

    def looks_ahead(self, numbers: Sequence[Row]) -> list[Statement]:
        """Where a question costs a round trip: those of all bodies that may be searched, by number
        and length."""
        if not (self._body_text and self._tx.ledger.is_distant):
            return []
        before = accumulate((size for _, size, _ in numbers), initial=0)
        return [
            looking.body_holds(seq, self._body_text)
            for (seq, *_), total in zip(numbers, before, strict=False)
            if total < limits.SEARCH_BYTES
        ]

    def look_ahead(self, numbers: Sequence[Row], asked: Sequence[Statement]) -> None:
        """Ask them at once."""
        hits = self._tx.run(asked)
        self._holding = {seq: bool(hit) for (seq, *_), hit in zip(numbers, hits, strict=False)}

    def take(self, stored: Envelope, texts: int) -> bool:
        """Look at the next message, whose texts count so much; False if the page ends before it."""
        is_full = len(self._found) >= self._wanted or self._bytes >= self._tx.ledger.page_bytes
        if is_full or self._body_bytes >= limits.SEARCH_BYTES:
            self.is_whole = False
            return False
        self.scanned += 1
        self.last = stored.id
        if _is_wanted(self._request, stored) and self._holds_text(stored):
            self._found.append(stored)
            self._bytes += texts + (stored.body_bytes if self._has_bodies else 0)
            self.places.append(self.scanned)
            if self._for_filter and self._has_bodies:
                self._body_bytes += stored.body_bytes
        return True

    def found(self) -> list[FoundMessage]:
        """The matches as they are returned."""
        if not self._has_bodies:
            return [FoundMessage(rows.listed(each), each.body_bytes) for each in self._found]
        whole = self._tx.run([messages.row(each.id) for each in self._found])
        return [
            FoundMessage(rows.peeked(row), each.body_bytes)
            for each, (row,) in zip(self._found, whole, strict=True)
        ]

    def _holds_text(self, stored: Envelope) -> bool:
        if not self._body_text:
            return True
        self._body_bytes += stored.body_bytes
        if stored.id in self._holding:
            return self._holding[stored.id]
        hit: list[Row] = self._tx.run([looking.body_holds(stored.id, self._body_text)])[0]
        return bool(hit)


def _is_wanted(request: SearchRequest, stored: Envelope) -> bool:
    """Whether everything but the body is as asked."""
    for field in TEXTS:
        wanted = getattr(request, field)
        if wanted and getattr(stored, field) != wanted:
            return False
    if stored.enqueued_at < request.enqueued_from_ms:
        return False
    if request.enqueued_before_ms and stored.enqueued_at >= request.enqueued_before_ms:
        return False
    if not request.properties:
        return True
    return request.properties.items() <= rows.properties_of(stored).items()
