"""At a terminal: tables, colour and progress; anywhere else the same bytes as ever (B81)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sdk.loopback import Loopback, loopback, reply
from tests.services.cli_process import Shell
from tests.services.on_terminal import at_terminal

pytestmark = pytest.mark.cold  # of each kind of program, some begin as they do for users

EVIL = "a\x1b]0;owned\x07\u202eb[red]c[/red]"
QUEUES = {
    "queues": [
        {"name": name, "kind": "queue", "lock_duration_ms": 90_000, "max_delivery_count": 10,
         "default_ttl_ms": 604_800_000, "dedup_window_ms": 0, "generation": "g1"}
        for name in (EVIL, "orders")
    ]
}  # fmt: skip
STATS = {
    "queue": "q", "active": 2, "locked": 0, "deferred": 0, "scheduled": 0, "dead_lettered": 1,
    "total": 3, "oldest_message_age_ms": 3_723_004,
}  # fmt: skip
_SET = "kind=queue        lock=90000ms maxdc=10 ttl=604800000ms dedup=0ms generation=g1"
PLAIN = f"""\
"a\\x1b]0;owned\\a\\u202eb[red]c[/red]" {_SET}
orders                   {_SET}
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Loopback]:
    def answer(request: object) -> bytes:
        is_list = "ListQueues" in getattr(request, "target", "")
        return reply(200, QUEUES if is_list else STATS)

    with loopback(answer) as server:
        yield server


@pytest.fixture
def shell(tmp_path: Path, server: Loopback) -> Shell:
    return Shell(tmp_path, MQLITE_ENDPOINT=server.url)


def test_what_is_no_terminal_gets_lines(shell: Shell) -> None:
    done = shell.with_(TERM="xterm", FORCE_COLOR="1").run("list", check=0)
    assert done.text == PLAIN
    assert done.err == ""


def test_a_list_at_a_terminal_is_a_table_in_colour(shell: Shell) -> None:
    code, shown = at_terminal(shell, "list", "--stats", columns=120)
    assert code == 0
    assert "\x1b[1morders" in shown
    assert "1h2m" in shown
    assert "(2 queues)" in shown
    rows = [line.split() for line in shown.splitlines()]
    assert any(row[:1] == ["name"] or "name" in "".join(row) for row in rows)


def test_a_terminal_obeys_no_name(shell: Shell) -> None:
    for environ in ({}, {"NO_COLOR": "1"}, {"TERM": "dumb"}):
        _, shown = at_terminal(shell.with_(**environ), "list", columns=160)
        assert "\x1b]0" not in shown
        assert "\u202e" not in shown
        assert "[red]c[/red]" in shown
        assert "\\x1b]0;owned\\a" in shown


def test_no_color_leaves_tables_and_takes_every_escape(shell: Shell) -> None:
    _, shown = at_terminal(shell.with_(NO_COLOR="1"), "list", columns=120)
    assert "\x1b" not in shown
    assert "max delivery count" in shown
    assert "90s" in shown
    _, shown = at_terminal(shell.with_(TERM="dumb"), "list")
    assert shown == PLAIN
    _, shown = at_terminal(shell, "list", "--output", "ndjson")
    assert shown.startswith('{"dedup_window_ms":0,')


def test_a_narrow_terminal_folds_and_loses_nothing(shell: Shell) -> None:
    _, shown = at_terminal(shell.with_(NO_COLOR="1"), "list", columns=60)
    assert max(map(len, shown.splitlines())) <= 60
    assert "…" not in shown


def test_a_system_without_rich_gets_lines(shell: Shell) -> None:
    program = """
import sys
sys.modules["rich"] = None
from mqlite_cli.main import main
main()
"""
    command = [sys.executable, "-c", program]
    assert at_terminal(shell, "list", command=command) == (0, PLAIN)


def test_results_and_errors_have_a_coloured_word(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    assert at_terminal(shell, "create-queue", "q") == (
        0, "\x1b[32mok:\x1b[0m action=create-queue queue=q\n",
    )  # fmt: skip
    code, shown = at_terminal(shell, "metrics", "none")
    assert code == 1
    assert shown.startswith("\x1b[1;31merror: \x1b[0mnot_found: ")
    _, shown = at_terminal(shell.with_(NO_COLOR="1"), "metrics", "none")
    assert shown.startswith("error: not_found: ")
    _, shown = at_terminal(shell, "check", "mq.db")
    assert "\x1b[32mok   \x1b[0m counts:" in shown


def test_progress_is_on_standard_error_and_gone_in_the_end(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.ok("create-queue", "q")
    lines = b"".join(b"%d\n" % number for number in range(1000))
    with (tmp_path / "out").open("wb") as out:
        code, shown = at_terminal(shell, "send", "q", "--lines", stdin=lines, stdout=out.fileno())
    assert code == 0
    assert "sending to q" in shown
    assert "\x1b[?25h" in shown  # the cursor is back
    assert (tmp_path / "out").read_text() == "ok: action=send queue=q sent=1000 unrouted=0\n"
