"""Every verb and pass leaves the same behind as it does in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits, wire
from tests.remote.afar import Afar, afar
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


def test_every_verb_and_pass_leaves_the_same_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("mqlite_actor.semantics.receive", "tests.storage.workload"):
        monkeypatch.setattr(f"{module}.EXPIRED_ROUNDS_MAX", 1)  # as far as a distant one goes
    with afar(tmp_path) as place, writing(tmp_path / "near.db", clock=ManualClock()) as near:
        near.create("q")  # as the remote one has
        place.server.forget()
        everything(place.writer)
        said = {text for each in place.server.requests for text in each.statements}
        everything(near)
        assert contents(place.writer) == contents(near)
        assert said - set(statements().values()) - set(FRAME) - owners(place) == set()


def owners(place: Afar) -> set[str]:
    """What moves the row of the owner."""
    return {place.store._owner.step()[0]}
