"""A handle over a link: an engine of another process on this machine, at the speed of a socket.

`open_link` for a block; `connect("unix:PATH")` opens the same. Calls the link's client and, for
what may be repeated after a lost link, `exchange`'s table. Rules: a call that was certainly not
sent, or that may be repeated, waits for the link to come back; any other says that nobody knows its
outcome, and so does one whose repetition failed, if the first try may have been done. The link is
kept by one task, which reconnects with a growing pause.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from typing import Final, TypeVar, cast

import trio

from mqlite_actor.contract import ext, limits, wire
from mqlite_actor.contract.errors import Closed, InvalidArgument, MqliteError, NotFound, Unavailable
from mqlite_actor.engine.interrupts import block, uninterrupted
from mqlite_actor.link.client import Link, LinkLost, connect
from mqlite_actor.link.pipe import Bell
from mqlite_actor.sdk import exchange
from mqlite_actor.sdk.handle import Handle

R = TypeVar("R")

UNBOUNDED: Final = (
    wire.RedriveRequest, wire.PurgeRequest, ext.PurgeActiveRequest, ext.RedriveSelectedRequest,
    ext.DeleteSubscriptionRequest,
)  # fmt: skip
"""Calls that take as long as their work does, paced ones above all. They commit in parts, so one
that is withdrawn is not undone."""


@uninterrupted
class Linked(Handle):
    """A handle whose calls go over a link. Made by `open_link`."""

    __slots__ = ("_bell", "_is_closed", "_link", "_path", "_reason")

    def __init__(self, path: str) -> None:
        self._path = path
        self._link: Link | None = None
        self._bell = Bell()  # rung when the link comes back, or never will
        self._reason = ""
        self._is_closed = False

    async def call(self, request: wire.Request[R]) -> R:
        """The engine's response, or the contract's error raised.

        Unavailable: nothing was done, because no engine could be reached or it did not answer in
        time. OutcomeUnknown: the link was lost under a write that may not be repeated, or whose
        repetition failed. Cancelled, it is withdrawn; if it had run by then its outcome is
        returned, and a receive gives its messages back.
        """
        losses: list[LinkLost] = []
        try:
            return await self._tried(request, losses)
        except MqliteError as error:
            unknown = exchange.unknown_since(request, error) if losses else None
            if unknown is None:
                raise
            raise unknown from error

    async def _tried(self, request: wire.Request[R], losses: list[LinkLost]) -> R:
        """Ask until a link outlives the answer; `losses` gets those that left the outcome open."""
        seconds = math.inf if isinstance(request, UNBOUNDED) else exchange.reply_seconds(request)
        with trio.move_on_after(seconds):
            while True:
                link = await self._connected()
                try:
                    return await link.call(request)
                except LinkLost as lost:
                    if lost.was_sent:
                        losses.append(lost)
                        await self._leave_to_the_caller(request, lost)
                except (InvalidArgument, NotFound) as error:
                    raise exchange.narrowed(request, error) from None
        raise Unavailable(f"no answer within {seconds:.0f} s, so the call was withdrawn; repeat it")

    async def _leave_to_the_caller(self, request: wire.Request[R], lost: LinkLost) -> None:
        """Raise for a request that is not repeated here. For one that its caller repeats, a claim
        under an attempt id, only when the link is back."""
        if exchange.is_repeatable(request):
            return
        if isinstance(request, wire.ReceiveRequest) and request.receive_attempt_id:
            await self._connected()
        raise exchange.lost_reply(request, lost.reason) from lost

    async def keep(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Connect, tell, and reconnect whenever the link is lost; until it is cancelled.

        Raises Unavailable when nobody can be reached the first time.
        """
        try:
            await self._keep_once(task_status)
        except (LinkLost, OSError) as error:
            raise self._unreachable(error) from error
        pause = limits.LINK_RETRY_SECONDS
        while True:
            await trio.sleep(pause)
            try:
                await self._keep_once(trio.TASK_STATUS_IGNORED)
                pause = limits.LINK_RETRY_SECONDS
            except (LinkLost, OSError) as error:
                self._reason = self._unreachable(error).message
                pause = min(2 * pause, limits.LINK_RETRY_SECONDS_MAX)

    def close(self) -> None:
        """Refuse further calls with Closed."""
        self._is_closed = True
        self._bell.ring()

    async def _keep_once(self, task_status: trio.TaskStatus[None]) -> None:
        """One link, from connecting to its loss; LinkLost or OSError where none comes about."""
        sock = None
        with trio.move_on_after(limits.LINK_HELLO_SECONDS):
            sock = await connect(self._path)
        if sock is None:
            raise LinkLost("it takes no more connections", was_sent=False)
        link = Link(sock)

        def started() -> None:
            self._link = link
            self._bell.ring()
            task_status.started()

        try:
            await link.run(task_status=cast("trio.TaskStatus[None]", _Told(started)))
        finally:
            self._link = None

    async def _connected(self) -> Link:
        with trio.move_on_after(limits.LINK_WAIT_SECONDS):
            while True:
                if self._is_closed:
                    raise Closed("this handle is closed")
                if self._link is not None and not self._link.lost.is_set():
                    return self._link
                await self._bell.wait()
        raise Unavailable(self._reason or f"the link to {self._path} is lost; repeat later")

    def _unreachable(self, error: Exception) -> Unavailable:
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        return Unavailable(f"no engine to reach at unix:{self._path}: {reason}")


class _Told:
    """A task status that calls a function."""

    __slots__ = ("_tell",)

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell

    def started(self, _: None = None) -> None:
        self._tell()


@block
async def open_link(path: str) -> AsyncIterator[Linked]:
    """A handle on the engine that listens at the Unix socket `path`, for the length of a block.

    `mqlite serve --link-socket PATH` listens there. Raises Unavailable when nobody does, and
    InvalidArgument for an empty path. A link that is lost later comes back by itself. Leaving the
    block closes it; messages that were received stay under their leases.
    """
    if not path:
        raise InvalidArgument("the link's path is empty; write unix:/path/of/the/socket")
    linked = Linked(path)
    failure: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(linked.keep)
            try:
                yield linked
            except BaseException as error:
                failure = error
                raise
            finally:
                linked.close()
                nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        failure = failure or _single(group)
    if failure is not None:
        raise failure


def _single(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one exception in nested groups of one; else the group itself."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
