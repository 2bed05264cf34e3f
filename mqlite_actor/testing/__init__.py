"""A test kit for programs that use the queue: fixtures, assertions, a broker."""

from mqlite_actor.clock import ManualClock
from mqlite_actor.testing.assertions import assert_queue, assert_queue_async
from mqlite_actor.testing.broker import Broker, running_broker
from mqlite_actor.testing.inline import drain, drain_async

__all__ = [
    "Broker",
    "ManualClock",
    "assert_queue",
    "assert_queue_async",
    "drain",
    "drain_async",
    "running_broker",
]
