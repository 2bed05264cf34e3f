"""`mqlite top` as people run it: a real broker, a real terminal, real signals (faults B81, B82)."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mqlite_actor import SyncHandle, connect_sync
from mqlite_actor.contract.observe import ObserveRequest
from mqlite_monitor.record import Replay
from tests.services import tmux_pane
from tests.services.broker_process import TOKEN, BrokerProcess, started
from tests.services.cli_process import BOUND_SECONDS, Shell, clean_environ
from tests.services.tmux_pane import PROMPT, Pane

HOSTILE = "[/x] \x1b[2J\x1b]52;c;aGk=\x07 \u202e [b"
MONITOR_TOKEN = "monitor-token"
TOP = f"{sys.executable} -m mqlite_cli top"


@contextmanager
def pane_at(url: str, folder: Path, *, token: str = TOKEN, **environ: str) -> Iterator[Pane]:
    """A terminal whose environment names the broker."""
    named = {"MQLITE_ENDPOINT": url, "MQLITE_TOKEN": token, **environ}
    with tmux_pane.opened(folder, width=110, height=30, **named) as pane:
        yield pane


@contextmanager
def broker_of(folder: Path, **environ: str) -> Iterator[BrokerProcess]:
    with started(folder, MQLITE_MONITOR_TOKENS=MONITOR_TOKEN, **environ) as broker:
        yield broker


def load(handle: SyncHandle) -> None:
    """A queue that nobody reads, and one with a dead letter whose texts are hostile."""
    handle.create_queue("audit")
    handle.create_queue("poison")
    handle.send("audit", [b"x"] * 20)
    handle.send("poison", [HOSTILE.encode()])
    (message,) = handle.receive("poison")
    message.reject(HOSTILE, HOSTILE)


def test_the_whole_program_in_a_terminal(tmp_path: Path) -> None:
    with (
        broker_of(tmp_path) as broker,
        pane_at(broker.url, tmp_path) as pane,
        connect_sync(broker.url, token=TOKEN) as handle,
    ):
        load(handle)
        before = pane.modes()
        pane.type(f"{TOP} --interval 250ms --record rec.jsonl; echo code=$?")
        pane.wait_for("audit", "poison", "recording")
        handle.send("audit", [b"y"] * 50)
        pane.wait_for("▲ nobody receives")
        pane.press("/", "p", "o", "i", "s", "Enter")
        pane.wait_for("poison", absent="audit")
        pane.press("Enter")
        shown = pane.wait_for("#21 1x", "[/x] \\x1b[2J\\x1b]52;c;aGk=\\x07 \\u202e [b")
        assert "has 1 dead letter" in shown
        pane.press("c")
        pane.wait_for("AdminService/Observe", "QueueService/Peek")
        pane.press("m")
        pane.wait_for("retention", "diagnostic log")
        pane.press("?")
        pane.wait_for("quit (also Ctrl-C)")
        pane.press("Escape")
        pane.wait_for("retention", absent="quit (also")
        pane.press("1", "p")
        pane.wait_for("PAUSED")
        pane.press("q")
        pane.wait_for(f"code=0\n{PROMPT}")
        assert pane.modes() == before
        asked = [
            each.count
            for each in handle.call(ObserveRequest()).http.requests
            if (each.rpc, each.code) == ("AdminService/Observe", "ok")
        ]
    replay = Replay(str(tmp_path / "rec.jsonl"))
    # The call that counts the calls is not among them.
    assert asked == [len(replay)], "one request a tick"
    replay.close()


def test_a_small_screen_a_resize_and_a_stop_leave_the_terminal_sane(tmp_path: Path) -> None:
    with broker_of(tmp_path) as broker, pane_at(broker.url, tmp_path, NO_COLOR="1") as pane:
        with connect_sync(broker.url, token=TOKEN) as handle:
            load(handle)
        before = pane.modes()
        pane.type(TOP)
        pane.wait_for("memory", "poison")
        pane.resize(40, 10)
        assert len(pane.wait_for("poison", "q quit", absent="memory").splitlines()) == 10
        pane.resize(1, 1)
        pane.resize(110, 30)
        pane.wait_for("memory", "poison")
        colour = re.compile(r"\x1b\[[0-9;]*3[0-8]")  # and 39 is none
        assert not colour.search(pane.tmux("capture-pane", "-p", "-e"))
        pane.press("C-z")
        pane.wait_for(PROMPT, absent="memory")
        assert pane.modes() == before
        pane.type("fg")
        pane.wait_for("memory", "poison")
        top = pane.foreground("mqlite_cli top")
        pane.type("c")
        pane.wait_for("p50/p95/p99")
        signal.pidfd_send_signal(_pidfd(top), signal.SIGTERM)
        pane.wait_for(PROMPT, absent="memory")
        assert pane.modes() == before
        pane.type("echo code=$?")
        pane.wait_for("code=143")


def _pidfd(process: int) -> int:
    return os.pidfd_open(process)


def test_a_broker_that_restarts_is_found_again(tmp_path: Path) -> None:
    with broker_of(tmp_path) as first:
        port = first.port
        with connect_sync(first.url, token=TOKEN) as handle:
            load(handle)
        with pane_at(first.url, tmp_path) as pane:
            pane.type(f"{TOP} --interval 250ms")
            pane.wait_for("poison")
            first.stop()
            pane.wait_for("STALE", "poison", "cannot connect")
            with broker_of(tmp_path, MQLITE_ADDR=f"127.0.0.1:{port}"):
                pane.wait_for("poison", absent="STALE")
                pane.press("C-c")
                pane.wait_for(PROMPT, absent="poison")
            pane.type(TOP)
            pane.wait_for("STALE", "asking")
            pane.press("q")
            pane.wait_for(PROMPT, absent="STALE")


def test_a_monitor_token_sees_the_numbers_and_which_right_it_lacks(tmp_path: Path) -> None:
    with broker_of(tmp_path) as broker:
        with connect_sync(broker.url, token=TOKEN) as handle:
            load(handle)
        with pane_at(broker.url, tmp_path, token=MONITOR_TOKEN) as pane:
            pane.type(f"{TOP} --interval 250ms --sort name")
            pane.wait_for("poison", "access monitor")
            pane.press("End", "Enter")
            pane.wait_for("dead 1", "– needs a credential with the right listen")
            pane.press("2")
            pane.wait_for("permission_denied 1")
            pane.press("q")
            pane.wait_for(PROMPT, absent="permission_denied")


def test_once_prints_a_page_for_scripts(tmp_path: Path) -> None:
    with broker_of(tmp_path) as broker:
        with connect_sync(broker.url, token=TOKEN) as handle:
            load(handle)
        shell = Shell(tmp_path, MQLITE_ENDPOINT=broker.url, MQLITE_TOKEN=TOKEN)
        page = shell.run("top", "--once", check=0).text
        assert "\x1b" not in page
        rows = {line.split()[0]: line.split() for line in page.splitlines()[4:]}
        assert rows["audit"][1] == "20"
        assert "–" in rows["audit"], "one look gives no rates"
        rates = shell.run("top", "--once", "--interval", "250ms", "--filter", "aud", check=0).text
        assert "poison" not in rates
        assert "–" not in rates.splitlines()[4]
        document = shell.run("top", "--once", "--output", "json", check=0).json
        assert [each["queue"] for each in document["queues"]] == ["audit", "poison"]
        looked = Shell(tmp_path).run("top", "--once", "--db", "mq.db", check=0).text
        assert "up –" in looked
        assert "in –/s" in looked


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--db", "mq.db"], "mq.db does not exist"),
        (["--db", "x", "--endpoint", "http://127.0.0.1:1"], "two places"),
        (["--db", ":memory:"], "a file that is in use"),
        (["--db", "libsql://h?authToken=secret"], "in use; libsql://h?authToken=*** is neither"),
        (["--endpoint", "http://127.0.0.1:1", "--once"], "cannot connect"),
        (["--output", "json", "--endpoint", "http://127.0.0.1:1"], "goes with --once"),
        (["--interval", "1ms"], "between 250ms and 1m"),
        (["--sort", "colour"], "one of concern, name"),
        (["--replay", "nothing"], "No such file"),
        (["--record", "x", "--once"], "neither"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(
    tmp_path: Path, words: list[str], error: str
) -> None:
    done = Shell(tmp_path).run("top", *words, check=1)
    assert len(done.errors) == 1
    assert error in done.errors[0]
    assert list(tmp_path.iterdir()) == []


def test_a_link_and_a_file_are_looked_at_and_found_again(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as short, broker_of(tmp_path) as elsewhere:
        link = str(Path(short) / "link")
        with pane_at(elsewhere.url, tmp_path) as pane:
            (tmp_path / "b").mkdir()
            with started(tmp_path / "b", "--link-socket", link) as first:
                with connect_sync(first.url, token=TOKEN) as handle:
                    load(handle)
                done = Shell(tmp_path).run("top", "--once", "--endpoint", f"unix:{link}", check=0)
                assert "poison" in done.text
                pane.type(f"{TOP} --interval 250ms --endpoint unix:{link}")
                pane.wait_for("poison")
                first.stop()
                pane.wait_for("STALE", "poison")
            with started(tmp_path / "b", "--link-socket", link) as second:
                pane.wait_for("poison", absent="STALE")
                pane.press("q")
                pane.wait_for(PROMPT, absent="poison")
                pane.type(f"{TOP} --interval 250ms --db b/mq.db")
                pane.wait_for("poison")
                second.stop()
                pane.wait_for("the store cannot be read", "queues –", absent="poison")
            with started(tmp_path / "b", "--link-socket", link):
                pane.wait_for("poison", absent="cannot be read")
                pane.press("q")
                pane.wait_for(PROMPT, absent="poison")


def test_a_missing_extra_is_answered_with_the_pip_line(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['rich'] = None; sys.argv = ['mqlite', 'top'];"
        "from mqlite_cli.main import run; sys.exit(run())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path,
        env=clean_environ({}), timeout=BOUND_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "pip install 'mqlite-actor[monitor]'" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_without_a_terminal_a_replay_is_printed_to_its_end(tmp_path: Path) -> None:
    with broker_of(tmp_path) as broker, pane_at(broker.url, tmp_path) as pane:
        with connect_sync(broker.url, token=TOKEN) as handle:
            load(handle)
        pane.type(f"{TOP} --interval 250ms --record rec.jsonl")
        pane.wait_for("recording, 3 ticks")
        pane.press("q")
        pane.wait_for(PROMPT, absent="recording")
        pane.type(f"TERM=dumb {TOP} --interval 250ms")
        pane.wait_for("audit", "access manage")
        pane.press("C-c")
        pane.type("echo code=$?")
        pane.wait_for("code=130")
    pages = Shell(tmp_path).run("top", "--replay", "rec.jsonl", "--interval", "250ms", check=0)
    lines = (tmp_path / "rec.jsonl").read_bytes().splitlines()
    assert pages.text.count("mqlite ") == len(lines) - 1
    assert json.loads(lines[0])["source"] == broker.url
    last = Shell(tmp_path).run("top", "--replay", "rec.jsonl", "--once", check=0).text
    assert "poison" in last
