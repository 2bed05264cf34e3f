"""Credentials of every kind for a served engine, made and ended through the contract's own calls.

Used by the tests of the broker's access checks, with a Scene whose settings name MONITOR as a
monitor token where a test needs one.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import dataclass
from typing import Final

from mqlite_actor.contract.calls import EXT
from tests.services.broker_scene import BEARER, Fields, Scene

MONITOR: Final = "scene-monitor"


def bearer(token: str) -> Fields:
    """The one header line that presents a token."""
    return (f"Authorization: Bearer {token}",)


@dataclass(frozen=True)
class Key:
    """A managed key and its secret."""

    id: str
    token: str

    @property
    def fields(self) -> Fields:
        return bearer(self.token)

    @property
    def digest(self) -> bytes:
        """What the store keeps of the token."""
        return hashlib.sha256(self.token.encode()).digest()


def key_request(
    *permissions: str, id: str = "", name: str = "a key", expires_at_ms: int = 0
) -> dict[str, object]:
    """A body for CreateKey."""
    return {
        "id": id or secrets.token_hex(16),
        "name": name,
        "permissions": list(permissions),
        "expires_at_ms": expires_at_ms,
    }


async def mint(
    scene: Scene, *permissions: str, expires_at_ms: int = 0, by: Fields = (BEARER,)
) -> Key:
    """A new key, made by the administrator unless somebody else is named."""
    request = key_request(*permissions, expires_at_ms=expires_at_ms)
    answer = await scene.call("AuthService/CreateKey", request, fields=by)
    assert answer.status == 200, answer
    reply = json.loads(answer.body)
    return Key(reply["key"]["id"], reply["token"])


async def revoke(scene: Scene, key: Key) -> None:
    assert await scene.ok("AuthService/RevokeKey", {"id": key.id}) == {"ok": True}


async def served_calls(scene: Scene) -> frozenset[str]:
    """Names of the calls that this broker serves: by its card, and our own."""
    card = json.loads((await scene.ask("/", method="GET", fields=())).body)
    listed = {path.removeprefix("/mqlite.v1.") for path in card["endpoints"]}
    return frozenset(listed | {call.name for call in EXT if call.request in scene.engine.served})
