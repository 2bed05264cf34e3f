"""The archive of dead letters, as docs/how-to/retention.md makes it: nothing is deleted that is not
in the file, whatever dies between two of its commands, and however long ago that was sent."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.engine.engine import EngineOptions
from tests.house.tree import ROOT
from tests.packages.newcomer import blocks, steps
from tests.sdk.loopback import engine_replies, loopback
from tests.services.cli_inline import Inline

PAGE: Final = "docs/how-to/retention.md"
DAY_MS: Final = 86_400_000
ARCHIVED: Final = ("two coffees", "no coffee")
LATE: Final = "sent long ago"


def commands() -> list[list[str]]:
    """The words of each command that makes the archive."""
    (block,) = (text for _, text in blocks(PAGE) if " export " in text)
    return [shlex.split(step.command) for step in steps(block)]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def mqlite(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    clock: ManualClock,
) -> Iterator[Inline]:
    """A queue with two dead letters and a message under a lease, all of them old."""
    with (
        engine_replies(options=EngineOptions(clock=clock)) as answer,
        loopback(answer) as server,
    ):
        mqlite = Inline(tmp_path, monkeypatch, capfd, {"MQLITE_ENDPOINT": server.url})
        mqlite.ok("create-queue", "orders", "--lock", "30d")
        for body in (*ARCHIVED, LATE):
            mqlite.ok("send", "orders", body)
        for _ in ARCHIVED:
            die(mqlite, *held(mqlite))
        yield mqlite


def held(mqlite: Inline) -> tuple[str, str]:
    """Number and token of a message that is received."""
    (found,) = mqlite.run("receive", "orders", "--no-ack", "--output", "json", check=0).json
    return str(found["seq_number"]), found["lock_token"]


def die(mqlite: Inline, seq: str, token: str) -> None:
    mqlite.ok("reject", "orders", seq, token, "--reason", "no such shelf")


def bodies(lines: str) -> list[str]:
    return sorted(msgspec.json.decode(line, type=Line).body.decode() for line in lines.splitlines())


class Line(msgspec.Struct):
    """What is asked of a line that was exported."""

    body: bytes


@pytest.mark.parametrize("moment", range(len(commands())))
def test_what_dies_meanwhile_is_in_the_file_or_in_a_queue(
    mqlite: Inline, clock: ManualClock, moment: int
) -> None:
    late = held(mqlite)
    clock.advance(4 * DAY_MS)
    file, purged = "", False
    for number, (program, *words) in enumerate(commands()):
        if number == moment:
            die(mqlite, *late)
        assert program == "mqlite"
        if ">" in words:
            file += mqlite.ok(*words[: words.index(">")])
        elif words[0].startswith("purge"):
            done = mqlite.run(*words)
            purged = done.code == 0
        else:
            mqlite.ok(*words)
    left = mqlite.ok("export", "orders") + mqlite.ok("export", "archive")
    gone = {*ARCHIVED, LATE} - {*bodies(left)}
    assert gone <= {*bodies(file)}
    assert purged is (moment > 1)  # one letter more than the page has is not deleted
    assert gone == ({*ARCHIVED} if purged else set())


def test_an_archive_that_has_grown_since_it_was_exported_is_not_purged(mqlite: Inline) -> None:
    create, move, export, purge = ([*words[1:]] for words in commands())
    for words in (create, move, export[: export.index(">")]):
        mqlite.ok(*words)
    die(mqlite, *held(mqlite))
    mqlite.ok(*move)
    assert "nothing was deleted" in mqlite.run(*purge, check=1).err
    assert bodies(mqlite.ok("export", "archive")) == sorted([*ARCHIVED, LATE])


def test_a_reason_is_kept_as_the_page_says(mqlite: Inline) -> None:
    (line,) = (part for part in (ROOT / PAGE).read_text("utf-8").split("`") if "--set" in part)
    mqlite.ok("create-queue", "archive")
    mqlite.ok(*shlex.split(line.replace("CommandFailed", "'no such shelf'"))[1:])
    assert mqlite.ok("export", "archive").count('"died-of":"no such shelf"') == len(ARCHIVED)
