"""RedriveSelected and Resubmit: dead letters that somebody picked, as they are or mended."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import ext, limits
from mqlite_actor.contract.errors import (
    GroupRequired,
    InvalidArgument,
    MessageTooLarge,
    NotFound,
)
from mqlite_actor.contract.wire import Message, QueueConfig
from mqlite_actor.sdk.handle import Handle
from tests.conformance import asking
from tests.conformance.handles import Sweep

LETTER = Message(
    body=b"body",
    message_id="m",
    correlation_id="c",
    reply_to="r",
    group_id="g",
    content_type="t",
    subject="s",
    properties={"k": "v", "l": "w"},
)
CARRIED = (
    "body", "message_id", "correlation_id", "reply_to", "group_id", "content_type", "subject",
    "properties",
)  # fmt: skip


def carried(message: Message) -> Message:
    return Message(**{name: getattr(message, name) for name in CARRIED})


async def bury(handle: Handle, queue: str, letter: Message = LETTER) -> int:
    """A dead letter; its number."""
    (seq,) = await asking.send(handle, queue, letter)
    await asking.reject(handle, queue, await asking.take_one(handle, queue), description="d")
    return seq


def outcomes(results: list[ext.RedriveResult]) -> list[str]:
    return [result.outcome.value for result in results]


# -- RedriveSelected -------------------------------------------------------------------------------


async def test_each_number_is_answered_for_itself(handle: Handle, queue: str) -> None:
    other = f"{queue}-other"
    for name in (queue, other):
        await asking.make(handle, name)
    first, second, third = await asking.kill(handle, queue, 3)
    alive = await asking.send_one(handle, queue)
    (elsewhere,) = await asking.kill(handle, other)
    results = await handle.redrive_selected(
        queue, [third, alive, first, elsewhere, 10**12, -1, 0, third]
    )
    assert outcomes(results) == [
        "moved", "not_dead_lettered", "moved", "not_found", "not_found", "not_found", "not_found",
        "not_dead_lettered",
    ]  # fmt: skip
    assert [each.new_seq_number for each in results] == [third, 0, first, 0, 0, 0, 0, 0]
    assert await asking.states(handle, queue) == {
        first: "active", second: "dead_lettered", third: "active", alive: "active",
    }  # fmt: skip
    assert await asking.states(handle, other) == {elsewhere: "dead_lettered"}


async def test_elsewhere_they_get_new_numbers_in_the_order_given(
    handle: Handle, queue: str
) -> None:
    target = f"{queue}-target"
    for name in (queue, target):
        await asking.make(handle, name)
    first, second, third = await asking.kill(handle, queue, 3)
    results = await handle.redrive_selected(queue, [third, first, third], target=target)
    assert outcomes(results) == ["moved", "moved", "not_found"]
    moved = await asking.look(handle, target)
    assert [m.body for m in moved] == [b"2", b"0"]
    assert [m.seq_number for m in moved] == [each.new_seq_number for each in results[:2]]
    assert list(await asking.states(handle, queue)) == [second]


async def test_a_selection_is_taken_whatever_its_size_up_to_a_thousand(
    handle: Handle, queue: str
) -> None:
    await asking.make(handle, queue, QueueConfig(default_ttl_ms=3_600_000))
    numbers = await asking.send(handle, queue, *[Message(group_id="g")] * 3)
    for _ in numbers:
        await asking.reject(handle, queue, await asking.take_one(handle, queue))
    many = [*numbers, *range(10**9, 10**9 + limits.SELECTED_MAX - 3)]
    results = await handle.redrive_selected(queue, many)
    assert [each.seq_number for each in results] == many
    assert outcomes(results).count("moved") == 3
    assert await handle.redrive_selected(queue, []) == []
    with pytest.raises(InvalidArgument, match="1000"):
        await handle.redrive_selected(queue, [*many, 1])


async def test_unknown_queues_are_not_found_and_nothing_moves(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue)
    (seq,) = await asking.kill(handle, queue)
    for names in ((f"{queue}-none", ""), (queue, f"{queue}-none")):
        for numbers in ([seq], []):
            with pytest.raises(NotFound):
                await handle.redrive_selected(names[0], numbers, target=names[1])
    assert await asking.states(handle, queue) == {seq: "dead_lettered"}


# -- Resubmit --------------------------------------------------------------------------------------

EDITS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "body": {"body": b"mended"},
    "no body": {"body": b""},
    "long body": {"body": b"x" * 5000},
    "properties": {"properties": {"new": "1"}},
    "no properties": {"properties": {}},
    "message_id": {"message_id": "n"},
    "correlation_id": {"correlation_id": ""},
    "reply_to": {"reply_to": "n"},
    "group_id": {"group_id": "h"},
    "no group_id": {"group_id": ""},
    "content_type": {"content_type": "n"},
    "subject": {"subject": "n"},
    "all": {
        "body": b"n", "properties": {"n": "n"}, "message_id": "n", "correlation_id": "n",
        "reply_to": "n", "group_id": "n", "content_type": "n", "subject": "n",
    },
}  # fmt: skip


@pytest.mark.parametrize("way", ["in place", "elsewhere"])
async def test_what_is_given_changes_and_the_rest_stays(
    handle: Handle, queue: str, way: str
) -> None:
    wrong = {}
    for number, (edit, changes) in enumerate(EDITS.items()):
        source = f"{queue}-{number}"
        target = source if way == "in place" else f"{source}-target"
        for name in {source, target}:
            await asking.make(handle, name)
        seq = await bury(handle, source)
        now = await handle.resubmit(source, seq, target=target, **changes)
        (alive,) = await asking.look(handle, target)
        delivered = await asking.take_one(handle, target)
        found = {
            "lives anew": (alive.seq_number, alive.state, alive.delivery_count)
            == (now, "active", 0),
            "keeps its number": (now == seq) == (way == "in place"),
            "has no reason": (alive.dead_letter_reason, alive.dead_letter_description) == ("", ""),
            "is edited": carried(alive) == msgspec.structs.replace(LETTER, **changes),
            "is delivered so": carried(delivered) == carried(alive),
            "is buried no more": (await asking.stats(handle, source)).dead_lettered == 0,
        }
        wrong.update({f"{edit}: {what}": alive for what, is_so in found.items() if not is_so})
    assert wrong == {}


SIZES = (3, 5000, limits.MESSAGE_BYTES_DEFAULT)


@pytest.mark.parametrize("target", ["", "-target"])
async def test_bodies_grow_and_shrink_wherever_they_are_kept(
    handle: Handle, queue: str, target: str
) -> None:
    for name in {queue, queue + target}:
        await asking.make(handle, name)
    for before, size in itertools.product((3, 5000, 100_000), SIZES):
        seq = await bury(handle, queue, Message(body=b"a" * before))
        await handle.resubmit(queue, seq, target=queue + target, body=b"b" * size)
        message = await asking.take_one(handle, queue + target)
        assert message.body == b"b" * size, f"{before} bytes became {size}"
        await asking.complete(handle, queue + target, message)


@pytest.mark.parametrize("ordering", ["standard", "strict_fifo"])
async def test_in_place_it_takes_its_old_place_in_line(
    handle: Handle, queue: str, ordering: str
) -> None:
    await asking.make(handle, queue, QueueConfig(ordering_mode=ordering))
    await asking.send_bodies(handle, queue, b"1", b"2", group_id="g")
    first = await asking.take_one(handle, queue)
    await asking.reject(handle, queue, first)
    await handle.resubmit(queue, first.seq_number, body=b"mended")
    for body in (b"mended", b"2"):
        (message,) = await asking.take(handle, queue, 9)
        assert message.body == body
        await asking.complete(handle, queue, message)


async def test_with_another_group_it_joins_that_line_at_its_number(
    handle: Handle, queue: str
) -> None:
    await asking.make(handle, queue)
    seq = await bury(handle, queue, Message(body=b"0", group_id="old"))
    await asking.send_bodies(handle, queue, b"old", group_id="old")
    await asking.send_bodies(handle, queue, b"new", group_id="new")
    await handle.resubmit(queue, seq, group_id="new")
    taken = await asking.take(handle, queue, 9)
    assert [m.body for m in taken] == [b"0", b"old"]
    await asking.complete(handle, queue, taken[0])
    assert (await asking.take_one(handle, queue)).body == b"new"


async def test_only_the_first_of_two_people_resubmits(handle: Handle, queue: str) -> None:
    target = f"{queue}-target"
    for name in (queue, target):
        await asking.make(handle, name)
    seq = await bury(handle, queue)
    await handle.resubmit(queue, seq, body=b"mine", target=target)
    with pytest.raises(NotFound, match=str(seq)):
        await handle.resubmit(queue, seq, body=b"theirs", target=target)
    assert [m.body for m in await asking.look(handle, target)] == [b"mine"]


async def test_what_is_no_dead_letter_of_the_queue_is_left_alone(
    handle: Handle, queue: str
) -> None:
    other = f"{queue}-other"
    for name in (queue, other):
        await asking.make(handle, name)
    alive = await asking.send_one(handle, queue, b"alive")
    foreign = await bury(handle, other)
    for seq in (alive, foreign, 0, -5, 10**12):
        with pytest.raises(NotFound):
            await handle.resubmit(queue, seq, body=b"x")
    assert (await asking.take_one(handle, queue)).body == b"alive"
    assert carried((await asking.look(handle, other))[0]) == LETTER


async def test_a_refused_edit_changes_nothing(handle: Handle, queue: str) -> None:
    fifo = f"{queue}-fifo"
    await asking.make(handle, queue)
    await asking.make(handle, fifo, QueueConfig(ordering_mode="group_fifo"))
    seq = await bury(handle, queue)
    before = await asking.look(handle, queue)
    with pytest.raises(MessageTooLarge):
        await handle.resubmit(queue, seq, body=bytes(limits.MESSAGE_BYTES_DEFAULT + 1))
    with pytest.raises(GroupRequired):
        await handle.resubmit(queue, seq, group_id="", target=fifo)
    for names in ((f"{queue}-none", ""), (queue, f"{queue}-none")):
        with pytest.raises(NotFound):
            await handle.resubmit(names[0], seq, target=names[1], body=b"x")
    assert await asking.look(handle, queue) == before
    assert await handle.resubmit(queue, seq, target=fifo) > seq


@pytest.mark.needs_clock
async def test_one_whose_life_is_over_gets_a_new_one(
    handle: Handle, queue: str, clock: ManualClock, sweep: Sweep
) -> None:
    await asking.make(handle, queue, QueueConfig(default_ttl_ms=1000))
    seq = await asking.send_one(handle, queue)
    clock.advance(1000)
    await sweep()
    await handle.resubmit(queue, seq, body=b"x")
    (alive,) = await asking.look(handle, queue)
    assert alive.expires_at_ms == clock.now_ms() + 1000


async def test_nobody_asks_for_duplicates(handle: Handle, queue: str) -> None:
    await asking.make(handle, queue, QueueConfig(dedup_window_ms=60_000))
    await asking.send_one(handle, queue, b"1", message_id="a")
    await asking.take(handle, queue, mode=1)
    seq = await bury(handle, queue, Message(body=b"2", message_id="b"))
    await handle.resubmit(queue, seq, message_id="a")
    assert (await asking.take_one(handle, queue)).message_id == "a"
