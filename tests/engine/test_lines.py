"""The two lines of the engine by themselves: commands that wait for the writer, receives that wait
for a message."""

from __future__ import annotations

import math

import pytest
import trio

from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import Closed
from mqlite_actor.engine.mailbox import Job, Mailbox, Where
from mqlite_actor.engine.waiters import Waiters
from tests.engine.gate import until


def poll(queue: str = "q", number: int = 1, *, seconds: float = 1000.0) -> Job:
    return Job(
        wire.ReceiveRequest(queue=queue, max_messages=number),
        1,
        until=trio.current_time() + seconds,
        poll=trio.CancelScope(),
    )


def command(weight: int = 1, *, is_alone: bool = False) -> Job:
    return Job(wire.StatsRequest(queue="q"), weight, is_alone=is_alone)


# -- receives --------------------------------------------------------------------------------------


async def test_so_many_wait_as_may_and_each_that_leaves_makes_room_for_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "WAITERS_MAX", 2)
    waiters = Waiters()
    first, second, third = poll(), poll("r"), poll()
    assert waiters.park([first, second, third]) == [third]
    assert (waiters.number, waiters.counts()) == (2, {"q": 1, "r": 1})
    waiters.withdraw(second)
    assert (waiters.number, waiters.counts()) == (1, {"q": 1})
    assert waiters.park([third]) == []
    assert waiters.wake("q", 1) == [first]
    assert waiters.park([second, first]) == [second], "who was woken in vain goes before who is new"
    assert waiters.take_all() == [first, third]
    assert (waiters.number, waiters.counts()) == (0, {})


async def test_whose_time_is_over_does_not_wait() -> None:
    waiters = Waiters()
    late = poll(seconds=-1.0)
    assert waiters.park([late]) == [late]
    assert waiters.counts() == {}


async def test_who_is_woken_in_vain_stands_in_front_in_the_old_order() -> None:
    waiters = Waiters()
    jobs = [poll() for _ in range(4)]
    assert waiters.park(jobs) == []
    woken = waiters.wake("q", 2)
    assert woken == jobs[:2]
    late = poll()
    assert waiters.park([late, *woken]) == []
    assert waiters.wake("q", 99) == [*jobs, late]


async def test_as_many_are_woken_as_can_be_served() -> None:
    waiters = Waiters()
    jobs = [poll(number=number) for number in (2, 0, -1, 1, 1)]
    assert waiters.park(jobs) == []
    assert waiters.wake("none", 9) == []
    assert waiters.wake("q", 0) == []
    assert waiters.wake("q", 3) == jobs[:2], "two and, at the least, one"
    assert waiters.wake("q", 1) == jobs[2:3]
    assert waiters.wake("q", 9) == jobs[3:]


async def test_a_receive_has_its_time_while_it_waits_and_only_then() -> None:
    waiters = Waiters()
    job = poll(seconds=50.0)
    assert waiters.park([job]) == []
    assert job.poll is not None
    assert (job.where, job.has_waited, job.poll.deadline) == (Where.PARKED, True, job.until)
    waiters.wake("q", 1)
    assert job.poll.deadline == math.inf


# -- commands --------------------------------------------------------------------------------------


async def test_a_group_is_bounded_in_number_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GROUP_COMMANDS_MAX", 3)
    monkeypatch.setattr(limits, "GROUP_BYTES_MAX", 10)
    mailbox = Mailbox()
    jobs = [command(weight) for weight in (1, 1, 1, 1, 5, 4, 1, 11, 1)]
    for job in jobs:
        mailbox.put(job)
    assert (len(mailbox), mailbox.bytes) == (9, 26)
    groups = []
    while len(mailbox):
        group = await mailbox.take()
        assert all(job.where is Where.TAKEN for job in group)
        groups.append([job.weight for job in group])
        assert mailbox.bytes == 26 - sum(map(sum, groups))
    assert groups == [[1, 1, 1], [1, 5, 4], [1], [11], [1]]


async def test_what_goes_alone_is_in_no_group_and_nobody_passes_it() -> None:
    mailbox = Mailbox()
    jobs = [command(), command(is_alone=True), command(), command()]
    for job in jobs:
        mailbox.put(job)
    assert [await mailbox.take() for _ in range(3)] == [jobs[:1], jobs[1:2], jobs[2:]]


async def test_who_lines_up_comes_in_by_turns_and_nobody_passes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "MAILBOX_COMMANDS_MAX", 3)
    monkeypatch.setattr(limits, "MAILBOX_BYTES_MAX", 10)
    mailbox = Mailbox()
    assert mailbox.has_room(99), "one that is heavier than all the room there is goes alone"
    inside = command(8)
    mailbox.put(inside)
    assert mailbox.has_room(2)
    assert not mailbox.has_room(3)
    heavy, light, other = command(9), command(1), command(1)
    scopes = [trio.CancelScope(deadline=trio.current_time() + 99) for _ in range(3)]
    for job, scope in zip((heavy, light, other), scopes, strict=True):
        mailbox.line_up(job, scope)
    assert mailbox.waits == 3
    assert not mailbox.has_room(1), "it would fit, but others came before"
    mailbox.withdraw(other)
    assert len(mailbox) == 1
    assert await mailbox.take() == [inside]
    assert (heavy.where, light.where) == (Where.QUEUED, Where.QUEUED)
    assert (len(mailbox), mailbox.bytes) == (2, 10)
    assert [scope.deadline == math.inf for scope in scopes] == [True, True, False]
    assert not mailbox.has_room(1)
    mailbox.withdraw(heavy)
    assert (len(mailbox), mailbox.bytes) == (1, 1)
    assert mailbox.has_room(9)
    mailbox.put(command())
    assert mailbox.has_room(1)
    mailbox.put(command())
    assert not mailbox.has_room(1), "three are as many as may be"


async def test_one_that_leaves_lets_in_who_fits_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAILBOX_COMMANDS_MAX", 2)
    mailbox = Mailbox()
    inside = [command(), command()]
    for job in inside:
        mailbox.put(job)
    outside = [command(), command()]
    for job in outside:
        mailbox.line_up(job, trio.CancelScope())
    mailbox.withdraw(inside[0])
    assert [job.where for job in outside] == [Where.QUEUED, Where.LINED]
    assert await mailbox.take() == [inside[1], outside[0]]
    assert await mailbox.take() == [outside[1]]


async def test_who_is_put_first_comes_first_in_the_order_given() -> None:
    mailbox = Mailbox()
    jobs = [command() for _ in range(4)]
    mailbox.put(jobs[3])
    mailbox.put_first(jobs[:3])
    assert await mailbox.take() == jobs


async def test_a_closed_mailbox_gives_out_what_is_inside_and_then_nothing() -> None:
    mailbox = Mailbox()
    inside, outside = command(), command()
    mailbox.put(inside)
    mailbox.line_up(outside, trio.CancelScope())
    assert mailbox.close(Closed("over")) == [outside]
    assert await mailbox.take() == [inside]
    assert await mailbox.take() == []


@pytest.mark.parametrize("comes", [True, False])
async def test_who_waits_for_work_wakes_when_it_comes_or_never_will(
    nursery: trio.Nursery, *, comes: bool
) -> None:
    mailbox, job = Mailbox(), command()
    groups: list[list[Job]] = []

    async def take() -> None:
        groups.append(await mailbox.take())

    for number in (1, 2):
        nursery.start_soon(take)
        await until(lambda: mailbox.is_asleep)
        if comes:
            mailbox.put(job)
        else:
            mailbox.close(Closed("over"))
        await until(lambda: len(groups) == number)  # noqa: B023  # waited for in this round
        assert groups[-1] == ([job] if comes else [])
        if not comes:
            return
        assert not mailbox.is_asleep


async def test_a_mailbox_that_is_broken_is_emptied_whole() -> None:
    mailbox = Mailbox()
    jobs = [command(5), command(5)]
    for job in jobs:
        mailbox.put(job)
    assert mailbox.drain() == jobs
    assert (len(mailbox), mailbox.bytes) == (0, 0)
