"""Every verb and pass leaves the same behind far away as it does in a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits, wire
from mqlite_actor.storage.hrana_opening import open_remote
from mqlite_actor.storage.sqlite import SqliteStore
from tests.conformance.audit import audit
from tests.conformance.remote_engines import read_remotely
from tests.hrana.sqld import running_sqld
from tests.remote.afar import afar
from tests.storage.plans import statements
from tests.storage.workload import everything
from tests.storage.writer import Writer, writing

FRAME = ("BEGIN IMMEDIATE", "COMMIT", "ROLLBACK")


def contents(writer: Writer) -> dict[str, tuple[wire.StatsResponse, list[wire.Message]]]:
    """Counts and messages of every queue."""
    found: dict[str, tuple[wire.StatsResponse, list[wire.Message]]] = {}
    for queue in writer.ask(wire.ListQueuesRequest()).queues:
        page = writer.ask(wire.PeekRequest(queue=queue.name, max=limits.PEEK_MAX)).messages
        found[queue.name] = writer.ask(wire.StatsRequest(queue=queue.name)), page
    return found


@pytest.fixture
def near(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Writer]:
    """A file on which everything was done that clears as much at once as a distant store does."""
    for module in ("mqlite_actor.semantics.receive", "tests.storage.workload"):
        monkeypatch.setattr(f"{module}.EXPIRED_ROUNDS_MAX", 1)
    with writing(tmp_path / "near.db", clock=ManualClock()) as near:
        near.create("q")
        everything(near)
        yield near


def test_the_reference_server_is_left_the_same_by_listed_statements(
    tmp_path: Path, near: Writer
) -> None:
    with afar(tmp_path) as place:
        place.server.forget()
        everything(place.writer)
        said = {text for each in place.server.requests for text in each.statements}
        assert contents(place.writer) == contents(near)
        owner = place.store._owner.step()[0]
        assert said - set(statements().values()) - {*FRAME, owner} == set()


def test_the_real_sqld_is_left_the_same(tmp_path: Path, near: Writer) -> None:
    with running_sqld(tmp_path) as server:
        store = open_remote(server.url)
        try:
            writer = Writer(cast("SqliteStore", store), ManualClock())
            writer.create("q")
            everything(writer)
            assert contents(writer) == contents(near)
        finally:
            store.close()
        assert list(audit(read_remotely(server.url))) == []
