"""The open pages: the discovery card and the liveness probe.

Built once per broker, served by `app.py` to anybody. Nothing in them names a queue, a file, a count
or a credential (spec/wire.md 4.8).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from mqlite_actor.contract.calls import PREFIX, Call
from mqlite_actor.version import __version__

HEALTH = b"ok"


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


def card(calls: Iterable[Call], *, is_auth_on: bool, has_metrics: bool, docs_url: str) -> bytes:
    """`GET /`: what this is and which calls of the contract it serves; never our own (R8)."""
    found = Card(
        name="mqlite",
        description="Durable message queue in one SQLite file, served over HTTP",
        version=__version__,
        status="ok",
        auth="bearer" if is_auth_on else "none",
        docs=docs_url,
        endpoints=[call.path for call in calls if call.prefix == PREFIX],
        health="/healthz",
        metrics="/metrics" if has_metrics else msgspec.UNSET,
    )
    return msgspec.json.encode(found) + b"\n"
