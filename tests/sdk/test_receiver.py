"""A receiver claims for idle workers only, settles by what its handler did, and ends in order."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import anyio
import anyio.from_thread
import pytest

import mqlite_actor as mq
from mqlite_actor.contract import wire
from mqlite_actor.sdk.handle import Handle
from tests.sdk.loops import both_loops, run

R = TypeVar("R")

Body = Callable[[mq.Embedded], Awaitable[None]]


def on_queue(backend: str, body: Body) -> None:
    """Run a test's body with an engine that has the queue "q"."""

    async def main() -> None:
        async with mq.open_embedded(":memory:") as q:
            await q.create_queue("q", lock_duration=30, max_delivery_count=5)
            await body(q)

    run(backend, main)


class Heard(mq.ReceiverHooks):
    """Keeps what a receiver told; stops it after so many handled messages."""

    def __init__(self) -> None:
        self.claims: list[int] = []
        self.ended: list[tuple[int, Exception | None]] = []
        self.verdicts: list[tuple[int, mq.Verdict | None]] = []
        self.lost: list[int] = []
        self.errors: list[Exception] = []

    def claimed(self, messages: int) -> None:
        self.claims.append(messages)

    def handled(self, message: mq.Received, seconds: float, error: Exception | None) -> None:
        assert seconds >= 0
        self.ended.append((message.seq_number, error))

    def settled(self, message: mq.Received, verdict: mq.Verdict | None) -> None:
        self.verdicts.append((message.seq_number, verdict))

    def lease_lost(self, message: mq.Received) -> None:
        self.lost.append(message.seq_number)

    def trouble(self, error: mq.MqliteError) -> None:
        self.errors.append(error)


@both_loops
def test_a_handler_that_returns_completes_its_message(backend: str) -> None:
    async def body(q: mq.Embedded) -> None:
        await q.send("q", ["a", "b", "c"])
        seen: list[str] = []
        heard = Heard()
        receiver = q.receiver("q", hooks=heard)

        async def handle(message: mq.HeldMessage) -> None:
            seen.append(message.text)
            if len(seen) == 3:
                receiver.stop()

        await receiver.run(handle)
        assert seen == ["a", "b", "c"]
        assert (await q.stats("q")).total == 0
        assert heard.verdicts == [(1, None), (2, None), (3, None)]
        assert heard.errors == []

    on_queue(backend, body)


@both_loops
def test_a_plain_handler_runs_in_a_thread_and_settles_by_its_own_verbs(backend: str) -> None:
    async def body(q: mq.Embedded) -> None:
        await q.send("q", ["reject", "defer", "abandon", "abandon", "return"])
        here = threading.get_ident()
        receiver = q.receiver("q")
        seen: list[int] = []

        def handle(message: mq.SyncHeldMessage) -> None:
            assert threading.get_ident() != here
            seen.append(message.seq_number)
            if message.text == "reject":
                message.reject("unfit")
            elif message.text == "defer":
                message.defer()
            elif message.text == "abandon":
                message.abandon(delay=60)
            else:
                message.renew()
                anyio.from_thread.run_sync(receiver.stop)

        await receiver.run(handle)
        counts = await q.stats("q")
        assert (counts.dead_lettered, counts.deferred, counts.total) == (1, 1, 4)
        assert seen == [1, 2, 3, 4, 5]

    on_queue(backend, body)


@pytest.mark.promise("E156")
@both_loops
def test_it_never_claims_more_than_it_has_idle_workers(backend: str) -> None:
    async def body(q: mq.Embedded) -> None:
        await q.send("q", [str(number) for number in range(12)])
        heard = Heard()
        at_work = most = 0
        locked: list[int] = []
        receiver = q.receiver("q", concurrency=3, prefetch=2, hooks=heard)

        async def handle(_: mq.HeldMessage) -> None:
            nonlocal at_work, most
            at_work += 1
            most = max(most, at_work)
            locked.append((await q.stats("q")).locked)
            await anyio.lowlevel.checkpoint()
            at_work -= 1
            if len(heard.ended) == 11:
                receiver.stop()

        await receiver.run(handle)
        assert (await q.stats("q")).total == 0
        assert most == 3
        assert max(locked) <= 3
        assert max(heard.claims) <= 2

    on_queue(backend, body)


class Failing(Handle):
    """A handle whose calls of one kind fail with the given errors first."""

    def __init__(self, q: Handle, kind: type, errors: list[Exception]) -> None:
        self._q = q
        self._kind = kind
        self._errors = errors
        self.asked: list[Any] = []

    async def call(self, request: wire.Request[R]) -> R:
        if isinstance(request, self._kind):
            self.asked.append(request)
            if self._errors:
                raise self._errors.pop(0)
        return await self._q.call(request)


@pytest.mark.promise("E156")
@both_loops
def test_a_claim_that_failed_is_repeated_once_under_the_same_attempt_id(backend: str) -> None:
    async def body(q: mq.Embedded) -> None:
        await q.send_one("q", "a")
        lost = [mq.Unavailable("away"), mq.Unavailable("away"), mq.OutcomeUnknown("away")]
        failing = Failing(q, wire.ReceiveRequest, list(lost))
        heard = Heard()
        receiver = failing.receiver("q", hooks=heard)

        async def handle(_: mq.HeldMessage) -> None:
            receiver.stop()

        await receiver.run(handle)
        ids = [request.receive_attempt_id for request in failing.asked]
        assert ids[0] == ids[1] != ids[2] == ids[3]
        assert all(len(each) == 32 for each in ids)
        assert heard.errors == [lost[1]]

    on_queue(backend, body)


@pytest.mark.promise("E156")
@both_loops
def test_a_lost_lock_is_reported_and_ends_nothing(backend: str) -> None:
    async def body(q: mq.Embedded) -> None:
        await q.send("q", ["a", "b"])
        heard = Heard()
        receiver = q.receiver("q", hooks=heard)

        async def handle(message: mq.HeldMessage) -> None:
            if message.text == "a":
                await q.message("q", message.seq_number, message.lock_token).reject()
            else:
                receiver.stop()

        await receiver.run(handle)
        assert [type(error) for error in heard.errors] == [mq.LockLost]
        assert (await q.stats("q")).dead_lettered == 1

    on_queue(backend, body)


PERMANENT = [mq.Unauthenticated("no"), mq.PermissionDenied("no"), mq.Unsupported("no")]


@pytest.mark.parametrize("error", PERMANENT, ids=lambda error: type(error).__name__)
@both_loops
def test_a_permanent_error_ends_the_run_with_it(backend: str, error: Exception) -> None:
    async def body(q: mq.Embedded) -> None:
        heard = Heard()
        failing = Failing(q, wire.ReceiveRequest, [error])
        with pytest.raises(type(error)):
            await failing.receiver("q", hooks=heard).run(_nothing)
        assert len(failing.asked) == 1
        assert heard.errors == [error]
        with pytest.raises(mq.QueueNotFound):
            await q.receiver("nowhere").run(_nothing)

    on_queue(backend, body)


async def _nothing(_: object) -> None:
    return


@pytest.mark.promise("E157")
@both_loops
def test_a_permanent_error_of_a_settlement_lets_the_other_handlers_end_first(backend: str) -> None:
    async def body(q: mq.Embedded) -> None:
        await q.send("q", ["a", "b"])
        failing = Failing(q, wire.CompleteRequest, [mq.PermissionDenied("no")])
        both = anyio.Event()
        seen: list[str] = []

        async def handle(message: mq.HeldMessage) -> None:
            seen.append(message.text)
            if len(seen) == 2:
                both.set()
            try:
                await both.wait()
                if message.text == "b":
                    await anyio.sleep_forever()
            finally:
                seen.append(f"{message.text} ended")

        with pytest.raises(mq.PermissionDenied):
            await failing.receiver("q", concurrency=2).run(handle)
        assert seen[-1] == "b ended"
        (message,) = await q.receive("q", max_messages=9)
        assert (message.text, message.delivery_count) == ("b", 2)

    on_queue(backend, body)


@pytest.mark.promise("E157")
@both_loops
def test_a_cancelled_run_settles_and_gives_back_before_it_ends(backend: str) -> None:
    async def body(q: mq.Embedded) -> None:
        await q.send("q", ["a", "b"])
        started = anyio.Event()

        async def handle(message: mq.HeldMessage) -> None:
            if message.text == "b":
                started.set()
                await anyio.sleep_forever()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(q.receiver("q", concurrency=2).run, handle)
            await started.wait()
            tasks.cancel_scope.cancel()
        counts = await q.stats("q")
        assert (counts.active, counts.locked) == (1, 0)

    on_queue(backend, body)


@pytest.mark.promise("E157")
@both_loops
@pytest.mark.parametrize("is_cancelled_first", [True, False])
def test_closed_is_the_result_only_if_it_was_seen_before_the_cancellation(
    backend: str, *, is_cancelled_first: bool
) -> None:
    async def body(q: mq.Embedded) -> None:
        scope = anyio.CancelScope()

        class Closing(Failing):
            async def call(self, request: wire.Request[R]) -> R:
                if is_cancelled_first:
                    scope.cancel()
                return await super().call(request)

        class Cancelling(mq.ReceiverHooks):
            def trouble(self, _error: mq.MqliteError) -> None:
                scope.cancel()

        closing = Closing(q, wire.ReceiveRequest, [mq.Closed("over")])
        receiver = closing.receiver("q", hooks=Cancelling())
        raised: list[type] = []
        with scope:
            try:
                await receiver.run(_nothing)
            except mq.Closed:
                raised.append(mq.Closed)
        assert raised == ([] if is_cancelled_first else [mq.Closed])
        assert scope.cancelled_caught == is_cancelled_first

    on_queue(backend, body)


@both_loops
def test_trouble_with_settling_is_tried_again(backend: str) -> None:
    async def body(q: mq.Embedded) -> None:
        await q.send_one("q", "a")
        failing = Failing(q, wire.CompleteRequest, [mq.Unavailable("away")])
        receiver = failing.receiver("q")

        async def handle(_: mq.HeldMessage) -> None:
            receiver.stop()

        await receiver.run(handle)
        assert (await q.stats("q")).total == 0

    on_queue(backend, body)


@both_loops
def test_a_stop_lets_handlers_finish_within_the_limit_and_gives_the_rest_back(backend: str) -> None:
    async def body(q: mq.Embedded) -> None:
        await q.send("q", ["quick", "slow"])
        both = anyio.Event()
        seen: list[str] = []
        receiver = q.receiver("q", concurrency=2, stop_seconds=0.2)

        async def handle(message: mq.HeldMessage) -> None:
            seen.append(message.text)
            if len(seen) == 2:
                both.set()
                receiver.stop()
            await both.wait()
            if message.text == "slow":
                await anyio.sleep_forever()

        await receiver.run(handle)
        (message,) = await q.receive("q", max_messages=9)
        assert (message.text, message.delivery_count) == ("slow", 2)

    on_queue(backend, body)


@both_loops
def test_what_was_claimed_and_shown_to_no_handler_goes_back_uncounted(backend: str) -> None:
    """The answer to the claim and the stop come together."""

    async def body(q: mq.Embedded) -> None:
        class Late(Failing):
            async def call(self, request: wire.Request[R]) -> R:
                reply = await super().call(request)
                if isinstance(request, wire.ReceiveRequest):
                    receiver.stop()
                return reply

            async def give_back(
                self, queue: str, messages: Sequence[wire.Message], *, attempt_id: str = ""
            ) -> None:
                await q.give_back(queue, messages, attempt_id=attempt_id)

        await q.send("q", ["a", "b"])
        receiver = Late(q, wire.StatsRequest, []).receiver("q", concurrency=2)
        await receiver.run(_unseen)
        counts = await q.stats("q")
        assert (counts.active, counts.locked) == (2, 0)
        assert [m.delivery_count for m in await q.receive("q", max_messages=9)] == [1, 1]

    on_queue(backend, body)


async def _unseen(_: object) -> None:
    raise AssertionError("no handler was to see it")


@both_loops
def test_a_receiver_runs_once(backend: str) -> None:
    async def body(q: mq.Embedded) -> None:
        receiver = q.receiver("q")
        receiver.stop()
        await receiver.run(_nothing)
        with pytest.raises(mq.InvalidArgument, match="runs once"):
            await receiver.run(_nothing)

    on_queue(backend, body)


BAD = {
    "no worker": ({"concurrency": 0}, "concurrency: 1 to"),
    "no message a claim": ({"prefetch": 0}, "prefetch: at least one"),
    "a negative limit": ({"stop_seconds": -1}, "stop_seconds: a negative"),
    "a policy that is none": ({"on_failure": 5}, "on_failure: a policy"),
    "a loss that nobody notices": ({"cancel_on_lost_lease": True}, "set auto_renew"),
    "an unknown option": ({"workers": 3}, "workers: unknown option; there are"),
}


@pytest.mark.parametrize("name", BAD)
def test_an_option_that_makes_no_sense_is_refused_at_once(name: str) -> None:
    options: Any
    options, reason = BAD[name]

    async def body(q: mq.Embedded) -> None:
        with pytest.raises(mq.InvalidArgument, match=reason):
            q.receiver("q", **options)

    on_queue("trio", body)
    with mq.open_embedded_sync(":memory:") as q, pytest.raises(mq.InvalidArgument, match=reason):
        q.receiver("q", **options)


@both_loops
def test_a_handler_that_is_no_function_of_its_colour_is_refused(backend: str) -> None:
    async def body(q: mq.Embedded) -> None:
        with pytest.raises(mq.InvalidArgument, match="handler"):
            await q.receiver("q").run(5)  # type: ignore[arg-type]  # wrong on purpose

    on_queue(backend, body)
    with (
        mq.open_embedded_sync(":memory:") as q,
        pytest.raises(mq.InvalidArgument, match="a plain function here"),
    ):
        q.receiver("q").run(_nothing)
