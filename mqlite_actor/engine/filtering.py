"""Filters that may take long, asked in a worker thread before a send enters the actor (ruling R12).

Used by `Engine.call` for sends, Subscribe, TestFilter and Search. One thread at a time, in slices
of a few milliseconds: whoever sends to a topic with slow filters waits for its own turn, and nobody
else waits for it. A caller cancelled while its filters are asked has stored nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any, TypeVar

import trio

from mqlite_actor.clock import Clock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import Unavailable
from mqlite_actor.contract.ext import SearchRequest, SearchResponse, SendResultResponse
from mqlite_actor.engine import commands
from mqlite_actor.filters import Facts, Filter
from mqlite_actor.semantics import routing
from mqlite_actor.semantics.routing import Undecided, Verdicts
from mqlite_actor.semantics.send import Sending
from mqlite_actor.semantics.sifting import Sieve
from mqlite_actor.semantics.trial import test_filter

T = TypeVar("T")


class Filtering:
    """The calls that ask filters."""

    __slots__ = ("_clock", "_limiter", "_look", "_submit")

    def __init__(
        self,
        submit: Callable[[Any], Awaitable[Any]],
        look: Callable[[Any], Awaitable[Any]],
        clock: Clock,
    ) -> None:
        self._submit = submit
        self._look = look
        self._clock = clock
        self._limiter = trio.CapacityLimiter(1)

    async def send(self, request: Sending, reply: object) -> wire.SendResponse | SendResultResponse:
        """Send again, with what the slow filters say that `reply` asks about."""
        known: Verdicts = {}
        for _ in range(limits.VERDICT_ROUNDS_MAX):
            if not isinstance(reply, Undecided):
                assert isinstance(reply, wire.SendResponse | SendResultResponse)
                return reply
            inquiry = Inquiry(request, reply, known, self._clock.now_ms())
            while inquiry.is_open:
                await self._in_thread(inquiry.go_on)
            reply = await self._submit(commands.JudgedSend(request, known))
        raise Unavailable(
            f"the subscriptions of topic {request.queue!r} kept changing while they were asked;"
            " nothing was stored, try again"
        )

    async def subscribe(self, request: wire.SubscribeRequest) -> wire.EmptyResponse:
        """Subscribe. Compiled here first: the writer then finds it done, good or bad."""
        await self._in_thread(routing.compiled, request.filter.expr)
        reply = await self._submit(request)
        assert isinstance(reply, wire.EmptyResponse)
        return reply

    async def test_filter(self, request: wire.TestFilterRequest) -> wire.TestFilterResponse:
        """Try a filter; touches no file."""
        return await self._in_thread(test_filter, request, self._clock.now_ms())

    async def search(self, request: SearchRequest) -> SearchResponse:
        """One page. What the rest of the request lets through is looked up first, so that no
        connection is held while the filter is asked. InvalidFilter, and errors as for the look."""
        if not request.filter:
            reply = await self._look(request)
            assert isinstance(reply, SearchResponse)
            return reply
        filter_ = await self._in_thread(routing.checked, request.filter)
        gathered = await self._look(commands.Gather(request, needs_body=filter_.reads_body))
        sieve = Sieve(request, filter_, gathered, self._clock.now_ms())
        while sieve.is_open:
            await self._in_thread(sieve.go_on)
        return sieve.page()

    async def _in_thread(self, function: Callable[..., T], *arguments: object) -> T:
        return await trio.to_thread.run_sync(function, *arguments, limiter=self._limiter)


class Inquiry:
    """The questions that one send has, answered slice by slice into `known`."""

    __slots__ = ("_facts", "_known", "_messages", "_now_ms", "_open", "_visible_at_ms")

    def __init__(self, request: Sending, reply: Undecided, known: Verdicts, now_ms: int) -> None:
        self._messages = request.messages
        self._visible_at_ms = request.scheduled_enqueue_time_ms or now_ms
        self._now_ms = now_ms
        self._known = known
        self._facts: dict[int, Facts] = {}
        self._open: deque[tuple[Filter, int]] = deque(sorted(reply.pairs, key=lambda pair: pair[1]))

    @property
    def is_open(self) -> bool:
        """Whether a question is left."""
        return bool(self._open)

    def go_on(self) -> None:
        """Ask for a few milliseconds, at least one filter about one message."""
        ends = perf_counter() + limits.FILTER_SLICE_SECONDS
        while self._open:
            filter_, index = self._open.popleft()
            self._known[filter_.source, index] = routing.judge(filter_, self._facts_of(index))
            if perf_counter() >= ends:
                return

    def _facts_of(self, index: int) -> Facts:
        """Made once a message: a body is decoded once for all its filters, and then dropped."""
        found = self._facts.get(index)
        if found is None:
            self._facts.clear()
            found = self._facts[index] = Facts(
                self._messages[index],
                enqueued_at_ms=self._now_ms,
                visible_at_ms=self._visible_at_ms,
                now_ms=self._now_ms,
            )
        return found
