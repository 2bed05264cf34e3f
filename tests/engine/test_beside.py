"""Looks of a process that has no engine, at the file of the engine that serves it.

Here both are one process; tests/services/test_worker_looks.py has the two.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import QueueNotFound
from mqlite_actor.engine.beside import Beside, file_of
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.meters import StorageMeter
from mqlite_actor.engine.opening import open_engine
from mqlite_actor.storage.store import FILE
from tests.engine.gate import create

ASKED = wire.StatsRequest(queue="q")


@pytest.fixture
async def furnished(engine: Engine) -> Engine:
    await create(engine, "q")
    return engine


@pytest.fixture
def beside(furnished: Engine) -> Iterator[Beside]:
    beside = Beside(file_of(furnished), StorageMeter())
    yield beside
    beside.close()


async def test_a_file_that_was_replaced_is_left_to_the_writer(beside: Beside, store: Path) -> None:
    assert (await beside.look(ASKED)).active == 0
    with pytest.raises(QueueNotFound):
        await beside.look(wire.StatsRequest(queue="other"))
    log = f"{store}-wal"
    os.rename(log, f"{log}-aside")  # noqa: PTH104  # at once
    assert await beside.look(ASKED) is None
    os.rename(f"{log}-aside", log)  # noqa: PTH104  # the same
    assert (await beside.look(ASKED)).active == 0


async def test_what_does_more_than_look_is_left_to_the_writer(
    beside: Beside, furnished: Engine
) -> None:
    assert await beside.look(wire.CreateQueueRequest(name="other")) is None
    with pytest.raises(QueueNotFound):
        await furnished.call(wire.StatsRequest(queue="other"))


async def test_closed_it_answers_nothing_and_holds_nothing(beside: Beside) -> None:
    assert (await beside.look(ASKED)).active == 0
    beside.close()
    assert await beside.look(ASKED) is None


async def test_only_an_engine_on_a_file_of_this_machine_has_one_to_look_at(
    furnished: Engine, store: Path
) -> None:
    assert (furnished.backend, file_of(furnished)) == (FILE, f"file:{store}")
    async with open_engine(":memory:", EngineOptions(background=False)) as engine:
        assert file_of(engine) == ""
