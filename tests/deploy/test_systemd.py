"""The unit under a systemd that really runs it: its user, its walls, its restarts, its end."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.deploy.booted import UNIT, System, booted, is_allowed, lacking
from tests.deploy.prometheus_process import until
from tests.packages.installed import built

EXPOSURE: Final = 20
"""Tenths, as `systemd-analyze security` counts: what it calls OK ends at 44."""

STORE: Final = "/var/lib/private/mqlite"

STARTS_BY_DEFAULT: Final = 5
"""After these within ten seconds systemd would leave a service down."""


@pytest.fixture(autouse=True)
def tools() -> None:
    """Skip without systemd; continuous integration must have it."""
    if lacking():
        say = pytest.fail if os.environ.get("CI") else pytest.skip
        say(f"{lacking()} are not installed")


def test_the_service_has_its_walls_its_user_and_its_restarts(tmp_path: Path) -> None:
    """One test, because booting takes seconds."""
    trial = tmp_path / "trial"
    trial.mkdir()
    if not is_allowed(trial):
        pytest.skip("this machine gives nobody namespaces, control groups and an overlay")
    with booted(tmp_path, built(tmp_path / "built").wheel) as system:
        until(lambda: system.tried("systemctl", "is-active", "mqlite").returncode == 0, system.said)
        system.mqlite("wait-ready", "--within", "60s")
        it_runs_as_a_user_without_rights(system)
        system.mqlite("create-queue", "orders")
        system.mqlite("send", "orders", "two coffees")
        it_is_started_again_until_nothing_is_in_its_way_and_has_lost_nothing(system)
        it_stops_in_order_and_leaves_files_that_nobody_else_reads(system)
        it_is_left_alone_when_its_words_are_wrong(system)


def it_runs_as_a_user_without_rights(system: System) -> None:
    status = system.run("cat", f"/proc/{system.shown('MainPID')}/status")
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert int(fields["Uid"].split()[0]) >= 61184, "the first of the dynamic users"
    assert int(fields["CapBnd"], 16) == int(fields["CapEff"], 16) == 0
    assert (fields["NoNewPrivs"], fields["Seccomp"]) == ("1", "2")


def it_is_started_again_until_nothing_is_in_its_way_and_has_lost_nothing(system: System) -> None:
    system.dropped_in("RestartSec=100ms")
    next_one = ("flock", f"{STORE}/mq.db.lock", "sleep", "infinity")
    system.run("systemd-run", "--unit=other", "--property=Type=exec", *next_one)
    system.run("systemctl", "kill", "--signal=KILL", "mqlite")
    until(lambda: int(system.shown("NRestarts")) > STARTS_BY_DEFAULT, system.said)
    system.run("systemctl", "stop", "other")
    system.mqlite("wait-ready", "--within", "60s")
    assert "two coffees" in system.mqlite("peek", "orders")


def it_stops_in_order_and_leaves_files_that_nobody_else_reads(system: System) -> None:
    system.run("systemctl", "stop", "mqlite")
    assert (system.shown("Result"), system.shown("ExecMainStatus")) == ("success", "0")
    listed = system.run("find", STORE, "-perm", "/077")
    assert listed == ""
    assert f"{STORE}/mq.db\n" in system.run("find", STORE)
    assert f"{STORE}/diagnostics\n" in system.run("find", STORE)


def it_is_left_alone_when_its_words_are_wrong(system: System) -> None:
    words = "/opt/mqlite/bin/mqlite serve --no-such-flag"
    system.dropped_in(f"RestartSec=100ms\nExecStart=\nExecStart={words}")
    system.run("systemctl", "start", "mqlite")
    until(lambda: system.shown("ActiveState") == "failed", system.said)
    assert (system.shown("ExecMainStatus"), system.shown("NRestarts")) == ("2", "0")


def test_systemd_finds_little_that_the_service_could_do_to_the_machine(tmp_path: Path) -> None:
    shutil.copy(UNIT, tmp_path / UNIT.name)
    done = subprocess.run(
        [
            "systemd-analyze", "security", "--offline=yes", f"--threshold={EXPOSURE}", "--no-pager",
            str(tmp_path / UNIT.name),
        ],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-300:] + done.stderr
