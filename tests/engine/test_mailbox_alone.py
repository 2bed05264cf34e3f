"""The mailbox by itself: its order, its groups, its room, and what it says that it holds.

test_mailbox.py has callers and a writer around it. A job's request is a word here.
"""

from __future__ import annotations

import math

import pytest
import trio
import trio.testing

from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import Closed
from mqlite_actor.engine.mailbox import Job, Mailbox, Where


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three commands and ten bytes in a group; two commands more, and twenty bytes, in all."""
    monkeypatch.setattr(limits, "GROUP_COMMANDS_MAX", 3)
    monkeypatch.setattr(limits, "GROUP_BYTES_MAX", 10)
    monkeypatch.setattr(limits, "MAILBOX_COMMANDS_MAX", 5)
    monkeypatch.setattr(limits, "MAILBOX_BYTES_MAX", 20)


@pytest.fixture
def mailbox() -> Mailbox:
    return Mailbox()


def job(word: str, weight: int = 1) -> Job:
    """In capitals: to be run alone."""
    return Job(word, weight, is_alone=word.isupper())


def words(jobs: list[Job]) -> str:
    return "".join(each.request for each in jobs)


def held(mailbox: Mailbox) -> tuple[int, int]:
    return len(mailbox), mailbox.bytes


def test_at_first_there_is_nothing_and_nobody(mailbox: Mailbox) -> None:
    assert held(mailbox) == (0, 0)
    assert (mailbox.waits, mailbox.is_asleep, mailbox.closed_with) == (0, False, None)


async def test_who_was_woken_comes_before_who_is_new(mailbox: Mailbox) -> None:
    mailbox.put(job("c", 2))
    mailbox.put_first([job("a", 3), job("b", 4)])
    assert held(mailbox) == (3, 9)
    group = await mailbox.take()
    assert words(group) == "abc"
    assert {each.where for each in group} == {Where.TAKEN}
    assert held(mailbox) == (0, 0)


@pytest.mark.parametrize(
    ("jobs", "groups"),
    [
        ([("a", 1), ("b", 1), ("c", 1), ("d", 1), ("e", 1)], ["abc", "de"]),
        ([("a", 4), ("b", 6), ("c", 0)], ["abc"]),
        ([("a", 4), ("b", 7), ("c", 3), ("d", 1)], ["a", "bc", "d"]),
        ([("a", 11), ("b", 1)], ["a", "b"]),
        ([("a", 1), ("X", 1), ("b", 1), ("c", 1)], ["a", "X", "bc"]),
        ([("X", 1), ("Y", 1), ("a", 1)], ["X", "Y", "a"]),
    ],
)
async def test_a_group_ends_at_its_bounds_and_at_who_runs_alone(
    mailbox: Mailbox, jobs: list[tuple[str, int]], groups: list[str]
) -> None:
    weights = dict(jobs)
    for word, weight in jobs:
        mailbox.put(job(word, weight))
    left = words([job(word) for word in weights])
    for expected in groups:
        assert words(await mailbox.take()) == expected
        left = left.removeprefix(expected)
        assert held(mailbox) == (len(left), sum(weights[word] for word in left))
    assert left == ""


def test_who_leaves_takes_what_it_held_along(mailbox: Mailbox) -> None:
    first, second, outside = job("a", 4), job("b", 5), job("c", 20)
    mailbox.put(first)
    mailbox.put(second)
    mailbox.line_up(outside, trio.CancelScope())
    mailbox.withdraw(outside)
    assert mailbox.has_room(1), "nobody is in line any more"
    assert held(mailbox) == (2, 9)
    mailbox.withdraw(first)
    assert held(mailbox) == (1, 5)
    assert words(mailbox.drain()) == "b"
    assert held(mailbox) == (0, 0)


def test_there_is_room_up_to_the_bounds_and_for_one_of_any_weight(mailbox: Mailbox) -> None:
    assert mailbox.has_room(1000)
    mailbox.put(job("a", 6))
    assert (mailbox.has_room(14), mailbox.has_room(15)) == (True, False)
    for word in "bcd":
        mailbox.put(job(word, 0))
    assert mailbox.has_room(0)
    mailbox.put(job("e", 0))
    assert not mailbox.has_room(0)


async def test_who_stands_outside_comes_in_in_order_and_then_has_all_the_time(
    mailbox: Mailbox,
) -> None:
    mailbox.put(job("a", 9))
    mailbox.put(job("b", 9))
    outside = [job("c", 12), job("d", 1)]
    patience = [trio.CancelScope(deadline=5) for _ in outside]
    for each, scope in zip(outside, patience, strict=True):
        mailbox.line_up(each, scope)
        assert each.where is Where.LINED
    assert mailbox.waits == 2
    assert not mailbox.has_room(0), "nobody passes those in line"
    assert words(await mailbox.take()) == "a"
    assert [each.where for each in outside] == [Where.LINED] * 2, "the first does not fit"
    assert words(await mailbox.take()) == "b"
    assert [each.where for each in outside] == [Where.QUEUED] * 2
    assert [scope.deadline for scope in patience] == [math.inf] * 2
    assert held(mailbox) == (2, 13)
    assert mailbox.has_room(7)


async def test_who_leaves_makes_room_for_who_stands_outside(mailbox: Mailbox) -> None:
    inside, outside = job("a", 20), job("b", 1)
    mailbox.put(inside)
    mailbox.line_up(outside, trio.CancelScope())
    mailbox.withdraw(inside)
    assert words(await mailbox.take()) == "b"


async def test_the_writer_sleeps_until_somebody_comes(
    mailbox: Mailbox, nursery: trio.Nursery
) -> None:
    taken: list[str] = []
    asleep: list[bool] = []

    async def take() -> None:
        taken.append(words(await mailbox.take()))

    for word in "ab":
        nursery.start_soon(take)
        await trio.testing.wait_all_tasks_blocked()
        asleep.append(mailbox.is_asleep)
        mailbox.put(job(word))
        asleep.append(mailbox.is_asleep)
        await trio.testing.wait_all_tasks_blocked()
    assert taken == ["a", "b"]
    assert asleep == [True, False] * 2


async def test_closed_it_gives_out_what_is_inside_and_then_nothing(mailbox: Mailbox) -> None:
    mailbox.put(job("a", 20))
    mailbox.line_up(job("b"), trio.CancelScope())
    error = Closed("it is over")
    assert words(mailbox.close(error)) == "b"
    assert mailbox.closed_with is error
    assert [words(await mailbox.take()) for _ in range(3)] == ["a", "", ""]


async def test_closed_while_the_writer_sleeps_it_wakes_it(
    mailbox: Mailbox, nursery: trio.Nursery
) -> None:
    taken: list[list[Job]] = []

    async def take() -> None:
        taken.append(await mailbox.take())

    nursery.start_soon(take)
    await trio.testing.wait_all_tasks_blocked()
    mailbox.close(Closed("it is over"))
    await trio.testing.wait_all_tasks_blocked()
    assert taken == [[]]
