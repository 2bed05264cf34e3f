"""The fixed words of the wire: what a message can be, what a queue is, how it orders.

Used by `wire.py` and by whoever compares with these words; imports nothing.
"""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """What a message can be (spec/wire.md 3.3)."""

    ACTIVE = "active"
    LOCKED = "locked"
    DEFERRED = "deferred"
    SCHEDULED = "scheduled"
    DEAD_LETTERED = "dead_lettered"


class Kind(StrEnum):
    """What a queue row is."""

    QUEUE = "queue"
    SUBSCRIPTION = "subscription"


class Ordering(StrEnum):
    """When an earlier message holds back a later one (spec/wire.md 3.8)."""

    STANDARD = "standard"
    GROUP_FIFO = "group_fifo"
    STRICT_FIFO = "strict_fifo"
