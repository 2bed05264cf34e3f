"""`consume QUEUE --exec CMD`: a worker in one line. Each message is one run of a shell command.

Called by `dispatch` through the command table. Threads claim one message each, run the command
under a renewed lease (`running`), and settle by how it ended: exit 0 completes, anything else
abandons with a growing delay, or rejects. Rules: no more is claimed than there are idle threads; a
broker that is away is waited for, with a verdict as long as the lease may live; a verdict that
nobody took fails the command at its end, an error that will not go away ends it; after SIGTERM or
SIGINT nothing is claimed any more, commands under way get `--grace`, and what is unfinished then is
given back as if it had not been delivered.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable

from mqlite_actor.clock import SystemClock
from mqlite_actor.contract.errors import (
    Closed,
    LockLost,
    MqliteError,
    OutcomeUnknown,
    StorageFull,
    Unavailable,
)
from mqlite_actor.contract.wire import (
    AbandonRequest,
    CompleteRequest,
    Message,
    ReceiveRequest,
    RejectRequest,
    SettleRequest,
)
from mqlite_cli.consume_plan import Plan, delay_ms, read_plan
from mqlite_cli.giving_back import releasing
from mqlite_cli.idling import Silence
from mqlite_cli.invocation import Caller, Invocation
from mqlite_cli.process_groups import kill_all
from mqlite_cli.refusals import Interrupted, Refusal
from mqlite_cli.renewing import Renewer
from mqlite_cli.running import KILL_SECONDS, Command, Ended, Stopped
from mqlite_cli.supervision import LEAVE_SECONDS

_PAUSE_SECONDS = 0.5
_PAUSE_SECONDS_MAX = 30.0
"""Before a call to a broker that is away is repeated, doubled each time."""

_SETTLE_SECONDS = 20.0
"""For settling one message once its lease is over, as far as that is known, or a signal has come.
Before that its lease is the limit: a network may be gone for longer than this."""

_SETTLE_PAUSE_SECONDS_MAX = 2.0
"""Between two tries: a receipt makes the repetition harmless, and a command's work waits for it."""

_PASSING = (Unavailable, OutcomeUnknown, StorageFull)
_REASON = "CommandFailed"
_CLOCK = SystemClock()


def consume(run: Invocation) -> int:
    """`consume QUEUE --exec CMD`: until a signal, `--count` or `--idle` ends it."""
    worker = _Worker(run, read_plan(run))
    try:
        run.held_session(worker.work, leave=worker.leave, at_once=kill_all)
    except Interrupted as interrupted:
        # Whoever stops a service with SIGTERM wants to know whether it stopped in order.
        if interrupted.number != signal.SIGTERM or not worker.is_drained:
            raise
    run.output.done(worker.counts)
    if worker.failed:
        raise Refusal(
            f"what became of {worker.failed} message(s) could not be told; what is not settled "
            "comes again"
        )
    return 0


def _unsettled(kind: str, *, is_doubtful: bool) -> str:
    """What is known of a message whose verdict nobody confirmed."""
    if is_doubtful:
        return f"whether it is {kind} is not known; if not, it comes again"
    return f"it is not {kind} and comes again when its lease ends"


class _Worker:
    """The threads of one `consume`, and what they share."""

    __slots__ = (
        "_caller", "_changed", "_claimer", "_claims", "_commands", "_error", "_free",
        "_left_at", "_lost_before", "_plan", "_run", "_silence", "_stopping", "_tally", "_warned",
        "is_drained",
    )  # fmt: skip

    def __init__(self, run: Invocation, plan: Plan) -> None:
        self._run = run
        self._plan = plan
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._free = plan.most  # how many more may be claimed, if there is a count
        self._tally = {"completed": 0, "abandoned": 0, "rejected": 0, "lost": 0}
        self._error: Exception | None = None
        self._caller: Caller | None = None
        self._claimer: Caller | None = None
        self._commands: set[Command] = set()
        self._claims = 0  # calls in flight
        self._left_at: float | None = None  # when a signal came, by the monotonic clock
        self._lost_before = 0  # it came
        self._warned = False
        self._silence = Silence(_CLOCK, idle_ms=plan.idle_ms)
        self.is_drained = False

    @property
    def counts(self) -> dict[str, str | int]:
        """What became of how many messages."""
        return {"action": "consume", "queue": self._plan.queue, **self._tally}

    @property
    def failed(self) -> int:
        """How many verdicts nobody took; after a signal since then, for the stop of a service does
        not fail for what it has warned of a month ago."""
        return self._tally["lost"] - self._lost_before

    def work(self, caller: Caller) -> None:
        """Run until there is a reason to end, and every thread has. Raises what ended it."""
        with self._changed:
            self._caller, self._claimer = caller, caller.twin()
            claimer = self._claimer
        threads = [
            threading.Thread(target=self._loop, args=(caller, claimer), name="consume", daemon=True)
            for _ in range(self._plan.concurrency)
        ]
        started = self._start(threads)
        for thread in started:
            thread.join()
        claimer.hang_up()
        with self._changed:
            self.is_drained = True
            self._changed.notify_all()
        if self._error is not None:
            raise self._error

    def _start(self, threads: list[threading.Thread]) -> list[threading.Thread]:
        """All of them, or those in front of the one that the system refuses, which ends it."""
        for number, thread in enumerate(threads):
            try:
                thread.start()
            except RuntimeError as error:
                self._stop(Refusal(f"cannot consume with {len(threads)} at once: {error}"))
                return threads[:number]
        return threads

    def leave(self) -> None:
        """In the main thread, after a signal: claim no more, and wait for what runs."""
        self._stop()
        with self._changed:
            self._left_at, self._lost_before = _CLOCK.monotonic(), self._tally["lost"]
            commands, claimer = list(self._commands), self._claimer
        for command in commands:
            command.end_within(self._plan.grace_ms / 1000)
        if claimer is not None and not self._wait(lambda: not self._claims, LEAVE_SECONDS):
            claimer.cut()
        if self._caller is not None:
            seconds = self._plan.grace_ms / 1000 + KILL_SECONDS + _SETTLE_SECONDS
            self._wait(lambda: self.is_drained, seconds)

    def _wait(self, is_so: Callable[[], bool], seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(is_so, seconds)

    def _stop(self, error: Exception | None = None) -> None:
        with self._changed:
            self._error = self._error or error
            self._stopping.set()
            claimer = self._claimer
        if claimer is not None:
            claimer.hang_up()

    # -- one thread ------------------------------------------------------------------------------

    def _loop(self, caller: Caller, claimer: Caller) -> None:
        try:
            while self._may_claim():
                message = self._claim(claimer)
                if message is not None:
                    self._handle(caller, message)
        except Exception as error:  # noqa: BLE001  # it is raised where the others are waited for
            self._stop(error)

    def _may_claim(self) -> bool:
        """Whether another message is wanted; takes it out of the count if so."""
        with self._changed:
            if self._stopping.is_set() or (self._plan.most and not self._free):
                return False
            self._free -= 1
            return True

    def _not_claimed(self) -> None:
        with self._changed:
            self._free += 1

    def _claim(self, claimer: Caller) -> Message | None:
        with self._silence.asked():
            found = self._waited_for(claimer)
        if found is None:
            self._not_claimed()
            if self._plan.idle_ms:
                self._stopping.set()  # nothing came for long enough: no thread claims again
        return found

    def _waited_for(self, claimer: Caller) -> Message | None:
        """The next message; None at the end of all claiming."""
        pause = _PAUSE_SECONDS
        while not self._stopping.is_set():
            asked, wait_ms = _CLOCK.monotonic(), self._silence.wait_ms
            try:
                found = self._ask(claimer, wait_ms)
            except (Closed, *_PASSING) as error:
                if self._stopping.is_set():
                    break
                if isinstance(error, Closed):
                    raise
                self._warn_once(f"{error.message}; it is tried again")
                self._stopping.wait(pause)
                self._silence.failed()
                pause = min(2 * pause, _PAUSE_SECONDS_MAX)
                continue
            self._warned = False
            if found:
                self._silence.end()
                return found[0]
            self._silence.lasts()
            pause, left = _PAUSE_SECONDS, self._silence.left_seconds
            if left <= 0:
                break
            if _CLOCK.monotonic() - asked < wait_ms / 2000:
                # Empty so soon is what a broker says that stops, or is asked by too many.
                self._stopping.wait(min(pause, left))
        return None

    def _ask(self, claimer: Caller, wait_ms: int) -> list[Message]:
        with self._changed:
            self._claims += 1
        try:
            return claimer.call(ReceiveRequest(self._plan.queue, 1, wait_ms)).messages
        finally:
            with self._changed:
                self._claims -= 1
                self._changed.notify_all()

    def _handle(self, caller: Caller, message: Message) -> None:
        plan = self._plan
        command = Command(plan.command, plan.queue, message, limit_seconds=plan.limit_ms / 1000)
        with self._changed:
            self._commands.add(command)
            is_leaving = self._left_at is not None
        if is_leaving:
            command.end_within(plan.grace_ms / 1000)
        try:
            with Renewer(caller, plan.queue, [message], warn=self._run.warn) as renewer:
                ended = command.run()
                self._settle(caller, message, ended, renewer)
        except Stopped:
            self._give_back(caller, message)
        except MqliteError:
            raise  # of the settling: what the broker knows of it is not known
        except Exception:
            self._give_back(caller, message)
            raise
        finally:
            with self._changed:
                self._commands.discard(command)

    def _settle(self, caller: Caller, message: Message, ended: Ended, renewer: Renewer) -> None:
        """Say what became of a message until somebody answers, or nobody does in time."""
        request, kind = self._verdict(message, ended)
        if not ended.is_success:
            self._run.warn(f"seq={message.seq_number}: {ended.shown}; {kind}")
        pause, began, is_doubtful = _PAUSE_SECONDS, _CLOCK.monotonic(), False
        while True:
            try:
                caller.call(request)
                break
            except LockLost:
                kind = "lost"
                self._run.warn(f"seq={message.seq_number}: its lease was over; it comes again")
                break
            except _PASSING as error:
                is_doubtful = is_doubtful or isinstance(error, OutcomeUnknown)
                if self._has_waited(began, renewer):
                    what = _unsettled(kind, is_doubtful=is_doubtful)
                    self._run.warn(f"seq={message.seq_number}: {error.message}; {what}")
                    kind = "lost"
                    break
                if pause == _PAUSE_SECONDS:
                    self._warn_once(f"{error.message}; it is tried again")
            threading.Event().wait(pause)
            pause = min(2 * pause, _SETTLE_PAUSE_SECONDS_MAX)
        with self._changed:
            self._tally[kind] += 1

    def _has_waited(self, began: float, renewer: Renewer) -> bool:
        """Whether a settlement that began then has been tried for as long as it makes sense."""
        if self._left_at is None and renewer.may_hold:
            return False
        since = max(began, self._left_at or began)
        return _CLOCK.monotonic() - since >= _SETTLE_SECONDS

    def _verdict(self, message: Message, ended: Ended) -> tuple[SettleRequest, str]:
        queue, seq, token = self._plan.queue, message.seq_number, message.lock_token
        if ended.is_success:
            return CompleteRequest(queue, seq, token), "completed"
        if self._plan.rejects or ended.code == self._plan.reject_exit:
            return RejectRequest(queue, seq, token, _REASON, ended.shown), "rejected"
        delay = delay_ms(self._plan.delay_ms, message.delivery_count)
        return AbandonRequest(queue, seq, token, delay_ms=delay), "abandoned"

    def _give_back(self, caller: Caller, message: Message) -> None:
        try:
            releasing(self._plan.queue)(caller, [message])
        except MqliteError as error:
            self._run.warn(
                f"seq={message.seq_number} could not be given back ({error.message}); it comes "
                "again when its lease ends"
            )

    def _warn_once(self, text: str) -> None:
        if not self._warned:
            self._warned = True
            self._run.warn(text)
