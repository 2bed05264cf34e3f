"""The writer actor: takes what waits, runs it as one group, answers after COMMIT.

The only task that touches the store. `submit` puts a command in the mailbox and returns its
outcome; the loop hops to the storage thread once per group. It never lingers for more work: while a
group commits, the next one gathers by itself. What a group came not to (`given.py`) is put back in
front, and runs when those who were answered had their turn. Cancellation (design.md 3.10): a
command still in the mailbox, or parked, is withdrawn and certainly never ran; one that was taken
runs to its end and its caller gets the outcome, unless its group came not to it: then it is
withdrawn too. The loop itself is shielded and ends only through `close`, after everything that
waits was answered.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn, TypeVar

import trio
from outcome import Error, capture

from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import Internal, MqliteError, Unavailable
from mqlite_actor.contract.wire import MessagesResponse, ReceiveRequest
from mqlite_actor.engine.interrupts import uninterrupted
from mqlite_actor.engine.mailbox import Job, Mailbox, Where
from mqlite_actor.engine.meters import StorageMeter, forget_queue
from mqlite_actor.engine.outbox import Hold
from mqlite_actor.engine.outcomes import NOT_RUN, Answer, Done, GroupResult
from mqlite_actor.engine.place import Inline
from mqlite_actor.engine.thread import StorageThread
from mqlite_actor.engine.waiters import Waiters

T = TypeVar("T")

RunGroup = Callable[[list[Any]], GroupResult]

EMPTY = MessagesResponse(messages=[])


@uninterrupted
class Actor:
    """Mailbox, waiters and the loop between them and the storage thread."""

    __slots__ = (
        "_is_draining", "_lone", "_others", "_ran", "_run_group", "_thread", "_turns", "busy_since",
        "busy_with", "crash", "events", "filter_failures", "groups", "inline", "leaving", "mailbox",
        "storage_meter", "waiters",
    )  # fmt: skip

    def __init__(
        self, run_group: RunGroup, inline: Inline, ran: Callable[[GroupResult], None]
    ) -> None:
        self._run_group = run_group
        self.inline = inline
        self._ran = ran  # told after each group, in the trio thread
        self._thread = StorageThread()
        self._others = trio.CapacityLimiter(1)  # calls of one transaction that is lent
        self._is_draining = False
        self.leaving = trio.Event()  # set when the end is near: by `stop_waiting` or `close`
        self._lone: trio.lowlevel.Task | None = None  # whoever was a group by itself, last
        self._turns = 0  # that it took since then without the loop
        self.busy_since = 0.0  # trio time at which `busy_with` was taken
        self.busy_with: list[Job] = []  # the group that runs now
        self.crash: BaseException | None = None
        self.mailbox = Mailbox()
        self.waiters = Waiters()
        self.storage_meter = StorageMeter()
        self.events: dict[tuple[str, str], int] = {}
        self.filter_failures: dict[tuple[str, str], int] = {}
        self.groups = 0

    async def submit(self, job: Job, *, room_seconds: float) -> object:
        """The command's outcome: its response, or its error raised.

        Raises the closing error once the mailbox is closed, and Unavailable when there was no room
        for `room_seconds`. Cancelled while it waits, the command did not and will not run;
        cancelled later, the outcome is still returned (the cancellation shows at the caller's next
        checkpoint).
        """
        mailbox = self.mailbox
        if mailbox.closed_with is not None:
            raise _again(mailbox.closed_with)
        job.task = trio.lowlevel.current_task()
        if job.task is self._lone and mailbox.is_asleep and self._may_run_at_once(job):
            await trio.lowlevel.checkpoint_if_cancelled()
            if self._ran_at_once(job):
                return job.taken().unwrap()
        # Trio asks `withdraw` at once if the caller is cancelled already: then it did not run.
        withdraw = partial(self._withdraw, job)
        if mailbox.has_room(job.weight):
            mailbox.put(job)
            await trio.lowlevel.wait_task_rescheduled(withdraw)
        else:
            with trio.move_on_after(room_seconds) as patience:
                mailbox.line_up(job, patience)
                await trio.lowlevel.wait_task_rescheduled(withdraw)
        if job.answer is None:
            raise Unavailable(f"{len(mailbox)} commands wait for the writer; repeat after a pause")
        return job.taken().unwrap()

    def _may_run_at_once(self, job: Job) -> bool:
        self._turns += 1
        return self._turns <= limits.INLINE_TURNS and not (job.until or job.is_alone)

    def _ran_at_once(self, job: Job) -> bool:
        """Whether the command of a caller who was alone lately could run in its own turn.

        The actor sleeps, so nothing else touches the store; its turn and the one back are spared.
        """
        try:
            result = self.inline.attempt([job.request], job.weight)
            if result is None:
                return False
            job.where, (job.answer,) = Where.TAKEN, result.outcomes
            self._publish(result)
            self._ran(result)
        except BaseException as error:
            reason = self._fail_all([], error)  # and the loop, woken by that, raises its cause
            raise reason from error
        return True

    def _withdraw(self, job: Job, leave: Callable[[], NoReturn]) -> trio.lowlevel.Abort:
        """The caller was cancelled."""
        if job.where is Where.TAKEN:
            job.leave = leave  # trio asks only once, so it must not wait any more
            return trio.lowlevel.Abort.FAILED
        if job.where is Where.PARKED:
            self.waiters.withdraw(job)
            return trio.lowlevel.Abort.SUCCEEDED
        self.mailbox.withdraw(job)
        self._pass_on(job)
        return trio.lowlevel.Abort.SUCCEEDED

    def _pass_on(self, job: Job) -> None:
        """If it was woken for work that it will not take now, somebody else is."""
        if job.has_waited:
            self._wake(job.request.queue, job.request.max_messages)

    async def run(self) -> None:
        """The loop. A fault of ours in here answers everybody and ends the engine with it."""
        group: list[Job] = []
        with trio.CancelScope(shield=True):
            try:
                while group := await self.mailbox.take():
                    self.busy_with, self.busy_since = group, trio.current_time()
                    if isinstance(group[0].request, Hold):
                        result = await group[0].request.lend(partial(_answer, group[0]))
                        self._publish(result)
                    else:
                        self._lone = group[0].task if len(group) == 1 else None
                        self._turns = 0
                        result = await self._served(group)
                        self._deliver(group, result)
                    group = []
                    self._ran(result)
                    self.busy_with = group
                    if len(
                        self.mailbox
                    ):  # `take` will not wait, and who was answered wants his turn
                        await trio.lowlevel.cancel_shielded_checkpoint()
                if self.crash is not None:
                    raise self.crash
            except BaseException as error:
                self._fail_all(group, error)
                raise
            finally:
                self._thread.close()

    async def _served(self, group: list[Job]) -> GroupResult:
        requests = [job.request for job in group]
        result = self.inline.attempt(requests, sum(job.weight for job in group))
        if result is None:
            result = await self._thread.run(self._run_group, requests)
        return result

    async def in_thread(self, function: Callable[..., T], *arguments: object) -> T:
        """For whoever holds the writer: run a function in a thread, one at a time."""
        return await trio.to_thread.run_sync(function, *arguments, limiter=self._others)

    def stop_waiting(self) -> None:
        """Answer every parked receive with an empty list, and park nobody from now on."""
        self._is_draining = True
        self.leaving.set()
        for job in self.waiters.take_all():
            _answer(job, Done(EMPTY))

    def close(self, error: MqliteError) -> None:
        """Refuse new commands with `error` and give it to every parked receive; what waits still
        runs."""
        self._is_draining = True
        self.leaving.set()
        for job in self.mailbox.close(error) + self.waiters.take_all():
            _answer(job, Error(_again(error)))

    def _publish(self, result: GroupResult) -> None:
        """Counters and wake-ups of what was committed."""
        self.groups += 1
        for operation, error, seconds, number in result.timings:
            self.storage_meter.add(operation, error, seconds, number)
        for name in result.deleted:
            forget_queue(name, self.events, self.filter_failures)
        for key, number in result.events.items():
            self.events[key] = self.events.get(key, 0) + number
        for key, number in result.filter_failures.items():
            self.filter_failures[key] = self.filter_failures.get(key, 0) + number
        if result.is_doubtful:  # what a lost commit left behind was announced by nobody
            result.wakes.update(dict.fromkeys(self.waiters.counts(), limits.INT64_MAX))
        for queue, claimable in result.wakes.items():
            self._wake(queue, claimable)

    def _deliver(self, group: list[Job], result: GroupResult) -> None:
        parked: list[Job] = []
        left: list[Job] = []
        for job, done in zip(group, result.outcomes, strict=True):
            if done is NOT_RUN:
                left.append(job)
                continue
            request = job.request
            if type(request) is ReceiveRequest:
                if self._may_park(job) and _found_nothing(done):
                    parked.append(job)
                    continue
                if _may_have_left_some(request, done):
                    queue, wakes = request.queue, result.wakes
                    wakes[queue] = wakes.get(queue, 0) + request.max_messages
            _answer(job, done)
        for job in self.waiters.park(parked):
            _answer(job, Done(EMPTY))
        self._publish(result)
        assert len(left) < len(group), "a group answers somebody"
        self._put_back(left)

    def _put_back(self, left: list[Job]) -> None:
        """What a group came not to goes in front, before who was woken by it: as if it had gone on.
        Whose caller was cancelled meanwhile certainly never ran."""
        for job in left:
            if job.leave is not None:
                task, job.task = job.task, None
                assert task is not None, "it was not answered"
                trio.lowlevel.reschedule(task, capture(job.leave))
                self._pass_on(job)
        self.mailbox.put_first(job for job in left if job.leave is None)

    def _may_park(self, job: Job) -> bool:
        return bool(job.until) and not self._is_draining and job.leave is None

    def _wake(self, queue: str, claimable: int) -> None:
        if not self.waiters.number:
            return
        self.mailbox.put_first(self.waiters.wake(queue, claimable))

    def _fail_all(self, group: list[Job], error: BaseException) -> MqliteError:
        """The loop is broken: nobody may be left waiting for it. What its callers are told."""
        self.crash = error
        reason = Internal(f"the engine stopped: {type(error).__name__}")
        self.close(reason)
        for job in group + self.mailbox.drain():
            if job.task is not None:
                _answer(job, Error(_again(reason)))
        return reason


def _answer(job: Job, done: Answer) -> None:
    task, job.task = job.task, None
    assert task is not None, "a job is answered once"
    job.where = Where.TAKEN  # a cancellation from now on must not withdraw it
    job.answer = done
    trio.lowlevel.reschedule(task)


def _found_nothing(done: Answer) -> bool:
    return isinstance(done, Done) and not done.value.messages


def _may_have_left_some(request: ReceiveRequest, done: Answer) -> bool:
    """Whether a receive may not have looked for what it was woken for: it failed, or replayed. One
    that a full page ended says so itself (`Transaction.wake`)."""
    return not isinstance(done, Done) or bool(request.receive_attempt_id)


def _again(error: MqliteError) -> MqliteError:
    """One exception object per caller: each gets its own traceback."""
    return type(error)(error.message)
