"""consume: a shell that somebody else ends, or that ends before what it has started."""

from __future__ import annotations

import os
import signal

import pytest

from mqlite_actor.clock import SystemClock
from mqlite_cli import process_groups, running
from mqlite_cli.running import Command, Ended, Stopped
from tests.services.cli_process import BOUND_SECONDS
from tests.services.ending_scene import Scene, scene, until
from tests.services.test_cli_consuming import appears

__all__ = ["scene"]


def looked(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Grows with each look at the group, of which the first comes when the shell's end is known."""
    looks: list[bool] = []

    def is_over(group: int) -> bool:
        looks.append(process_groups.is_over(group))
        return looks[-1]

    monkeypatch.setattr(running, "is_over", is_over)
    return looks


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_shell_that_somebody_else_ends_leaves_the_message_to_its_worker(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """As systemd does, which sends SIGTERM to every process of a service at once."""
    looks = looked(monkeypatch)
    command, thread = scene.begin(scene.line("plain"))
    command.end_within(BOUND_SECONDS)  # `consume` has heard it too
    group = os.getpgid(scene.pid("plain"))
    if number == signal.SIGTERM:
        os.killpg(group, number)
        appears(scene.folder / "told")
    else:
        os.kill(group, number)
    until(lambda: len(looks) > 2)
    assert thread.is_alive()
    assert scene.is_held()
    (scene.folder / "go").touch()
    thread.join(BOUND_SECONDS)
    assert (scene.folder / "finished").exists()
    assert scene.outcome == [Ended(-number, f"ended by signal {number}")]
    assert not process_groups._UNDER_WAY


class Ahead:
    """A clock that can be set forward."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return SystemClock().monotonic() + self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Ahead:
    clock = Ahead()
    monkeypatch.setattr(running, "_CLOCK", clock)
    return clock


def over_time(command: Command, clock: Ahead, limit_seconds: float) -> None:
    """Past its limit, or past the grace if it has none."""
    if not limit_seconds:
        command.end_within(0)
    clock.seconds += limit_seconds
    with command._changed:
        command._changed.notify_all()


@pytest.mark.parametrize("limit_seconds", [0, 1000])
def test_a_worker_whose_shell_somebody_else_ended_has_no_more_time_than_with_it(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, clock: Ahead, limit_seconds: int
) -> None:
    monkeypatch.setattr(running, "KILL_SECONDS", 0.0)
    looks = looked(monkeypatch)
    command, thread = scene.begin(scene.line("plain"), limit_seconds=limit_seconds)
    os.kill(os.getpgid(scene.pid("plain")), signal.SIGHUP)
    until(lambda: bool(looks))
    over_time(command, clock, limit_seconds)
    thread.join(BOUND_SECONDS)
    assert not scene.is_held()
    (outcome,) = scene.outcome
    if limit_seconds:
        assert outcome == Ended(-signal.SIGHUP, "ended by signal 1"), "before its limit"
    else:
        assert isinstance(outcome, Stopped)


@pytest.mark.parametrize("kill_seconds", [0.0, BOUND_SECONDS])
@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL])
def test_what_a_crashed_command_leaves_behind_is_ended_and_does_not_hold_its_message(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, number: int, kill_seconds: float
) -> None:
    """Without a limit nothing else would end a helper that runs for ever."""
    monkeypatch.setattr(running, "KILL_SECONDS", kill_seconds)
    _, thread = scene.begin(scene.line("plain"))
    os.kill(os.getpgid(scene.pid("plain")), number)
    if kill_seconds:  # it may finish what it has
        appears(scene.folder / "told")
        assert thread.is_alive()
        (scene.folder / "go").touch()
    thread.join(BOUND_SECONDS)
    assert not scene.is_held(), "nobody works on a message that goes on"
    assert (scene.folder / "finished").exists() == bool(kill_seconds)
    assert scene.outcome == [Ended(-number, f"ended by signal {number}")]
    assert not process_groups._UNDER_WAY


@pytest.mark.parametrize("limit_seconds", [0, 1000])
def test_exit_0_of_a_shell_does_not_speak_for_a_worker_that_was_killed(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, clock: Ahead, limit_seconds: int
) -> None:
    def is_over(group: int) -> bool:
        clock.seconds += running.KILL_SECONDS  # its shell has ended by itself: somebody looks
        return process_groups.is_over(group)

    monkeypatch.setattr(running, "KILL_SECONDS", BOUND_SECONDS)
    monkeypatch.setattr(running, "is_over", is_over)
    line = f"trap 'exit 0' TERM; ({scene.line('plain')}) & wait"
    command, thread = scene.begin(line, limit_seconds=limit_seconds)
    over_time(command, clock, limit_seconds)
    thread.join(BOUND_SECONDS)
    assert not scene.is_held()
    assert not (scene.folder / "finished").exists()
    (outcome,) = scene.outcome
    if limit_seconds:
        assert isinstance(outcome, Ended)
        assert not outcome.is_success
        assert outcome.shown == (
            "it took longer than 1000s; it ended with exit 0, but what it had started was killed"
        )
    else:
        assert isinstance(outcome, Stopped)


@pytest.mark.parametrize("limit_seconds", [0, 1000])
def test_exit_0_counts_where_the_rest_is_somebody_elses_and_could_not_be_killed(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, clock: Ahead, limit_seconds: int
) -> None:
    """As a command under `sudo`: it was let finish, since nobody could end it."""
    killpg = os.killpg

    def may_not_kill(group: int, number: int) -> None:
        if number == signal.SIGKILL:
            (scene.folder / "go").touch()
            raise PermissionError(group, number)
        killpg(group, number)

    monkeypatch.setattr(os, "killpg", may_not_kill)
    monkeypatch.setattr(running, "KILL_SECONDS", 0.0)
    line = f"trap 'exit 0' TERM; ({scene.line('plain')}) & wait"
    command, thread = scene.begin(line, limit_seconds=limit_seconds)
    over_time(command, clock, limit_seconds)
    thread.join(BOUND_SECONDS)
    assert (scene.folder / "finished").exists()
    assert scene.outcome == [Ended(0, "exit 0")]
