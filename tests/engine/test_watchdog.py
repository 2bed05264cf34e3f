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
from mqlite_actor.contract.errors import Closed, Internal, StorageFailed, StorageFull, Unavailable
from mqlite_actor.engine import commands
from mqlite_actor.engine.diagnostics import DiagnosticsLog, open_log
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine
from mqlite_actor.sdk.embedded import Embedded
from mqlite_actor.semantics.operations import Operation
from mqlite_actor.storage.database import Transaction
from tests.conformance import asking
from tests.engine.gate import Gate, settled, teach, until

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
    stop = await Gate(engine, nursery).stop()
    mock_clock.jump(LONG)
    stop.release()
    await asking.make(engine, "q")
    assert len(caplog.records) == 2
    assert engine.statistics()["writer_stalls"] == 1


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
    watched: Engine,
    mock_clock: trio.testing.MockClock,
    tmp_path: Path,
    fault: type[apsw.Error],
    kind: type[Exception],
    code: str,
) -> None:
    """With no call that would find it mended: a broker out of service gets none."""
    is_broken = True

    def breakable(sound: Operation) -> Operation:
        def run(tx: Transaction, request: object, now_ms: int) -> object:
            if is_broken:
                raise fault
            return sound(tx, request, now_ms)

        return run

    for command in list(watched._table):
        teach(watched, command, breakable(watched._table[command]))
    with pytest.raises(kind):
        await asking.make(watched, "q")
    assert watched.unready == "the storage is in doubt"
    mock_clock.jump(limits.SWEEP_SECONDS)
    await settled()
    assert watched.unready == "the storage is in doubt"
    is_broken = False
    mock_clock.jump(limits.SWEEP_SECONDS)
    await until(lambda: not watched.unready)
    await asking.make(watched, "q")  # what was written proves that it is over
    storage = [each for each in kept(tmp_path) if each[0] == "storage"]
    assert storage == [("storage", code, False), ("storage", code, True)]


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
