"""Whom the tests of the reference server talk to: it, and the real sqld that it imitates."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Final

import pytest

from tests.hrana.sqld import running_sqld

IMITATION: Final = "imitation"
REAL: Final = "real"

OURS: Final = {"server", "clock"}
"""What a test takes from the reference server and no other has."""

NOT_SQLD: Final = {
    "test_rows_that_nobody_wants_stay_away": "it sends them all the same",
    "test_a_protocol_error_costs_the_stream": "a request of unknown type leaves its stream alone",
    "test_a_cursor_streams_the_steps": "it adds an entry that the protocol does not have",
}
"""Where sqld does not keep to the protocol as it is written, and the reference server does."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for `peer` runs on both, unless it cannot."""
    if "peer" in metafunc.fixturenames:
        needs = set(inspect.signature(metafunc.function).parameters)
        is_both = not needs & OURS and metafunc.definition.originalname not in NOT_SQLD
        metafunc.parametrize("peer", [IMITATION, REAL] if is_both else [IMITATION], indirect=True)


@pytest.fixture(scope="session")
def sqld_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the real sqld, for all tests of this worker."""
    with running_sqld(tmp_path_factory.mktemp("sqld")) as server:
        yield server.url


@pytest.fixture
def peer(request: pytest.FixtureRequest) -> str:
    """The address of the module's `server`, or of the real one."""
    url: str = (
        request.getfixturevalue("sqld_url")
        if request.param == REAL
        else request.getfixturevalue("server").url
    )
    return url
