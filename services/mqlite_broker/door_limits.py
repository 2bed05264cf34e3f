"""Every bound of the HTTP door, each with its reason.

Read by all door modules; a test passes a `DoorLimits` with shorter times, the broker the
defaults. Times are seconds on trio's clock, sizes are bytes. Deadlines are absolute: a byte that
arrives never moves one, so a slow sender gains nothing by dripping (faults.md B68).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mqlite_actor.contract.limits import KIB, MIB, REQUEST_BYTES_MAX

RECEIVE_BYTES: Final = 64 * KIB
"""One read from a socket; also one slice of a write, so that progress can be seen in between."""

BODY_FREE_BYTES: Final = 64 * KIB
"""Bodies up to here do not draw on the ingress budget: nearly every request, and all connections
together hold less of them than a few large uploads."""

HEAD_FREE_BYTES: Final = 16 * KIB
"""Header blocks up to here do not draw on the budget of heads: twice what other servers allow at
all."""

HEADS_BYTES: Final = 16 * MIB
"""Large header blocks being read, over all connections (design.md ruling R50): sixteen of the
largest. Without it every connection could hold one."""

ANSWERS_BYTES: Final = 4 * REQUEST_BYTES_MAX
"""Large answers that their clients have not taken yet, over all connections: as for bodies that
come in (design.md ruling R50), half the memory of a small container. Three of the largest pages
(PAGE_BYTES_MAX in base64) at once. Without it every connection could hold one, for as long as its
client takes a little now and then."""

ANSWERS_OWED_BYTES: Final = 4 * ANSWERS_BYTES
"""The same with answers that cannot be refused any more, such as messages that are removed or
belong to an attempt id: a dozen of the largest, in the memory of a usual server."""

ANSWER_FREE_BYTES: Final = 64 * KIB
"""Answers up to here do not draw on that budget: nearly all, and most fit the socket's buffer."""

ANSWER_SECONDS: Final = 2.0
"""No answer is cut before; a client that reads has taken the largest by then. When the door is full
and nobody is idle, whoever has not taken 64 KiB for so long makes room."""

ANSWER_BYTES_PER_SECOND: Final = 256 * KIB
"""A slower reader makes room when there is none: less than a mobile phone takes, and the largest
page is gone within three minutes."""

BODY_REST_BYTES: Final = 64 * KIB
"""A request answered before its body was read keeps its connection if no more than this is
missing; reading the rest is cheaper than a new connection."""

LINGER_BYTES: Final = 2 * REQUEST_BYTES_MAX
"""Thrown away at most after an early answer: whoever overshot the limit by less can finish
sending, and then reads the 413 instead of a reset."""

HEADER_FIELDS_MAX: Final = 1000
"""Far above any client or proxy. 1 MiB of empty fields would hold the loop for a quarter
second."""

PARSER_EVENTS: Final = 64
"""The parser yields to other tasks after so many events: chunks of one byte cost one event
each."""

SILENT_SECONDS: Final = 0.5
"""Without a whole header block for so long, or the rest of a request that is answered, a connection
is silent, and makes room for another when the door is full. A request follows its connect within
some round trips."""

CROWDED_SECONDS: Final = 0.1
"""How often a full door looks for one that has fallen silent."""

HANDBACK_SECONDS: Final = 2.0
"""Giving an undelivered batch back is one short transaction; with `grace_seconds` and this a stop
stays bounded even when the engine does not answer any more."""

POLL_SECONDS: Final = 100e-6
"""How long the lane stays awake for a lone client: what it takes to send the next request, twice.
Nobody else is held up for longer than by a small commit."""

POLL_AFTER: Final = 8
"""Requests in a row that came back soon, before it does."""

POLL_SOON_SECONDS: Final = 200e-6
"""From an answer to the next request of a client that did not pause, sleeping and waking
included."""

POLL_GAP_SECONDS: Final = 50e-6
"""Between two looks a microsecond or two pass; after a gap like this somebody else had the
processor, who needs it."""

POLL_HITS: Final = 16
"""After so many looks that found something, one in vain is an exception."""

POLL_PAUSE_SECONDS: Final = 2e-3
POLL_PAUSE_SECONDS_MAX: Final = 1.0
"""Without looks, after one in vain; doubled while they follow each other."""

BODY_LATE: Final = "the body did not arrive in the time that there is for it"
NO_ROOM: Final = "too many large requests are being read"
NO_ANSWER_ROOM: Final = "too many large answers wait for their clients; ask again, or for less"
"""What the 408 and the 503 of either door say."""

LIFESPAN_SECONDS: Final = 2.0
"""What the application's own after-serving functions get at the end."""


@dataclass(frozen=True, kw_only=True)
class DoorLimits:
    """The bounds that an operator or a test may set."""

    header_seconds: float = 10.0
    """From connect, or from the first byte of a later request, to the end of its header block;
    then the connection is closed without a word (spec/wire.md 5.1)."""

    body_seconds: float = 60.0
    """From the end of the header block to the last byte of the body; then 408 (spec/wire.md
    5.1)."""

    idle_seconds: float = 120.0
    """Between two requests of one connection (spec/wire.md 5.1)."""

    write_stall_seconds: float = 30.0
    """For 64 KiB of an answer; a client that takes less is not reading (faults.md B63). There is
    no bound on the whole answer: a slow reader of 32 MiB is slow, not gone."""

    linger_seconds: float = 5.0
    """For the rest of a request that was answered early; nginx's lingering_timeout is the
    same."""

    half_close_seconds: float = 1.0
    """For the answer to a GET whose sender has closed its own half already, as `nc -N` and socat
    do. Anything else is cancelled at once: it could take messages for a client that has left."""

    grace_seconds: float = 2.0
    """From the stop to the cut (design.md ruling R25)."""

    connections_max: int = 960
    """Below the usual soft limit of 1,024 descriptors, with room for the store's files."""

    header_bytes_max: int = 1 * MIB
    """Request line and fields; above it 431 (spec/wire.md 5.1)."""

    pipeline_bytes_max: int = 256 * KIB
    """Read ahead behind a running request, so that its client's leaving is seen. A client that
    pipelines more is cut: unread bytes would hide the end of the connection (faults.md B64)."""

    ingress_bytes_max: int = 4 * REQUEST_BYTES_MAX
    """Bodies being read or worked on, over all connections (design.md ruling R50): four of the
    largest requests at once, half the memory of a small container."""

    poll_seconds: float = 0.0
    """How long the lane may stay awake for a client that asks again at once (`lane_poll.py`); 0 in
    a process that has other work, or one processor."""

    def __post_init__(self) -> None:
        assert self.connections_max > 0
        assert self.ingress_bytes_max >= REQUEST_BYTES_MAX, "the largest legal request must fit"
