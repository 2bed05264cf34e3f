"""What `mqlite top` was told, as the monitor needs it.

Made by the command line, which knows flags, addresses and credentials; read by `app`. The monitor
learns only how a handle is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from mqlite_actor import Handle
from mqlite_actor.contract.observe import ObserveResponse


@dataclass(frozen=True, slots=True)
class TopOptions:
    """How to look, and at what."""

    opening: Callable[[], AbstractAsyncContextManager[Handle]]
    """Opens the handle, again after every failure."""
    source: str
    """What it opens, for people; without a credential."""
    write: Callable[[str], None]
    """Where plain text goes; what it raises ends the monitor."""
    environ: Mapping[str, str]
    interval_ms: int = 1_000
    has_interval: bool = False
    """Whether the interval was asked for: then `--once` waits it out, for rates."""
    sort: str = "concern"
    search: str = ""
    is_once: bool = False
    document: Callable[[ObserveResponse], None] | None = None
    """With `--once`: takes the answer instead of the text."""
    record: str = ""
    replay: str = ""
