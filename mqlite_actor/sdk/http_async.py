"""The HTTP handle for programs on trio or asyncio, over httpcore's connection pool.

Made by `connect`; calls `exchange` for what the bytes mean. Rules: every call has one absolute
deadline; a request is sent again in one case only: an idle socket was dead before a byte of the
reply, and the request had not gone out whole or is harmless to repeat (`exchange.is_repeatable`);
an idle socket is dropped well before a broker drops it. A receive that is given up tells the broker
by closing its half of the connection: either the broker had not answered yet and gives its claim
back, or the answer is on its way, is read to its end, and given back from here. No redirects, no
proxies of the environment: the credential goes to the address that was named and nowhere else.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self, TypeVar, cast

import anyio
import httpcore
import msgspec

from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import Closed, Internal, MqliteError, Unavailable, Unsupported
from mqlite_actor.sdk import exchange, http_wire
from mqlite_actor.sdk.address import Endpoint, dial
from mqlite_actor.sdk.handle import Handle
from mqlite_actor.sdk.http_clock import BrokerClock
from mqlite_actor.sdk.http_wire import Trip, under_way
from mqlite_actor.sdk.origin import check_process, here

R = TypeVar("R")

CONNECT_SECONDS = 5.0
"""For a connection and for its TLS handshake, as in the light client."""

IDLE_SECONDS = 60.0
"""An idle socket lives so long; a broker drops one after 120 s, proxies in between after 75 or
more."""

IDLE_CONNECTIONS_MAX = 20
"""Kept for the next call. Calls in flight are not bounded here: each long poll holds a connection,
and the program bounds its own tasks."""

GIVE_BACK_SECONDS = 2.0
"""For giving back what arrived for a receive that was given up."""


class HttpHandle(Handle):
    """A broker over HTTP. Any number of tasks may share it; it belongs to the loop that opened
    it."""

    __slots__ = ("_clock", "_dial", "_is_closed", "_loop", "_origin", "_pool", "_shown", "_token")

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        network: httpcore.AsyncNetworkBackend | None = None,
    ) -> None:
        self._dial = dial(endpoint)
        self._shown = endpoint.shown
        self._token = endpoint.token if token is None else token
        self._clock = BrokerClock()
        self._is_closed = False
        self._loop = http_wire.current_loop()
        self._origin = here()
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=tls or (ssl.create_default_context() if self._dial.is_tls else None),
            max_connections=None,
            max_keepalive_connections=IDLE_CONNECTIONS_MAX,
            keepalive_expiry=IDLE_SECONDS,
            network_backend=network or http_wire.Network(),
        )

    def now_ms(self) -> int:
        return self._clock.now_ms()

    async def call(self, request: wire.Request[R]) -> R:
        """The broker's response, or the contract's error raised.

        Unavailable: the broker could not be reached, or nothing was done. OutcomeUnknown: a write
        went out and its reply was lost, and a repetition, where it is harmless, brought none; the
        same holds for one that was cancelled. A cancelled receive gives back what it had claimed.
        """
        self._check()
        parts = exchange.to_http(request, token=self._token)
        if isinstance(request, wire.ReceiveRequest):
            return cast("R", await self._receive(request, parts))
        return await self._ask(request, parts, _trip(request))

    async def aclose(self) -> None:
        """Close all connections; calls in flight fail, later ones raise Closed."""
        self._is_closed = True
        with anyio.CancelScope(shield=True):
            await self._pool.aclose()

    def _check(self) -> None:
        if self._is_closed:
            raise Closed("this handle was closed")
        check_process(self._origin)
        if self._loop is not http_wire.current_loop():
            raise Unsupported(
                "this handle belongs to the loop that opened it; open one in each loop"
            )

    async def _receive(
        self, request: wire.ReceiveRequest, parts: exchange.HttpParts
    ) -> wire.MessagesResponse:
        """Ask in a task of its own, which outlives a cancellation for as long as leaving takes."""
        trip = _trip(request)
        done = anyio.Event()
        answer: list[wire.MessagesResponse] = []
        failure: list[Exception] = []

        async def ask() -> None:
            try:
                if not trip.is_left:
                    answer.append(await self._ask(request, parts, trip, shield=True))
            except Exception as error:  # noqa: BLE001  # raised below, to whoever waits for it
                failure.append(error)
            finally:
                done.set()

        is_waited_for = False
        try:
            async with anyio.create_task_group() as asking:
                asking.start_soon(ask)
                try:
                    await done.wait()
                except anyio.get_cancelled_exc_class():
                    trip.leave()
                    raise
            is_waited_for = True
        finally:
            if not is_waited_for:
                await self._return_unseen(request, trip, answer)
        if failure:
            raise failure[0]
        return answer[0]

    async def _return_unseen(
        self, request: wire.ReceiveRequest, trip: Trip, answer: list[wire.MessagesResponse]
    ) -> None:
        """Give back what arrived for a caller who had left; what was removed stays removed.

        A broker keeps a claim under an attempt id for whoever repeats it; so it is asked for.
        """
        attempt = request.receive_attempt_id
        if request.receive_mode:
            return
        with anyio.move_on_after(GIVE_BACK_SECONDS, shield=True):
            try:
                if attempt and trip.is_sent and not answer:
                    again = msgspec.structs.replace(request, wait_time_ms=0)
                    parts = exchange.to_http(again, token=self._token)
                    answer.append(await self._ask(again, parts, Trip(is_repeatable=True)))
                if answer and answer[0].messages:
                    await self.give_back(request.queue, answer[0].messages, attempt_id=attempt)
            except MqliteError:
                return  # the leases end by themselves

    async def _ask(
        self,
        request: wire.Request[R],
        parts: exchange.HttpParts,
        trip: Trip,
        *,
        shield: bool = False,
    ) -> R:
        """Ask, perhaps twice; the doubt that a lost answer leaves outlasts the second failure."""
        try:
            return await self._tried(request, parts, trip, shield=shield)
        except MqliteError as error:
            unknown = exchange.unknown_since(request, error) if trip.is_doubtful else None
            if unknown is None:
                raise
            raise unknown from error

    async def _tried(
        self, request: wire.Request[R], parts: exchange.HttpParts, trip: Trip, *, shield: bool
    ) -> R:
        seconds = exchange.reply_seconds(request)
        token = under_way.set(trip)
        try:
            with anyio.fail_after(seconds, shield=shield) as trip.scope:
                try:
                    reply = await self._round_trip(parts)
                except (httpcore.NetworkError, httpcore.ProtocolError):
                    if not trip.may_restart:
                        raise
                    trip.restart()
                    reply = await self._round_trip(parts)
        except TimeoutError as error:
            raise self._lost(request, trip, f"gave no whole answer within {seconds:g} s") from error
        except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
            raise Unavailable(f"cannot connect to {self._shown}: {error}") from error
        except (httpcore.NetworkError, httpcore.ProtocolError) as error:
            reason = (
                f"broke off in the middle of its answer ({error})"
                if trip.received
                else "closed the connection without an answer"
            )
            raise self._lost(request, trip, reason) from error
        finally:
            trip.stream = None
            under_way.reset(token)
        status, content = reply
        return exchange.from_http(request, status=status, content=content)

    def _lost(self, request: wire.Request[R], trip: Trip, reason: str) -> MqliteError:
        if self._is_closed:
            return Closed("this handle was closed")
        if trip.is_sent:
            return exchange.lost_reply(request, f"{self._shown} {reason}")
        return Unavailable(
            f"{self._shown} {reason}; the request did not go out whole, so nothing was done"
        )

    async def _round_trip(self, parts: exchange.HttpParts) -> tuple[int, bytes]:
        place = self._dial
        headers: list[tuple[bytes | str, bytes | str]] = [
            ("Host", place.host_header),
            *parts.headers.items(),
            ("Content-Length", str(len(parts.body))),
        ]
        url = httpcore.URL(
            scheme="https" if place.is_tls else "http",
            host=place.host,
            port=place.port,
            target=place.target(parts.path),
        )
        extensions = {"timeout": {"connect": CONNECT_SECONDS}}
        started = self._clock.start()
        response = await self._pool.handle_async_request(
            httpcore.Request(
                "POST", url, headers=headers, content=_Body(parts.body), extensions=extensions
            )
        )
        try:
            content = await _whole(response)
        finally:
            await response.aclose()
        date = next((value for name, value in response.headers if name.lower() == b"date"), b"")
        if date:
            self._clock.heard(date.decode("ascii", "replace"), started)
        return response.status, content


def _trip(request: wire.Request[R]) -> Trip:
    return Trip(is_repeatable=exchange.is_repeatable(request))


class _Body:
    """A request's body, once. A generator in its place would be left half done by a cancellation,
    which trio warns of."""

    __slots__ = ("_rest",)

    def __init__(self, content: bytes) -> None:
        self._rest: bytes | None = content

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        content, self._rest = self._rest, None
        if content is None:
            raise StopAsyncIteration
        return content


async def _whole(response: httpcore.Response) -> bytes:
    content = bytearray()
    is_too_long = False
    try:
        async for chunk in response.aiter_stream():
            content += chunk
            if len(content) > exchange.REPLY_BYTES_MAX and not is_too_long:
                is_too_long = True
                await response.aclose()  # ends the iteration, which must not be left half done
    except (httpcore.NetworkError, httpcore.ProtocolError):
        if not is_too_long:
            raise
    if is_too_long:
        raise Internal(f"a reply of more than {exchange.REPLY_BYTES_MAX} bytes is no broker's")
    names = {name.lower() for name, _ in response.headers}
    is_open_ended = not names & {b"content-length", b"transfer-encoding"}
    if is_open_ended and response.status < 300 and not content.rstrip().endswith(b"}"):
        # The end of the stream is taken for the end of a body without a length; ours are objects.
        raise httpcore.RemoteProtocolError("the body is cut off")
    return bytes(content)


@asynccontextmanager
async def open_http(
    endpoint: Endpoint,
    *,
    token: str | None = None,
    tls: ssl.SSLContext | None = None,
    network: httpcore.AsyncNetworkBackend | None = None,
) -> AsyncIterator[HttpHandle]:
    """A handle for the length of a block; connects when it is first used.

    `token` None takes the one that stood in the address, "" sends none.
    """
    handle = HttpHandle(endpoint, token=token, tls=tls, network=network)
    try:
        yield handle
    finally:
        await handle.aclose()
