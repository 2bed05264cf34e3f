"""The caller's end of one link: many calls at once over one socket.

`sdk/linked.py` keeps one for a program and reconnects it; a front-end process of the broker has one
and ends with it. Cancellation is what it is beside an engine (design.md 3.10): the call is
withdrawn, and if it had run already its outcome is returned; a receive under leases gives its
messages back uncounted and raises.
Rules: messages reach their caller only after the engine's side can know of it (`Begun` is in the
kernel), so that a link that breaks never takes a lease from somebody who holds it. When the link
ends every call learns it at once, and whether its request can have been seen.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Any, Final, TypeVar, cast

import msgspec
import outcome
import trio

from mqlite_actor.contract import errors, limits, mistakes, wire
from mqlite_actor.contract.errors import Canceled, Internal, MqliteError
from mqlite_actor.contract.keys import Right
from mqlite_actor.engine.interrupts import uninterrupted
from mqlite_actor.link import frames, peers
from mqlite_actor.link.frames import (
    BadFrame,
    Begun,
    Cancel,
    Check,
    Frames,
    GiveBack,
    Item,
    Note,
    Probe,
    Refusal,
    Reply,
)
from mqlite_actor.link.pipe import Bell, Pipe

R = TypeVar("R")

_Checked = tuple[str, list[str]]
_word: Final[msgspec.msgpack.Decoder[str]] = msgspec.msgpack.Decoder(str)
_checked: Final[msgspec.msgpack.Decoder[_Checked]] = msgspec.msgpack.Decoder(_Checked)


class LinkLost(Exception):
    """The link ended under a call. `was_sent`: the engine may have run it."""

    def __init__(self, reason: str, *, was_sent: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.was_sent = was_sent


class _Waiting:
    """A call between its ask and its outcome."""

    __slots__ = ("is_withdrawn", "mark", "request", "task")

    def __init__(self, request: wire.Request[Any] | None, mark: int) -> None:
        self.request = request
        self.mark = mark  # its item's number in the pipe
        self.task: trio.lowlevel.Task | None = trio.lowlevel.current_task()
        self.is_withdrawn = False


@uninterrupted
class Link:
    """A connected link. `run` must run while it is used; `lost` is set when it has ended."""

    __slots__ = (
        "_bell", "_frames", "_last_id", "_line", "_nursery", "_pipe", "_reason", "_waiting", "lost",
    )  # fmt: skip

    def __init__(self, sock: socket.socket) -> None:
        self._pipe = Pipe(sock)
        self._frames = Frames(is_upward=False)
        self._bell = Bell()  # rung when a call ends
        self._waiting: dict[int, _Waiting] = {}
        self._line = trio.StrictFIFOLock()
        self._last_id = 0
        self._reason = ""
        self._nursery: trio.Nursery | None = None
        self.lost = trio.Event()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Exchange hellos, then read and write until the link ends; started when it can be used.

        Raises LinkLost (nothing sent) when the other side is no engine of this contract; returns
        when a started link is lost. Cancelled, it closes; calls in flight get LinkLost.
        """
        reason, is_started = "this side closed the link", False
        try:
            async with trio.open_nursery() as self._nursery:
                self._pipe.say(frames.hello())
                self._nursery.start_soon(self._write)
                try:
                    items = await self._greeting()
                    is_started = True
                    task_status.started()
                    await self._read(items)
                    reason = "the engine closed the link"
                except BadFrame as error:
                    reason = str(error)
                self._nursery.cancel_scope.cancel()
        finally:
            self._end(reason)
        if not is_started:
            raise LinkLost(reason, was_sent=False)

    async def call(self, request: wire.Request[R]) -> R:
        """The engine's response, or its error raised; LinkLost when the link is over.

        Cancelled while it waits, it certainly did not run, or its outcome is returned in spite of
        the cancellation; a receive under leases then gives its messages back and raises. The
        answer to a cancellation is waited for, LINK_CANCEL_SECONDS at most.
        """
        request = mistakes.check(request)
        while True:
            number = self._next_id()
            item = frames.encoded_ask(number, request)
            await self._room()
            reply = await self._ask(number, item, request)
            if isinstance(reply, Canceled):
                await trio.lowlevel.checkpoint()  # raises; if the deadline was moved, ask again
                continue
            leases = frames.leases_of(request, reply)
            if not leases or await self._hold(number, request, leases):
                return cast("R", reply)

    async def give_back(
        self,
        queue: str,
        leases: list[wire.SettleItem],
        *,
        claim: int = 0,
        is_counted: bool = False,
    ) -> None:
        """Return messages that nobody got. Shielded, for LINK_CANCEL_SECONDS at most; LinkLost if
        the link ended first."""
        number = self._next_id()
        item = frames.encoded(GiveBack(number, claim, queue, leases, is_counted))
        with trio.CancelScope(shield=True, deadline=_soon()):
            await self._ask(number, item, None)

    async def check(self, token: str) -> tuple[str, frozenset[Right]]:
        """What became of a managed key's token, and its rights; for front-end processes only."""
        number = self._next_id()
        item = frames.encoded(Check(number, token))
        body = await self._ask(number, item, None, is_harmless=True)
        word, rights = _checked.decode(cast("msgspec.Raw", body))
        return word, frozenset(map(Right, rights))

    async def probe(self) -> str:
        """Why the engine should get no work now; "" when it should."""
        number = self._next_id()
        body = await self._ask(number, frames.encoded(Probe(number)), None, is_harmless=True)
        return _word.decode(cast("msgspec.Raw", body))

    def note(self, topic: str, content: object) -> None:
        """Tell the process that started this one, before anything that this one does next."""
        raw = msgspec.Raw(msgspec.msgpack.encode(content))
        self._pipe.say(frames.encoded(Note(topic, raw)))
        self._pipe.flush_now()

    # -- a call ------------------------------------------------------------------------------------

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    async def _room(self) -> None:
        """Wait until one more call may be in flight, in order of arrival; cancelled, it was never
        asked."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._has_room() and not self._line.locked():
            return
        async with self._line:  # only the first looks again and again
            while not self._has_room():
                await (self._bell.wait() if self._pipe.has_room else self._pipe.room())

    def _has_room(self) -> bool:
        is_full = len(self._waiting) >= limits.LINK_CALLS_MAX or not self._pipe.has_room
        return not is_full or self.lost.is_set()

    async def _ask(
        self,
        number: int,
        item: bytes,
        request: wire.Request[Any] | None,
        *,
        is_harmless: bool = False,
    ) -> object:
        """Say an item and wait for its outcome; the engine's error is raised, Canceled returned.

        Cancelled, what `is_harmless` is not waited for: its answer, if one comes, is dropped.
        """
        if self.lost.is_set():
            raise LinkLost(self._reason, was_sent=False)
        waiting = _Waiting(request, self._pipe.say(item))
        self._waiting[number] = waiting

        def withdraw(_: object) -> trio.lowlevel.Abort:
            assert self._nursery is not None
            if is_harmless:
                return trio.lowlevel.Abort.SUCCEEDED
            waiting.is_withdrawn = True
            self._pipe.say(frames.encoded(Cancel(number)))
            self._nursery.start_soon(self._lose_patience, waiting)
            return trio.lowlevel.Abort.FAILED  # the answer tells whether it had run

        try:
            result: object = await trio.lowlevel.wait_task_rescheduled(withdraw)
            return result
        finally:
            waiting.task = None

    async def _lose_patience(self, waiting: _Waiting) -> None:
        await trio.sleep(limits.LINK_CANCEL_SECONDS)
        if waiting.task is not None:
            reason = f"no answer to a cancellation within {limits.LINK_CANCEL_SECONDS:.0f} s"
            _resume(waiting, outcome.Error(LinkLost(reason, was_sent=True)))

    async def _hold(
        self, number: int, request: wire.Request[Any], leases: list[wire.SettleItem]
    ) -> bool:
        """Confirm a claim whose caller is there; give it back and raise if it left."""
        assert isinstance(request, wire.ReceiveRequest)
        if trio.current_effective_deadline() > trio.current_time():
            self._pipe.say(frames.encoded(Begun(number)))
            if self._pipe.flush_now():
                return True
            with trio.CancelScope(shield=True):  # bounded: the pipe gives up a peer that stalls
                if await self._pipe.flushed():
                    return True
            raise LinkLost("the link ended under a reply", was_sent=True)
        with suppress(LinkLost):  # then the engine's side gives them back by itself
            await self.give_back(request.queue, leases, claim=number)
        await trio.lowlevel.checkpoint()  # raises; if the deadline was moved, claim again
        return False

    # -- reading -----------------------------------------------------------------------------------

    async def _greeting(self) -> list[Item]:
        with trio.move_on_after(limits.LINK_HELLO_SECONDS):
            while data := await self._pipe.receive():
                if items := list(self._frames.feed(data)):
                    frames.check_hello(items[0])
                    return items
            raise BadFrame("it closed without a word")
        raise BadFrame("no hello came")

    async def _write(self) -> None:
        if await self._pipe.write():
            assert self._nursery is not None
            self._nursery.cancel_scope.cancel()

    async def _read(self, items: list[Item]) -> None:
        """Hand out outcomes until the end."""
        for item in items[1:]:
            self._take(item)
        while data := await self._pipe.receive():
            for item in self._frames.feed(data):
                self._take(item)
            await trio.lowlevel.checkpoint()  # a busy link must let its callers go on

    def _take(self, item: Item) -> None:
        if not isinstance(item, Reply | Refusal):
            raise BadFrame("a second hello")
        waiting = self._waiting.pop(item.id, None)
        if waiting is None:
            raise BadFrame("an outcome that nobody asked for")
        self._bell.ring()
        if isinstance(item, Refusal):
            _resume(waiting, _refused(item, is_withdrawn=waiting.is_withdrawn))
            return
        reply: object = item.body
        if waiting.request is not None:
            reply = frames.decoded_reply(waiting.request, item.body)
        if waiting.task is None:
            self._unwanted(item.id, waiting, reply)
        _resume(waiting, outcome.Value(reply))

    def _unwanted(self, number: int, waiting: _Waiting, reply: object) -> None:
        """A claim whose caller stopped waiting for it."""
        leases = frames.leases_of(waiting.request, reply)
        if leases and isinstance(waiting.request, wire.ReceiveRequest):
            back = self._next_id()
            given = GiveBack(back, number, waiting.request.queue, leases, is_counted=False)
            self._pipe.say(frames.encoded(given))
            self._waiting[back] = forgotten = _Waiting(None, self._pipe.said)
            forgotten.task = None

    def _end(self, reason: str) -> None:
        self._reason = reason
        self.lost.set()
        started = self._pipe.started
        self._pipe.close()
        waiting, self._waiting = self._waiting, {}
        for each in waiting.values():
            _resume(each, outcome.Error(LinkLost(reason, was_sent=each.mark <= started)))
        self._bell.ring()


def _soon() -> float:
    return trio.current_time() + limits.LINK_CANCEL_SECONDS


def _resume(waiting: _Waiting, result: outcome.Outcome[object]) -> None:
    task, waiting.task = waiting.task, None
    if task is not None:
        trio.lowlevel.reschedule(task, result)


def _refused(refusal: Refusal, *, is_withdrawn: bool) -> outcome.Outcome[object]:
    cls = errors.BY_CODE.get(refusal.code, Internal)
    error: MqliteError = cls(refusal.message)
    if is_withdrawn and isinstance(error, Canceled):
        return outcome.Value(error)
    return outcome.Error(error)


@trio.lowlevel.enable_ki_protection
async def connect(path: str) -> socket.socket:
    """A socket connected to a link's path.

    OSError when nobody listens there, or somebody who is neither this user nor root.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        sock.setblocking(False)
        while True:
            try:
                sock.connect(path)
            except BlockingIOError:  # its queue of newcomers is full
                await trio.sleep(limits.LINK_RETRY_SECONDS)
                continue
            peers.check_listener(sock)
            return sock
    except BaseException:
        sock.close()
        raise
