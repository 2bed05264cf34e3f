"""Fixtures that only this suite needs: brokers that are dear to start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.broker import Broker, running_broker
from tests.hrana.server import running_hrana
from tests.hrana.sqld import running_sqld


@pytest.fixture(scope="session")
def sqld(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The real sqld, for all tests of this worker; no broker, but reached by its address too."""
    with running_sqld(tmp_path_factory.mktemp("sqld")) as server:
        yield Broker(server.url, "")


@pytest.fixture(scope="session")
def far_broker_of_two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker on a remote store, its doors in two processes; the store is the reference server,
    in this one."""
    with (
        running_hrana(tmp_path_factory.mktemp("far")) as server,
        running_broker(server.url, MQLITE_WORKERS="2") as broker,
    ):
        yield broker
