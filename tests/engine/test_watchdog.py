"""A writer that is busy for long is told of, and an engine that is not fit for work says so."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import apsw
import pytest
import trio
import trio.testing

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import (
    Closed,
    Internal,
    InvalidArgument,
    StorageFailed,
    StorageFull,
    Unavailable,
)
from mqlite_actor.engine import commands
from mqlite_actor.engine.diagnostics import DiagnosticsLog, open_log
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine
from mqlite_actor.engine.outcomes import GroupResult
from mqlite_actor.sdk.embedded import Embedded
from mqlite_actor.semantics.operations import Operation
from mqlite_actor.storage.database import Transaction
from tests.conformance import asking
from tests.engine.gate import Gate, is_busy, settled, teach, until

LONG: Final = limits.WRITER_BUSY_SECONDS + limits.WRITER_WATCH_SECONDS
STUCK: Final = limits.WRITER_STUCK_SECONDS + 1


@pytest.fixture
def log(tmp_path: Path) -> DiagnosticsLog:
    return open_log(str(tmp_path / "diagnostics"))


@pytest.fixture
async def watched(store: Path, clock: ManualClock, log: DiagnosticsLog) -> AsyncIterator[Engine]:
    """An engine whose passes and watchdog run."""
    options = EngineOptions(clock=clock, diagnostics=log)
    async with open_engine(f"file:{store}", options) as engine:
        yield engine


@pytest.fixture
async def unswept(store: Path, clock: ManualClock, log: DiagnosticsLog) -> AsyncIterator[Engine]:
    """An engine whose watchdog runs, and no pass."""
    options = EngineOptions(clock=clock, diagnostics=log, background=False)
    async with open_engine(f"file:{store}", options) as engine, trio.open_nursery() as watching:
        watching.start_soon(engine._watchdog.run)
        yield engine
        watching.cancel_scope.cancel()


def kept(tmp_path: Path) -> list[tuple[str, str, bool]]:
    """Task, code and whether it is over, of each entry."""
    text = (tmp_path / "diagnostics" / "diagnostics.jsonl").read_text()
    entries = [json.loads(line) for line in text.splitlines()]
    return [(each["task"], each["code"], "recovered_at_ms" in each) for each in entries]


async def test_a_group_that_takes_long_is_told_of_while_it_lasts_and_counted_once(
    watched: Engine,
    nursery: trio.Nursery,
    mock_clock: trio.testing.MockClock,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    stop = await Gate(watched, nursery).stop()
    mock_clock.jump(LONG)
    await settled()
    assert "the writer has been busy for 1.2 s: 1 commands, first Hold" in caplog.text
    assert watched.statistics()["writer_stalls"] == 1
    assert watched.unready == ""
    mock_clock.jump(STUCK)
    await settled()
    assert watched.unready == "the writer has been busy for over 10 s"
    stop.release()
    await asking.make(watched, "q")
    assert watched.unready == ""
    assert [record.getMessage() for record in caplog.records][1:] == [
        f"the writer goes on after {LONG + STUCK:.1f} s"
    ]
    assert watched.statistics()["writer_stalls"] == 1
    assert kept(tmp_path) == [("writer", "stalled", False), ("writer", "stalled", True)]


async def test_a_long_group_is_told_of_even_where_nobody_watches(
    engine: Engine,
    nursery: trio.Nursery,
    mock_clock: trio.testing.MockClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    gate = Gate(engine, nursery)
    for number in (1, 2):
        stop = await gate.stop()
        mock_clock.jump(LONG)
        stop.release()
        await asking.make(engine, "q")
        assert len(caplog.records) == 2 * number
        assert engine.statistics()["writer_stalls"] == number, "each of them is told of"


async def test_a_long_transaction_of_the_program_is_told_of_too(
    watched: Engine, mock_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with Embedded(watched).tx() as tx:
        mock_clock.jump(LONG)
        await settled()
        assert "1 commands, first Hold" in caplog.text
        await tx.execute("SELECT 1")
    await asking.make(watched, "q")
    assert watched.statistics()["writer_stalls"] == 1


async def test_a_writer_that_is_quick_is_not_told_of(
    watched: Engine, mock_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    await asking.make(watched, "q")
    mock_clock.jump(STUCK)  # it does nothing meanwhile
    await settled()
    await asking.make(watched, "q")
    assert (watched.statistics()["writer_stalls"], caplog.records, watched.unready) == (0, [], "")


@pytest.mark.parametrize(
    ("fault", "kind", "code"),
    [(apsw.IOError, StorageFailed, "io"), (apsw.BusyError, Unavailable, "busy")],
)
async def test_storage_in_doubt_is_asked_again_until_it_answers(
    unswept: Engine,
    mock_clock: trio.testing.MockClock,
    tmp_path: Path,
    fault: type[apsw.Error],
    kind: type[Exception],
    code: str,
) -> None:
    """With no call that would find it mended: a broker out of service gets none."""
    is_broken = True
    ran: set[type] = set()

    def breakable(sound: Operation) -> Operation:
        def run(tx: Transaction, request: object, now_ms: int) -> object:
            ran.add(type(request))
            if is_broken:
                raise fault
            return sound(tx, request, now_ms)

        return run

    for command in list(unswept._table):
        teach(unswept, command, breakable(unswept._table[command]))
    mock_clock.jump(limits.SWEEP_SECONDS)
    await settled()
    assert commands.CountEntities not in ran, "nobody doubts it"
    with pytest.raises(kind):
        await asking.make(unswept, "q")
    assert unswept.unready == "the storage is in doubt"
    mock_clock.jump(limits.SWEEP_SECONDS)
    await until(lambda: commands.CountEntities in ran and not is_busy(unswept))
    await settled()
    assert unswept.unready == "the storage is in doubt"
    is_broken = False
    mock_clock.jump(limits.SWEEP_SECONDS)
    await until(lambda: not unswept.unready)
    await asking.make(unswept, "q")  # what was written proves that it is over
    storage = [each for each in kept(tmp_path) if each[0] == "storage"]
    assert storage == [("storage", code, False), ("storage", code, True)]


def ended(*errors: Exception | None) -> GroupResult:
    """A group whose storage calls ended so."""
    result = GroupResult(0)
    result.timings = [("transaction", error, 0.0, 1) for error in errors]
    return result


async def test_a_failure_is_told_of_when_it_begins_or_changes_and_when_nothing_is_left_of_it(
    watched: Engine, tmp_path: Path
) -> None:
    ran, store = watched._watchdog.ran, watched._store
    ran(ended(None, InvalidArgument("a refusal is no failure")))
    told: list[tuple[str, str, bool]] = []
    for errors, new in (
        ([StorageFailed("x"), None], [("storage", "io", False)]),
        ([StorageFailed("x")], []),
        ([StorageFailed("x"), StorageFull("y")], [("storage", "full", False)]),
    ):
        ran(ended(*errors))
        told += new
        assert kept(tmp_path) == told
    store.complaint = "y"
    ran(ended(None))
    store.complaint, store.healthy = "", False
    ran(ended(None))
    assert kept(tmp_path) == told, "who only looks succeeds, and proves nothing"
    store.healthy = True
    ran(ended(InvalidArgument("a refusal")))
    ran(ended(None))
    assert kept(tmp_path) == [*told, ("storage", "full", True)], "once"


async def test_a_full_disk_and_a_command_that_fails_leave_it_fit_for_work(
    engine: Engine,
) -> None:
    for fault, kind in ((apsw.FullError, StorageFull), (LookupError, Internal)):

        def fail(
            _tx: object, _request: object, _now_ms: int, fault: type[Exception] = fault
        ) -> object:
            raise fault

        teach(engine, wire.StatsRequest, fail)
        with pytest.raises(kind):
            await engine.call(wire.StatsRequest(queue="q"))
        assert engine.unready == ""


async def test_a_reaper_that_fails_again_and_again_makes_it_unfit_until_it_runs(
    engine: Engine,
) -> None:
    reap = engine._table[commands.Reap]

    def fail(_tx: object, _request: object, _now_ms: int) -> object:
        raise LookupError

    teach(engine, commands.Reap, fail)
    for _ in range(3):
        assert engine.unready == ""
        with pytest.raises(Internal):
            await engine.run_maintenance_once()
    assert engine.unready == "expired locks cannot be ended"
    teach(engine, commands.Reap, reap)
    await engine.run_maintenance_once()
    assert engine.unready == ""


async def test_an_engine_that_closes_is_not_fit_for_work(store: Path) -> None:
    async with open_engine(f"file:{store}") as engine:
        assert engine.unready == ""
        engine.stop_waiting()
        assert engine.unready == "it is closing"
    assert engine.unready == "it is closing"
    with pytest.raises(Closed):
        await asking.make(engine, "q")
