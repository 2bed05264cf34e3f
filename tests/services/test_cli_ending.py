"""consume: what is ended is over with the last of its process group, and not before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mqlite_cli import process_groups, running
from mqlite_cli.running import Stopped
from tests.sdk.loopback import Loopback, engine_replies, loopback
from tests.services.cli_inline import Inline
from tests.services.cli_process import BOUND_SECONDS, Shell
from tests.services.ending_scene import Scene, scene, until
from tests.services.test_cli_consuming import appears, messages

__all__ = ["scene"]

only_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc to tell the dead")


@pytest.mark.parametrize("kind", ["plain", pytest.param("threads", marks=only_linux)])
def test_a_command_is_not_over_with_its_shell(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    looks: list[bool] = []

    def is_over(group: int) -> bool:
        looks.append(process_groups.is_over(group))
        return looks[-1]

    monkeypatch.setattr(running, "KILL_SECONDS", BOUND_SECONDS)
    monkeypatch.setattr(running, "is_over", is_over)
    command, thread = scene.begin(scene.line(kind))
    command.end_within(0)
    until(lambda: len(looks) > 2)  # nobody looks before the shell has ended
    assert thread.is_alive()
    assert not any(looks)
    assert scene.is_held()
    (scene.folder / "go").touch()
    thread.join(BOUND_SECONDS)
    assert (scene.folder / "finished").exists()
    assert isinstance(scene.outcome[0], Stopped)
    assert not process_groups._UNDER_WAY


def test_who_does_not_end_is_killed_and_gone_before_the_message_is_free(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "KILL_SECONDS", 0.0)
    command, thread = scene.begin(scene.line("plain"))
    command.end_within(0)
    thread.join(BOUND_SECONDS)
    assert isinstance(scene.outcome[0], Stopped)
    assert not scene.is_held()
    assert not (scene.folder / "finished").exists()


def test_a_daemon_in_a_session_of_its_own_is_not_ours(scene: Scene) -> None:
    command, thread = scene.begin(scene.line("daemon", " & exec tail -f /dev/null"))
    command.end_within(0)
    thread.join(BOUND_SECONDS)
    assert isinstance(scene.outcome[0], Stopped)
    assert scene.is_held()
    assert not (scene.folder / "told").exists()


@only_linux
def test_the_dead_that_nobody_collects_are_not_waited_for(scene: Scene) -> None:
    line = scene.line("uncollected", " & exec tail -f /dev/null")
    command, thread = scene.begin(line, began="pid.mortal")
    command.end_within(0)
    thread.join(BOUND_SECONDS)
    assert isinstance(scene.outcome[0], Stopped)
    os.kill(scene.pid("mortal"), 0)  # it is there, dead


def test_a_group_of_somebody_else_counts_as_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(group: int, number: int) -> None:
        raise PermissionError(group, number)

    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, process_group=0) as process:
        with monkeypatch.context() as patch:
            patch.setattr(os, "killpg", refuse)
            assert not process_groups.signal_group(process.pid, signal.SIGTERM), "nothing was sent"
            assert not process_groups.is_over(process.pid)
        process.kill()
        process.wait()
    assert process_groups.is_over(process.pid)


def test_a_group_nobody_can_look_into_counts_as_alive_while_it_has_a_member(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_groups, "_PROCESSES", tmp_path)
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, process_group=0) as process:
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not process_groups.is_over(process.pid)
        process.wait()
    assert process_groups.is_over(process.pid)


@contextmanager
def consuming(shell: Shell, scene: Scene, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """`consume` with a worker that has begun. Whatever is left of it ends before the outputs of
    `consume`, which it has too, are read to their end."""
    with shell.start("consume", "q", "--exec", scene.line("plain"), *words) as process:
        try:
            appears(scene.folder / "began")
            yield process
        finally:
            (scene.folder / "go").touch()


@pytest.fixture
def broker(scene: Scene) -> Iterator[tuple[Shell, Loopback]]:
    with (
        engine_replies(f"file:{scene.folder / 'served.db'}") as answer,
        loopback(answer) as server,
    ):
        shell = Shell(scene.folder, MQLITE_ENDPOINT=server.url)
        shell.ok("create-queue", "q", "--max-delivery", "9", "--lock", "1s")
        shell.ok("send", "q", "x")
        yield shell, server


def test_a_message_has_its_lease_until_the_last_of_its_command_is_gone(
    scene: Scene, broker: tuple[Shell, Loopback]
) -> None:
    shell, server = broker
    with consuming(shell, scene, "--grace", "0") as process:
        process.send_signal(signal.SIGTERM)
        appears(scene.folder / "told")
        before = server.calls.count("QueueService/RenewBatch")
        until(lambda: server.calls.count("QueueService/RenewBatch") > before + 1)
        assert [each["state"] for each in messages(shell)] == ["locked"]
        (scene.folder / "go").touch()
        _, err = process.communicate(timeout=BOUND_SECONDS)
    assert (process.returncode, err) == (0, b"")
    assert (scene.folder / "finished").exists()
    (message,) = messages(shell)
    assert (message["state"], message.get("delivery_count", 0)) == ("active", 0)


def test_no_two_work_on_a_message_whose_command_takes_too_long(
    scene: Scene,
    broker: tuple[Shell, Loopback],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(running, "KILL_SECONDS", 0.5)  # its shell has long ended by then
    mqlite = Inline(scene.folder, monkeypatch, capfd, broker[0].environ)
    done = mqlite.ok(
        "consume", "q", "--exec", scene.line("plain"), "--limit", "1s", "--delay", "1ms",
        "--count", "3",
    )  # fmt: skip
    assert "abandoned=3" in done
    assert not scene.is_held()
    assert not (scene.folder / "overlap").exists()


def test_a_second_signal_ends_the_commands_too(
    scene: Scene, broker: tuple[Shell, Loopback]
) -> None:
    with consuming(broker[0], scene) as process:
        waiting = threading.Event()
        while process.poll() is None:
            # The first may not have been noticed yet, and two at once count as one.
            process.send_signal(signal.SIGTERM)
            waiting.wait(0.05)
        assert process.returncode == 143
        until(lambda: not scene.is_held())
    assert not (scene.folder / "finished").exists()


def test_a_command_that_dies_of_a_signal_is_abandoned_whatever_its_number(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    mqlite = Inline(scene.folder, monkeypatch, capfd)
    mqlite.ok("create-queue", "q", "--max-delivery", "1000")
    numbers = {*range(1, 16)} - {signal.SIGCHLD, signal.SIGCONT}
    # `nohup` for one lets what is started from it ignore some, which no shell can undo.
    numbers = {each for each in numbers if signal.getsignal(each) is not signal.SIG_IGN}
    numbers |= {signal.SIGPIPE}  # which Python ignores, and no program that it starts
    for number in sorted(numbers):
        mqlite.ok("send", "q", "x", "--subject", str(number))
    done = mqlite.ok(
        "consume", "q", "--exec", "kill -$MESSAGE_SUBJECT $$", "--count", str(len(numbers)),
        "--delay", "1h",
    )  # fmt: skip
    assert f"abandoned={len(numbers)} rejected=0" in done


@pytest.mark.parametrize("code", ["-1", "0", "256", "300"])
def test_no_command_ends_with_an_exit_code_that_is_none(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], code: str
) -> None:
    mqlite = Inline(scene.folder, monkeypatch, capfd)
    mqlite.ok("create-queue", "q")
    done = mqlite.run("consume", "q", "--exec", "true", "--reject-exit", code, check=1)
    assert done.err == "error: --reject-exit must be 1 to 255: 0 completes\n"
