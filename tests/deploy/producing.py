"""Producers that go on while something is done to their broker, and what they were promised.

Each thread sends numbered messages to one queue, the next after the last was acknowledged. So what
a copy of the store holds of one producer must be the numbers from 1 up to one of them: at least the
last that was acknowledged before the copy began, at most the one that was on its way at its end.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import mqlite_actor as mq
from mqlite_actor.contract import limits
from tests.conformance.audit import audit_file

QUEUE: Final = "orders"
BOUND_SECONDS: Final = 60.0

Reached = tuple[int, ...]
"""By producer, the number that was acknowledged last."""


class Producers:
    """As many threads as `count`."""

    def __init__(self, dsn: str, count: int) -> None:
        self._dsn = dsn
        self._reached = [0] * count
        self._moved = threading.Condition()
        self._is_over = False
        self.errors: list[Exception] = []
        self._threads = [
            threading.Thread(target=self._produce, args=(number,)) for number in range(count)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def reached(self) -> Reached:
        with self._moved:
            return tuple(self._reached)

    def go_on_until(self, least: int) -> Reached:
        """Return once every producer has `least` more messages acknowledged than now."""
        with self._moved:
            wanted = [number + least for number in self._reached]
            is_so = self._moved.wait_for(
                lambda: (
                    self.errors or all(a >= b for a, b in zip(self._reached, wanted, strict=True))
                ),
                BOUND_SECONDS,
            )
            assert is_so, "nothing moves"
            assert not self.errors, self.errors
            return tuple(self._reached)

    def stop(self) -> Reached:
        """End the threads after the message that each is at; what was acknowledged in all."""
        self._is_over = True
        for thread in self._threads:
            thread.join(BOUND_SECONDS)
        return self.reached()

    def _produce(self, producer: int) -> None:
        try:
            with mq.connect_sync(self._dsn) as q:
                number = 0
                while not self._is_over:
                    number += 1
                    q.send_one(QUEUE, f"{producer} {number}")
                    with self._moved:
                        self._reached[producer] = number
                        self._moved.notify_all()
        except Exception as error:  # noqa: BLE001 - for the thread that waits
            with self._moved:
                self.errors.append(error)
                self._moved.notify_all()


@contextmanager
def producing(dsn: str, count: int = 2) -> Iterator[Producers]:
    """Producers at work for the length of a block."""
    with mq.connect_sync(dsn) as q:
        q.create_queue(QUEUE)
    producers = Producers(dsn, count)
    producers.start()
    try:
        yield producers
    finally:
        producers.stop()


def held(store: Path, count: int = 2) -> Reached:
    """How far each producer's messages go in a store, which must be sound and without gaps."""
    numbers: list[list[int]] = [[] for _ in range(count)]
    with mq.open_embedded_sync(f"file:{store}", background=False) as q:
        after = 0
        while page := q.peek(QUEUE, max_messages=limits.PEEK_MAX, from_seq=after + 1):
            for message in page:
                producer, _, number = message.body.decode().partition(" ")
                numbers[int(producer)].append(int(number))
                after = message.seq_number
    assert audit_file(store) == []
    for found in numbers:
        assert found == list(range(1, len(found) + 1)), "a gap, or one twice"
    return tuple(len(found) for found in numbers)


def assert_between(least: Reached, found: Reached, most: Reached) -> None:
    """Nothing that was acknowledged is missing, and nothing is there that nobody sent."""
    for before, number, after in zip(least, found, most, strict=True):
        assert before <= number <= after + 1, (least, found, most)
