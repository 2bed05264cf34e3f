"""Large answers that clients do not take have one budget, in the lane and in the door."""

from __future__ import annotations

import base64
import json

import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract.limits import MIB
from mqlite_actor.engine.engine import Engine
from mqlite_broker import rpc as rpc_module
from mqlite_broker.door_answers import Answers, Room
from mqlite_broker.door_limits import ANSWER_BYTES_PER_SECOND, ANSWER_SECONDS
from tests.services.broker_scene import LOOPBACK, failure, message, path, raw, served

PEEK = raw(path("Peek"), b'{"queue":"q"}')
SOON_MS = round(ANSWER_SECONDS * 1000)


class Reader:
    """A client: whether it was cut."""

    def __init__(self, answers: Answers, size: int, *, is_owed: bool = False) -> None:
        self.room = answers.room(size, is_owed=is_owed)
        self.is_cut = False
        if self.room is not None:
            self.room.cut = self._cut

    def _cut(self) -> None:
        self.is_cut = True


def test_who_does_not_read_makes_room_and_who_reads_slowly_does_not() -> None:
    clock = ManualClock()
    answers = Answers(100, 1000, clock)
    silent, slow = Reader(answers, 40), Reader(answers, 40)
    assert isinstance(slow.room, Room)
    assert Reader(answers, 40).room is None, "both have had no time yet"
    clock.advance(SOON_MS)
    slow.room.taken = ANSWER_BYTES_PER_SECOND * round(ANSWER_SECONDS)
    late = Reader(answers, 40)
    assert (silent.is_cut, slow.is_cut, late.is_cut) == (True, False, False)
    assert late.room is not None
    assert answers.bytes_used == 80
    for each in (silent, slow, slow, late):
        assert each.room is not None
        each.room.end()
    assert answers.bytes_used == 0
    assert Reader(answers, 500).room is not None, "alone, it may be larger than all of it"


def test_what_is_owed_has_room_and_a_bound_of_its_own() -> None:
    clock = ManualClock()
    answers = Answers(100, 200, clock)
    owed = [Reader(answers, 50, is_owed=True) for _ in range(5)]
    assert answers.bytes_used == 250, "nobody has had time to read"
    clock.advance(SOON_MS)
    for number, each in enumerate(owed):
        assert each.room is not None
        each.room.taken = ANSWER_BYTES_PER_SECOND * 10 * (number + 1)
    assert Reader(answers, 50, is_owed=True).room is not None
    assert [each.is_cut for each in owed] == [True, True, False, False, False]
    assert answers.bytes_used == 200


def test_what_is_owed_keeps_no_other_out() -> None:
    clock = ManualClock()
    answers = Answers(100, 200, clock)
    owed = [Reader(answers, 60, is_owed=True) for _ in range(3)]
    clock.advance(SOON_MS)
    for each in owed:
        assert each.room is not None
        each.room.taken = ANSWER_BYTES_PER_SECOND * 10
    small = Reader(answers, 20)
    assert small.room is not None
    assert not any(each.is_cut for each in owed)
    assert Reader(answers, 90).room is None, "those like it leave none"
    small.room.end()
    assert Reader(answers, 90).room is not None
    assert sum(each.is_cut for each in owed) == 2, "all together have a bound"


@pytest.mark.parametrize("lane", ["on", "off"])
async def test_answers_that_nobody_reads_keep_no_others_out(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, lane: str
) -> None:
    clock = ManualClock()
    answers = Answers(20 * MIB, 100 * MIB, clock)
    monkeypatch.setattr(rpc_module, "Answers", lambda: answers)
    async with served(engine, LOOPBACK, MQLITE_LANE=lane) as scene:
        await scene.ok("AdminService/CreateQueue", {"name": "q"})
        body = base64.b64encode(bytes(MIB - 100)).decode()
        for _ in range(8):
            await scene.ok("Send", {"queue": "q", "messages": [{"body": body}]})
        stalled = await scene.door.connect(receive_buffer=4096)
        await stalled.send(PEEK)
        await stalled.exactly(1000)
        assert answers.bytes_used > 10 * MIB

        claim = {"queue": "q", "max_messages": 8}
        refused = await scene.call("Receive", claim)
        assert failure(refused) == (503, "unavailable")
        assert message(refused).startswith("too many large answers")
        rows = json.loads((await scene.call("Stats", {"queue": "q"})).body)
        assert rows["active"] == 8, "it went back"
        owed = await scene.call("Receive", {**claim, "max_messages": 4, "receive_attempt_id": "a"})
        assert len(json.loads(owed.body)["messages"]) == 4

        clock.advance(SOON_MS)
        peeked = await scene.call("Peek", {"queue": "q"})
        found = json.loads(peeked.body)["messages"]
        assert [each.get("delivery_count", 0) for each in found] == [
            1, 1, 1, 1, 0, 0, 0, 0,
        ]  # fmt: skip
        assert len(await stalled.ended()) < 8 * MIB, "it was cut"
        await stalled.close()
        assert answers.bytes_used == 0
