"""The diagnostic log: private, bounded, without a secret, and never in anybody's way."""

from __future__ import annotations

import errno
import json
import os
import re
from pathlib import Path
from typing import Any

import apsw
import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract.errors import InvalidArgument, StorageFailed
from mqlite_actor.contract.wire import Message
from mqlite_actor.engine import commands, diagnostics
from mqlite_actor.engine.diagnostics import (
    BOOTS_SHOWN,
    DETAIL_BYTES,
    ENTRIES_PER_MINUTE,
    FILE_BYTES,
    NAME,
    Trouble,
    detail_of,
    earlier_boots,
    log_files,
    open_log,
)
from mqlite_actor.engine.engine import EngineOptions
from mqlite_actor.engine.opening import open_engine
from mqlite_actor.storage.failures import mapped
from tests.conformance import asking
from tests.conformance.handles import leaks
from tests.engine.gate import teach
from tests.engine.snapshots import observe

MINUTE = 60_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "private"


def lines(folder: Path, number: int = 0) -> list[Any]:
    """The entries of one file, decoded."""
    path = folder / (f"{NAME}.{number}" if number else NAME)
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def trouble(number: int, detail: str = "x") -> Trouble:
    """One a minute, so that none is left out."""
    return Trouble(at_ms=number * MINUTE, task="ttl", code="io", detail=detail)


def test_folder_and_files_are_private_whatever_the_umask(folder: Path) -> None:
    before = os.umask(0)
    try:
        open_log(str(folder)).report(trouble(1))
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / NAME).stat().st_mode & 0o777 == 0o600


def test_an_entry_is_one_line_of_the_contracts_keys(folder: Path) -> None:
    log = open_log(str(folder))
    log.report(trouble(1))
    log.report(Trouble(at_ms=5, task="ttl", code="io", recovered_at_ms=7))
    first, second = lines(folder)
    assert first == {
        "at_ms": MINUTE, "boot_id": log.boot_id, "task": "ttl", "code": "io", "detail": "x",
    }  # fmt: skip
    assert list(first) == ["at_ms", "boot_id", "task", "code", "detail"]
    assert second["recovered_at_ms"] == 7
    assert re.fullmatch("[0-9a-f]{16}", log.boot_id)


@pytest.mark.parametrize("text", ["x" * 1000, "é" * 500, "\U0001f600" * 100, "a\nb\x1b[2J"])
def test_a_text_is_short_and_on_one_line(folder: Path, text: str) -> None:
    open_log(str(folder)).report(trouble(1, text))
    (entry,) = lines(folder)
    assert text.startswith(entry["detail"])
    assert len(entry["detail"].encode()) <= DETAIL_BYTES
    assert (folder / NAME).read_bytes().count(b"\n") == 1


def test_four_files_of_a_mebibyte_are_kept_and_the_oldest_goes(folder: Path) -> None:
    log = open_log(str(folder))
    size = len(log.boot_id) + 300
    for number in range(6 * FILE_BYTES // size):
        log.report(trouble(number, "x" * DETAIL_BYTES))
    names = sorted(path.name for path in folder.iterdir())
    assert names == [NAME, f"{NAME}.1", f"{NAME}.2", f"{NAME}.3"]
    assert all(path.stat().st_size <= FILE_BYTES for path in folder.iterdir())
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in folder.iterdir())
    newest = [lines(folder, number)[-1]["at_ms"] for number in range(4)]
    assert newest == sorted(newest, reverse=True)
    assert lines(folder)[-1]["at_ms"] == number * MINUTE


def test_a_file_is_filled_to_its_bound_and_all_are_read_oldest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "in" / "private"
    open_log(str(folder)).report(trouble(10))
    monkeypatch.setattr(diagnostics, "FILE_BYTES", 2 * (folder / NAME).stat().st_size)
    (folder / NAME).unlink()
    boots = []
    for number in range(10, 17):
        log = open_log(str(folder))
        boots.append(log.boot_id)
        log.report(trouble(number))
    assert [len(lines(folder, number)) for number in range(4)] == [1, 2, 2, 2]
    assert leaks(folder) == []
    found = earlier_boots(str(folder))
    assert [each.boot_id for each in found] == boots
    assert not any(each.stopped for each in found)
    names = [path.name for path in log_files(str(folder))]
    assert names == [f"{NAME}.3", f"{NAME}.2", f"{NAME}.1", NAME]
    (folder / f"{NAME}.2").unlink()
    assert [path.name for path in log_files(str(folder))] == [f"{NAME}.3", f"{NAME}.1", NAME]


def test_a_flapping_state_cannot_flood_it(folder: Path) -> None:
    log = open_log(str(folder))
    for _ in range(10 * ENTRIES_PER_MINUTE):
        log.report(Trouble(at_ms=2 * MINUTE - 1, task="ttl", code="io"))
    log.report(trouble(2))
    assert len(lines(folder)) == ENTRIES_PER_MINUTE + 1, "the next minute begins anew"


def test_earlier_starts_are_summed_up_and_broken_lines_passed_by(folder: Path) -> None:
    boots = []
    for number in range(BOOTS_SHOWN + 2):
        log = open_log(str(folder))
        boots.append(log.boot_id)
        log.report(Trouble(at_ms=number, task="broker", code="started"))
        log.report(trouble(number + 1, "Why"))
        log.report(Trouble(at_ms=1, task="ttl", code="io", recovered_at_ms=99 * MINUTE))
        if number % 2:
            log.report(Trouble(at_ms=100 * MINUTE, task="broker", code="stopped"))
        with (folder / NAME).open("ab") as file:
            file.write(b'{"at_ms":1,"boot\n\xff\n[]\n')
    shown = open_log(str(folder)).shown()
    assert shown.state == "on"
    assert [each.boot_id for each in shown.earlier_boots] == boots[-BOOTS_SHOWN:]
    even, odd = shown.earlier_boots[:2]
    assert (even.stopped, even.last_at_ms, odd.stopped) == (False, 99 * MINUTE, True)
    assert (odd.failures, odd.last_task, odd.last_code, odd.last_detail) == (1, "ttl", "io", "Why")
    assert odd.last_at_ms == 100 * MINUTE


def test_a_folder_that_others_may_enter_or_that_is_none_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o750)
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidArgument, match="chmod 700"):
        open_log(str(tmp_path))
    with pytest.raises(InvalidArgument, match="cannot be used"):
        open_log(str(tmp_path / "file"))
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_a_link_in_the_folder_is_not_followed(folder: Path, tmp_path: Path) -> None:
    log = open_log(str(folder))
    (folder / NAME).symlink_to(tmp_path / "elsewhere")
    log.report(trouble(1))
    assert not (tmp_path / "elsewhere").exists()
    assert log.shown().state == "failing"


def test_a_full_disk_is_said_once_stops_nobody_and_heals(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = open_log(str(folder))

    def write(_descriptor: int, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", write)
        for number in range(5):
            log.report(trouble(number))
        assert log.shown().state == "failing"
    (record,) = caplog.records
    assert record.getMessage().endswith("cannot be written: No space left on device")
    log.report(trouble(9))
    assert (log.shown().state, len(lines(folder))) == ("on", 1)


def test_half_a_line_is_taken_back(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, write = open_log(str(folder)), os.write
    log.report(trouble(1))
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:10]))
        log.report(trouble(2))
    log.report(trouble(3))
    assert [each["at_ms"] for each in lines(folder)] == [MINUTE, 3 * MINUTE]


def test_a_start_on_a_full_disk_goes_on_without_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", make)
    log = open_log(str(folder))
    log.report(trouble(1))
    assert log.shown().state == "failing"


def test_an_errors_words_stay_out() -> None:
    assert detail_of(mapped(apsw.IOError("secret-path"))) == "StorageFailed from IOError"
    assert detail_of(StorageFailed("secret-queue")) == "StorageFailed"
    assert detail_of(LookupError("secret")) == "LookupError"


async def test_a_failing_pass_is_one_entry_and_its_recovery_another_and_nothing_leaks(
    folder: Path, store: Path, clock: ManualClock
) -> None:
    log = open_log(str(folder))
    options = EngineOptions(clock=clock, background=False, diagnostics=log)
    async with open_engine(f"file:{store}", options) as engine:
        await asking.make(engine, "secret-queue")
        message = Message(body=b"secret-body", message_id="secret-id", properties={"a": "secret"})
        await asking.send(engine, "secret-queue", message)
        expire = engine._table[commands.Expire]

        def fail(_tx: object, _request: object, _now_ms: int) -> object:
            raise LookupError("secret-queue")

        teach(engine, commands.Expire, fail)
        for _ in range(3):
            clock.advance(1000)
            with pytest.raises(Exception, match="unexpected"):
                await engine.run_maintenance_once()
        teach(engine, commands.Expire, expire)
        clock.advance(1000)
        await engine.run_maintenance_once()
        shown = (await observe(engine))["diagnostics"]
    found = [each for each in lines(folder) if each["task"] == "ttl"]
    assert [(each["code"], "recovered_at_ms" in each) for each in found] == [
        ("other", False),
        ("other", True),
    ]
    assert found[0]["detail"] == "Internal from LookupError"
    assert shown == {"state": "on", "boot_id": log.boot_id, "earlier_boots": []}
    assert "secret" not in (folder / NAME).read_text()


async def test_without_a_log_observe_says_that_it_is_off(store: Path) -> None:
    async with open_engine(f"file:{store}", EngineOptions(background=False)) as engine:
        assert (await observe(engine))["diagnostics"] == {
            "state": "off", "boot_id": "", "earlier_boots": [],
        }  # fmt: skip
