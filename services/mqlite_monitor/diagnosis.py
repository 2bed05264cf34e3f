"""Why a queue falls behind, in a few words, from its counts and rates alone.

Called by `sampling` for every queue and tick; pure. The first row of the table that holds is what
is said; the rows stand in the order of how sure the sign is. It is a hint for a person, who can
look further (Enter); nothing acts on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from mqlite_actor.contract.observe import QueueDepth

GROWS_BY = 0.1
"""Messages a second: less than one in ten seconds is noise."""

LARGE_PART = 0.2
"""Of the deliveries: fewer that come back do not explain why a queue grows."""

OLD_MS = 60_000
"""A message that has waited a minute while nothing is delivered is worth a word."""


class Signs(msgspec.Struct, frozen=True):
    """What a queue did over the last ticks. `rates` None: its owner's counters are not known."""

    depth: QueueDepth
    rates: Mapping[str, float] | None
    growth: float
    waiters: int | None

    def rate(self, *events: str) -> float:
        """The sum of these events' rates."""
        return sum((self.rates or {}).get(event, 0.0) for event in events)

    @property
    def out_rate(self) -> float:
        """Messages that left because they were handled."""
        return self.rate("completed", "receive_deleted")

    def is_large(self, event: str) -> bool:
        """Whether a large part of what is delivered comes back in this way."""
        return self.rate(event) > LARGE_PART * self.rate("delivered")

    @property
    def is_growing(self) -> bool:
        """Whether more becomes active than is taken."""
        return self.growth > GROWS_BY and self.depth.active > 0

    @property
    def is_idle(self) -> bool:
        """Whether nobody seems to take anything: no lease, no waiter, no delivery."""
        return (
            self.rates is not None
            and not self.depth.locked
            and not self.waiters
            and not self.rate("delivered")
        )


SEVERE, BAD, POOR, FAIR, FINE = 4, 3, 2, 1, 0

CAUSES: tuple[tuple[int, str, Callable[[Signs], bool]], ...] = (
    (SEVERE, "rows of an unknown state", lambda s: s.depth.unexpected > 0),
    (SEVERE, "▲ nobody receives", lambda s: s.is_growing and s.is_idle),
    (BAD, "dead-lettering", lambda s: s.rate("dead_lettered") > 0),
    (BAD, "▲ leases run out", lambda s: s.is_growing and s.is_large("lock_expired")),
    (BAD, "▲ handlers give back", lambda s: s.is_growing and s.is_large("abandoned")),
    (BAD, "▲ nothing is completed",
     lambda s: s.is_growing and s.rates is not None and s.out_rate == 0),
    (POOR, "▲ more in than out", lambda s: s.is_growing),
    (POOR, "leases run out", lambda s: s.rate("lock_expired") > 0),
    (POOR, "handlers give back", lambda s: s.rate("abandoned") > 0),
    (POOR, "stuck: nobody receives",
     lambda s: s.is_idle and s.depth.active > 0 and s.depth.oldest_message_age_ms > OLD_MS),
    (POOR, "stuck: waiters get nothing",
     lambda s: bool(s.waiters) and s.depth.active > 0 and not s.rate("delivered")
     and s.depth.oldest_message_age_ms > OLD_MS),
    (FAIR, "catching up", lambda s: s.growth < -GROWS_BY and s.depth.active > 0),
)  # fmt: skip
"""(how bad, what is said, when); ▲ is a queue that grows."""


def diagnose(signs: Signs) -> tuple[int, str]:
    """How bad it is, and why; (0, "") when there is nothing to say."""
    for concern, text, holds in CAUSES:
        if holds(signs):
            return concern, text
    return FINE, ""
