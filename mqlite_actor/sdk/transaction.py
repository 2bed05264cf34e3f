"""The transaction that a program shares with the queue: outbox and inbox.

Made by `Embedded.tx` (its methods are awaited) and `Embedded.run_tx` (a plain function in the
storage thread, which is the better one: nothing can linger between its statements). Sends, and
settlements of received messages, commit together with the program's own rows in the same file, or
not at all. The two classes differ only in colour; what they send is built in one place
(`requests`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeVar

from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import InvalidArgument
from mqlite_actor.sdk import requests
from mqlite_actor.sdk.durations import Duration
from mqlite_actor.sdk.message import Received, settling
from mqlite_actor.sdk.requests import Body

T = TypeVar("T")

SqlValue = int | float | str | bytes | None
"""What a statement's arguments may be."""


class OpenTransaction(Protocol):
    """What `Tx` sends its steps to: the engine's hold on the writer, or the way to it."""

    async def execute(self, sql: str, arguments: Sequence[SqlValue]) -> list[tuple[Any, ...]]:
        """Run one statement."""

    async def call(self, request: Any) -> Any:  # noqa: ANN401  # the verbs below pair the types
        """Run a verb."""


class OpenSyncTransaction(Protocol):
    """The same for `SyncTx`."""

    def execute(self, sql: str, arguments: Sequence[SqlValue]) -> list[tuple[Any, ...]]:
        """Run one statement."""

    def call(self, request: Any) -> Any:  # noqa: ANN401  # the verbs below pair the types
        """Run a verb."""


class Tx:
    """An open transaction. Leaving its block commits; an exception or cancellation rolls back.

    While it is open everything else in the engine waits, at most `seconds`; then it is rolled back
    and its methods raise TxTimeout. Calls to the handle itself raise inside the block.
    """

    __slots__ = ("_hold", "_settled")

    def __init__(self, hold: OpenTransaction, settled: list[Received]) -> None:
        self._hold = hold
        self._settled = settled  # as `message.settled_if_committed` lends it

    async def execute(self, sql: str, arguments: Sequence[SqlValue] = ()) -> list[tuple[Any, ...]]:
        """Run one statement of your own and return its rows.

        Anything but the engine's tables may be written, and everything read. InvalidArgument says
        what was refused or wrong; a failed statement undoes itself alone.
        """
        return await self._hold.execute(sql, arguments)

    async def send_one(
        self,
        queue: str,
        body: Body = b"",
        *,
        ttl: Duration | None = None,
        at: datetime | None = None,
        **fields: str | Mapping[str, str],
    ) -> int:
        """As `Handle.send_one`; the number counts once the transaction commits."""
        message = requests.message(body, **fields)
        reply = await self._hold.call(requests.send(queue, [message], ttl=ttl, at=at))
        return int(reply.seq_numbers[0])

    async def send(
        self,
        queue: str,
        messages: Iterable[wire.Message | Body],
        *,
        ttl: Duration | None = None,
        at: datetime | None = None,
    ) -> list[int]:
        """As `Handle.send`, but a refused message only leaves 0 in its slot."""
        batch = requests.batch(messages)
        reply = await self._hold.call(requests.send(queue, batch, ttl=ttl, at=at))
        return list(reply.seq_numbers or [])

    async def complete(self, message: Received) -> None:
        """Done with a received message, if and when the transaction commits."""
        await self._settle(message, requests.complete(message))

    async def abandon(self, message: Received, *, delay: Duration = 0) -> None:
        """Give a received message back."""
        await self._settle(message, requests.abandon(message, delay=delay))

    async def reject(self, message: Received, reason: str = "", description: str = "") -> None:
        """Dead-letter a received message."""
        await self._settle(message, requests.reject(message, reason, description))

    async def _settle(self, message: Received, request: wire.Request[Any]) -> None:
        with settling([message]) as done:
            await self._hold.call(request)
            done[0] = True
        self._settled.append(message)


class SyncTx:
    """The same for a plain function in the storage thread."""

    __slots__ = ("_settled", "_transaction")

    def __init__(self, transaction: OpenSyncTransaction, settled: list[Received]) -> None:
        self._transaction = transaction
        self._settled = settled  # as `message.settled_if_committed` lends it

    def execute(self, sql: str, arguments: Sequence[SqlValue] = ()) -> list[tuple[Any, ...]]:
        """Run one statement of your own and return its rows."""
        return self._transaction.execute(sql, arguments)

    def send_one(
        self,
        queue: str,
        body: Body = b"",
        *,
        ttl: Duration | None = None,
        at: datetime | None = None,
        **fields: str | Mapping[str, str],
    ) -> int:
        """As `Handle.send_one`."""
        message = requests.message(body, **fields)
        reply = self._transaction.call(requests.send(queue, [message], ttl=ttl, at=at))
        return int(reply.seq_numbers[0])

    def send(
        self,
        queue: str,
        messages: Iterable[wire.Message | Body],
        *,
        ttl: Duration | None = None,
        at: datetime | None = None,
    ) -> list[int]:
        """As `Handle.send`, but a refused message only leaves 0 in its slot."""
        batch = requests.batch(messages)
        reply = self._transaction.call(requests.send(queue, batch, ttl=ttl, at=at))
        return list(reply.seq_numbers or [])

    def complete(self, message: Received) -> None:
        """Done with a received message."""
        self._settle(message, requests.complete(message))

    def abandon(self, message: Received, *, delay: Duration = 0) -> None:
        """Give a received message back."""
        self._settle(message, requests.abandon(message, delay=delay))

    def reject(self, message: Received, reason: str = "", description: str = "") -> None:
        """Dead-letter a received message."""
        self._settle(message, requests.reject(message, reason, description))

    def _settle(self, message: Received, request: wire.Request[Any]) -> None:
        with settling([message]) as done:
            self._transaction.call(request)
            done[0] = True
        self._settled.append(message)


def plainly(function: Callable[[SyncTx], T], transaction: SyncTx) -> T:
    """Call it; what nobody would run is refused, and so nothing commits. A generator expression
    may be a result: what it goes through was asked for inside the function."""
    answer = function(transaction)
    is_expression = inspect.isgenerator(answer) and answer.gi_code.co_name == "<genexpr>"
    if not is_expression:
        requests.refuse_generator(answer, "function")
    if inspect.iscoroutine(answer):
        answer.close()
        raise InvalidArgument("function: a plain one here; use tx() to await between statements")
    return answer
