"""Runs of neighbours, case by case: what else becomes true with them, and where a run has to end.

test_neighbours.py holds the answers of random groups against those of commands alone; here are the
wakes, events and deadlines too, and the edges that chance seldom meets.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.wire import Message, QueueConfig
from mqlite_actor.engine import commands
from mqlite_actor.engine.group import run_group
from mqlite_actor.engine.outcomes import GroupResult
from tests.conformance import asking
from tests.storage.writer import Writer, writing

QUEUES = {
    "q": QueueConfig(),
    "brief": QueueConfig(default_ttl_ms=1),
    "window": QueueConfig(dedup_window_ms=1),
    "line": QueueConfig(ordering_mode="strict_fifo"),
}


@pytest.fixture
def writers(tmp_path: Path) -> Iterator[list[Writer]]:
    """One that runs neighbours together, and one that does not."""
    with ExitStack() as stack:
        found = []
        for name in ("together", "apart"):
            writer = stack.enter_context(writing(tmp_path / name, clock=ManualClock()))
            for queue, config in QUEUES.items():
                writer.create(queue, config)
            found.append(writer)
        found[1].table.runs = {}
        yield found
        for writer in found:
            writer.check()


def ran(writer: Writer, *requests: object) -> GroupResult:
    """As one group. It has to commit at once: a run that fails would be repeated one by one, and
    its answers would be right all the same."""
    result = run_group(writer.store, writer.table, requests, writer.clock)
    assert result.commits == 1 or type(requests[0]) in commands.ALONE
    return result


def send(queue: str, *batch: Message, ttl_ms: int = 0) -> wire.SendRequest:
    return wire.SendRequest(
        queue=queue, messages=list(batch) or [Message(body=b"x")], ttl_ms=ttl_ms
    )


LARGEST = Message(body=bytes(limits.INLINE_BYTES_MAX))

SENDS: dict[str, list[wire.SendRequest]] = {
    "of one and of three": [send("q"), send("q", *[Message(body=b"y")] * 3)],
    "with lives": [send("q", Message(ttl_ms=9)), send("q", ttl_ms=5), send("brief"), send("brief")],
    "with an empty one": [send("q"), wire.SendRequest(queue="q", messages=[]), send("q")],
    "into several queues": [send("q"), send("brief"), send("brief"), send("q"), send("none")],
    "of equal ones into a window": [send("window"), send("window"), send("window")],
    "into a line": [send("line"), send("line")],
    "of the largest inline": [send("q", LARGEST), send("q", LARGEST)],
    "with a group": [send("q"), send("q", Message(group_id="g")), send("q", Message(group_id="g"))],
    "with a scheduled one": [
        send("q"),
        wire.SendRequest(queue="q", messages=[Message()], scheduled_enqueue_time_ms=2**50),
        send("q"),
    ],
}


@pytest.mark.parametrize("requests", SENDS.values(), ids=SENDS.keys())
def test_sends_make_true_what_they_would_alone(
    writers: list[Writer], requests: list[wire.SendRequest]
) -> None:
    seen: list[Any] = []
    for writer in writers:
        result = ran(writer, *requests)
        answers = [getattr(each, "value", None) for each in result.outcomes]
        page = [writer.ask(wire.PeekRequest(queue=name, max=99)).messages for name in QUEUES]
        seen.append((answers, result.wakes, result.events, result.dues, page))
    assert seen[0] == seen[1]


GROUPED = Message(body=b"x", group_id="g")
LATER = wire.SendRequest(queue="q", messages=[GROUPED], scheduled_enqueue_time_ms=2**50)


@pytest.mark.parametrize(
    ("requests", "wakes"),
    [
        ([send("q"), send("q", Message(), Message())], {"q": 3}),
        ([send("q", GROUPED)], {"q": 1}),
        ([send("q", GROUPED), send("q", GROUPED, GROUPED)], {"q": 1}),
        ([send("line"), send("line"), send("line")], {"line": 1}),
        ([LATER], {}),
        ([LATER, send("q", GROUPED)], {"q": 1}),
        ([send("window"), send("window")], {"window": 1}),
    ],
)
def test_each_message_that_can_be_taken_wakes_one_and_no_other_does(
    writers: list[Writer], requests: list[wire.SendRequest], wakes: dict[str, int]
) -> None:
    for writer in writers:
        assert ran(writer, *requests).wakes == wakes


@pytest.mark.parametrize("kind", [wire.CompleteRequest, wire.RejectRequest, wire.AbandonRequest])
def test_who_comes_forward_in_a_lane_wakes_one(writers: list[Writer], kind: type[Any]) -> None:
    for writer in writers:
        ran(writer, send("q", GROUPED), send("q", GROUPED), send("line"), send("line"))
        for queue in ("q", "line"):
            (message,) = writer.take(queue)
            lease = asking.lease(queue, message)
            assert ran(writer, kind(**lease)).wakes == {queue: 1}
            assert ran(writer, kind(**lease)).wakes == {}, "a repetition changes nothing"


def claim(
    number: int = 1, *, attempt: str = "", queue: str = "q", mode: int = 0
) -> wire.ReceiveRequest:
    return wire.ReceiveRequest(
        queue=queue, max_messages=number, receive_attempt_id=attempt, receive_mode=mode
    )


CLAIMS: dict[str, list[wire.ReceiveRequest]] = {
    "of one and of two": [claim(), claim(2), claim()],
    "with nothing asked": [claim(0), claim(-3), claim()],
    "under attempts": [claim(attempt="a"), claim(2, attempt="b"), claim(attempt="a"), claim()],
    "with one that deletes": [claim(), claim(mode=1), claim(mode=1), claim()],
    "of more than there is": [claim(4), claim(9), claim(3)],
    "in two queues": [claim(), claim(queue="line"), claim(queue="line"), claim()],
    "in no queue": [claim(queue="none"), claim(queue="none")],
    "of as much as a claim may hold": [
        claim(limits.RECEIVE_MESSAGES_MAX - 1), claim(), claim(),
        claim(limits.RECEIVE_MESSAGES_MAX),
    ],
}  # fmt: skip


def without_token(message: Message) -> tuple[Any, ...]:
    return message.seq_number, message.locked_until_ms, message.delivery_count, message.body


@pytest.mark.parametrize("requests", CLAIMS.values(), ids=CLAIMS.keys())
def test_claims_make_true_what_they_would_alone_and_attempts_can_be_repeated(
    writers: list[Writer], requests: list[wire.ReceiveRequest]
) -> None:
    seen: list[Any] = []
    for writer in writers:
        for queue in ("q", "line"):
            ran(writer, *[send(queue, Message(body=b"%d" % n)) for n in range(9)])
        result = ran(writer, *requests)
        taken = [
            getattr(each, "value", wire.MessagesResponse(messages=[])).messages
            for each in result.outcomes
        ]
        shown = [list(map(without_token, each)) for each in taken]
        seen.append((shown, result.events, result.dues))
        for request, first in zip(requests, taken, strict=True):
            if request.receive_attempt_id:
                assert writer.ask(request).messages == first
        tokens = [each.lock_token for found in taken for each in found if each.lock_token]
        attempts = {each.receive_attempt_id for each in requests if each.receive_attempt_id}
        assert len(set(tokens)) == len(tokens) - (len(attempts) == 2)
    assert seen[0] == seen[1]


@pytest.mark.parametrize("place", range(3))
def test_an_attempt_that_is_repeated_amid_claims_gets_what_it_got(
    writers: list[Writer], place: int
) -> None:
    for writer in writers:
        ran(writer, *[send("q", Message(body=b"%d" % n)) for n in range(3)])
        first = writer.ask(claim(attempt="a")).messages
        claims = [claim(), claim()]
        claims.insert(place, claim(attempt="a"))
        taken = [each.unwrap().messages for each in ran(writer, *claims).outcomes]
        assert taken.pop(place) == first
        assert [message.body for found in taken for message in found] == [b"1", b"2"]


def test_completes_of_a_run_answer_each_for_itself(writers: list[Writer]) -> None:
    seen: list[Any] = []
    for writer in writers:
        writer.send("q", *[b"x"] * 4)
        writer.send("line", b"y")
        leases = [("q", m) for m in writer.take("q", 4)] + [
            ("line", m) for m in writer.take("line")
        ]

        def complete(place: int, token: str = "", queue: str = "") -> wire.CompleteRequest:
            name, message = leases[place]  # noqa: B023  # called in this round only
            return wire.CompleteRequest(
                queue=queue or name,
                seq_number=message.seq_number,
                lock_token=token or message.lock_token,
            )

        result = ran(
            writer,
            complete(0), complete(1, "no token"), complete(1), complete(2, leases[1][1].lock_token),
            complete(4), complete(4, queue="q"), complete(2, queue="none"), complete(2),
        )  # fmt: skip
        oks = [hasattr(each, "value") for each in result.outcomes]
        assert oks == [True, False, True, False, True, False, False, True]
        said = [str(getattr(each, "error", "")) for each in result.outcomes]
        for place, number in ((3, leases[2][1].seq_number), (5, leases[4][1].seq_number)):
            assert f"message {number} " in said[place]
        left = writer.bodies("q", "locked")
        seen.append((said, result.events, result.dues, result.wakes, left))
    assert seen[0] == seen[1]
    assert seen[0][-1] == [b"x"]


def test_what_a_group_took_is_told_for_each_command_and_for_the_whole(
    writers: list[Writer],
) -> None:
    for writer in writers:
        writes = ran(writer, send("q"), send("q"), send("none")).timings
        looks = ran(writer, wire.StatsRequest(queue="q")).timings
        alone = ran(writer, commands.TruncateLog()).timings
        for timings, told in (
            (writes, {("write", False): 2, ("read", True): 1, ("transaction", False): 1}),
            (looks, {("read", False): 1, ("transaction", False): 1}),
            (alone, {("transaction", False): 1}),
        ):
            found: dict[tuple[str, bool], int] = {}
            for kind, error, seconds, number in timings:
                assert 0 <= seconds < 60
                key = kind, error is not None
                found[key] = found.get(key, 0) + number
            assert {key: number for key, number in found.items() if number} == told
