"""receive keeps its leases while output and settle take their time (spec/tools.md 1.5; T37-T41)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from mqlite_actor.clock import ManualClock, SystemClock
from mqlite_actor.engine.engine import EngineOptions
from mqlite_cli.renewing import PACE_MS_MIN, PACE_MS_SPENT, PACE_MS_UNKNOWN, pace_ms
from tests.sdk.loopback import (
    BOUND_SECONDS,
    Answer,
    Loopback,
    Recorded,
    engine_replies,
    loopback,
    refusal,
    reply,
)
from tests.services.cli_process import Shell

RECEIVE, SETTLE = "QueueService/Receive", "QueueService/CompleteBatch"
RENEW, RENEW_ONE = "QueueService/RenewBatch", "QueueService/Renew"

Handle = Callable[[Recorded, Answer], bytes | None]


class Scene:
    """A queue behind a server whose answers a test can hold up."""

    def __init__(self, shell: Shell, server: Loopback) -> None:
        self.shell = shell
        self.server = server

    def filled(self, count: int, *, lock: str) -> Scene:
        self.shell.ok("create-queue", "q", "--lock", lock)
        for number in range(count):
            self.shell.ok("send", "q", str(number))
        self.server.requests.clear()
        return self

    def calls(self, name: str) -> int:
        return self.server.calls.count(name)

    def wait_for(self, predicate: Callable[[], bool]) -> None:
        """Wait until it is true; for a handler, which is asked again with every request."""
        waiting = threading.Event()
        tries = int(BOUND_SECONDS / 0.01)
        assert any(predicate() or waiting.wait(0.01) for _ in range(tries))


@contextmanager
def scene(
    folder: Path, handlers: dict[str, Handle], options: EngineOptions | None = None
) -> Iterator[Scene]:
    with engine_replies(options=options) as answer:

        def choose(request: Recorded) -> bytes | None:
            handle = handlers.get(request.call)
            return handle(request, answer) if handle else answer(request)

        with loopback(choose) as server:
            yield Scene(Shell(folder, MQLITE_ENDPOINT=server.url), server)


def total(scene: Scene) -> int:
    count: int = scene.shell.run("metrics", "q", "--output", "json", check=0).json["total"]
    return count


def a_settle_that_takes_longer_than_the_lease_still_completes(folder: Path) -> None:
    """The broker's clock moves by 0.8 s with each renewal: a lease of 2 s, a settle after 3.2 s."""
    clock = ManualClock(SystemClock().now_ms())
    renewed = threading.Semaphore(0)

    def renew(request: Recorded, answer: Answer) -> bytes | None:
        clock.advance(800)
        result = answer(request)
        renewed.release()
        return result

    def settle(request: Recorded, answer: Answer) -> bytes | None:
        for _ in range(4):
            assert renewed.acquire(timeout=BOUND_SECONDS)
        return answer(request)

    options = EngineOptions(clock=clock, background=False)
    with scene(folder, {RENEW: renew, SETTLE: settle}, options) as it:
        it.filled(2, lock="2s")
        clock.set(SystemClock().now_ms())
        text = it.shell.ok("receive", "q", "--max", "2")
        assert text == 'seq=1 deliveries=1 body="0"\nseq=2 deliveries=1 body="1"\n'
        assert it.calls(SETTLE) == 1
        assert total(it) == 0


def many_leases_are_renewed_together_and_seldom(folder: Path) -> None:
    claimed = threading.Event()
    pause = threading.Event()
    until: list[int] = []

    def receive(request: Recorded, answer: Answer) -> bytes | None:
        until.append(SystemClock().now_ms() + 9_000)
        claimed.set()
        return answer(request)

    def renew(request: Recorded, answer: Answer) -> bytes | None:
        pause.wait(0.05)
        return answer(request)

    def settle(request: Recorded, answer: Answer) -> bytes | None:
        pause.wait((until[0] - SystemClock().now_ms()) / 1000)
        return answer(request)

    handlers: dict[str, Handle] = {RECEIVE: receive, RENEW: renew, SETTLE: settle}
    with scene(folder, handlers) as it:
        it.filled(1, lock="6s")
        first = next(iter(it.server.requests), None)
        assert first is None
        send = b'{"queue":"q","messages":[' + b",".join([b'{"body":"eA=="}'] * 255) + b"]}"
        it.server.answer(Recorded("/mqlite.v1.QueueService/Send", [], send))
        assert it.shell.ok("receive", "q", "--max", "256").count("\n") == 256
        assert it.calls(SETTLE) == 1
        assert 1 <= it.calls(RENEW) <= 10
        assert total(it) == 0


def a_renewal_that_hangs_holds_nobody_up(folder: Path) -> None:
    hung, ended = threading.Event(), threading.Event()

    def renew(_: Recorded, __: Answer) -> bytes | None:
        hung.set()
        ended.wait(BOUND_SECONDS)
        return None

    def settle(request: Recorded, answer: Answer) -> bytes | None:
        assert hung.wait(BOUND_SECONDS)
        return answer(request)

    with scene(folder, {RENEW: renew, SETTLE: settle}) as it:
        it.filled(1, lock="1m")
        it.shell.ok("create-queue", "q", "--lock", "3s")
        done = it.shell.run("receive", "q", check=0)
        assert not ended.is_set()
        ended.set()
        assert (done.text, done.err) == ('seq=1 deliveries=1 body="0"\n', "")


def a_broker_without_the_batch_is_warned_about_once_and_asked_one_by_one(folder: Path) -> None:
    def renew(request: Recorded, _: Answer) -> bytes | None:
        return refusal(404, "not_found", f"no such path: {request.target}")

    def settle(request: Recorded, answer: Answer) -> bytes | None:
        it.wait_for(lambda: it.calls(RENEW_ONE) >= 4)
        return answer(request)

    with scene(folder, {RENEW: renew, SETTLE: settle}) as it:
        it.filled(2, lock="3s")
        done = it.shell.run("receive", "q", "--max", "2", check=0)
        assert done.err == (
            "warning: this broker has no RenewBatch; leases are renewed one by one\n"
        )
        assert (it.calls(RENEW), it.calls(SETTLE)) == (1, 1)
        assert total(it) == 0


def a_renewal_that_fails_is_tried_again_as_it_was(folder: Path) -> None:
    def renew(_: Recorded, __: Answer) -> bytes | None:
        return refusal(500, "internal", "oops")

    def settle(request: Recorded, answer: Answer) -> bytes | None:
        it.wait_for(lambda: it.calls(RENEW) >= 3)
        return answer(request)

    with scene(folder, {RENEW: renew, SETTLE: settle}) as it:
        it.filled(1, lock="20s")
        it.shell.ok("create-queue", "q", "--lock", "5s")
        done = it.shell.run("receive", "q", check=0)
        assert done.err == ""
        assert it.calls(RENEW_ONE) == 0


def leases_are_kept_by_the_brokers_clock_whatever_ours_says(folder: Path, *, ahead_ms: int) -> None:
    clock = ManualClock(SystemClock().now_ms() + ahead_ms)
    renewed = threading.Event()

    def dated(request: Recorded, answer: Answer) -> bytes | None:
        head, _, body = (answer(request) or b"").partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        return reply(200, body, now_ms=clock.now_ms())

    def renew(request: Recorded, answer: Answer) -> bytes | None:
        renewed.set()
        return dated(request, answer)

    def settle(request: Recorded, answer: Answer) -> bytes | None:
        assert renewed.wait(BOUND_SECONDS / 2), "a lease of two seconds was left alone"
        assert it.calls(RENEW) < 10, "and not in a circle"
        return answer(request)

    options = EngineOptions(clock=clock, background=False)
    handlers: dict[str, Handle] = {RECEIVE: dated, RENEW: renew, SETTLE: settle}
    with scene(folder, handlers, options) as it:
        it.filled(1, lock="2s").shell.ok("receive", "q")
        assert total(it) == 0


def a_pipe_slower_than_the_lease_loses_nothing(folder: Path) -> None:
    """Nobody reads until the lease was renewed three times over."""
    with scene(folder, {}) as it:
        it.shell.ok("create-queue", "q", "--lock", "2s")
        for _ in range(3):
            it.shell.ok("send", "q", "-", stdin=bytes(100_000))
        with it.shell.start("receive", "q", "--max", "3") as process:
            it.wait_for(lambda: it.calls(RENEW) >= 3)
            assert it.calls(SETTLE) == 0
            out, err = process.communicate()
        assert (process.returncode, err) == (0, b"")
        assert out.count(b"\n") == 3
        assert it.calls(SETTLE) == 1
        assert total(it) == 0


SCENES: Final[dict[str, Callable[[Path], None]]] = {
    "a long settle": a_settle_that_takes_longer_than_the_lease_still_completes,
    "many leases": many_leases_are_renewed_together_and_seldom,
    "a renewal hangs": a_renewal_that_hangs_holds_nobody_up,
    "no batch": a_broker_without_the_batch_is_warned_about_once_and_asked_one_by_one,
    "a renewal fails": a_renewal_that_fails_is_tried_again_as_it_was,
    "our clock is behind": partial(
        leases_are_kept_by_the_brokers_clock_whatever_ours_says, ahead_ms=60_000
    ),
    "our clock is ahead": partial(
        leases_are_kept_by_the_brokers_clock_whatever_ours_says, ahead_ms=-60_000
    ),
    "a slow pipe": a_pipe_slower_than_the_lease_loses_nothing,
}


@pytest.mark.promise("T37", "T38", "T39", "T40", "T41")
def test_leases_are_kept_while_output_and_settle_take_their_time(tmp_path: Path) -> None:
    """One test, because each scene waits for seconds of a lease: all of them wait at once."""

    def played(name: str) -> Exception | None:
        folder = tmp_path / name
        folder.mkdir()
        try:
            SCENES[name](folder)
        except Exception as error:  # noqa: BLE001 - raised below, with all the others
            error.add_note(f"in the scene: {name}")
            return error
        return None

    with ThreadPoolExecutor(len(SCENES)) as threads:
        failed = [error for error in threads.map(played, SCENES) if error is not None]
    if failed:
        raise ExceptionGroup("scenes failed", failed)


@pytest.mark.parametrize(
    ("left_ms", "pace"),
    [
        (None, PACE_MS_UNKNOWN),
        (30_000, 10_000),
        (6_000, 2_000),
        (150, PACE_MS_MIN),
        (120, PACE_MS_MIN),
        (90, 45),
        (2, 1),
        (0.5, PACE_MS_SPENT),
        (0, PACE_MS_SPENT),
        (-5, PACE_MS_SPENT),
    ],
)
def test_a_pass_comes_after_a_third_of_the_lease_and_never_after_its_half(
    left_ms: float | None, pace: float
) -> None:
    assert pace_ms(left_ms) == pace
