"""The filter of a search, asked about what the rest of the request let through.

Made for one page, by the engine (`engine/filtering.py`), which asks in slices, in a thread and
outside of any transaction, so that a filter which seldom matches, or takes long, holds up neither
the writer nor a reader; and by `search.py` in a transaction of the caller's. A page ends when it is
full or when asking has taken long enough; the caller goes on from its token. A message that the
filter fails on does not match, as with a subscription, but is counted: whoever searches has to know
that nothing was decided about it.
"""

from __future__ import annotations

from time import perf_counter

import msgspec

from mqlite_actor.contract import limits
from mqlite_actor.contract.ext import FoundMessage, SearchRequest, SearchResponse
from mqlite_actor.filters import Facts, Filter, FilterFailed
from mqlite_actor.semantics import routing


class Gathered(msgspec.Struct, frozen=True):
    """What is all of what is asked, its filter aside. `places` are, for each of the messages, how
    many had been looked at with it, so that a page can be cut short behind any of them."""

    messages: list[FoundMessage]
    places: list[int]
    scanned: int
    next_page_token: str


def page_token(request: SearchRequest, *, after: int) -> str:
    """Where the next page begins; "" if there is nothing behind this number."""
    if not request.newest_first:
        return str(after + 1)
    return f"-{after - 1}" if after > 1 else ""


def wanted(request: SearchRequest) -> int:
    """How many messages a page may have."""
    return min(request.max, limits.PEEK_MAX) if request.max else limits.PEEK_DEFAULT


class Sieve:
    """One page of a search, while its filter is asked."""

    __slots__ = (
        "_asked", "_failed", "_failure", "_filter", "_found", "_gathered", "_now_ms", "_request",
        "_seconds_left",
    )  # fmt: skip

    def __init__(
        self, request: SearchRequest, filter_: Filter, gathered: Gathered, now_ms: int
    ) -> None:
        self._request = request
        self._filter = filter_
        self._gathered = gathered
        self._now_ms = now_ms
        self._asked = 0  # about how many of the gathered
        self._found: list[FoundMessage] = []
        self._failed = 0
        self._failure = ""
        self._seconds_left = limits.SEARCH_SECONDS

    @property
    def is_open(self) -> bool:
        """Whether a message is left to ask about on this page."""
        is_full = len(self._found) >= wanted(self._request) or self._seconds_left <= 0
        return self._asked < len(self._gathered.messages) and not is_full

    def go_on(self) -> None:
        """Ask for a few milliseconds, about one message at least."""
        begun = perf_counter()
        spent = 0.0
        while self.is_open and spent < min(limits.FILTER_SLICE_SECONDS, self._seconds_left):
            self._ask(self._gathered.messages[self._asked])
            self._asked += 1
            spent = perf_counter() - begun
        self._seconds_left -= spent

    def page(self) -> SearchResponse:
        """What matched, up to the message that was asked about last."""
        gathered, asked = self._gathered, self._asked
        scanned, token = gathered.scanned, gathered.next_page_token
        if asked < len(gathered.messages):
            scanned = gathered.places[asked - 1]
            last = gathered.messages[asked - 1].message.seq_number
            token = page_token(self._request, after=last)
        return SearchResponse(
            messages=[self._shown(each) for each in self._found],
            scanned=scanned,
            next_page_token=token,
            failed=self._failed,
            failure=self._failure,
        )

    def _ask(self, found: FoundMessage) -> None:
        verdict = routing.judge(self._filter, self._facts(found))
        if isinstance(verdict, FilterFailed):
            self._failed += 1
            self._failure = self._failure or str(verdict)
        elif verdict:
            self._found.append(found)

    def _facts(self, found: FoundMessage) -> Facts:
        message = found.message
        facts = Facts(
            message,
            enqueued_at_ms=message.enqueued_at_ms,
            visible_at_ms=message.visible_at_ms or message.enqueued_at_ms,
            now_ms=self._now_ms,
        )
        facts.body_size = found.body_bytes  # true without the body, too
        return facts

    def _shown(self, found: FoundMessage) -> FoundMessage:
        """Without a body that only the filter was to see."""
        if self._request.include_bodies or not found.message.body:
            return found
        message = msgspec.structs.replace(found.message, body=b"")
        return msgspec.structs.replace(found, message=message)
