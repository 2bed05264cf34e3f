"""The engine: one open store, its writer actor and the tasks around it. The only public class here.

Opened by the embedded handle (`sdk/embedded.py`) and by the broker. Callers use `call`; nothing
else of the engine writes. What only looks goes past the writer (`readers.py`). Opening ends every
lease that a dead process left behind before the first call is let in; closing is a sequence written
once: refuse new calls, wake who waits, end the passes, run what is in the mailbox, close the file,
release the lock.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, cast

import trio

from mqlite_actor.clock import Clock, SystemClock
from mqlite_actor.contract import ext, limits, mistakes, wire
from mqlite_actor.contract.errors import Closed, Unsupported
from mqlite_actor.contract.keys import Right
from mqlite_actor.contract.observe import ObserveRequest, ObserveResponse
from mqlite_actor.engine import admission, commands, outbox
from mqlite_actor.engine.actor import Actor
from mqlite_actor.engine.backups import Backups
from mqlite_actor.engine.chores import Chores
from mqlite_actor.engine.diagnostics import DiagnosticsLog, unreported
from mqlite_actor.engine.filtering import Filtering
from mqlite_actor.engine.group import run_at_once, run_group
from mqlite_actor.engine.interrupts import uninterrupted
from mqlite_actor.engine.keeper import Keeper
from mqlite_actor.engine.leaving import run_to_its_end
from mqlite_actor.engine.mailbox import Command, Job
from mqlite_actor.engine.meters import StorageMeter
from mqlite_actor.engine.observing import Observer
from mqlite_actor.engine.outbox import Hold, Seconds, UserTransaction
from mqlite_actor.engine.outcomes import GroupResult
from mqlite_actor.engine.place import Inline
from mqlite_actor.engine.readers import READS, LookOut
from mqlite_actor.engine.status import status
from mqlite_actor.engine.sweeper import Health, Retention, Sweeper
from mqlite_actor.engine.watchdog import Watchdog
from mqlite_actor.semantics import keys
from mqlite_actor.semantics.receive import RECEIVE_AND_DELETE, bounded
from mqlite_actor.semantics.routing import Undecided
from mqlite_actor.semantics.send import Sending
from mqlite_actor.semantics.settle import parse_token
from mqlite_actor.storage.reading import NoReader
from mqlite_actor.storage.store import Backend, Store

R = TypeVar("R")
T = TypeVar("T")

ALONE: Final = frozenset({*commands.ALONE, Hold})
"""What shares neither group nor transaction with others."""

CLOSED: Final = "the engine is closed"


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How to open an engine. `background` False runs no passes: call `run_maintenance_once`."""

    synchronous: str = "NORMAL"
    message_bytes_max: int = limits.MESSAGE_BYTES_DEFAULT
    clock: Clock = field(default_factory=SystemClock)
    background: bool = True
    backup_folder: str | None = None
    """Where Backup may write: in this folder and below; "": that of the store; None: anywhere."""
    create: bool = True
    auth_token: str = field(default="", repr=False)
    """What a remote store is shown; it is in no log and no error."""
    retention: Retention = field(default_factory=Retention)
    room_seconds: float = math.inf  # how long a call waits for room in the mailbox
    leaves_log: bool = False  # to a program that replicates the file and alone makes checkpoints
    inline: bool = False
    """Run small groups in the trio thread: for a process that does nothing else (ruling R44)."""
    diagnostics: DiagnosticsLog | None = None
    """Where troubles are kept over restarts; None: nowhere."""


@uninterrupted
class Engine:
    """An open engine. Made by `open_engine` or `run_engine`."""

    __slots__ = (
        "_actor", "_chores", "_filtering", "_is_open", "_keeper", "_local", "_look_out",
        "_observer", "_options", "_started", "_stop", "_store", "_sweeper", "_table", "_thread",
        "_watchdog", "backups",
    )  # fmt: skip

    def __init__(self, store: Store, options: EngineOptions) -> None:
        self._store = store
        self._options = options
        self._table = commands.table(message_bytes_max=options.message_bytes_max)
        may_run_inline = options.inline and not store.may_flush
        inline = Inline(store, self._run_at_once, is_allowed=may_run_inline)
        self._actor = Actor(self._run_group, inline, self._ran)
        log, submit, clock = options.diagnostics, self._submit, options.clock
        report = log.report if log is not None else unreported
        self._sweeper = Sweeper(
            submit, clock, options.retention, report, is_dear=store.backend.is_remote
        )
        self._chores = Chores(submit, clock)
        self._filtering = Filtering(submit, self._look, clock)
        self.backups = Backups(store, submit, clock, self._chores.ending, options.backup_folder)
        self._keeper = Keeper(store, submit, self._chores.reclaim, clock, report)
        self._look_out = LookOut(
            store, self._table, clock, self._actor.storage_meter, room_seconds=options.room_seconds
        )
        self._observer = Observer(
            store, self._actor, self._look_out, self._look, clock, self._health(), log
        )
        locks = self._sweeper.health["locks"]
        self._watchdog = Watchdog(store, self._actor, submit, clock, locks, report)
        self._is_open = False
        self._started = clock.monotonic()
        self._stop = trio.Event()
        self._thread = threading.get_ident()
        self._local: dict[type[Any], Callable[[Any], Any]] = {
            wire.SubscribeRequest: self._filtering.subscribe,
            wire.TestFilterRequest: self._filtering.test_filter,
            wire.StatusRequest: self._status,
            wire.ReceiveRequest: lambda request: self._receive(bounded(request)),
            wire.RedriveRequest: self._chores.redrive,
            wire.PurgeRequest: self._chores.purge,
            ext.SearchRequest: self._filtering.search,
            ext.BackupRequest: self.backups.backup,
            ext.RedriveSelectedRequest: self._chores.redrive_selected,
            ext.PurgeActiveRequest: self._chores.purge_active,
            ext.DeleteSubscriptionRequest: self._chores.delete_subscription,
            ObserveRequest: self._observe,
        }

    @property
    def served(self) -> frozenset[type[Any]]:
        """Request types that `call` answers."""
        return frozenset(self._table) | frozenset(self._local)

    @property
    def clock(self) -> Clock:
        """The clock that decides about leases."""
        return self._options.clock

    @property
    def backend(self) -> Backend:
        """What kind of store it has."""
        return self._store.backend

    @property
    def location(self) -> str:
        """Where that is, fit for everybody's eyes."""
        return self._store.location

    @property
    def crash(self) -> BaseException | None:
        """What broke the writer, if anything did."""
        return self._actor.crash

    @property
    def meter(self) -> StorageMeter:
        """Storage calls; a front-end process adds its looks."""
        return self._actor.storage_meter

    @property
    def unready(self) -> str:
        """Why this engine should get no work now, in words that name no file and no queue; ""
        when it is fit for it."""
        if self._actor.crash is not None:
            return "the engine has stopped"
        if self._stop.is_set() or self._chores.ending.is_set():
            return "it is closing"
        if not self._is_open:
            return "it is opening"
        return self._watchdog.unready

    async def call(self, request: wire.Request[R], *, is_clean: bool = False) -> R:
        """Answer a request, after its effect is committed; `is_clean`: a wire's decoder made it.

        Raises the errors of the contract. A caller cancelled while its request waits can be sure
        that it did not run; once it runs it ends, and its result is returned in spite of the
        cancellation. Except that a receive under leases in a cancelled scope gives its messages
        back uncounted and raises; one that removed its messages, or has an attempt id, returns.
        """
        if threading.get_ident() != self._thread:
            raise Unsupported(
                "call the engine from the trio thread that opened it, elsewhere through"
                " trio.from_thread.run"
            )
        outbox.check_outside()
        if not is_clean:
            request = mistakes.check(request)
        local = self._local.get(type(request))
        if local is not None:
            return cast("R", await local(request))
        if type(request) in READS:
            return cast("R", await self._look(request))
        if type(request) not in self._table:
            raise Unsupported(f"this engine has no operation for {type(request).__name__}")
        reply = await self._submit(request)
        if type(reply) is Undecided:
            reply = await self._filtering.send(cast("Sending", request), reply)
        return cast("R", reply)

    async def hold(self, seconds: Seconds = limits.TX_SECONDS) -> Hold:
        """The writer for one transaction of the caller's; `Hold.end` gives it back.

        Everything else waits meanwhile, so after `seconds` (at most 30) it is rolled back and its
        methods raise TxTimeout. Cancelled while it waits, nothing was begun.
        """
        outbox.check_outside()
        hold = Hold(self._begin, self._actor.in_thread, outbox.tx_seconds(seconds, self.backend))
        await self._submit(hold)
        return hold

    async def run_tx(
        self, function: Callable[[UserTransaction], T], seconds: Seconds = limits.TX_SECONDS
    ) -> T:
        """Run a plain function in the storage thread inside one transaction; its result.

        Commits when it returns, rolls back when it raises. Cancelled while it waits, it did not
        run; cancelled while it runs, it ends and is rolled back.
        """
        hold = await self.hold(seconds)
        is_commit = False
        try:
            await trio.lowlevel.checkpoint_if_cancelled()  # BEGIN may have waited for somebody
            result: T = await hold.run(function)
            await trio.lowlevel.checkpoint_if_cancelled()
            is_commit = True
        finally:
            await hold.end(is_commit=is_commit)
        return result

    def _begin(self, seconds: float) -> UserTransaction:
        return UserTransaction(self._store, self._table, self._options.clock, seconds)

    async def hand_back(
        self,
        request: wire.ReceiveRequest,
        reply: wire.MessagesResponse,
        *,
        is_counted: bool = False,
    ) -> None:
        """Return a claim that its caller never got (ruling R42).

        `is_counted` False: no byte of it was offered to anybody, so the delivery did not happen.
        Claims under an attempt id stay with whoever repeats it, and removed messages stay removed.
        Shielded: runs to its end in a cancelled scope; does nothing once the engine is closed (the
        next opening ends the leases).
        """
        if not _may_go_back(request):
            return
        leases = tuple(
            (message.seq_number, token)
            for message in reply.messages
            if (token := parse_token(message.lock_token)) is not None
        )
        if not leases:
            return
        with trio.CancelScope(shield=True):
            try:
                await self._submit(commands.Release(request.queue, leases, is_counted=is_counted))
            except Closed:
                return

    async def authenticate(self, token: str) -> tuple[str, frozenset[Right]]:
        """What became of a managed key's token (the words of Observe), and its rights."""
        outcome, rights = await self._look(commands.Authenticate(keys.digest(token)))
        return outcome, rights

    def happened(self, events: Mapping[tuple[str, str], int]) -> None:
        """Count what became true outside of the actor: at the opening."""
        self._actor.events.update(events)

    def stop_waiting(self) -> None:
        """Answer each waiting receive with an empty list, now and from now on; the rest goes on."""
        self._actor.stop_waiting()
        self._chores.ending.set()

    async def run_maintenance_once(self) -> None:
        """Run every pass once, on the engine's clock, in the contract's order."""
        outbox.check_outside()
        await self._sweeper.run_once()
        if self._store.has_file:
            await self._keeper.reclaim()

    async def compact(self, *, is_full: bool = False) -> None:
        """Shrink the file: by its free pages in slices, or (full) by writing it anew at once."""
        outbox.check_outside()
        if self._store.upkeep_refusal:
            raise Unsupported(self._store.upkeep_refusal)
        await self._chores.compact(is_full=is_full)

    def statistics(self) -> dict[str, Any]:
        """How full things are: mailbox, waiters, groups, events, health of the passes."""
        mailbox = self._actor.mailbox
        return {
            "mailbox_commands": len(mailbox),
            "mailbox_bytes": mailbox.bytes,
            "mailbox_waits": mailbox.waits,
            "groups": self._actor.groups,
            "inline_groups": self._actor.inline.started,
            "writer_stalls": self._watchdog.stalls,
            "waiters": self._actor.waiters.counts(),
            "events": dict(self._actor.events),
            "filter_failures": dict(self._actor.filter_failures),
            "maintenance": self._health(),
            "log_pages": self._store.log_pages,
            "checkpoints": self._keeper.checkpoints,
            "truncations": self._keeper.truncations,
        }

    def close(self) -> None:
        """Ask the engine to end; the task that runs it closes everything in order and returns."""
        self._chores.ending.set()
        self._actor.close(Closed(CLOSED))
        self._stop.set()

    # -- inside ------------------------------------------------------------------------------------

    async def _look(self, request: Command) -> Any:  # noqa: ANN401  # the table pairs the types
        """The answer to what only looks; from the writer if there is no other way."""
        if self._store.readers is not None and self._actor.mailbox.closed_with is None:
            try:
                return await self._look_out.look(request)
            except NoReader:
                pass
        return await self._submit(request)

    def _submit(self, request: Command) -> Awaitable[Command]:
        job = Job(request, admission.weigh(request), is_alone=type(request) in ALONE)
        return self._actor.submit(job, room_seconds=self._options.room_seconds)

    async def _poll(self, request: wire.ReceiveRequest, until: float) -> Command:
        with trio.CancelScope() as poll:
            job = Job(request, admission.weigh(request), until=until)
            job.poll = poll
            return await self._actor.submit(job, room_seconds=self._options.room_seconds)
        return wire.MessagesResponse(messages=[])

    async def _receive(self, request: wire.ReceiveRequest) -> wire.MessagesResponse:
        wait_ms = min(max(request.wait_time_ms, 0), limits.RECEIVE_WAIT_MS_MAX)
        until = trio.current_time() + wait_ms / 1000 if wait_ms else 0.0
        reply = await (self._poll(request, until) if until else self._submit(request))
        assert isinstance(reply, wire.MessagesResponse)
        if reply.messages and not _may_go_back(request):
            return reply
        try:
            await trio.lowlevel.checkpoint_if_cancelled()
        except BaseException:
            await self.hand_back(request, reply)
            raise
        return reply

    async def _status(self, _: wire.StatusRequest) -> wire.StatusResponse:
        return await status(self._store, self._look, self._options.clock, self._started)

    async def _observe(self, _: ObserveRequest) -> ObserveResponse:
        return await self._observer.snapshot()

    def _health(self) -> dict[str, Health]:
        """Every maintenance task, in the contract's order."""
        return {**self._sweeper.health, "reclaim": self._keeper.reclaiming}

    def _run_group(self, requests: list[Any]) -> GroupResult:
        return run_group(self._store, self._table, requests, self._options.clock)

    def _run_at_once(self, requests: Sequence[Any]) -> GroupResult | None:
        return run_at_once(self._store, self._table, requests, self._options.clock)

    def _ran(self, result: GroupResult) -> None:
        self._watchdog.ran(result)
        self._keeper.noticed()
        self._sweeper.note(result.dues)

    async def run(self, task_status: trio.TaskStatus[Engine]) -> None:
        """Actor and passes, from the first call let in to the last answer given. Once only."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run_to_its_end, self._actor, self._store)
            try:
                async with trio.open_nursery() as passes:
                    if self._options.background:
                        passes.start_soon(self._sweeper.run)
                        passes.start_soon(self._watchdog.run)
                    passes.start_soon(self._keeper.run)
                    self._is_open = True
                    task_status.started(self)
                    await self._stop.wait()
                    passes.cancel_scope.cancel()
            finally:
                self._actor.close(Closed(CLOSED))


def _may_go_back(request: wire.ReceiveRequest) -> bool:
    """A claim under an attempt id belongs to whoever repeats the id; removed messages are gone."""
    return not request.receive_attempt_id and request.receive_mode != RECEIVE_AND_DELETE
