"""Looking into a queue: the end of its dead letters is found, and a look is bounded."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from mqlite_actor import Embedded, Handle, open_embedded
from mqlite_monitor.drilling import LETTERS, Drill
from mqlite_monitor.snapshot import Detail


@asynccontextmanager
async def with_letters(numbers: int, *, every: int = 1) -> AsyncIterator[Embedded]:
    """A queue with so many dead letters, of which only each so-many-th is left."""
    async with open_embedded(":memory:") as handle:
        await handle.create_queue("q")
        for begin in range(0, numbers, 100):
            await handle.send("q", [b"x"] * min(100, numbers - begin))
        while messages := await handle.receive("q", max_messages=100):
            for message in messages:
                if message.seq_number % every == 0:
                    await message.reject("bad", f"number {message.seq_number}")
                else:
                    await message.complete()
        yield handle


async def settled(drill: Drill, handle: Handle) -> list[int]:
    """What is shown once two looks show the same."""
    before: list[int] | None = None
    for _ in range(20):
        detail = await drill.look(handle)
        assert isinstance(detail.letters, list)
        numbers = [each.seq_number for each in detail.letters]
        if numbers == before:
            return numbers
        before = numbers
    raise AssertionError(f"the looks do not settle: {before}")


@pytest.mark.parametrize(("numbers", "every"), [(0, 1), (3, 1), (8, 1), (9, 1), (700, 1), (700, 9)])
async def test_the_dead_letters_with_the_highest_numbers_are_found(
    numbers: int, every: int
) -> None:
    async with with_letters(numbers, every=every) as handle:
        found = await settled(Drill("q"), handle)
        expected = [at for at in range(1, numbers + 1) if at % every == 0]
        assert found == expected[-len(found) :] if found else expected == []
        assert len(found) == LETTERS or every > 1 or len(found) == len(expected)


async def test_letters_that_come_and_go_are_followed() -> None:
    async with with_letters(30) as handle:
        drill = Drill("q")
        assert (await settled(drill, handle))[-1] == 30
        await handle.send("q", [b"x"])
        (message,) = await handle.receive("q")
        await message.reject("new \x1b")
        assert (await settled(drill, handle))[-1] == 31
        await handle.purge("q")
        assert await settled(drill, handle) == []


async def test_a_queue_that_is_gone_is_a_text_and_no_error() -> None:
    async with open_embedded(":memory:") as handle:
        detail = await Drill("nothing").look(handle)
        assert isinstance(detail, Detail)
        assert isinstance(detail.blocked, str)
