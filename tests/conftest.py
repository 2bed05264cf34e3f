"""Fixtures of every suite: a clock that stands still, an engine on it, a handle of each kind.

A test that asks for `handle` runs once for each row of `tests/conformance/handles.py`'s KINDS. One
that moves time is marked `needs_clock`, and runs only where the clock is ours. Passes run when
`sweep` is called, never by themselves.
"""

from __future__ import annotations

import itertools
import os
import re
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.engine.engine import Engine
from mqlite_actor.sdk.embedded import Embedded
from mqlite_actor.sdk.handle import Handle
from tests.conformance.broker import Broker, running_broker
from tests.conformance.handles import KINDS, HandleKind, OverLink, Surroundings, Sweep, opened
from tests.conformance.remote_slice import runs_remotely
from tests.hrana.tursodb import Tursodb, running_tursodb
from tests.places import memory
from tests.warm.process import warm

NEEDS_CLOCK: Final = "needs_clock: the test moves time or runs passes, so its clock must be ours"

COLD: Final = "cold: programs of the test begin with the interpreter's own start (tests/warm)"

SLOWEST_FILES: Final = 15
"""As many as a run shows at its end."""

_numbers = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", NEEDS_CLOCK)
    config.addinivalue_line("markers", COLD)
    # Hundreds of tests start programs of ours; each would compile every module of its own.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # Where files of tests are, unless whoever runs them says where.
    if (place := memory()) is not None:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(place))
    # Programs of the tests get signals as a terminal's shell leaves them: whoever starts this in
    # the background, or under nohup, hands down that they are ignored.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def pytest_runtest_setup(item: pytest.Item) -> None:
    warm.is_on = warm.is_possible and item.get_closest_marker("cold") is None


def pytest_unconfigure() -> None:
    warm.end()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Where the time of a run went, file by file: the suite has ten minutes (ruling R21)."""
    seconds: dict[str, float] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                name = report.location[0]
                seconds[name] = seconds.get(name, 0.0) + report.duration
    if len(seconds) < 10 * SLOWEST_FILES:  # whoever runs a part knows which
        return
    terminalreporter.section(f"slowest {SLOWEST_FILES} files, in seconds of one worker")
    for took, name in sorted(((took, name) for name, took in seconds.items()), reverse=True)[
        :SLOWEST_FILES
    ]:
        terminalreporter.write_line(f"{took:7.1f} {name}")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "handle_kind" not in metafunc.fixturenames:
        return
    needs_clock = metafunc.definition.get_closest_marker("needs_clock") is not None
    is_far = runs_remotely(metafunc.definition.originalname)
    kinds = [
        kind
        for kind in KINDS
        if (kind.drives_clock or not needs_clock) and (is_far or not kind.is_remote)
    ]
    metafunc.parametrize("handle_kind", kinds, ids=[kind.name for kind in kinds], indirect=True)


@pytest.fixture
def clock() -> ManualClock:
    """The engine's clock; only the test moves it."""
    return ManualClock()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Where this test's store is; the file does not exist yet."""
    return tmp_path / "mq.db"


@pytest.fixture
async def engine(store: Path, clock: ManualClock) -> AsyncIterator[Engine]:
    """An engine on `store` without background work; audited when the test is over."""
    async with opened(store, clock) as engine:
        yield engine


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker process for all tests of this worker."""
    store = tmp_path_factory.mktemp("broker") / "mq.db"
    with running_broker(f"file:{store}", MQLITE_WORKERS="0") as broker:
        yield broker


@pytest.fixture(scope="session")
def broker_of_one_worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The same, its doors in one process of their own."""
    store = tmp_path_factory.mktemp("broker") / "mq.db"
    with running_broker(f"file:{store}", MQLITE_WORKERS="1") as broker:
        yield broker


@pytest.fixture(scope="session")
def broker_of_two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The same, its doors in two."""
    store = tmp_path_factory.mktemp("broker") / "mq.db"
    with running_broker(f"file:{store}", MQLITE_WORKERS="2") as broker:
        yield broker


@pytest.fixture(scope="session")
def broker_without_lane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The same, with every request through hypercorn."""
    store = tmp_path_factory.mktemp("broker") / "mq.db"
    with running_broker(f"file:{store}", MQLITE_WORKERS="0", MQLITE_LANE="off") as broker:
        yield broker


@pytest.fixture
def tursodb(tmp_path: Path) -> Iterator[Tursodb]:
    """The real server of a remote store, on a database of this test's own."""
    with running_tursodb(tmp_path) as server:
        yield server


@pytest.fixture
def handle_kind(request: pytest.FixtureRequest) -> HandleKind:
    """The row of KINDS that this run of the test is for."""
    kind: HandleKind = request.param
    return kind


@pytest.fixture
def surroundings(
    request: pytest.FixtureRequest, handle_kind: HandleKind, store: Path, clock: ManualClock
) -> Surroundings:
    """What the handle is opened on; the broker starts with the first test that needs it."""
    broker = request.getfixturevalue(handle_kind.broker) if handle_kind.broker else None
    return Surroundings(store=store, clock=clock, broker=broker)


@pytest.fixture
async def handle(handle_kind: HandleKind, surroundings: Surroundings) -> AsyncIterator[Handle]:
    """A handle of each kind in turn."""
    async with handle_kind.open(surroundings) as handle:
        yield handle


@pytest.fixture
def sweep(handle: Handle) -> Sweep:
    """Runs every pass once, on the clock of the test."""
    assert isinstance(handle, Embedded | OverLink)
    return handle.engine.run_maintenance_once


@pytest.fixture
def queue(request: pytest.FixtureRequest) -> str:
    """A queue name of this test's own; nothing is created."""
    name = re.sub(r"\W+", "-", str(request.node.name)).strip("-")
    return f"{name}-{next(_numbers)}"
