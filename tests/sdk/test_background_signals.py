"""Exceptions out of signal handlers in a blocking program: told with what became, and no writer
kept from the others."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import mqlite_actor as mq
from mqlite_actor.sdk import background, blocking_embedded


class SoftTimeLimit(Exception):
    """What a worker's signal handler raises, between any two lines."""


class Interrupt:
    """Raises at the line of so many, in the files that a caller's thread goes through."""

    FILES = (background.__file__, blocking_embedded.__file__)

    def __init__(self, line: int) -> None:
        self.line = line

    def trace(self, frame: FrameType, event: str, _: object) -> object:
        if frame.f_code.co_filename not in self.FILES:
            return None
        text = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
        if event == "line" and text != "try:":  # which is no instruction: no signal is heard there
            self.line -= 1
            if self.line == 0:
                raise SoftTimeLimit
        return self.trace


def in_block(q: mq.SyncEmbedded) -> None:
    with q.tx(seconds=30) as tx:
        tx.send_one("q", b"x")


def in_function(q: mq.SyncEmbedded) -> None:
    q.run_tx(lambda tx: tx.send_one("q", b"x"), seconds=30)


def in_call(q: mq.SyncEmbedded) -> None:
    q.send_one("q", b"x")


def interrupted(work: Callable[[], None], line: int) -> SoftTimeLimit | None:
    before = sys.gettrace()
    tracing: Any = Interrupt(line).trace
    sys.settrace(tracing)
    try:
        work()
    except SoftTimeLimit as error:
        return error
    finally:
        sys.settrace(before)
    return None


def lines(q: mq.SyncEmbedded, work: Callable[[mq.SyncEmbedded], None]) -> int:
    """Interrupt it at each line in turn; how many there are."""
    line, stored = 1, q.stats("q").total
    while True:
        error = interrupted(lambda: work(q), line)
        total = q.stats("q").total  # nobody holds the writer
        is_told = error is None or background.DONE in getattr(error, "__notes__", ())
        assert is_told == (total > stored), f"{work.__name__} at line {line}"
        if error is None:
            return line
        line, stored = line + 1, total


def test_an_interrupt_at_any_line_is_told_with_what_became_and_holds_nobody_up() -> None:
    with mq.open_embedded_sync(":memory:") as q:
        q.create_queue("q")
        assert lines(q, in_block) > 30
        assert lines(q, in_function) > 10
        assert lines(q, in_call) > 10
        q.run_tx(lambda tx: tx.send_one("q", b"x"), seconds=1)
