"""A program that began warm is what it is when it begins cold, as far as the system can tell."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conformance.broker import BOUND_SECONDS
from tests.services.broker_process import BrokerProcess, started
from tests.services.cli_process import PYTHON, Shell, clean_environ
from tests.warm.process import Popen, preparing, started_by_others, warm

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="every start is cold here")

TOLD = ("PPid", "ShdPnd", "SigBlk", "SigIgn", "SigCgt", "NSpgid", "NSsid")
"""Lines of /proc/PID/status: parent, signals, group and session."""

STILL = 100
"""Looks, a moment apart, until two are the same."""


WORKER = re.compile(r"worker ready worker=0 pid=(\d+)")


def told(broker: BrokerProcess, pid: int) -> dict[str, object]:
    """What the system says of a process of a broker that is ready, and does no more than wait."""
    assert broker.url
    found = look(pid)
    for _ in range(STILL):
        broker.err.wait_for_more()
        found, before = look(pid), found
        if found == before:
            break
    return found


def look(pid: int) -> dict[str, object]:
    place = Path(f"/proc/{pid}")
    lines = dict(line.split(":\t", 1) for line in (place / "status").read_text().splitlines())
    targets = []
    for each in (place / "fd").iterdir():
        with suppress(FileNotFoundError):  # closed while we looked
            targets.append(str(each.readlink()))
    return {
        "status": {name: lines.get(name) for name in TOLD},
        "limits": (place / "limits").read_text(),
        "descriptors": sorted(each.partition(":")[0].rpartition("/")[2] for each in targets),
    }


def begun(folder: Path, *, cold: bool) -> dict[str, object]:
    folder.mkdir()
    before = warm.starts
    warm.is_on = not cold
    with started(folder) as broker:
        found = told(broker, broker.process.pid)
        assert warm.starts == before + (not cold)
        assert Path(f"/proc/{broker.process.pid}/cwd").readlink() == folder
        broker.stop()
    return {**found, "files": sorted(path.name for path in folder.iterdir())}


@pytest.mark.skipif(not warm.is_possible, reason="MQLITE_COLD: every start is cold")
def test_a_warm_broker_has_the_parent_signals_limits_and_descriptors_of_a_cold_one(
    tmp_path: Path,
) -> None:
    assert begun(tmp_path / "warm", cold=False) == begun(tmp_path / "cold", cold=True)


def begun_worker(folder: Path, *, cold: bool) -> dict[str, object]:
    folder.mkdir()
    warm.is_on = not cold
    with started(folder, "--workers", "1", MQLITE_DB="mq.db") as broker:
        pid = int(broker.err.first(WORKER)[1])
        found = told(broker, pid)
        place = Path(f"/proc/{pid}")
        assert place.joinpath("cwd").readlink() == folder
        is_warm = b"tests.warm" in place.joinpath("cmdline").read_bytes()
        assert is_warm == (not cold)
        status = found["status"]
        assert isinstance(status, dict)
        assert status.pop("PPid") == str(broker.process.pid)
        assert (status.pop("NSpgid"), status.pop("NSsid")) == (str(pid), str(os.getsid(0)))
        broker.stop()
        assert not place.exists()
    return found


@pytest.mark.skipif(not warm.is_possible, reason="MQLITE_COLD: every start is cold")
def test_the_worker_of_a_warm_broker_has_what_the_worker_of_a_cold_one_has(tmp_path: Path) -> None:
    found = begun_worker(tmp_path / "warm", cold=False)
    assert found == begun_worker(tmp_path / "cold", cold=True)


@pytest.mark.skipif(not warm.is_possible, reason="MQLITE_COLD: every start is cold")
def test_what_workers_begin_from_ends_when_their_broker_is_killed(tmp_path: Path) -> None:
    with started(tmp_path, "--workers", "1", MQLITE_DB="mq.db") as broker:
        assert broker.url
        pid = broker.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        assert len(children) == 2, "the worker, and what workers begin from"
        ends = [os.pidfd_open(int(child)) for child in children]
        broker.process.kill()
        for end in ends:
            assert select.select([end], [], [], BOUND_SECONDS)[0]
            os.close(end)


def test_words_that_are_no_text_arrive_and_what_is_refused_is_refused_the_same(
    tmp_path: Path,
) -> None:
    shell = Shell(tmp_path, MQLITE_DB="file:\udcff.db", COLUMNS="70")
    found = []
    for is_on in (warm.is_possible, False):
        warm.is_on = is_on
        answers = [
            shell.run(b"send", b"q\xff", b"-", stdin=b"x"),
            shell.run("nonsense"),
            shell.run("create-queue", "q", "--lock", "never"),
            shell.run("help"),
        ]
        found.append([(each.code, each.out, each.err) for each in answers])
    assert found[0] == found[1]


def test_what_others_start_first_of_all_begins_warm_too(tmp_path: Path) -> None:
    warm.end()
    with started_by_others():
        process = subprocess.Popen(
            [*PYTHON, "version"], cwd=tmp_path, env=clean_environ({}), stdout=subprocess.DEVNULL
        )
        assert process.wait(BOUND_SECONDS) == 0


def test_a_signal_is_its_exit_code_and_a_session_is_its_own(tmp_path: Path) -> None:
    for is_on in (warm.is_possible, False):
        warm.is_on = is_on
        process = Popen[bytes](
            [*PYTHON, "receive", "q", "--wait", "20s"],
            cwd=tmp_path,
            env=clean_environ({"MQLITE_DB": ":memory:"}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        with process:
            assert os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
            assert process.poll() is None
            with pytest.raises(subprocess.TimeoutExpired, match=r"after 0\.01 seconds"):
                process.wait(0.01)
            process.send_signal(signal.SIGKILL)
            assert process.wait(BOUND_SECONDS) == -signal.SIGKILL
            assert process.wait(0) == -signal.SIGKILL


def test_an_environment_that_speaks_to_the_interpreter_begins_cold(tmp_path: Path) -> None:
    before = warm.starts
    assert Shell(tmp_path, PYTHONDEVMODE="1").run("version").code == 0
    assert Shell(tmp_path, LC_ALL="C").run("version").code == 0
    assert warm.starts == before
    with pytest.raises(FileNotFoundError):
        Shell(tmp_path / "nowhere").run("version")


@pytest.mark.cold
def test_what_prepares_a_cold_test_may_begin_warm(tmp_path: Path) -> None:
    before = warm.starts
    with preparing():
        assert Shell(tmp_path).run("version").code == 0
    prepared = before + warm.is_possible
    assert warm.starts == prepared
    assert Shell(tmp_path).run("version").code == 0
    assert warm.starts == prepared
