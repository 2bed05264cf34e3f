"""redrive and purge-dlq: nothing is deleted or moved by a slip (T30, T53, T54; B46)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.sdk.loopback import Loopback, engine_replies, loopback, reply
from tests.services.cli_process import Shell


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[tuple[Shell, Loopback]]:
    """A queue `q` with three dead letters and an active message."""
    with engine_replies() as answer, loopback(answer) as server:
        shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url)
        shell.ok("create-queue", "q")
        for body in ("one", "two", "three", "alive"):
            shell.ok("send", "q", body)
        for message in shell.run(
            "receive", "q", "--max", "3", "--no-ack", "--output", "json", check=0
        ).json:
            shell.ok("reject", "q", str(message["seq_number"]), message["lock_token"])
        server.requests.clear()
        yield shell, server


def counts(shell: Shell, queue: str = "q") -> tuple[int, int]:
    """Active and dead."""
    found = shell.run("metrics", queue, "--output", "json", check=0).json
    return found["active"], found["dead_lettered"]


@pytest.mark.promise("T53")
@pytest.mark.parametrize(
    ("words", "mend"),
    [
        ([], "--all for every one"),
        (["--all=false"], "--all for every one"),
        (["--all", "--max", "0"], "give one"),
        (["--all", "--older-than", "0"], "give one"),
        (["--max", "0"], "bounds nothing"),
        (["--max", "-1"], "must not be negative"),
        (["--older-than", "999999ns"], "shorter than a millisecond"),
        (["--older-than", "0"], "longer than zero"),
        (["--older-than", "-1h"], "a negative duration"),
        (["--max", "5", "--older-than", "0.1ms"], "shorter than a millisecond"),
    ],
)
def test_a_purge_without_a_bound_that_was_meant_deletes_nothing(
    broker: tuple[Shell, Loopback], words: list[str], mend: str
) -> None:
    shell, server = broker
    assert mend in shell.run("purge-dlq", "q", *words, check=1).err
    assert server.requests == []
    assert counts(shell) == (1, 3)


@pytest.mark.promise("T53")
def test_a_purge_deletes_dead_letters_alone(broker: tuple[Shell, Loopback]) -> None:
    shell, _ = broker
    assert shell.ok("purge-dlq", "q", "--older-than", "1h") == "ok: action=purge-dlq purged=0\n"
    assert shell.ok("purge-dlq", "q", "--max", "1") == "ok: action=purge-dlq purged=1\n"
    printed = shell.run("purge-dlq", "q", "--all", "--output", "json", check=0).text
    assert printed == '{\n  "action": "purge-dlq",\n  "purged": 2\n}\n'
    assert counts(shell) == (1, 0)
    assert shell.run("purge-dlq", "nope", "--all", check=1).err.startswith("error: not_found: ")


@pytest.mark.promise("T30", "T54")
@pytest.mark.parametrize(
    ("words", "mend"),
    [
        (["--max", "-1"], "--max: must not be negative"),
        (["--rate", "-1"], "--rate: must not be negative"),
        (["--older-than", "1ns"], "--older-than: shorter than a millisecond"),
        (["--older-than", "-1s"], "--older-than: a negative duration"),
    ],
)
def test_a_redrive_with_a_bound_that_is_none_moves_nothing(
    broker: tuple[Shell, Loopback], words: list[str], mend: str
) -> None:
    shell, server = broker
    assert mend in shell.run("redrive", "q", *words, check=1).err
    assert server.requests == []
    assert counts(shell) == (1, 3)


@pytest.mark.promise("T54")
def test_a_redrive_to_nowhere_moves_nothing(broker: tuple[Shell, Loopback]) -> None:
    shell, _ = broker
    for words in (["q", "--to", "nope"], ["nope"]):
        assert shell.run("redrive", *words, check=1).err.startswith("error: not_found: ")
    assert counts(shell) == (1, 3)


@pytest.mark.promise("T54")
def test_a_moved_message_starts_anew(broker: tuple[Shell, Loopback]) -> None:
    shell, _ = broker
    shell.ok("create-queue", "other")
    assert shell.ok("redrive", "q", "--to", "other", "--max", "1") == (
        "ok: action=redrive moved=1\n"
    )
    assert shell.ok("peek", "other") == 'seq=5 state=active deliveries=0 body="one"\n'
    printed = shell.run("redrive", "q", "--rate", "100", "--output", "json", check=0).text
    assert printed == '{\n  "action": "redrive",\n  "moved": 2\n}\n'
    assert shell.ok("peek", "q").count("state=active deliveries=0") == 3


def test_the_bounds_reach_the_wire(tmp_path: Path) -> None:
    with loopback(lambda _: reply(200, {"moved": 0, "purged": 0})) as server:
        shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url)
        shell.ok("redrive", "q", "--to", "r", "--max", "7", "--older-than", "1.5ms", "--rate", "9")
        shell.ok("redrive", "q", "--max", "0", "--older-than", "0")
        shell.ok("purge-dlq", "q", "--max", "7", "--older-than", "2h")
        shell.ok("purge-dlq", "q", "--all")
        assert [msgspec.json.decode(request.body) for request in server.requests] == [
            {"queue": "q", "target": "r", "max": 7, "older_than_ms": 2, "rate_per_sec": 9},
            {"queue": "q"},
            {"queue": "q", "max": 7, "older_than_ms": 7_200_000},
            {"queue": "q"},
        ]
