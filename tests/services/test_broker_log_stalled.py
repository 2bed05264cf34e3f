"""A log whose reader is alive and does not read."""

from __future__ import annotations

import logging
import os
import re
import socket
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import trio
import trio.testing

from mqlite_broker import log_room, logs

LINE = "x" * 90


def form(_at: int, _level: int, text: str, _names: object, values: logs.Values, _error: str) -> str:
    return f"{text} {' '.join(map(str, values))}\n"


def terminal() -> tuple[int, int]:
    """One that changes no line's end."""
    reading, writing = os.openpty()
    tty.setraw(writing)
    return reading, writing


def sockets() -> tuple[int, int]:
    reading, writing = socket.socketpair()
    return reading.detach(), writing.detach()


PLACES = {"pipe": os.pipe, "terminal": terminal, "socket": sockets}
"""What a log may go into that somebody reads: the reading end and the writing one."""


@contextmanager
def piped(place: str = "pipe") -> Iterator[tuple[logs.Lines, int]]:
    """Lines into a pipe or the like, and its other end."""
    reading, writing = PLACES[place]()
    lines = logs.Lines(writing, form)
    try:
        yield lines, reading
    finally:
        read(reading)
        lines.close()
        assert os.get_blocking(writing), "whoever shares it would get the flag, too"
        os.close(writing)
        os.close(reading)


def read(reading: int) -> bytes:
    """What is in the pipe now."""
    os.set_blocking(reading, False)
    found = b""
    while True:
        try:
            found += os.read(reading, 1 << 20)
        except BlockingIOError:
            return found


@pytest.mark.parametrize("place", PLACES)
def test_a_stalled_reader_stops_nobody_and_loses_nothing_that_there_is_room_for(
    place: str,
) -> None:
    with piped(place) as (lines, reading):
        for number in range(5_000):  # half a megabyte, into a pipe of 64 KiB
            lines.add(logging.INFO, LINE, (), [number])
        found, whole = b"", "".join(f"{LINE} {number}\n" for number in range(5_000))
        for _ in range(5_000):
            found += read(reading)
            lines.flush()
        assert found.decode() == whole


def test_what_there_is_no_room_for_is_counted_once_somebody_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logs, "BACKLOG_BYTES", 10_000)
    with piped() as (lines, reading):
        for number in range(2_000):
            lines.add(logging.INFO, LINE, (), [number])
        found = b""
        while piece := read(reading):
            found += piece
            lines.flush()
        rows = found.decode().splitlines()
        kept = len(rows) - 1
        assert rows[:kept] == [f"{LINE} {number}" for number in range(kept)]
        assert 32_000 < kept * len(LINE) < 80_000
        assert re.fullmatch(r"log lines lost, .* (\d+)", rows[-1])
        assert int(rows[-1].split()[-1]) == 2_000 - kept
        lines.add(logging.INFO, "after", (), [])
        assert read(reading) == b"after \n"


@pytest.mark.parametrize("place", PLACES)
def test_a_line_longer_than_a_piece_does_not_block_either(place: str) -> None:
    with piped(place) as (lines, reading):
        for _ in range(3):
            lines.add(logging.INFO, "y" * 50_000, (), [])
        found = b""
        for _ in range(1_000):
            found += read(reading)
            lines.flush()
        assert found == (b"y" * 50_000 + b" \n") * 3


def test_a_terminal_of_another_user_that_is_held_stops_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may not be opened anew, so a write to it waits for room."""
    monkeypatch.setattr(log_room, "_opened_anew", lambda descriptor: descriptor)
    reading, writing = terminal()
    lines = logs.Lines(writing, form)
    lines.add(logging.INFO, "y" * 50_000, (), [])
    for number in range(5_000):
        lines.add(logging.INFO, LINE, (), [number])
    whole = f"{'y' * 50_000} \n" + "".join(f"{LINE} {number}\n" for number in range(5_000))
    found, until = b"", time.monotonic() + 15
    while len(found) < len(whole) and time.monotonic() < until:
        found += read(reading)
        lines.flush()
    assert found.decode() == whole
    lines.add(logging.INFO, "the last", (), [])
    lines.close()
    assert read(reading) == b"the last \n"
    os.close(reading)
    os.close(writing)


async def test_what_waited_goes_out_when_the_reader_reads_again_though_no_line_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logs, "STALLED_SECONDS", 0.001)
    with piped() as (lines, reading):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lines.gather)
            await trio.testing.wait_all_tasks_blocked()
            for number in range(1_000):
                lines.add(logging.INFO, LINE, (), [number])
            found = b""
            with trio.fail_after(15):
                while found.count(b"\n") < 1_000:
                    await trio.lowlevel.checkpoint()
                    found += read(reading)
            nursery.cancel_scope.cancel()


def test_a_pipe_that_others_share_is_never_filled_by_one() -> None:
    """Two processes that saw its last free place would both write, and one of them wait."""
    with piped() as (lines, reading):
        for number in range(1_000):
            lines.add(logging.INFO, LINE, (), [number])
        assert 32_000 < len(read(reading)) < 40_000


async def test_a_slow_reader_gets_the_last_lines_of_a_broker_that_ends(
    mock_clock: trio.testing.MockClock,
) -> None:
    with piped() as (lines, reading):
        found = b""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lines.gather)
            await trio.testing.wait_all_tasks_blocked()
            for number in range(1_000):
                lines.add(logging.INFO, LINE, (), [number])
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                while found.count(b"\n") < 1_000:
                    await trio.testing.wait_all_tasks_blocked()
                    mock_clock.jump(logs.GATHER_SECONDS)
                    found += read(reading)
        assert found.endswith(b" 999\n")
