"""The open pages: the discovery card, the liveness probe and the readiness probe.

Served by `rpc.py` to anybody. Nothing in them names a queue, a file, a count or a credential
(spec/wire.md 4.8, ruling R35).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from mqlite_actor.contract.calls import PREFIX, Call
from mqlite_actor.contract.errors import Unavailable

HEALTH_PATH: Final = "/healthz"
HEALTH: Final = b"ok"

READY_PATH: Final = "/readyz"
READY: Final = b"ready"

METRICS_PATH: Final = "/metrics"

PLAIN_TEXT: Final = "text/plain; charset=utf-8"


class Card(msgspec.Struct, frozen=True):
    """The discovery card, key for key."""

    name: str
    description: str
    version: str
    status: str
    auth: str
    docs: str
    endpoints: list[str]
    health: str
    metrics: str | msgspec.UnsetType
    ui: str | msgspec.UnsetType


def readiness(unready: str) -> bytes:
    """`GET /readyz`: whether work may be sent here. Unavailable with the reason if not."""
    if unready:
        raise Unavailable(f"not ready: {unready}")
    return READY


def card(
    calls: Iterable[Call],
    *,
    version: str,
    is_auth_on: bool,
    has_metrics: bool,
    has_console: bool,
    docs_url: str,
) -> bytes:
    """`GET /`: what this is and which calls of the contract it serves; never our own (R8)."""
    found = Card(
        name="mqlite",
        description="Durable message queue in one SQLite file, served over HTTP",
        version=version,
        status="ok",
        auth="bearer" if is_auth_on else "none",
        docs=docs_url,
        endpoints=[call.path for call in calls if call.prefix == PREFIX],
        health=HEALTH_PATH,
        metrics=METRICS_PATH if has_metrics else msgspec.UNSET,
        ui="/ui" if has_console else msgspec.UNSET,
    )
    return msgspec.json.encode(found) + b"\n"
