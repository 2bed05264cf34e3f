"""What the program's own logging handlers raise ends nothing that has a line to say."""

from __future__ import annotations

import io
import logging
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import mqlite_actor as mq
from mqlite_actor.logs import logger

ROOT = Path(__file__).resolve().parents[2]


class Down(logging.Handler):
    """Its collector cannot be reached."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.asked += 1
        raise OSError(f"nobody there for {record.name}")


@pytest.fixture
def down() -> Iterator[Down]:
    handler, root = Down(), logging.getLogger("mqlite")
    root.addHandler(handler)
    yield handler
    root.removeHandler(handler)


def test_a_line_harms_nobody_and_its_failure_is_shown(
    down: Down, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    logger("mqlite.engine").warning("%d of %s", 1, "all", extra={"fields": 5})
    assert down.asked == 1
    assert "OSError: nobody there for mqlite.engine" in capsys.readouterr().err
    logging.getLogger("mqlite").removeHandler(down)
    logger("mqlite.engine").error("heard")
    record = caplog.records[-1]
    assert (record.getMessage(), record.filename) == ("heard", Path(__file__).name)


def test_a_line_harms_nobody_where_stderr_is_closed_too(
    down: Down, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    logger("mqlite.engine").warning("nobody hears it")
    assert down.asked == 1


def test_a_receiver_goes_on_although_nobody_hears_of_its_failures(down: Down) -> None:
    with mq.open_embedded_sync(":memory:") as q:
        q.create_queue("q")
        q.send_one("q", "a")
        receiver = q.receiver("q")

        def handle(message: mq.SyncHeldMessage) -> None:
            if message.delivery_count == 1:
                raise KeyError
            receiver.stop()

        receiver.run(handle)
        assert down.asked
        assert q.stats("q").total == 0


def test_no_part_of_the_program_has_another_logger() -> None:
    own = re.compile(r"logging\.getLogger\(\"mqlite\.")
    parts = [*(ROOT / "mqlite_actor").rglob("*.py"), *(ROOT / "services").rglob("*.py")]
    assert [path.name for path in parts if own.search(path.read_text(encoding="utf-8"))] == []
