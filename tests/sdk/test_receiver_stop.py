"""A receiver stops in order, and refuses what makes no sense."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, TypeVar

import anyio
import anyio.from_thread
import anyio.lowlevel
import pytest

import mqlite_actor as mq
from mqlite_actor.contract import wire
from mqlite_actor.sdk import receiver as receiver_module
from mqlite_actor.sdk.handle import Handle
from tests.sdk.loops import both_loops
from tests.sdk.receiving_scene import Failing, Heard, nothing, on_queue

R = TypeVar("R")


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


class Once(Heard):
    """Stops its receiver when a message is settled."""

    stop: Callable[[], None]

    def settled(self, message: mq.Received, verdict: mq.Verdict | None) -> None:
        super().settled(message, verdict)
        self.stop()


class Stalled(Handle):
    """A handle whose first settlements get no answer."""

    def __init__(self, q: Handle, number: int) -> None:
        self._q = q
        self.number = number

    async def call(self, request: wire.Request[R]) -> R:
        if isinstance(request, wire.CompleteRequest) and self.number > 0:
            self.number -= 1
            await anyio.sleep_forever()
        return await self._q.call(request)


@both_loops
def test_a_settlement_is_tried_while_its_lease_lives_and_the_run_goes_on(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiver_module, "SETTLE_SECONDS", 0.01)

    async def body(q: mq.Embedded) -> None:
        await q.send_one("q", "a")
        stalled = Stalled(q, 3)
        heard = Once()
        receiver = stalled.receiver("q", hooks=heard)
        heard.stop = receiver.stop
        await receiver.run(nothing)
        assert (stalled.number, heard.verdicts) == (0, [(1, None)])
        assert (await q.stats("q")).total == 0

        await q.send_one("q", "b")
        stalled = Stalled(q, 3)
        stopped = stalled.receiver("q")

        async def handle(_: mq.HeldMessage) -> None:
            stopped.stop()

        await stopped.run(handle)
        assert stalled.number == 2
        assert (await q.stats("q")).locked == 1

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
@pytest.mark.parametrize("ending", ["a stop", "a cut", "a cancellation"])
def test_a_plain_function_settles_by_its_own_verb_after_any_end(backend: str, ending: str) -> None:
    async def body(q: mq.Embedded) -> None:
        await q.send_one("q", "slow")
        receiver = q.receiver("q", stop_seconds=0.01)
        running = anyio.CancelScope()
        done: list[str] = []

        def is_cut(message: mq.SyncHeldMessage) -> bool:
            return message._held.scope.cancel_called or running.cancel_called  # no other sign

        def handle(message: mq.SyncHeldMessage) -> None:
            ends = {
                "a stop": receiver.stop,
                "a cut": receiver.cut,
                "a cancellation": running.cancel,
            }
            anyio.from_thread.run_sync(ends[ending])
            while not anyio.from_thread.run_sync(is_cut, message):
                pass
            message.renew()
            message.complete()
            done.append(message.text)

        with running:
            await receiver.run(handle)
        assert done == ["slow"]
        with anyio.CancelScope(shield=True):
            assert (await q.stats("q")).total == 0

    on_queue(backend, body)


@pytest.mark.parametrize("ending", ["a cut", "a cancellation"])
@both_loops
def test_what_fails_while_a_handler_is_cancelled_is_a_failure_of_its_message_alone(
    backend: str, ending: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Trio hands both on in one group."""

    async def fail_in_the_end() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise ValueError("no connection to clean up")

    async def handle(_: mq.HeldMessage) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fail_in_the_end)
            tasks.start_soon(anyio.sleep_forever)
            begun.set()

    async def body(q: mq.Embedded) -> None:
        await q.send_one("q", "a")
        heard = Heard()
        receiver = q.receiver("q", hooks=heard, on_failure=mq.reject())
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(receiver.run, handle)
            await begun.wait()
            await anyio.lowlevel.checkpoint()
            if ending == "a cut":
                receiver.cut()
            else:
                tasks.cancel_scope.cancel()
        ((_, failure),) = heard.ended
        assert isinstance(failure, ExceptionGroup)
        assert [type(each) for each in failure.exceptions] == [ValueError]
        assert heard.verdicts == [(1, mq.DeadLetter("ExceptionGroup", str(failure)))]
        assert "the handler of message 1 of q failed" in caplog.text

    begun = anyio.Event()
    on_queue(backend, body)


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_what_is_no_failure_is_raised_out_of_a_cancelled_run_too(
    error: type[BaseException],
) -> None:
    async def leave_in_the_end() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise error

    async def handle(_: mq.HeldMessage) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(leave_in_the_end)
            tasks.start_soon(anyio.sleep_forever)
            begun.set()

    async def body(q: mq.Embedded) -> None:
        await q.send_one("q", "a")
        running = anyio.CancelScope()

        async def cancel() -> None:
            await begun.wait()
            running.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancel)
            with pytest.raises(BaseExceptionGroup) as raised, running:
                await q.receiver("q", on_failure=mq.reject()).run(handle)
        assert raised.value.split(error)[1] is None
        assert (await q.stats("q")).active == 1, "no policy was asked"

    begun = anyio.Event()
    on_queue("trio", body)


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


class Broken(Heard):
    """Every hook fails when it has heard; behind the second message the receiver is stopped."""

    stop: Callable[[], None]

    def claimed(self, messages: int) -> None:
        super().claimed(messages)
        raise RuntimeError

    def handled(self, message: mq.Received, seconds: float, error: Exception | None) -> None:
        super().handled(message, seconds, error)
        raise RuntimeError

    def settled(self, message: mq.Received, verdict: mq.Verdict | None) -> None:
        super().settled(message, verdict)
        if len(self.verdicts) == 2:
            self.stop()
        raise RuntimeError

    def trouble(self, error: mq.MqliteError) -> None:
        super().trouble(error)
        raise RuntimeError


@both_loops
def test_a_hook_that_raises_harms_neither_the_run_nor_its_messages(
    backend: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(q: mq.Embedded) -> None:
        await q.send("q", ["refused", "b", "c"])
        hooks = Broken()
        failing = Failing(q, wire.CompleteRequest, [mq.LockLost("gone")])
        receiver = failing.receiver("q", hooks=hooks)
        hooks.stop = receiver.stop
        await receiver.run(nothing)
        assert [len(each) for each in (hooks.ended, hooks.verdicts, hooks.errors)] == [3, 2, 1]
        counts = await q.stats("q")
        assert (counts.total, counts.locked) == (1, 1), "but for the one that was refused"
        assert "the hook 'settled' failed" in caplog.text

    on_queue(backend, body)


@both_loops
def test_a_receiver_runs_once(backend: str) -> None:
    async def body(q: mq.Embedded) -> None:
        receiver = q.receiver("q")
        receiver.stop()
        await receiver.run(nothing)
        with pytest.raises(mq.InvalidArgument, match="runs once"):
            await receiver.run(nothing)

    on_queue(backend, body)


BAD = {
    "no worker": ({"concurrency": 0}, "concurrency: 1 to"),
    "no message a claim": ({"prefetch": 0}, "prefetch: at least one"),
    "a negative limit": ({"stop_seconds": -1}, "stop_seconds: a negative"),
    "a policy that is none": ({"on_failure": 5}, "on_failure: a policy"),
    "a verdict for a policy": ({"on_failure": mq.Retry(5)}, "on_failure: a policy"),
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
        with pytest.raises(mq.InvalidArgument, match=reason):
            q.queue("q", int).receiver(**options)

    on_queue("trio", body)
    with mq.open_embedded_sync(":memory:") as q:
        with pytest.raises(mq.InvalidArgument, match=reason):
            q.receiver("q", **options)
        with pytest.raises(mq.InvalidArgument, match=reason):
            q.queue("q", int).receiver(**options)


async def _never(*_: object) -> AsyncIterator[None]:
    yield


def _never_either(*_: object) -> Iterator[None]:
    yield


IDLE: list[Any] = [5, _never, _never_either]


class Called:
    """A handler that is an object."""

    async def __call__(self, *_: object) -> None:
        return


@both_loops
@pytest.mark.parametrize("handler", IDLE, ids=["number", "async generator", "generator"])
def test_a_handler_that_would_do_nothing_is_refused(
    backend: str,
    handler: Any,  # noqa: ANN401  # wrong on purpose
) -> None:
    async def body(q: mq.Embedded) -> None:
        for receiver in (q.receiver("q"), q.queue("q", int).receiver()):
            with pytest.raises(mq.InvalidArgument, match="handler"):
                await receiver.run(handler)

    on_queue(backend, body)


@pytest.mark.parametrize("handler", [nothing, Called(), *IDLE], ids=range(5))
def test_a_handler_that_a_blocking_program_cannot_run_is_refused(
    handler: Any,  # noqa: ANN401  # wrong on purpose
) -> None:
    with mq.open_embedded_sync(":memory:") as q:
        for receiver in (q.receiver("q"), q.queue("q", int).receiver()):
            with pytest.raises(mq.InvalidArgument, match="handler: "):
                receiver.run(handler)
