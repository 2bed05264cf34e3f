"""Fixtures for pytest, loaded by itself where the package is installed.

They are plain fixtures: a test under pytest-trio, one that calls `asyncio.run`, and one without any
loop use the same. Each test has a queue store of its own in memory, on a clock that only the test
moves; the broker is one process for all tests of a run, so tests in it name their own queues.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from mqlite_actor.clock import ManualClock
    from mqlite_actor.sdk.blocking_embedded import SyncEmbedded
    from mqlite_actor.testing.broker import Broker


@pytest.fixture
def mq_clock() -> ManualClock:
    """The clock of `mq_queue`: it stands still until the test calls `advance(ms)`."""
    clock: ManualClock = import_module("mqlite_actor.clock").ManualClock()
    return clock


@pytest.fixture
def mq_queue(mq_clock: ManualClock) -> Iterator[SyncEmbedded]:
    """An engine in memory with a blocking handle, which works beside any loop.

    It runs no maintenance by itself: `mq_queue.run_maintenance()` does, on the test's clock.
    """
    module = import_module("mqlite_actor.sdk.blocking_embedded")
    with module.open_embedded_sync(":memory:", clock=mq_clock, background=False) as q:
        yield q


@pytest.fixture(scope="session")
def mq_broker() -> Iterator[Broker]:
    """A broker process on a free loopback port; `mq_broker.dsn` goes into `connect`."""
    module = import_module("mqlite_actor.testing.broker")
    with module.running_broker() as broker:
        yield broker
