"""consume --idle: the end when no message came for so long, for whichever of its threads."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract.limits import RECEIVE_WAIT_MS_MAX
from mqlite_cli import consuming
from mqlite_cli.idling import Silence
from tests.sdk.loopback import BOUND_SECONDS, Recorded, loopback, reply
from tests.services.cli_inline import Inline

EMPTY = reply(200, {"messages": []})


def claimed(seq: int) -> bytes:
    return reply(200, {"messages": [{"seq_number": seq, "lock_token": "t", "body": "eA=="}]})


class Turns:
    """A broker that lets the first claim wait while the other thread gets message after message,
    each three seconds after the last, and answers it with nothing in between."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._claims = 0
        self._served = 0
        self._waiter_returns = threading.Event()

    def __call__(self, request: Recorded) -> bytes:
        if request.call != "QueueService/Receive":
            return reply(200, {})
        with self._lock:
            self._claims += 1
            number = self._claims
        if number == 1:
            assert self._waiter_returns.wait(BOUND_SECONDS)
            return EMPTY
        return self._next()

    def _next(self) -> bytes:
        with self._lock:
            self._clock.advance(3_000)
            if self._served == 4:
                return EMPTY
            self._served += 1
            if self._served == 3:
                self._waiter_returns.set()
            return claimed(self._served)


def test_one_thread_that_gets_nothing_ends_nobody_while_others_get_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    clock = ManualClock()
    monkeypatch.setattr(consuming, "_CLOCK", clock)
    monkeypatch.setattr(consuming, "_PAUSE_SECONDS", 0.0)
    mqlite = Inline(tmp_path, monkeypatch, capfd)
    with loopback(Turns(clock)) as server:
        mqlite.environ["MQLITE_ENDPOINT"] = server.url
        words = ["consume", "q", "--exec", "true", "--concurrency", "2", "--idle", "4s"]
        done = mqlite.ok(*words)
    assert "completed=4" in done


def test_silence_is_what_all_who_ask_have_heard() -> None:
    clock = ManualClock()
    silence = Silence(clock, idle_ms=4_000)
    with silence.asked():
        clock.advance(3_000)
        with silence.asked():
            assert silence.wait_ms == 1_000
            silence.end()  # the second one gets a message
        clock.advance(3_500)
        assert (silence.left_seconds, silence.wait_ms) == (0.5, 500)
        clock.advance(600)
        assert silence.left_seconds < 0
        assert silence.wait_ms == 1
    clock.advance(9_000)  # nobody asks, as all are at work
    with silence.asked():
        assert silence.wait_ms == 4_000


def test_without_a_bound_silence_never_ends_anything() -> None:
    clock = ManualClock()
    silence = Silence(clock, idle_ms=0)
    with silence.asked():
        clock.advance(86_400_000)
        assert silence.left_seconds > 0
        assert silence.wait_ms == RECEIVE_WAIT_MS_MAX


def test_a_failure_ends_the_silence_only_if_nobody_was_answered() -> None:
    clock = ManualClock()
    silence = Silence(clock, idle_ms=4_000)
    with silence.asked(), silence.asked():
        clock.advance(3_000)
        silence.failed()
        silence.lasts()
        silence.failed()
        assert silence.left_seconds == 1.0
        silence.failed()  # of the other one, too
        assert silence.left_seconds == 4.0
