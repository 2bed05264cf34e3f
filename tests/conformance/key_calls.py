"""Short forms of the key calls, for any handle or engine: nothing but requests and their replies.

Used by the tests of access keys in tests/conformance and tests/services. They check nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence

from mqlite_actor.contract.keys import (
    AccessKey,
    CreateKeyRequest,
    CreateKeyResponse,
    ListKeysRequest,
    ListKeysResponse,
)
from tests.conformance.asking import Callee


def new_id() -> str:
    return secrets.token_hex(16)


def neighbours() -> Callable[[int], str]:
    """Ids of this test alone that stand next to each other, whoever else makes keys."""
    beginning = secrets.token_hex(14)
    return lambda number: f"{beginning}{number:04x}"


async def create(
    handle: Callee,
    key_id: str = "",
    *,
    name: str = "a key",
    permissions: Sequence[str] = ("send",),
    expires_at_ms: int = 0,
) -> CreateKeyResponse:
    request = CreateKeyRequest(
        id=key_id or new_id(),
        name=name,
        permissions=list(permissions),
        expires_at_ms=expires_at_ms,
    )
    return await handle.call(request)


async def page(
    handle: Callee, after_id: str = "", limit: int = 0, sort: str = ""
) -> ListKeysResponse:
    return await handle.call(ListKeysRequest(after_id=after_id, limit=limit, sort=sort))


async def pages_of(handle: Callee, limit: int, sort: str) -> list[ListKeysResponse]:
    """The whole list, page by page."""
    found = [await page(handle, "", limit, sort)]
    while cursor := found[-1].next_after_id:
        found.append(await page(handle, cursor, limit, sort))
    return found


async def find(handle: Callee, key_id: str) -> AccessKey | None:
    """The key as it is listed; it follows an id that is one smaller."""
    before = f"{int(key_id, 16) - 1:032x}"
    found = (await page(handle, before, 1)).keys
    return found[0] if found and found[0].id == key_id else None


def spellings(token: str) -> Iterator[bytes]:
    """The ways in which a token's secret could stand in a file."""
    digits = token.removeprefix("mqk_")
    yield digits.encode()
    yield digits.upper().encode()
    yield digits.encode("utf-16-le")
    yield bytes.fromhex(digits)
