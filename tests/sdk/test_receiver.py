"""A receiver claims for idle workers only, and settles by what its handler did."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any, TypeVar

import anyio
import anyio.from_thread
import pytest

import mqlite_actor as mq
from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import Internal
from mqlite_actor.sdk.policies import TEXT_MAX
from mqlite_actor.sdk.receiver import StrayCancellation
from tests.sdk.loops import both_loops
from tests.sdk.receiving_scene import Failing, Heard, nothing, on_queue

R = TypeVar("R")


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
        all_at_work = anyio.Event()
        locked: list[int] = []
        receiver = q.receiver("q", concurrency=3, prefetch=2, hooks=heard)

        async def handle(_: mq.HeldMessage) -> None:
            nonlocal at_work, most
            at_work += 1
            most = max(most, at_work)
            if at_work == 3:
                all_at_work.set()
            await all_at_work.wait()
            locked.append((await q.stats("q")).locked)
            at_work -= 1
            if len(heard.ended) == 11:
                receiver.stop()

        await receiver.run(handle)
        assert (await q.stats("q")).total == 0
        assert most == 3
        assert max(locked) <= 3
        assert max(heard.claims) <= 2

    on_queue(backend, body)


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
def test_a_lost_lock_is_reported_and_endsnothing(backend: str) -> None:
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
            await failing.receiver("q", hooks=heard).run(nothing)
        assert len(failing.asked) == 1
        assert heard.errors == [error]
        with pytest.raises(mq.QueueNotFound):
            await q.receiver("nowhere").run(nothing)

    on_queue(backend, body)


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


def test_a_cancellation_that_is_not_the_handlers_own_is_a_failure_of_the_handler() -> None:
    async def body(q: mq.Embedded) -> None:
        await q.send("q", ["a", "b"])
        heard = Heard()
        receiver = q.receiver("q", hooks=heard, on_failure=mq.reject())

        async def handle(message: mq.HeldMessage) -> None:
            if message.text == "b":
                receiver.stop()
                return
            of_a_library = asyncio.create_task(asyncio.Event().wait())
            of_a_library.cancel()
            await of_a_library

        await receiver.run(handle)
        assert [type(error) for _, error in heard.ended] == [StrayCancellation, type(None)]
        (dead,) = await q.peek("q")
        assert (dead.dead_letter_reason, dead.body) == ("StrayCancellation", b"a")

    on_queue("asyncio", body)


def test_a_cancellation_of_the_worker_itself_is_none_of_the_handlers_failures() -> None:
    """What `asyncio.run` does with every task at the end of a program."""

    async def body(q: mq.Embedded) -> None:
        await q.send_one("q", "a")
        heard = Heard()

        async def handle(_: mq.HeldMessage) -> None:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.Event().wait()

        with pytest.raises(Internal, match="cancelled from inside"):
            await q.receiver("q", hooks=heard, on_failure=mq.reject()).run(handle)
        assert heard.ended == [(1, None)]
        assert (await q.stats("q")).active == 1

    on_queue("asyncio", body)


WRONG: Any = ValueError("x")
HALF: Any = 1.5
AMISS = [
    None, "reject", 0, mq.DeadLetter, mq.DeadLetter(WRONG), mq.DeadLetter("a", WRONG),
    mq.Retry(WRONG), mq.Retry(HALF), mq.Retry(-1), mq.Retry(2**70),
]  # fmt: skip


@pytest.mark.parametrize("answer", AMISS)
@both_loops
def test_a_policy_that_answers_no_verdict_never_completes_what_failed(
    backend: str, answer: object
) -> None:
    async def body(q: mq.Embedded) -> None:
        await q.send_one("q", "a")
        heard = Heard()
        policy: Any = lambda _message, _error: answer  # noqa: E731  # one that is no Policy
        receiver = q.receiver("q", hooks=heard, on_failure=policy)

        async def handle(message: mq.HeldMessage) -> None:
            if message.delivery_count == 2:
                receiver.stop()
            raise ValueError

        await receiver.run(handle)
        assert heard.verdicts == [(1, mq.Retry()), (1, mq.Retry())]
        assert (await q.stats("q")).active == 1

    on_queue(backend, body)


@both_loops
def test_an_error_that_no_text_can_hold_buries_its_message_and_ends_nothing(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is logged of it would end the worker that reports this test.
    monkeypatch.setattr(logging.getLogger("mqlite.receiver"), "propagate", False)

    async def body(q: mq.Embedded) -> None:
        await q.send("q", ["half a pair", "long", "stop"])
        heard = Heard()
        receiver = q.receiver("q", hooks=heard, on_failure=mq.reject())

        async def handle(message: mq.HeldMessage) -> None:
            if message.text == "stop":
                receiver.stop()
                return
            raise ValueError("caf\ud800" if message.text == "half a pair" else "x" * 200_000)

        await receiver.run(handle)
        half, long = await q.peek("q", state="dead_lettered")
        assert half.dead_letter_description == "caf\\ud800"
        assert long.dead_letter_description == "x" * TEXT_MAX
        assert heard.errors == []

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
                await receiver.run(nothing)
            except mq.Closed:
                raised.append(mq.Closed)
        assert raised == ([] if is_cancelled_first else [mq.Closed])
        assert scope.cancelled_caught == is_cancelled_first

    on_queue(backend, body)
