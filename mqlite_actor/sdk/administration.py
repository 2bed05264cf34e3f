"""The verbs about the broker itself: what it sees of itself, and who may come in.

Inherited by `Handle`, written once over one `call`. Rule of keys (ruling R18): the caller has the
id before the request leaves, so that after a lost answer the key can be looked up and revoked by
it; its token is in one answer and nowhere else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from datetime import datetime
from typing import Final, TypeVar

from mqlite_actor.contract import keys, wire
from mqlite_actor.contract.errors import InvalidArgument
from mqlite_actor.contract.observe import ObserveRequest, ObserveResponse
from mqlite_actor.sdk.instants import to_ms

R = TypeVar("R")

ID_DIGITS: Final = 32


class Administration(ABC):
    """Health, counts and access keys."""

    __slots__ = ()

    @abstractmethod
    async def call(self, request: wire.Request[R]) -> R:
        """Send any request of the contract and return its response."""

    async def observe(self) -> ObserveResponse:
        """One snapshot of counts, counters and health; needs the right monitor.

        A part that cannot be had is null and its section says why; it is no error.
        """
        return await self.call(ObserveRequest())

    async def create_key(
        self,
        id: str,
        *,
        name: str,
        permissions: Iterable[str],
        expires_at: datetime | None = None,
    ) -> keys.CreateKeyResponse:
        """Make an access key; its token is in this answer and never shown again.

        `id` is yours to choose: 32 hexadecimal digits in lower case, as `generate_key_id` makes
        them. After OutcomeUnknown, or a cancellation, `find_key` tells whether the key was made;
        its token is lost then, so revoke it. `permissions`: send, listen, manage, monitor. Raises
        KeyConflict for an id that is taken.
        """
        if isinstance(permissions, str):
            raise InvalidArgument('permissions: give a list of words, such as ["send"]')
        request = keys.CreateKeyRequest(
            id=id,
            name=name,
            permissions=list(permissions),
            expires_at_ms=0 if expires_at is None else to_ms(expires_at, field="expires_at"),
        )
        return await self.call(request)

    async def find_key(self, id: str) -> keys.AccessKey | None:
        """The key of this id, also one that is expired or revoked; None if there is none."""
        try:
            number = int(id, 16)
        except ValueError:
            raise InvalidArgument(f"id: {ID_DIGITS} hexadecimal digits") from None
        # Pages begin behind an id, which need not exist: the one before ours.
        before = f"{number - 1:0{ID_DIGITS}x}" if number > 0 else ""
        page = await self.list_keys(after_id=before, max_keys=1)
        return next((key for key in page.keys if key.id == id), None)

    async def list_keys(
        self, *, after_id: str = "", max_keys: int = 0, sort: str = ""
    ) -> keys.ListKeysResponse:
        """A page of access keys, without their tokens: 100, or `max_keys` up to 1000.

        By id, or with `sort="created_desc"` the newest first; `next_after_id` of the answer begins
        the next page.
        """
        return await self.call(keys.ListKeysRequest(after_id=after_id, limit=max_keys, sort=sort))

    async def revoke_key(self, id: str) -> None:
        """Revoke a key for good; the next request with it is refused. Again, it does nothing.

        Raises NotFound for an id that no key has.
        """
        await self.call(keys.RevokeKeyRequest(id=id))
