"""A received message: what it carries, and the verbs that settle it.

Made by `Handle.receive` and its kin. It remembers queue, number and lock token, so that nobody
passes a token by hand; it never changes by itself (a renewal moves the lease in the broker, not
`locked_until`). Instants are aware datetimes in UTC, durations are seconds or timedeltas.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, cast

from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import LockLost
from mqlite_actor.sdk import requests
from mqlite_actor.sdk.durations import Duration
from mqlite_actor.sdk.instants import to_datetime

if TYPE_CHECKING:
    from mqlite_actor.sdk.handle import Handle

T = TypeVar("T")


class Received:
    """What a message in hand carries, in every colour of program."""

    __slots__ = ("queue", "raw")

    def __init__(self, queue: str, raw: wire.Message) -> None:
        self.queue = queue
        self.raw = raw

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.queue!r} seq_number={self.seq_number}>"

    @property
    def seq_number(self) -> int:
        """The number that the message got when it was sent."""
        return self.raw.seq_number

    @property
    def body(self) -> bytes:
        """The payload."""
        return self.raw.body

    @property
    def text(self) -> str:
        """The payload as UTF-8; UnicodeDecodeError if it is none."""
        return self.raw.body.decode()

    def json(self) -> Any:  # noqa: ANN401  # JSON as it comes
        """The payload as JSON; InvalidArgument if it is none."""
        return requests.from_json(self.raw.body, Any)

    def decode(self, kind: type[T]) -> T:
        """The payload as JSON of this type: a msgspec struct, a dataclass, list[int] …

        InvalidArgument names the place that does not fit.
        """
        return cast("T", requests.from_json(self.raw.body, kind))

    @property
    def lock_token(self) -> str:
        """The lease; "" after receive-and-delete."""
        return self.raw.lock_token

    @property
    def delivery_count(self) -> int:
        """1 at the first delivery."""
        return self.raw.delivery_count

    @property
    def enqueued_at(self) -> datetime | None:
        """When it was sent."""
        return to_datetime(self.raw.enqueued_at_ms)

    @property
    def locked_until(self) -> datetime | None:
        """End of the lease as it was granted; None after receive-and-delete."""
        return to_datetime(self.raw.locked_until_ms)

    @property
    def message_id(self) -> str:
        """The sender's id, or ""."""
        return self.raw.message_id

    @property
    def group_id(self) -> str:
        """The ordering group, or ""."""
        return self.raw.group_id

    @property
    def correlation_id(self) -> str:
        """What this answers, or ""."""
        return self.raw.correlation_id

    @property
    def reply_to(self) -> str:
        """Where to answer, or ""."""
        return self.raw.reply_to

    @property
    def subject(self) -> str:
        """The sender's subject, or ""."""
        return self.raw.subject

    @property
    def content_type(self) -> str:
        """The body's media type, or ""."""
        return self.raw.content_type

    @property
    def properties(self) -> dict[str, str]:
        """The sender's properties."""
        return self.raw.properties

    def note_settled(self, *, is_settled: bool) -> None:
        """What its own verbs do not see; only a message in a receiver's hands minds."""

    def note_renewed(self, seconds: float) -> None:
        """The same: its lease lives for so long from now on."""


@contextmanager
def settling(messages: Sequence[Received]) -> Iterator[list[bool]]:
    """They count as settled from now on: a renewal that is denied then means nothing.

    In the end only those do whose place in the list that is lent was made True.
    """
    done = [False] * len(messages)
    for each in messages:
        each.note_settled(is_settled=True)
    try:
        yield done
    finally:
        for index, each in enumerate(messages):
            if done[index : index + 1] != [True]:
                each.note_settled(is_settled=False)


@contextmanager
def settled_if_committed() -> Iterator[list[Received]]:
    """Put into the list what a transaction has settled: it is not if the block raises."""
    messages: list[Received] = []
    try:
        yield messages
    except BaseException:
        for each in messages:
            each.note_settled(is_settled=False)
        raise


class ReceivedMessage(Received):
    """A message in hand. Settle it exactly once: `complete`, `abandon`, `reject`, `defer` or
    `release`.

    All verbs raise LockLost when the lease is over or was settled otherwise; repeating the
    identical verb after a lost answer succeeds for thirty minutes.
    """

    __slots__ = ("_handle",)

    def __init__(self, handle: Handle, queue: str, raw: wire.Message) -> None:
        super().__init__(queue, raw)
        self._handle = handle

    async def complete(self) -> None:
        """Done: remove it."""
        await self._handle.call(requests.complete(self))

    async def abandon(self, *, delay: Duration = 0) -> None:
        """Give it back, to be delivered again now or after `delay`.

        At the queue's delivery limit it becomes a dead letter instead.
        """
        await self._handle.call(requests.abandon(self, delay=delay))

    async def reject(self, reason: str = "", description: str = "") -> None:
        """Make it a dead letter, with a reason for whoever looks into it."""
        await self._handle.call(requests.reject(self, reason, description))

    async def defer(self) -> None:
        """Set it aside; only `receive_deferred` with its number fetches it again."""
        await self._handle.call(wire.DeferRequest(**requests.lease(self)))

    async def release(self) -> None:
        """Give it back as if it had not been delivered: for what will not be handled here.

        Against a broker without this call it is abandoned, and the delivery counts.
        """
        (is_released,) = await self._handle.release([self])
        if not is_released:
            raise LockLost(f"message {self.seq_number} is no longer under this lease")

    async def renew(self) -> None:
        """Extend the lease to now plus the queue's lock duration."""
        await self._handle.call(wire.RenewRequest(**requests.lease(self)))
