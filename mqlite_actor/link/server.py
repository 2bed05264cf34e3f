"""The engine's end of one link: asks come in, outcomes go out, and nothing is held for the dead.

`listening.py` runs a `ServedLink` for each program that connects, the broker one for each of its
front-end processes. Each ask is a task that calls the engine; the writer never waits for a link,
because an outcome is put into the pipe's outbox and the pipe has its own task. A reply that no
frame holds, which no page of messages can become (`limits`), is refused, and its claim goes back;
so is a look, or a claim under leases, for which too much is unsent.
Rules: what a peer does wrong ends its link and nothing else. While much is unsent, or many bytes of
requests are in flight, the link is not read. Who takes nothing is cut, and who reads is not, unless
it is owed far too much of what cannot be refused, since it has happened. At the end of a link its
waiting calls are withdrawn, and exactly those claims go back of which no reader can have seen
anything: those without `Begun` in all that the peer had sent (rulings R7 and R42).
"""

from __future__ import annotations

import math
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import msgspec
import trio

from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import Canceled, Closed, Internal, MqliteError, Unavailable
from mqlite_actor.contract.observe import ObserveRequest
from mqlite_actor.engine.engine import Engine
from mqlite_actor.engine.interrupts import uninterrupted
from mqlite_actor.engine.readers import READS
from mqlite_actor.link import frames
from mqlite_actor.link.frames import (
    Ask,
    BadFrame,
    Begun,
    Cancel,
    Check,
    Frames,
    GiveBack,
    Hello,
    Item,
    Note,
    Probe,
    Refusal,
)
from mqlite_actor.link.pipe import Bell, Pipe
from mqlite_actor.logs import logger

_log = logger("mqlite.link")

NOTHING: Final = wire.EmptyResponse()

LOOKS: Final = frozenset({*READS, wire.StatusRequest, ObserveRequest})
"""What changes nothing, so that its answer may be refused."""

NO_ROOM: Final = "too many large answers wait on this link; ask again, or for less"


Completed = Callable[[wire.Response], wire.Response]
"""Finishes a reply with what only the broker knows."""

Noted = Callable[[str, msgspec.Raw], None]
"""Told of each note's topic and content."""


@uninterrupted
class ServedLink:
    """One link, from its hello to the return of what it held.

    `noted` is given for a front-end process of the broker only: it may leave notes and ask for
    keys, which any other program may not.
    """

    __slots__ = (
        "_actions", "_asked_bytes", "_bell", "_calls", "_claims", "_completed", "_engine",
        "_frames", "_hello_seconds", "_is_greeted", "_noted", "_nursery", "_pipe", "_stopping",
    )  # fmt: skip

    def __init__(
        self,
        sock: socket.socket,
        engine: Engine,
        *,
        stopping: trio.Event,
        completed: Completed | None = None,
        noted: Noted | None = None,
        hello_seconds: float = limits.LINK_HELLO_SECONDS,
    ) -> None:
        self._pipe = Pipe(sock)
        self._engine = engine
        self._completed = completed
        self._noted = noted
        self._hello_seconds = hello_seconds
        self._stopping = stopping
        self._frames = Frames(is_upward=True)
        self._bell = Bell()  # rung when a call ends
        self._calls: dict[int, trio.CancelScope] = {}
        self._claims: dict[int, tuple[wire.ReceiveRequest, list[wire.SettleItem]]] = {}
        self._asked_bytes = 0
        self._is_greeted = False
        self._nursery: trio.Nursery | None = None
        self._actions: dict[type[Item], Callable[[Any], None]] = {
            Hello: self._greeted,
            Ask: self._ask,
            Cancel: self._cancel,
            Begun: self._begun,
            GiveBack: self._give_back,
            Check: self._check,
            Note: self._note,
            Probe: self._probe,
        }

    async def run(self) -> None:
        """Serve until the peer leaves, breaks the rules, stalls, or after `stopping` has nothing
        left to be told. Cancelled, it ends at once; claims are given back all the same."""
        try:
            async with trio.open_nursery() as self._nursery:
                self._pipe.say(frames.hello())
                self._nursery.start_soon(self._write)
                self._nursery.start_soon(self._stop)
                try:
                    await self._read()
                except BadFrame as error:
                    _log.warning("a link is closed: %s", error)
                self._nursery.cancel_scope.cancel()
        finally:
            with trio.CancelScope(shield=True):
                await self._end()

    # -- reading -----------------------------------------------------------------------------------

    async def _read(self) -> None:
        with trio.move_on_after(self._hello_seconds) as patience:
            while data := await self._pipe.receive():
                for item in self._frames.feed(data):
                    self._take(item)
                    patience.deadline = math.inf
                while self._asked_bytes > limits.LINK_ASKS_BYTES_MAX:
                    await self._bell.wait()
                await self._pipe.room()
            return
        raise BadFrame("no hello came")

    def _take(self, item: Item) -> None:
        if self._is_greeted:
            self._actions[type(item)](item)
        else:
            frames.check_hello(item)
            self._is_greeted = True

    def _ask(self, ask: Ask) -> None:
        try:
            self._check_room()
            request = frames.decoded_request(ask)
        except MqliteError as error:
            self._refuse(ask.id, error)
            return
        self._start(
            ask.id, memoryview(ask.body).nbytes, partial(self._engine.call, request), request
        )

    def _cancel(self, cancel: Cancel) -> None:
        scope = self._calls.get(cancel.id)
        if scope is not None:  # else its outcome is on the way
            scope.cancel()

    def _begun(self, begun: Begun) -> None:
        self._claims.pop(begun.id, None)
        self._bell.ring()

    def _greeted(self, _: Hello) -> None:
        """The first one was checked; another says nothing new."""

    def _give_back(self, back: GiveBack) -> None:
        self._claims.pop(back.claim, None)
        release = partial(self._hand_back, back.queue, back.leases, is_counted=back.is_counted)
        self._start(back.id, 0, release)

    def _check(self, check: Check) -> None:
        if self._noted is None:
            raise BadFrame("a program asked for somebody else's key")
        self._start(check.id, 0, partial(self._checked, check.token))

    def _probe(self, probe: Probe) -> None:
        self._answer(probe.id, None, self._engine.unready)

    def _note(self, note: Note) -> None:
        if self._noted is None:
            raise BadFrame("a program sent a note")
        try:
            self._noted(note.topic, note.content)
        except (msgspec.MsgspecError, LookupError) as error:
            raise BadFrame(f"a note that makes no sense: {error}") from error

    # -- calls -------------------------------------------------------------------------------------

    def _check_room(self) -> None:
        if self._stopping.is_set():
            raise Unavailable("the broker is stopping; repeat when it is back")
        if len(self._calls) >= limits.LINK_CALLS_MAX:
            raise Unavailable(f"over {limits.LINK_CALLS_MAX} calls on one link; repeat later")
        if len(self._claims) > limits.LINK_CALLS_MAX:
            raise BadFrame("a program that confirms no claim")

    def _start(
        self,
        number: int,
        size: int,
        work: Callable[[], Any],
        request: wire.Request[Any] | None = None,
    ) -> None:
        assert self._nursery is not None
        if number in self._calls:
            raise BadFrame("one id for two calls at once")
        self._asked_bytes += size
        scope = self._calls[number] = trio.CancelScope()
        self._nursery.start_soon(self._run_one, number, size, scope, work, request)

    async def _run_one(
        self,
        number: int,
        size: int,
        scope: trio.CancelScope,
        work: Callable[[], Any],
        request: wire.Request[Any] | None,
    ) -> None:
        try:
            with scope:
                reply = await work()
                self._answer(number, request, reply)
            if scope.cancelled_caught:
                self._refuse(number, Canceled("withdrawn before it ran"))
        except MqliteError as error:
            await self._unsaid(number)
            self._refuse(number, error)
        except Exception:  # noqa: BLE001  # logged, and the link serves on (faults B96)
            _log.exception("a call over the link failed unexpectedly")
            self._refuse(number, Internal("internal error; the log has the cause"))
        finally:
            del self._calls[number]
            self._asked_bytes -= size
            self._bell.ring()

    def _answer(self, number: int, request: wire.Request[Any] | None, reply: object) -> None:
        """Say an outcome. Nothing is awaited between the engine's return and this. Unavailable for
        what may be refused, while too much waits to be written."""
        if leases := frames.leases_of(request, reply):
            assert isinstance(request, wire.ReceiveRequest)
            self._claims[number] = request, leases
        if self._completed is not None and isinstance(reply, wire.Response):
            reply = self._completed(reply)
        item = frames.encoded_reply(number, reply)
        unsent = self._pipe.unsent + len(item)
        if unsent > limits.LINK_OWED_BYTES_MAX and (leases or type(request) in LOOKS):
            raise Unavailable(NO_ROOM)
        self._pipe.say(item)
        if unsent > 2 * limits.LINK_OWED_BYTES_MAX:
            self._cut("its program asks and does not read")

    async def _unsaid(self, number: int) -> None:
        """The reply could not be said: nobody got what it claimed."""
        request, leases = self._claims.pop(number, (None, []))
        if request is not None:
            await self._given_up(partial(self._hand_back, request.queue, leases))

    def _refuse(self, number: int, error: MqliteError) -> None:
        if isinstance(error, Closed):
            error = Unavailable("the engine is closed; repeat when it is back")
        self._pipe.say(frames.encoded(Refusal(number, error.code, error.message)))

    async def _checked(self, token: str) -> tuple[str, list[str]]:
        outcome, rights = await self._engine.authenticate(token)
        return outcome, sorted(rights)

    async def _hand_back(
        self, queue: str, leases: list[wire.SettleItem], *, is_counted: bool = False
    ) -> wire.EmptyResponse:
        held = [
            wire.Message(seq_number=lease.seq_number, lock_token=lease.lock_token)
            for lease in leases
        ]
        request = wire.ReceiveRequest(queue=queue)
        await self._engine.hand_back(
            request, wire.MessagesResponse(messages=held), is_counted=is_counted
        )
        return NOTHING

    # -- the end -----------------------------------------------------------------------------------

    async def _write(self) -> None:
        if await self._pipe.write():
            self._cut("its program takes no answers")

    async def _stop(self) -> None:
        """After the stop: when every call has ended and its claim is confirmed, so has the link."""
        await self._stopping.wait()
        while self._calls or self._claims:
            await self._bell.wait()
        await self._pipe.flushed()
        self._cut()

    def _cut(self, fault: str = "") -> None:
        assert self._nursery is not None
        if fault and not self._nursery.cancel_scope.cancel_called:
            _log.warning("a link is closed: %s", fault)
        self._nursery.cancel_scope.cancel()

    async def _end(self) -> None:
        """Hear what the peer had still said, then give back what nobody got."""
        backs: list[GiveBack] = []
        try:
            for data in self._pipe.last_bytes():
                for item in self._frames.feed(data):
                    if isinstance(item, Begun):
                        self._begun(item)
                    elif isinstance(item, GiveBack):
                        backs.append(item)
        except BadFrame as error:
            _log.warning("the last words of a link: %s", error)
        self._pipe.close()
        async with trio.open_nursery() as nursery:
            for back in backs:
                self._claims.pop(back.claim, None)
                release = partial(self._hand_back, back.queue, back.leases)
                nursery.start_soon(self._given_up, partial(release, is_counted=back.is_counted))
            for request, leases in self._claims.values():
                release = partial(self._hand_back, request.queue, leases)
                nursery.start_soon(self._given_up, release)

    async def _given_up(self, release: Callable[[], Awaitable[object]]) -> None:
        try:
            await release()
        except MqliteError as error:  # the lease will end by itself
            _log.warning("a claim could not be given back: %s", error.message)
