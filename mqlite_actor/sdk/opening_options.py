"""How a store is opened in this process: the caller's words to the engine's options.

Called by `embedded`. Which credential a remote store is shown is decided here; it is part of no
`repr` and no error.
"""

from __future__ import annotations

import os
from typing import TypedDict

from mqlite_actor.clock import Clock, SystemClock
from mqlite_actor.contract import limits
from mqlite_actor.engine.engine import EngineOptions
from mqlite_actor.sdk.address import Store, StoreKind


class EmbeddedOptions(TypedDict, total=False):
    """How to open a store; each with its default if left out."""

    synchronous: str
    """NORMAL (default), or FULL: survives a power cut with every acknowledged message."""
    message_bytes_max: int
    """Largest body; 1 MiB by default."""
    clock: Clock | None
    """Whose time decides about leases and schedules; the machine's by default."""
    background: bool
    """False runs no maintenance by itself."""
    leaves_log: bool
    """True leaves checkpoints to a program that replicates the file; False by default."""
    auth_token: str
    """Of a remote store; MQLITE_DB_AUTH_TOKEN if left out."""


def engine_options(
    store: Store,
    *,
    synchronous: str = "NORMAL",
    message_bytes_max: int = limits.MESSAGE_BYTES_DEFAULT,
    clock: Clock | None = None,
    background: bool = True,
    leaves_log: bool = False,
    auth_token: str | None = None,
) -> EngineOptions:
    """The options for this store, with every default filled in."""
    return EngineOptions(
        auth_token=_credential(store, auth_token),
        synchronous=synchronous,
        message_bytes_max=message_bytes_max,
        clock=clock or SystemClock(),
        background=background,
        leaves_log=leaves_log,
    )


def _credential(store: Store, auth_token: str | None) -> str:
    """What a remote store is shown: what the caller says, else its address, else the environment.
    A local one gets none."""
    if store.kind is not StoreKind.REMOTE:
        return ""
    if auth_token is not None:
        return auth_token
    return store.token or os.environ.get("MQLITE_DB_AUTH_TOKEN", "").strip()
