"""A receive under an attempt id whose answer is lost: repeated once, and only what is still held is
handed out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

import mqlite_actor as mq
from mqlite_actor.clock import ManualClock, SystemClock
from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import MqliteError
from mqlite_actor.sdk import replays
from mqlite_actor.sdk.handle import Handle
from tests.sdk.loopback import Loopback, Recorded, engine_replies, loopback, refusal
from tests.sdk.loops import both_loops, run

R = TypeVar("R")

LOCK_SECONDS = 30


async def nothing() -> None:
    pass


class Losing(Handle):
    """Loses the answer to its first claim, and something happens meanwhile; the second claim may
    fail, and so may the look."""

    def __init__(
        self,
        q: mq.Embedded,
        *,
        first: MqliteError | None = None,
        second: MqliteError | None = None,
        look: MqliteError | None = None,
    ) -> None:
        self._q = q
        self._failures: list[MqliteError | None] = [first or mq.OutcomeUnknown("lost"), second]
        self._look = look
        self.meanwhile: Callable[[], Awaitable[None]] = nothing
        self.asked: list[wire.Request[wire.Response]] = []

    def now_ms(self) -> int:
        return self._q.now_ms()

    async def call(self, request: wire.Request[R]) -> R:
        self.asked.append(request)  # type: ignore[arg-type]  # R is a response of the contract
        if isinstance(request, wire.RenewBatchRequest) and self._look is not None:
            raise self._look
        reply = await self._q.call(request)
        failure = self._failures.pop(0) if self._is_claim(request) and self._failures else None
        if failure is not None:
            await self.meanwhile()
            raise failure
        return reply

    def _is_claim(self, request: object) -> bool:
        return isinstance(request, wire.ReceiveRequest)

    @property
    def claims(self) -> list[wire.ReceiveRequest]:
        return [each for each in self.asked if isinstance(each, wire.ReceiveRequest)]

    @property
    def kinds(self) -> list[str]:
        return [type(each).__name__.removesuffix("Request") for each in self.asked]


def on_queue(
    backend: str, body: Callable[[mq.Embedded, ManualClock], Awaitable[None]], *, text: str = "ab"
) -> None:
    """With an engine whose queue holds a message for each letter."""

    async def main() -> None:
        clock = ManualClock()
        async with mq.open_embedded(":memory:", clock=clock, background=False) as q:
            await q.create_queue("q", lock_duration=LOCK_SECONDS)
            await q.send("q", list(text))
            await body(q, clock)

    run(backend, main)


# -- what is handed out ----------------------------------------------------------------------------


@both_loops
@pytest.mark.parametrize("look", [None, mq.Unsupported("no such path"), mq.Unavailable("away")])
@pytest.mark.parametrize("seconds", [0, LOCK_SECONDS - 1, LOCK_SECONDS + 1])
def test_the_repetition_is_handed_out_as_far_as_its_leases_hold(
    backend: str, seconds: int, look: MqliteError | None
) -> None:
    async def body(q: mq.Embedded, clock: ManualClock) -> None:
        losing = Losing(q, look=look)

        async def meanwhile() -> None:
            clock.advance(1000 * seconds)

        losing.meanwhile = meanwhile
        found = await losing.receive("q", max_messages=9, attempt_id="a")
        assert losing.kinds == ["Receive", "Receive", "RenewBatch"]
        assert {each.receive_attempt_id for each in losing.claims} == {"a"}
        is_over = seconds > LOCK_SECONDS
        assert [each.text for each in found] == ([] if is_over else ["a", "b"])
        if look is None:
            ends = {each.raw.locked_until_ms for each in found}
            assert ends == (set() if is_over else {clock.now_ms() + 1000 * LOCK_SECONDS})
        for each in found:
            assert each.delivery_count == 1
            await each.complete()

    on_queue(backend, body)


@both_loops
def test_what_somebody_else_has_by_then_is_left_out(backend: str) -> None:
    async def body(q: mq.Embedded, clock: ManualClock) -> None:
        losing = Losing(q)
        others: list[str] = []

        async def meanwhile() -> None:
            held = await q.receive("q", max_messages=2, attempt_id="a")  # the same leases
            clock.advance(1000 * (LOCK_SECONDS - 1))
            await held[1].renew()
            clock.advance(2000)
            await q.run_maintenance()
            others.extend(each.text for each in await q.receive("q", max_messages=2))

        losing.meanwhile = meanwhile
        found = await losing.receive("q", max_messages=2, attempt_id="a")
        assert (others, [each.text for each in found]) == (["a"], ["b"])

    on_queue(backend, body)


@both_loops
def test_what_was_removed_comes_whole_and_is_not_looked_at(backend: str) -> None:
    async def body(q: mq.Embedded, clock: ManualClock) -> None:
        losing = Losing(q)

        async def meanwhile() -> None:
            clock.advance(1000 * (LOCK_SECONDS + 1))

        losing.meanwhile = meanwhile
        found = await losing.receive("q", max_messages=2, at_most_once=True, attempt_id="a")
        assert [each.text for each in found] == ["a", "b"]
        assert losing.kinds == ["Receive", "Receive"]
        assert (await q.stats("q")).total == 0

    on_queue(backend, body)


# -- how often, how long, what is told -------------------------------------------------------------


@both_loops
@pytest.mark.parametrize(
    ("second", "told"),
    [
        (mq.OutcomeUnknown("again"), mq.OutcomeUnknown),
        (mq.Unavailable("away"), mq.OutcomeUnknown),
        (mq.Closed("closed"), mq.OutcomeUnknown),
        (mq.PermissionDenied("who"), mq.OutcomeUnknown),
        (mq.QueueNotFound("gone"), mq.QueueNotFound),
    ],
)
@pytest.mark.parametrize("is_removed", [False, True])
def test_a_repetition_that_fails_is_the_last_and_leaves_the_doubt(
    backend: str, second: MqliteError, told: type[MqliteError], *, is_removed: bool
) -> None:
    async def body(q: mq.Embedded, _: ManualClock) -> None:
        losing = Losing(q, second=second)
        with pytest.raises(told):
            await losing.receive("q", at_most_once=is_removed, attempt_id="a")
        assert losing.kinds == ["Receive", "Receive"]

    on_queue(backend, body)


@both_loops
@pytest.mark.parametrize(
    ("first", "told"),
    [(mq.OutcomeUnknown("lost"), mq.OutcomeUnknown), (mq.Unavailable("away"), mq.Unavailable)],
)
def test_consume_tells_of_the_doubt_too_and_of_none_where_nothing_was_done(
    backend: str, first: MqliteError, told: type[MqliteError]
) -> None:
    async def body(q: mq.Embedded, _: ManualClock) -> None:
        losing = Losing(q, first=first, second=mq.Unavailable("away"))
        with pytest.raises(told):
            await anext(losing.consume("q"))
        assert losing.kinds == ["Receive", "Receive"]

    on_queue(backend, body)


@both_loops
@pytest.mark.parametrize(
    ("first", "attempt"),
    [
        (mq.OutcomeUnknown("lost"), ""),
        (mq.Unavailable("away"), "a"),
        (mq.QueueNotFound("gone"), "a"),
    ],
)
def test_nothing_is_repeated_without_an_id_or_where_nothing_was_done(
    backend: str, first: MqliteError, attempt: str
) -> None:
    async def body(q: mq.Embedded, _: ManualClock) -> None:
        losing = Losing(q, first=first)
        with pytest.raises(type(first)):
            await losing.receive("q", attempt_id=attempt)
        assert losing.kinds == ["Receive"]

    on_queue(backend, body)


@both_loops
@pytest.mark.parametrize(("gone_seconds", "left_ms"), [(0, 5000), (2, 3000), (60, 0)])
def test_the_repetition_waits_for_the_rest_of_the_wait(
    backend: str, gone_seconds: int, left_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Standing(SystemClock):
        now = 100.0

        def monotonic(self) -> float:
            return Standing.now

    monkeypatch.setattr(replays, "SystemClock", Standing)

    async def body(q: mq.Embedded, _: ManualClock) -> None:
        losing = Losing(q)

        async def meanwhile() -> None:
            Standing.now += gone_seconds

        losing.meanwhile = meanwhile
        await losing.receive("q", wait=5, attempt_id="a")
        assert [each.wait_time_ms for each in losing.claims] == [5000, left_ms]

    on_queue(backend, body)


# -- over HTTP -------------------------------------------------------------------------------------


@contextmanager
def losing_claims(*, is_older: bool, lost: int = 1) -> Iterator[Loopback]:
    """A broker whose first claims are made, and their answers lost."""
    with engine_replies() as answers:
        claims: list[Recorded] = []

        def answer(request: Recorded) -> bytes | None:
            if is_older and request.call == "QueueService/RenewBatch":
                return refusal(404, "unsupported", "no such path")
            said = answers(request)
            if request.call == "QueueService/Receive":
                claims.append(request)
                return None if len(claims) <= lost else said
            return said

        with loopback(answer) as server:
            yield server


CALLS = [f"QueueService/{name}" for name in ("Receive", "Receive", "RenewBatch", "Complete")]


@pytest.mark.parametrize("is_older", [False, True])
@both_loops
def test_an_answer_lost_over_http_is_asked_for_again(backend: str, *, is_older: bool) -> None:
    async def main() -> None:
        async with mq.connect(server.url, token="t") as q:
            await q.create_queue("q")
            await q.send_one("q", "a")
            (message,) = await q.receive("q", wait=5, attempt_id="a")
            assert (message.text, message.delivery_count) == ("a", 1)
            await message.complete()

    with losing_claims(is_older=is_older) as server:
        run(backend, main)
    assert server.calls[2:] == CALLS


@pytest.mark.parametrize("is_older", [False, True])
def test_an_answer_lost_to_a_blocking_program_is_asked_for_again(*, is_older: bool) -> None:
    with losing_claims(is_older=is_older) as server, mq.connect_sync(server.url, token="t") as q:
        q.create_queue("q")
        q.send_one("q", "a")
        (message,) = q.receive("q", wait=5, attempt_id="a")
        assert (message.text, message.delivery_count) == ("a", 1)
        message.complete()
    assert server.calls[2:] == CALLS


def test_a_removal_whose_answer_is_lost_is_asked_for_again_over_http() -> None:
    with losing_claims(is_older=False) as server, mq.connect_sync(server.url, token="t") as q:
        q.create_queue("q")
        q.send_one("q", "a")
        (message,) = q.receive("q", at_most_once=True, attempt_id="a")
        assert message.text == "a"
    assert server.calls[2:] == CALLS[:2]


def test_over_http_nobody_asks_a_third_time() -> None:
    with losing_claims(is_older=False, lost=9) as server, mq.connect_sync(server.url) as q:
        q.create_queue("q")
        q.send_one("q", "a")
        with pytest.raises(mq.OutcomeUnknown):
            q.receive("q", attempt_id="a")
        assert server.calls[2:] == CALLS[:2]
