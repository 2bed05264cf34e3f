"""Runs a handler for each message of a queue: claims, keeps leases, settles, and stops in order.

Made by `Handle.receiver`; asks `claiming` for messages, `renewal` to keep them, a policy what
becomes of failures. Works under trio and asyncio. Rules: it never claims more than it has idle
workers for, so no message waits behind another in its hands (B36); what it got and gave to no
handler goes back uncounted; a settlement is never cut off by the end of the run (B90). Cancelling
the run lets running handlers see it; `stop` and the signals let them finish within a limit.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, cast

import anyio
import anyio.abc
import trio

from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import (
    Internal,
    InvalidArgument,
    MessageTooLarge,
    MqliteError,
    WorldError,
)
from mqlite_actor.logs import logger
from mqlite_actor.sdk import requests
from mqlite_actor.sdk.claiming import Claims, is_permanent
from mqlite_actor.sdk.handle import Handle
from mqlite_actor.sdk.held import HeldMessage, SyncHeldMessage
from mqlite_actor.sdk.policies import Retry, Verdict, fault_of, storable
from mqlite_actor.sdk.receiving import ReceiverHooks, Settings
from mqlite_actor.sdk.renewal import Renewal
from mqlite_actor.sdk.stopping import StopSignals, check_signals
from mqlite_actor.sdk.unbroken import in_thread, to_an_end

AsyncHandler = Callable[[HeldMessage], Awaitable[object]]
SyncHandler = Callable[[SyncHeldMessage], object]
Handler = AsyncHandler | SyncHandler
"""A coroutine function runs on the receiver's loop, a plain one in a thread."""

SETTLE_SECONDS = 5.0
"""For settling one message when the run ends, whatever ends it. Before that its lease is the limit:
a network may be gone, or a transaction hold the writer, for longer than this."""

SETTLE_PAUSE_SECONDS = 0.2
"""Between two tries: settlements are safe to repeat."""

REFUSED_TEXTS = (InvalidArgument, MessageTooLarge)
"""What a settlement is refused with for its own words, and for nothing else."""

_log = logger("mqlite.receiver")


class StrayCancellation(Exception):
    """A handler let a CancelledError of asyncio out though neither it nor the run was cancelled.

    Awaiting a task that somebody else cancelled does that, in a loop of its own, too. For the
    policy it is a failure like any.
    """


class Receiver:
    """A consumer of one queue. `run` it once; `stop` it from anywhere on its loop."""

    __slots__ = (
        "_are_workers_done", "_claims", "_fatal", "_handle", "_handler", "_hooks", "_is_cut",
        "_is_leaving", "_is_started", "_last_renewals", "_renewal", "_settings", "_tasks",
        "_unseen", "_working", "queue",
    )  # fmt: skip

    def __init__(self, handle: Handle, queue: str, settings: Settings) -> None:
        self.queue = queue
        self._handle = handle
        self._settings = settings
        self._hooks: ReceiverHooks = settings.hooks
        self._claims = Claims(handle, queue, settings, self._trouble)
        self._renewal = Renewal(handle, queue, on_lost=self._lost, report=self._trouble)
        self._is_started = False
        self._is_cut = False
        self._is_leaving = False
        self._are_workers_done = False
        self._fatal: MqliteError | None = None
        self._tasks: anyio.abc.TaskGroup | None = None
        self._working: set[HeldMessage] = set()
        self._unseen: set[HeldMessage] = set()

    async def run(self, handler: Handler) -> None:
        """Handle messages until stopped, cancelled, or a permanent error (missing right or queue,
        closed handle), which is raised.

        A handler that returns completes its message, one that raises leaves it to the policy; one
        that settled it by its own verb has settled it. Stopped by `stop` or a signal it claims no
        more, lets handlers finish for `stop_seconds` under their leases, abandons the rest, and
        returns. Cancelled, handlers see the cancellation, their messages are abandoned, and it is
        raised on. A plain function cannot be cancelled, and is waited for.
        """
        if self._is_started:
            raise InvalidArgument("a receiver runs once; make another one")
        check_signals(self._settings.stop_signals)
        self._is_started = True
        self._last_renewals = anyio.CancelScope()  # here, since a receiver is made anywhere
        self._handler = _invoker(handler, self._settings.concurrency)
        try:
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                tasks.start_soon(self._run)
        except (anyio.get_cancelled_exc_class(), BaseExceptionGroup) as error:
            if self._fatal is None:
                raise _single(error) from None
        finally:
            await self._give_back(list(self._unseen))
        if self._fatal is not None:
            raise self._fatal
        if not self._claims.is_stopped:
            raise Internal("the receiver was cancelled from inside, and handles nothing any more")

    @property
    def stopping(self) -> anyio.Event:
        """Set once no more is claimed, so that a long handler can come to its end."""
        return self._claims.stopped

    def stop(self) -> None:
        """Claim no more, let running handlers finish within the limit, return from `run`."""
        self._claims.stop()

    def cut(self) -> None:
        """Stop, and cancel running handlers at once; their messages are abandoned."""
        self._is_cut = True
        self._claims.stop()
        for held in self._working:
            held.scope.cancel()

    # -- tasks -------------------------------------------------------------------------------------

    async def _run(self) -> None:
        assert self._tasks is not None
        async with anyio.create_task_group() as around:
            if self._settings.auto_renew:
                around.start_soon(self._renew)
            if self._settings.stop_signals:
                around.start_soon(self._heed_signals)
            around.start_soon(self._limit_stop)
            try:
                async with anyio.create_task_group() as workers:
                    async for messages, attempt in self._claims:
                        for raw in messages:
                            held = HeldMessage(self._handle, self.queue, raw)
                            self._unseen.add(held)
                            workers.start_soon(self._work, held, attempt)
            finally:
                self._are_workers_done = True
                self._last_renewals.cancel()
            around.cancel_scope.cancel()

    async def _renew(self) -> None:
        """Until the workers are done, whatever is cancelled: plain handlers work on, and settling
        takes its time."""
        try:
            await self._renewal.run()
        except anyio.get_cancelled_exc_class():
            self._is_leaving = not self._are_workers_done
            await to_an_end(self._renew_to_the_last, math.inf)
            raise

    async def _renew_to_the_last(self) -> None:
        with anyio.CancelScope() as self._last_renewals:
            if not self._are_workers_done:
                await self._renewal.run()

    async def _heed_signals(self) -> None:
        heard = StopSignals()
        with anyio.open_signal_receiver(*self._settings.stop_signals) as signals:
            async for _ in signals:
                if heard.is_echo():
                    continue
                if self._claims.is_stopped:
                    self.cut()
                self.stop()

    async def _limit_stop(self) -> None:
        await self._claims.stopped.wait()
        await anyio.sleep(self._settings.stop_seconds)
        self.cut()

    async def _work(self, held: HeldMessage, attempt: str) -> None:
        try:
            if self._claims.is_stopped or _is_cancelled():
                return  # `run` gives it back: no handler saw it
            self._unseen.remove(held)
            await self._attend(held)
        finally:
            if held in self._unseen:
                self._unseen.remove(held)
                await self._give_back([held], attempt)
            self._claims.free(1)

    async def _attend(self, held: HeldMessage) -> None:
        """The handler, and then the settlement, whatever happens around it."""
        verdict: Verdict | None = Retry()  # for a handler that was cancelled
        self._working.add(held)
        if self._settings.auto_renew:
            self._renewal.add(held)
        started = anyio.current_time()
        failure: Exception | None = None
        try:
            with held.scope:
                await self._handler(held)
                verdict = None
        except Exception as error:  # noqa: BLE001  # whatever it was: the policy decides
            failure = error
            verdict = self._judge(held, error)
        except (anyio.get_cancelled_exc_class(), asyncio.CancelledError) as error:
            if _is_meant(error, held.scope):
                raise
            failure = StrayCancellation("nobody cancelled the handler; something it awaited was")
            failure.__cause__ = error
            verdict = self._judge(held, failure)
        except BaseExceptionGroup as error:
            cancellation, failed = error.split(anyio.get_cancelled_exc_class())
            if cancellation is None or not isinstance(failed, ExceptionGroup):
                raise
            failure = failed
            verdict = self._judge(held, failed)
            raise cancellation from None  # only that belongs to whoever runs the receiver
        finally:
            self._working.discard(held)
            self._hooks.handled(held, anyio.current_time() - started, failure)
            try:
                if not held.is_settled:
                    await self._settle(held, verdict)
            finally:
                self._renewal.remove(held)

    def _judge(self, held: HeldMessage, error: Exception) -> Verdict:
        _log.warning(
            "the handler of message %d of %s failed: %s: %s",
            held.seq_number, self.queue, type(error).__name__, error,
        )  # fmt: skip
        try:
            verdict: object = self._settings.on_failure(held, error)
        except Exception:  # noqa: BLE001  # a policy is the program's own
            _log.exception("the policy failed; the message comes again at once")
            return Retry()
        fault = fault_of(verdict)
        if not fault:
            return cast("Verdict", verdict)
        if inspect.iscoroutine(verdict):
            verdict.close()
        _log.error("the policy answered amiss, so the message comes again at once: %s", fault)
        return Retry()

    # -- settling ----------------------------------------------------------------------------------

    async def _settle(self, held: HeldMessage, verdict: Verdict | None) -> None:
        """Tried for as long as the lease may live; once the run ends, for SETTLE_SECONDS more. From
        now on a renewal may be denied because of it."""
        held.is_settled = True
        while True:
            ask = partial(self._ask_to_settle, held, verdict)
            is_answered, cancelled = await to_an_end(ask, SETTLE_SECONDS)
            if is_answered:
                break
            is_ending = self._claims.is_stopped or _is_cancelled() or cancelled is not None
            if is_ending or anyio.current_time() >= held.ends_at:
                _log.warning(
                    "message %d of %s could not be settled; its lease will end",
                    held.seq_number, self.queue,
                )  # fmt: skip
                break
        if cancelled is not None:
            raise cancelled

    async def _ask_to_settle(self, held: HeldMessage, verdict: Verdict | None) -> None:
        """Ask until there is an answer, and tell the hook unless it is a refusal. A verdict that
        is refused for what it says is the message's fault, not the receiver's: it comes again."""
        while True:
            try:
                await self._handle.call(_settlement(held, verdict))
            except WorldError as error:
                self._trouble(error)
                await anyio.sleep(SETTLE_PAUSE_SECONDS)
            except MqliteError as error:
                if verdict in (None, Retry()) or not isinstance(error, REFUSED_TEXTS):
                    self._trouble(error)
                    return
                _log.error(
                    "the verdict on message %d of %s was refused, so it comes again at once: %s",
                    held.seq_number, self.queue, error,
                )  # fmt: skip
                verdict = Retry()
            else:
                self._hooks.settled(held, verdict)
                return

    async def _give_back(self, unseen: list[HeldMessage], attempt: str = "") -> None:
        """Return claims that no handler saw, as if they had not been delivered."""
        if not unseen:
            return
        raws = [held.raw for held in unseen]

        async def give_back() -> None:
            try:
                await self._handle.give_back(self.queue, raws, attempt_id=attempt)
            except MqliteError as error:
                self._trouble(error)

        _, cancelled = await to_an_end(give_back, SETTLE_SECONDS)
        if cancelled is not None:
            raise cancelled

    # -- events ------------------------------------------------------------------------------------

    def _lost(self, held: HeldMessage) -> None:
        self._hooks.lease_lost(held)
        if self._settings.cancel_on_lost_lease:
            held.scope.cancel()

    def _trouble(self, error: MqliteError) -> None:
        """Tell the hook; a permanent error ends the run with the first such error."""
        is_fatal = is_permanent(error) and not (self._is_leaving or _is_cancelled())
        if is_fatal and self._fatal is None:
            self._fatal = error
        _log.warning("trouble with %s: %s: %s", self.queue, type(error).__name__, error)
        self._hooks.trouble(error)
        if is_fatal and self._tasks is not None:
            self._tasks.cancel_scope.cancel()


def _settlement(held: HeldMessage, verdict: Verdict | None) -> wire.Request[Any]:
    if verdict is None:
        return requests.complete(held)
    if isinstance(verdict, Retry):
        return wire.AbandonRequest(**requests.lease(held), delay_ms=verdict.delay_ms)
    return requests.reject(held, storable(verdict.reason), storable(verdict.description))


def is_for_loop(handler: Any) -> bool:  # noqa: ANN401  # whatever a program gives
    """Whether it is a coroutine function, or an object whose call is one.

    InvalidArgument for what cannot be called, and for what would not run when it is: a generator.
    """
    if not callable(handler):
        raise InvalidArgument(f"handler: a function of a message, not {type(handler).__name__}")
    faces = (handler, getattr(handler, "__call__", None))  # noqa: B004  # an object's own call
    if any(inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each) for each in faces):
        raise InvalidArgument("handler: it is a generator, which does nothing; take the yield out")
    return any(map(inspect.iscoroutinefunction, faces))


def _invoker(handler: Handler, concurrency: int) -> AsyncHandler:
    """The handler as a coroutine function that ends with its work; a plain one runs in a thread of
    its own."""
    if is_for_loop(handler):
        awaited = cast("AsyncHandler", handler)

        async def on_loop(held: HeldMessage) -> None:
            requests.refuse_unfinished(await awaited(held), "handler")

        return on_loop
    limiter = anyio.CapacityLimiter(concurrency)
    plain = cast("SyncHandler", handler)

    async def elsewhere(held: HeldMessage) -> None:
        answer = await in_thread(partial(plain, SyncHeldMessage(held)), limiter)
        requests.refuse_unrun(answer, "handler")

    return elsewhere


def _is_cancelled() -> bool:
    return anyio.current_effective_deadline() == -math.inf


def _is_meant(error: BaseException, scope: anyio.CancelScope) -> bool:
    """Whether a cancellation that is under way is the handler's or the run's, and not one that
    asyncio has passed on of another task: it counts those which were meant for this one."""
    if trio.lowlevel.in_trio_task():
        return not isinstance(error, asyncio.CancelledError)  # of a loop in the handler's thread
    if scope.cancel_called or _is_cancelled():
        return True
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _single(error: BaseException) -> BaseException:
    """The one exception in nested groups of one; else the group itself."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
