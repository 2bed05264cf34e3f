"""A trio thread of its own, for programs that do not run trio: blocking ones and those on asyncio.

Used by their handles; knows only of "open something, run calls in it, close it". Any thread may
call, many at once. Rules: a call that was given up is cancelled and waited for, never abandoned, so
that it either did not run or ran to its end (B75); what it had fetched is handed to `undo`. The
thread is no daemon, and ends when no other one that is none still lives. After a fork, after the
end, and from inside itself a call raises at once instead of waiting for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Generic, TypeVar

import outcome
import trio

from mqlite_actor.contract.errors import Closed, InvalidArgument, MqliteError
from mqlite_actor.sdk.asyncio_waits import cancel_again, to_its_end, wait_out
from mqlite_actor.sdk.engine_thread import EngineThread, is_program_over, is_waited_for_by
from mqlite_actor.sdk.origin import check_process, here, is_elsewhere

H = TypeVar("H")
T = TypeVar("T")

Undo = Callable[[T], Awaitable[None]]
"""Gives back what a call had fetched when its caller had already left."""

MAIN_LOOK_SECONDS = 0.2
"""How often the thread looks whether the program wants to end, and a waiting one for signals."""

GIVE_BACK_SECONDS = 5.0
"""For giving back what was fetched for a caller who left; then its leases end by themselves."""

CLOSED = "the handle is closed"

INSIDE = "a call from inside the engine's own thread would wait for itself; use another thread"

INSIDE_CLOSE = (
    "close() in a handler, a hook or a policy would wait for itself; stop() the receiver there, and"
    " close the handle where its run() has returned"
)

DONE = "mqlite: the call that this interrupted was done all the same"
"""The note of an interrupt that came too late to stop anything."""


class _Job:
    """One call on its way through the trio thread."""

    __slots__ = ("_tell", "function", "has_begun", "result", "scope", "undo")

    def __init__(
        self,
        function: Callable[[], Awaitable[Any]],
        undo: Undo[Any] | None,
        tell: Callable[[], object],
    ) -> None:
        self.function = function
        self.undo = undo
        self.has_begun = False
        self.scope = trio.CancelScope()
        self.result: outcome.Outcome[Any] | None = None
        self._tell = tell

    def finish(self, result: outcome.Outcome[Any]) -> None:
        self.result = result
        self._tell()

    def wait(self, done: threading.Lock) -> None:
        # Of two signals at once another thread may take both, and nothing tells the main one.
        is_main = threading.current_thread() is threading.main_thread()
        while self.result is None:
            done.acquire(timeout=MAIN_LOOK_SECONDS if is_main else -1)

    def withdraw(self) -> None:
        """Cut it. One that has not begun by now never does: its caller left before it was sent."""
        self.scope.cancel()
        if not self.has_begun:
            self.finish(outcome.Error(Closed("the call was withdrawn before it began")))

    def has_raised(self, error: BaseException) -> bool:
        """Whether that is its own outcome."""
        return isinstance(self.result, outcome.Error) and self.result.error is error

    def unwrap(self) -> Any:  # noqa: ANN401  # the caller knows the type
        assert self.result is not None
        return self.result.unwrap()


class Background(Generic[H]):
    """The thread, and what is open in it (`inner`). Made by `start` or `start_async`."""

    __slots__ = (
        "_closing", "_failure", "_is_given_up", "_jobs", "_opener", "_opening", "_origin", "_ready",
        "_thread", "_token", "inner",
    )  # fmt: skip

    inner: H

    def __init__(self, opener: Callable[[], AbstractAsyncContextManager[H]]) -> None:
        self._opener = opener
        self._origin = here()
        self._ready = threading.Event()
        self._closing = trio.Event()
        self._failure: BaseException | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._jobs: trio.Nursery | None = None
        self._opening: tuple[trio.lowlevel.TrioToken, trio.CancelScope] | None = None
        self._is_given_up = False
        self._thread = EngineThread(target=self._run, name="mqlite engine")

    # -- opening and closing -----------------------------------------------------------------------

    def start(self) -> None:
        """Open; raises what opening raised. An interrupt cancels that, and waits for its end."""
        self._thread.start()
        try:
            while not self._ready.wait(MAIN_LOOK_SECONDS):
                continue
        except BaseException:
            self._give_up()
            self._ready.wait()
            self.close()
            raise
        if self._token is None:
            self._thread.join()
            raise self._failure or self._closed()

    async def start_async(self) -> None:
        """The same for a task of asyncio and its cancellation."""
        await to_its_end(self.start, cut=self._give_up, undo=self.close)

    def _give_up(self) -> None:
        """Nobody wants any more what is being opened. From any thread."""
        self._is_given_up = True
        if self._opening is not None:
            token, scope = self._opening
            with contextlib.suppress(trio.RunFinishedError):
                token.run_sync_soon(scope.cancel)

    def close(self) -> None:
        """Let running calls end, close what is open, end the thread; raises what broke it. Again,
        or in a forked child, it does nothing. InvalidArgument where this thread waits for it."""
        if is_elsewhere(self._origin):
            return
        if is_waited_for_by(self._thread, self._token):
            raise InvalidArgument(INSIDE_CLOSE)
        self.post(self._closing.set)
        self._thread.join()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    async def close_async(self) -> None:
        """The same for a task of asyncio; it ends even if no thread can be had to wait in."""
        self.post(self._closing.set)
        await to_its_end(self.close)

    # -- calling -----------------------------------------------------------------------------------

    def call(
        self,
        function: Callable[[], Awaitable[T]],
        *,
        undo: Undo[T] | None = None,
        is_noted: bool = False,
        is_late: bool = False,
    ) -> T:
        """Run `function` in the trio thread and wait for it. For threads without a loop.

        An interrupt (what a signal handler raises) cancels the call, waits for its end, and gives
        back through `undo` what it had fetched; with `is_noted` it says whether it was done.
        `is_late`: it belongs to something that a closing engine waits for, so it may come then.
        """
        self._check(is_late=is_late)
        done = threading.Lock()  # an Event whose wait is interrupted may break
        done.acquire()
        job = _Job(function, undo, done.release)
        try:
            self._send(job)
            job.wait(done)
            result: T = job.unwrap()
            return result
        except BaseException as error:
            if not job.has_raised(error):
                if self.post(job.withdraw):
                    job.wait(done)
                self._give_back(job)
                if is_noted and isinstance(job.result, outcome.Value):
                    error.add_note(DONE)
            raise

    async def call_async(
        self,
        function: Callable[[], Awaitable[T]],
        *,
        undo: Undo[T] | None = None,
        is_late: bool = False,
    ) -> T:
        """The same for a task of asyncio, of whatever loop; a cancellation is passed on."""
        job, done = self._submit_here(function, undo, is_late=is_late)
        cancelled = await wait_out(done, partial(self.post, job.withdraw))
        if cancelled is not None:
            await self._give_back_async(job)
            raise cancelled
        result: T = job.unwrap()
        return result

    async def finish_async(
        self,
        function: Callable[[], Awaitable[T]],
        *,
        is_cancellable: bool = False,
        is_late: bool = False,
    ) -> T:
        """The same for what cannot be undone: its outcome is told, whatever is cancelled meanwhile.

        Such a cancellation comes afterwards, when the task waits for something the next time.
        With `is_cancellable` it is passed on, and raised if that is how `function` ended.
        """
        job, done = self._submit_here(function, None, is_late=is_late)
        task = asyncio.current_task()
        before = 0 if task is None else task.cancelling()
        cut = partial(self.post, job.withdraw) if is_cancellable else lambda: None
        cancelled = await wait_out(done, cut)
        if cancelled is not None:
            if job.scope.cancelled_caught:
                raise cancelled
            if task is not None:
                asyncio.get_running_loop().call_soon(cancel_again, task, before)
        result: T = job.unwrap()
        return result

    def _submit_here(
        self,
        function: Callable[[], Awaitable[Any]],
        undo: Undo[Any] | None,
        *,
        is_late: bool = False,
    ) -> tuple[_Job, asyncio.Event]:
        """A job, and what is set in this loop when it has ended."""
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def tell() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is gone, and the task with it
                loop.call_soon_threadsafe(done.set)

        return self._submit(function, undo, tell, is_late=is_late), done

    def start_job(self, function: Callable[[], Awaitable[object]]) -> Callable[[], None]:
        """Run `function` beside the calls; what is returned cancels it and waits for its end."""
        done = threading.Event()
        job = self._submit(function, None, done.set)

        def stop() -> None:
            self.post(job.withdraw)
            done.wait()

        return stop

    def post(self, function: Callable[[], object]) -> bool:
        """Have a plain function called in the trio thread soon; False once it is closed."""
        if self._token is None:
            return False
        try:
            self._token.run_sync_soon(function)
        except trio.RunFinishedError:
            return False
        return True

    def _submit(
        self,
        function: Callable[[], Awaitable[Any]],
        undo: Undo[Any] | None,
        tell: Callable[[], object],
        *,
        is_late: bool = False,
    ) -> _Job:
        self._check(is_late=is_late)
        job = _Job(function, undo, tell)
        self._send(job)
        return job

    def _check(self, *, is_late: bool = False) -> None:
        check_process(self._origin)
        if threading.get_ident() == self._thread.ident:
            raise InvalidArgument(INSIDE)
        if self._token is None or (self._closing.is_set() and not is_late):
            raise self._closed()

    def _send(self, job: _Job) -> None:
        if not self.post(partial(self._begin, job)):
            raise self._closed() from self._failure

    def _closed(self) -> Closed:
        return Closed(CLOSED if self._failure is None else f"the engine ended: {self._failure}")

    def _give_back(self, job: _Job) -> None:
        """What arrived for a caller who left."""
        giving = _giving_back(job)
        if giving is not None:
            with contextlib.suppress(MqliteError):  # closed meanwhile: the leases end by themselves
                self.call(giving)

    async def _give_back_async(self, job: _Job) -> None:
        giving = _giving_back(job)
        if giving is not None:
            with contextlib.suppress(MqliteError):
                back, done = self._submit_here(giving, None)
                await wait_out(done)  # some loops cancel again and again
                back.unwrap()

    # -- in the trio thread ------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            trio.run(self._main)
        except BaseException as error:  # noqa: BLE001  # it is raised again by `start` or `close`
            self._failure = error
        finally:
            self._ready.set()

    async def _main(self) -> None:
        failure: BaseException | None = None
        async with trio.open_nursery() as jobs:
            self._jobs = jobs
            self._opening = (trio.lowlevel.current_trio_token(), jobs.cancel_scope)
            if self._is_given_up:  # in the moment before
                jobs.cancel_scope.cancel()
            try:
                async with self._opener() as inner:
                    self.inner = inner
                    self._token = trio.lowlevel.current_trio_token()
                    self._ready.set()
                    await self._wait_for_end()
            except Exception as error:  # noqa: BLE001  # raised below, not in a group
                failure = error
            self._closing.set()
            jobs.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _wait_for_end(self) -> None:
        while not (self._closing.is_set() or is_program_over()):
            with trio.move_on_after(MAIN_LOOK_SECONDS):
                await self._closing.wait()

    def _begin(self, job: _Job) -> None:
        assert self._jobs is not None
        job.has_begun = True
        try:
            self._jobs.start_soon(self._work, job)
        except RuntimeError:  # the nursery is gone: it was submitted in the last moment
            job.finish(outcome.Error(self._closed()))

    async def _work(self, job: _Job) -> None:
        result: outcome.Outcome[Any] = outcome.Error(self._closed())
        try:
            with job.scope:
                try:
                    result = outcome.Value(await job.function())
                except BaseException as error:
                    own = _without_cancellations(error)
                    if own is None:
                        raise
                    result = outcome.Error(own)  # it belongs to the caller; a SystemExit, too
        finally:
            job.finish(result)


def _without_cancellations(error: BaseException) -> BaseException | None:
    """What is left of it without trio's own: a nursery packs them into its group."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(trio.Cancelled)[1]
    return None if isinstance(error, trio.Cancelled) else error


def _giving_back(job: _Job) -> Callable[[], Awaitable[None]] | None:
    if job.undo is None or not isinstance(job.result, outcome.Value):
        return None
    undo, value = job.undo, job.result.value

    async def give_back() -> None:
        with trio.move_on_after(GIVE_BACK_SECONDS):
            await undo(value)

    return give_back
