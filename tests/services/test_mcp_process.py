"""The MCP server as a process: its start, its refusals, its stream (fault B85)."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
from pathlib import Path

import anyio
import mcp_types as types
import pytest
import trio
from mcp.shared.message import SessionMessage

from mqlite_actor import open_embedded
from mqlite_actor.version import __version__
from mqlite_mcp import stdio
from mqlite_mcp.session import CALLS_MAX
from tests.conformance.broker import BOUND_SECONDS
from tests.services.cli_process import clean_environ
from tests.services.mcp_process import INITIALIZE, PROGRAM, endpoint_of, lines, result, silent
from tests.warm.process import Popen, run

MEMORY = ("--db", ":memory:")


def ran(folder: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """A run without input, to its end."""
    command = [*PROGRAM, *words]
    done = run(command, cwd=folder, env=clean_environ(environ), timeout=4 * BOUND_SECONDS)
    return subprocess.CompletedProcess(
        command, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


# -- start -----------------------------------------------------------------------------------------


@pytest.mark.promise("T81")
@pytest.mark.parametrize(
    ("endpoint", "mend"),
    [
        ("127.0.0.1:6754", "mqlite://127.0.0.1:6754"),
        ("ftp://host", "mqlite://"),
        ("file:./mq.db", "--db"),
        ("http://", "host"),
    ],
)
def test_an_address_that_is_none_ends_it_before_it_reads(
    tmp_path: Path, endpoint: str, mend: str
) -> None:
    with lines(tmp_path, MQLITE_ENDPOINT=endpoint) as it:
        assert it.process.wait(BOUND_SECONDS) == 1
        code, errors = it.end()
    assert code == 1
    assert errors.startswith("error: ")
    assert errors.count("\n") == 1
    assert mend in errors


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, "No such file"), (b" \n", "empty"), (b"\xff\xfe", "no text"), (b"a" * 70_000, "65536")],
)
def test_a_token_file_without_one_token_ends_it_before_it_reads(
    tmp_path: Path, content: bytes | None, reason: str
) -> None:
    if content is not None:
        (tmp_path / "token").write_bytes(content)
    with lines(tmp_path, MQLITE_TOKEN_FILE="token") as it:
        assert it.process.wait(BOUND_SECONDS) == 1
        code, errors = it.end()
    assert code == 1
    assert errors.startswith("error: MQLITE_TOKEN_FILE: ")
    assert errors.count("\n") == 1
    assert reason in errors


def test_two_credentials_are_refused_and_where_none_is_sent_none_is_read(tmp_path: Path) -> None:
    two = {"MQLITE_TOKEN": "a", "MQLITE_TOKEN_FILE": "none"}
    done = ran(tmp_path, **two)
    assert (done.returncode, done.stdout) == (1, "")
    assert "set one" in done.stderr
    assert ran(tmp_path, *MEMORY, **two).returncode == 0
    assert ran(tmp_path, MQLITE_ENDPOINT="unix:./none", **two).stderr.count("set one") == 0


@pytest.mark.promise("T81")
def test_the_end_of_stdin_ends_it_with_0_whether_or_not_there_is_a_broker(tmp_path: Path) -> None:
    done = ran(tmp_path, MQLITE_ENDPOINT="http://127.0.0.1:1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


async def test_a_file_that_is_owned_by_another_is_refused_in_a_line(tmp_path: Path) -> None:
    async with open_embedded(f"file:{tmp_path / 'mq.db'}"):
        done = await trio.to_thread.run_sync(ran, tmp_path, "--db", "mq.db")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


def test_version_and_help_are_printed(tmp_path: Path) -> None:
    assert ran(tmp_path, "--version").stdout == f"mqlite-mcp {__version__}\n"
    assert "--extended" in ran(tmp_path, "--help").stdout
    assert ran(tmp_path, "--ext").returncode == 2


def test_without_its_package_it_says_what_to_install() -> None:
    program = "import sys; sys.modules['mcp'] = sys.modules['mcp_types'] = None\n"
    program += "from mqlite_mcp.main import run; sys.argv = ['mqlite-mcp']; sys.exit(run())"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=clean_environ({}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        text=True,
        timeout=4 * BOUND_SECONDS,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: install mqlite-actor[mcp]")


# -- the stream ------------------------------------------------------------------------------------


@pytest.mark.promise("T82")
def test_ids_come_back_as_they_were_and_notifications_get_no_answer(tmp_path: Path) -> None:
    with lines(tmp_path, *MEMORY) as it:
        it.begin()
        it.say({"jsonrpc": "2.0", "method": "notifications/unheard_of"})
        for each in ("text", 7, 2**53 + 1, 0, ""):
            it.say({"jsonrpc": "2.0", "id": each, "method": "ping"})
            answer = it.answer()
            assert (answer["id"], answer["result"]) == (each, {})
        it.say({"jsonrpc": "2.0", "id": 8, "method": "unheard/of"})
        assert it.answer()["error"]["code"] == -32601
        it.say({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"arguments": {}}})
        assert it.answer()["error"]["code"] == -32602
        it.call(10, "unheard_of")
        assert result(it.answer())["isError"] is True
        assert it.end() == (0, "")


@pytest.mark.promise("T82")
def test_lines_that_are_no_messages_cost_only_themselves(tmp_path: Path) -> None:
    deep = b"[" * 100_000
    with lines(tmp_path, *MEMORY) as it:
        it.begin()
        it.say(b"", b"   ", b"no JSON", deep, b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]')
        it.say(b'{"jsonrpc":"2.0","id":null,"method":"ping"}', b"\xff\xfe", b'{"id":true}')
        it.say(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\r')
        assert it.answer() == {"jsonrpc": "2.0", "id": 1, "result": {}}
        it.say(b'{"jsonrpc":"2.0","id":2,"method":"ping","params":{"a":"\\ud800"}}')
        assert it.answer()["error"]["code"] == -32600
        code, errors = it.end()
    assert code == 0
    assert errors.count("it was skipped") >= 5


@pytest.mark.parametrize("depth", [300, 3_000, 50_000])
@pytest.mark.parametrize("request_id", [17, -1, 'a "b" {', '"id": 3,'])
def test_a_request_that_is_nested_too_deep_is_refused_by_its_id(
    depth: int, request_id: int | str
) -> None:
    deep = b'{"id": 5, "a": [' * depth + b"1" + b"]}" * depth
    params = b'"params": {"id": 4, "arguments": ' + deep + b', "text": "}}\\" \\"id\\": 6"}'
    named = b'"id" : ' + json.dumps(request_id).encode()
    for members in ([b'"method": "id"', params, named], [named, params, b'"jsonrpc": "2.0"']):
        found = stdio.refusal(b" {" + b", ".join(members) + b"}")
        assert found is not None
        assert (found.id, found.error.code) == (request_id, types.INVALID_REQUEST)
        assert depth < 1000 or "nested too deep" in found.error.message


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 3000 + b'{"id": 1}',
        b'{"a": ' * 3000 + b'"id": 1',
        b'{"id": null, "a": ' + b"[" * 3000,
        b'{"id": 1.5, "a": ' + b"[" * 3000,
        b'{"id": ' + b"9" * 5000 + b', "a": ' + b"[" * 3000,
        b'{"id": "\\x", "a": ' + b"[" * 3000,
        b'{"id": 1, "a": ' + b"[" * stdio.LOOK_BYTES_MAX,
        b'{"a": ' + b"[" * 3000 + b'"' + b'\\"' * 400_000,
    ],
)
def test_a_deep_line_without_an_id_that_can_be_told_gets_no_answer(line: bytes) -> None:
    assert stdio.refusal(line) is None


@pytest.mark.parametrize("which", ["in", "out"])
def test_a_stream_that_does_not_block_is_waited_for(tmp_path: Path, which: str) -> None:
    ours_in, its_in = socket.socketpair()
    ours_out, its_out = socket.socketpair()
    its_out.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)  # a few answers fit
    {"in": its_in, "out": its_out}[which].setblocking(False)
    process = Popen[bytes](
        [*PROGRAM, *MEMORY], cwd=tmp_path, env=clean_environ({}), stdin=its_in.fileno(),
        stdout=its_out.fileno(), stderr=subprocess.PIPE,
    )  # fmt: skip
    its_in.close()
    its_out.close()
    with process, ours_in, ours_out, ours_out.makefile("rb") as answers:
        ours_out.settimeout(BOUND_SECONDS)
        try:
            ours_in.sendall(json.dumps(INITIALIZE).encode() + b"\n")
            assert json.loads(answers.readline())["id"] == "init"
            pings = [{"jsonrpc": "2.0", "id": n, "method": "ping"} for n in range(50)]
            if which == "in":  # each is waited for
                for ping in pings:
                    ours_in.sendall(json.dumps(ping).encode() + b"\n")
                    assert json.loads(answers.readline())["id"] == ping["id"]
            else:
                ours_in.sendall(b"".join(json.dumps(ping).encode() + b"\n" for ping in pings))
                assert process.stderr is not None
                select.select([process.stderr], [], [], 0.5)  # until it fails, or is stuck
                found = {json.loads(answers.readline())["id"] for _ in pings}
                assert found == {ping["id"] for ping in pings}
            ours_in.shutdown(socket.SHUT_WR)
            assert process.wait(BOUND_SECONDS) == 0
        finally:
            process.kill()
        _, errors = process.communicate(timeout=BOUND_SECONDS)
    assert errors == b""


async def test_a_line_without_end_is_skipped_and_the_next_is_read(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stdio, "LINE_BYTES_MAX", 1000)
    received, inbox = anyio.create_memory_object_stream[SessionMessage | Exception](4)
    refused, _answers = anyio.create_memory_object_stream[SessionMessage](4)
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as out:
        out.write(b"x" * 5000 + b"\n" + b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n' + b"y" * 5000)
    with trio.fail_after(BOUND_SECONDS):
        async with received, refused, inbox, _answers:
            await stdio.Wire(reading, reading).read(received, refused)
            message = await inbox.receive()
            with pytest.raises(anyio.WouldBlock):
                inbox.receive_nowait()
    os.close(reading)
    assert isinstance(message, SessionMessage)
    assert isinstance(message.message, types.JSONRPCRequest)
    assert message.message.id == 1
    assert "longer than 1000 bytes" in capfd.readouterr().err


def test_an_agent_that_has_run_wild_is_refused_and_can_still_cancel(tmp_path: Path) -> None:
    with lines(tmp_path, *MEMORY) as it:
        it.begin()
        it.call("make", "create_queue", name="q")
        it.answer()
        for number in range(CALLS_MAX):
            it.call(number, "receive", queue="q", wait_time_ms=20_000)
        it.call("surplus", "stats", queue="q")
        answer = it.answer()
        assert answer["id"] == "surplus"
        assert result(answer)["structuredContent"]["code"] == "unavailable"
        name = "notifications/cancelled"
        it.say({"jsonrpc": "2.0", "method": name, "params": {"requestId": 0}})
        it.say({"jsonrpc": "2.0", "id": "sync", "method": "ping"})
        assert it.answer()["id"] == "sync"
        it.call("later", "send", queue="q", body="for one of them")
        seen = [it.answer()["id"], it.answer()["id"]]
        assert "later" in seen


def test_what_was_asked_just_before_the_end_of_stdin_is_answered(tmp_path: Path) -> None:
    with lines(tmp_path, *MEMORY) as it:
        it.begin()
        it.call(1, "list_queues")
        assert it.process.stdin is not None
        it.process.stdin.write(b'{"jsonrpc":"2.0","id":2,"method":"ping"}')
        it.process.stdin.close()
        it.process.stdin = None
        assert {it.answer()["id"], it.answer()["id"]} == {1, 2}
        assert it.process.wait(BOUND_SECONDS) == 0


def test_a_closed_standard_output_is_one_line(tmp_path: Path) -> None:
    program = ["/bin/sh", "-c", 'exec "$0" "$@" 1>&-', *PROGRAM, *MEMORY]
    done = subprocess.run(
        program, input=b"", capture_output=True, cwd=tmp_path, env=clean_environ({}), check=False
    )
    assert done.returncode == 1
    assert done.stderr == b"error: standard output is closed; the protocol needs both\n"


def test_without_standard_error_the_protocol_is_served(tmp_path: Path) -> None:
    program = ["/bin/sh", "-c", 'exec "$0" "$@" 2>&-', *PROGRAM, "--db", "q.db"]
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    spoken = b"nonsense\n" + json.dumps(ping).encode() + b"\n"
    done = subprocess.run(
        program, input=spoken, capture_output=True, cwd=tmp_path, env=clean_environ({}), check=False
    )
    assert done.returncode == 0
    assert json.loads(done.stdout)["id"] == 1
    assert b"skipped" not in (tmp_path / "q.db").read_bytes()


def test_stdout_holds_nothing_but_the_protocol_whatever_is_printed() -> None:
    program = (
        "import os, subprocess, sys, warnings\n"
        "from mqlite_mcp.stdio import guarded\n"
        "with guarded() as wire:\n"
        "    print('a banner', flush=True)\n"
        "    os.write(1, b'bytes')\n"
        "    subprocess.run([sys.executable, '-c', 'print(1)'])\n"
        "    assert sys.stdin.read() == ''\n"
        "print('afterwards')\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", program],
        env=clean_environ({}),
        input="kept for the protocol",
        capture_output=True,
        check=True,
        text=True,
        timeout=4 * BOUND_SECONDS,
    )
    assert done.stdout == "afterwards\n"
    assert "a banner" in done.stderr


def test_every_line_is_one_object_in_ascii_with_all_warnings_on(tmp_path: Path) -> None:
    body = "a\r\nb\u2028c\u2029d\x85\x0b\x0c ü 𝄞"
    with lines(tmp_path, *MEMORY, PYTHONDEVMODE="1", PYTHONWARNINGS="always") as it:
        it.begin()
        it.call(1, "create_queue", name="q")
        it.answer()
        it.call(2, "send", queue="q", body=body)
        it.answer()
        it.call(3, "receive", queue="q")
        (message,) = result(it.answer())["structuredContent"]["messages"]
        assert message["body_text"] == body
        code, errors = it.end()
    assert code == 0
    assert "Traceback" not in errors


@pytest.mark.promise("T83")
def test_arguments_that_do_not_fit_reach_no_broker(tmp_path: Path) -> None:
    wrong: list[tuple[str, dict[str, object]]] = [
        ("send", {"queue": "q"}),
        ("complete", {"queue": "q", "seq_number": "1", "lock_token": "x"}),
        ("stats", {"queue": None}),
        ("receive", {"queue": "q", "surplus": 1}),
        ("create_key", {"id": "short", "name": "n", "permissions": ["send"]}),
    ]
    with silent() as mute, lines(tmp_path, MQLITE_ENDPOINT=endpoint_of(mute)) as it:
        mute.setblocking(False)
        it.begin()
        for number, (tool, arguments) in enumerate(wrong):
            it.call(number, tool, **arguments)
            answer = result(it.answer())
            assert answer["isError"] is True
            assert answer["structuredContent"]["code"] == "invalid_argument"
        with pytest.raises(BlockingIOError):
            mute.accept()
        it.end()


@pytest.mark.promise("T5")
def test_the_server_says_the_version_of_the_package(tmp_path: Path) -> None:
    with lines(tmp_path, *MEMORY) as it:
        it.say(INITIALIZE)
        assert it.answer()["result"]["serverInfo"]["version"] == __version__
        assert it.end()[0] == 0
