"""ping and wait-ready: the first question of every script (tools.md 8, row 21)."""

from __future__ import annotations

import socket
from pathlib import Path

from tests.sdk.loopback import loopback, refusal, reply
from tests.services.cli_process import Shell, serving

STATUS = {
    "version": "1", "backend": "sqlite", "remote": False, "location": "x", "schema_version": "1",
    "ping_ms": 0, "db_size_bytes": 1, "queues": 0, "subscriptions": 0, "uptime_ms": 1,
    "auth": False,
}  # fmt: skip


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def test_ping_says_how_long_calls_took(tmp_path: Path) -> None:
    with loopback(lambda _: reply(200, STATUS)) as server:
        shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url)
        found = shell.run("ping", "--count", "3", "--output", "json", check=0).json
        assert len(server.requests) == 3
        assert (found["action"], found["calls"]) == ("ping", 3)
        assert 0 < found["min_ms"] <= found["avg_ms"] <= found["max_ms"]
        assert shell.ok("ping").startswith("ok: action=ping calls=1 min_ms=")
        assert shell.run("ping", "--count", "0", check=1).errors


def test_ping_makes_no_file_and_opens_one_that_is_there(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    assert shell.run("ping", check=1).errors
    assert list(tmp_path.iterdir()) == []
    shell.ok("create-queue", "q")
    assert "calls=1" in shell.ok("ping")
    gone = shell.run("ping", "--endpoint", f"http://127.0.0.1:{free_port()}", check=1)
    assert gone.err.startswith("error: unavailable: ")


def test_a_broker_that_is_not_ready_yet_is_waited_for(tmp_path: Path) -> None:
    with loopback(
        lambda _: (
            refusal(503, "unavailable", "opening")
            if len(server.requests) < 3
            else reply(200, STATUS)
        )
    ) as server:
        shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url)
        found = shell.run("wait-ready", "--output", "json", check=0).json
    assert (found["action"], found["attempts"]) == ("wait-ready", 3)


def test_a_broker_that_does_not_come_ends_the_wait(tmp_path: Path) -> None:
    shell = Shell(tmp_path, MQLITE_ENDPOINT=f"http://127.0.0.1:{free_port()}")
    done = shell.run("wait-ready", "--within", "100ms", check=1)
    assert done.err.startswith("error: unavailable: ")
    assert "not ready after " in done.err
    assert "after 1 attempt(s)" in shell.run("wait-ready", "--within", "0", check=1).err


def test_a_wrong_credential_is_said_at_once(tmp_path: Path) -> None:
    served = Shell(tmp_path, MQLITE_TOKENS="mqk_test")
    with serving(served) as broker:
        shell = served.with_(MQLITE_ENDPOINT=broker.url, MQLITE_TOKEN="mqk_test")
        assert shell.ok("wait-ready").startswith("ok: action=wait-ready attempts=1 ")
        done = shell.run("wait-ready", "--token", "wrong", check=1)
        assert done.err.startswith("error: unauthenticated: ")
