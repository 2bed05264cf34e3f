"""What the connections of one door share, and where one of them stands.

`Door` makes one `Doorway`; each `Connection` and its `DoorProtocol` hold it. `Phase` is the state
that these two share: the protocol sets it, the connection waits by it.
Rule: when the door is full, nobody keeps others out who sends or takes nothing; see `idle_until`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from mqlite_broker.door_limits import ANSWER_SECONDS, SILENT_SECONDS

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    import trio
    from hypercorn.config import Config
    from hypercorn.trio.worker_context import WorkerContext

    from mqlite_broker.door_app import DoorApp
    from mqlite_broker.door_inbox import Ingress
    from mqlite_broker.door_intake import HeadBudget
    from mqlite_broker.door_limits import DoorLimits


class Phase(Enum):
    """What a connection is waiting for."""

    HEAD = auto()
    """The rest of a request's header block; also the first one of a new connection."""
    IDLE = auto()
    """The first byte of another request."""
    BODY = auto()
    """The rest of a request whose handler runs already."""
    ANSWER = auto()
    """The handler, which has all it can get. No deadline: this is where long polls stand."""
    REST = auto()
    """The rest of a small request that is answered already."""
    OVER = auto()
    """Nothing: the connection is closed, or only read to its end."""


RUNNING: Final = frozenset({Phase.BODY, Phase.ANSWER})
"""Phases in which a request is being handled, or its body awaited."""


def idle_until(
    phase: Phase, since: float, stalled: float | None, limits: DoorLimits, *, now: float
) -> float | None:
    """When an open connection, in its phase since then, would be closed for idleness; None while
    there is work on it.

    Whoever does not end a request within SILENT_SECONDS, or what is left of an answered one, is as
    idle as one that asks nothing: strangers need no credential for either. All make room in the
    order in which they fell silent; behind them those who have left an answer untaken for
    ANSWER_SECONDS (`stalled`: since when), in theirs.
    """
    if phase in RUNNING:
        if stalled is None or now - stalled <= ANSWER_SECONDS:
            return None
        return stalled + limits.write_stall_seconds + limits.idle_seconds
    is_idle = phase is Phase.IDLE or now - since > SILENT_SECONDS
    return since + limits.idle_seconds if is_idle else None


@dataclass(frozen=True)
class Doorway:
    """What all connections of one door share."""

    app: DoorApp
    config: Config
    context: WorkerContext
    limits: DoorLimits
    ingress: Ingress
    stopping: trio.Event
    stirred: Callable[[], None]
    """Told whenever a connection becomes idle."""
    heads: HeadBudget
    """Room for large header blocks; `ingress` is for bodies."""
    tls: ssl.SSLContext | None = None
    """Keys of this port; None: HTTP in clear."""
    has_lane: bool = False
    """Whether plain calls are served in front of this door (design.md ruling R47)."""


class Guest(Protocol):
    """A connection, whichever door serves it."""

    @property
    def is_running(self) -> bool:
        """Whether a request is being handled, or its body awaited."""

    @property
    def idle_until(self) -> float | None:
        """When it would be closed for idleness; None while there is work on it, or it has ended."""

    def dismiss(self) -> None:
        """Close it now, unless a request is running or an answer is still being taken."""

    def cut(self) -> bool:
        """Close the socket under whatever runs; true if a request stays unanswered."""


Guests = dict[object, Guest]
"""All connections that are open, by what identifies them; oldest first."""


class Ends(NamedTuple):
    """The two addresses of a connection; None for sockets that have no host and port."""

    client: tuple[str, int] | None
    server: tuple[str, int] | None
