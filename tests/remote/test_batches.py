"""What runs side by side far away, what waits for what, and in which transaction it ends.

Each test runs one group on a store whose queues are known, so that its requests can be counted: one
for each time that units ask together, and one for COMMIT.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mqlite_actor.contract import ext, wire
from mqlite_actor.contract.errors import (
    DedupConflict,
    Internal,
    LockLost,
    OutcomeUnknown,
    QueueNotEmpty,
    QueueNotFound,
    Unavailable,
)
from mqlite_actor.engine.group import run_group
from mqlite_actor.engine.outcomes import GroupResult
from mqlite_actor.storage import taking as taking_sql
from mqlite_actor.storage.database import Statement, Transaction
from mqlite_actor.storage.patience import Patience
from tests.engine.gate import PATIENCE, Custom, completing, sending, taking
from tests.hrana.faults import BusyOnBegin, Drop, Fault
from tests.remote.afar import Afar, afar, commits

MARK: Statement = ("UPDATE queues SET updated_at = 7 WHERE name = ?", ("other",))
TELL_MARK: Statement = (f"{MARK[0]} RETURNING updated_at", MARK[1])
READ_MARK: Statement = ("SELECT updated_at FROM queues WHERE name = ?", ("other",))


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Afar]:
    """Queues with a message each, all known: `q`, `other`, and `once` with duplicate detection."""
    with afar(tmp_path) as place:
        for name in ("q", "other", "once"):
            config = wire.QueueConfig(dedup_window_ms=60_000 if name == "once" else 0)
            place.writer.create(name, config)
            place.writer.send(name, b"known")
        yield place


def run(place: Afar, *requests: object) -> tuple[GroupResult, int]:
    """A group, and how many requests it took."""
    before = place.server.round_trips
    found = run_group(place.store, place.writer.table, requests, place.writer.clock)
    return found, place.server.round_trips - before


def replies(result: GroupResult) -> list[Any]:
    return [each.unwrap() for each in result.outcomes]


def once(word: str, queue: str = "once") -> wire.ScheduleRequest:
    """Something for later under this id, which has to be asked for where ids are remembered."""
    message = wire.Message(body=word.encode(), message_id=word)
    return wire.ScheduleRequest(
        queue=queue, messages=[message], scheduled_enqueue_time_ms=2_000_000_000_000
    )


def held(place: Afar, number: int) -> list[wire.Message]:
    """Leases of which this engine remembers nothing, so that each use of them asks."""
    place.writer.send("other", *[b"held"] * number)
    found = [each for each in place.writer.take("other", number + 1) if each.body == b"held"]
    assert place.store.ledger.leases is not None
    place.store.ledger.leases.clear()
    return found


# -- how many requests -----------------------------------------------------------------------------


def test_two_that_need_no_answer_are_one_request(place: Afar) -> None:
    result, trips = run(place, sending("q", b"a"), sending("q", b"b"))
    assert trips == 1
    assert [reply.seq_numbers is None for reply in replies(result)] == [False, False]


def test_a_lone_claim_is_one_request(place: Afar) -> None:
    result, trips = run(place, taking("q"))
    assert trips == 1
    assert [message.body for message in replies(result)[0].messages] == [b"known"]


def test_who_meets_another_asks_behind_it_in_the_same_transaction(place: Afar) -> None:
    result, trips = run(place, once("same"), once("same"))
    assert trips == 3, "two questions, and COMMIT"
    first, second = replies(result)
    assert first == second
    assert result.commits == 1
    assert place.writer.bodies("once") == [b"known", b"same"]


def test_a_third_question_waits_for_the_next_transaction(place: Afar) -> None:
    result, trips = run(place, *[once("same")] * 3)
    assert trips == 5, "a transaction is never more than three requests"
    assert result.commits == 2
    first, *others = replies(result)
    assert others == [first] * 2
    assert place.writer.bodies("once") == [b"known", b"same"]


def told(word: str, request_id: str, message_id: str) -> ext.SendResultRequest:
    """A send to a queue without duplicate detection, repeatable under its request id."""
    message = wire.Message(body=word.encode(), message_id=message_id)
    return ext.SendResultRequest(queue="q", messages=[message], request_id=request_id)


def test_a_request_that_is_repeated_in_its_own_group_is_stored_once(place: Afar) -> None:
    result, _ = run(place, told("a", "r", "1"), told("a", "r", "1"))
    first, second = replies(result)
    assert first.results == second.results
    assert place.writer.bodies("q") == [b"known", b"a"]


def test_requests_of_different_ids_ask_together_where_no_messages_are_remembered(
    place: Afar,
) -> None:
    result, trips = run(place, told("a", "r", "same"), told("b", "s", "same"))
    assert replies(result)
    assert trips == 2, "one question, and COMMIT"
    assert place.writer.bodies("q") == [b"known", b"a", b"b"]


def test_what_is_remembered_for_the_shortest_time_is_remembered_in_its_own_group(
    place: Afar,
) -> None:
    place.writer.create("brief", wire.QueueConfig(dedup_window_ms=1))
    other_body = msgspec.structs.replace(
        once("same", "brief"), messages=[wire.Message(body=b"other", message_id="same")]
    )
    result, _ = run(place, once("same", "brief"), once("same", "brief"), other_body)
    assert result.outcomes[0].unwrap() == result.outcomes[1].unwrap()
    with pytest.raises(DedupConflict):
        result.outcomes[2].unwrap()
    assert place.writer.bodies("brief") == [b"same"]


# -- who waits for whom ----------------------------------------------------------------------------


def test_nobody_passes_one_that_waits_for_the_same_message(place: Afar) -> None:
    one, two = held(place, 2)
    batch = [wire.SettleItem(each.seq_number, each.lock_token) for each in (one, two)]
    result, _ = run(
        place,
        wire.RenewRequest(queue="other", seq_number=one.seq_number, lock_token=one.lock_token),
        wire.CompleteBatchRequest(queue="other", messages=batch),
        wire.AbandonRequest(queue="other", seq_number=two.seq_number, lock_token=two.lock_token),
    )
    renewed, completed, abandoned = result.outcomes
    assert renewed.unwrap()
    assert [each.ok for each in completed.unwrap().results] == [True, True]
    with pytest.raises(LockLost):
        abandoned.unwrap()


def test_settlements_that_go_together_are_seen_by_who_comes_behind(place: Afar) -> None:
    one, two = held(place, 2)
    result, _ = run(
        place,
        completing("other", one),
        completing("other", two),
        wire.AbandonRequest(queue="other", seq_number=one.seq_number, lock_token=one.lock_token),
    )
    *completed, abandoned = result.outcomes
    assert [each.unwrap().ok for each in completed] == [True, True]
    with pytest.raises(LockLost):
        abandoned.unwrap()


@pytest.mark.parametrize("first", [[], [once("a")]], ids=["first", "behind another"])
def test_what_has_the_store_to_itself_is_passed_by_nobody(
    place: Afar, first: list[wire.ScheduleRequest]
) -> None:
    result, _ = run(place, *first, wire.CreateQueueRequest(name="new"), once("b", "new"))
    replies(result)
    assert place.writer.bodies("new") == [b"b"]


def test_what_a_command_wrote_is_there_when_it_asks(place: Afar) -> None:
    def mark(tx: Transaction, _request: object, _now_ms: int) -> object:
        tx.write([MARK])
        return tx.run([READ_MARK])

    place.writer.table[Custom] = mark
    result, trips = run(place, Custom())
    assert replies(result) == [[[(7,)]]]
    assert trips == 2


def test_what_a_write_returned_is_told_to_the_unit_that_asks_behind_it(place: Afar) -> None:
    def mark(tx: Transaction, _request: object, _now_ms: int) -> object:
        told: list[object] = []
        tx.write([MARK])
        tx.later([TELL_MARK], told.extend)
        return [*tx.run([READ_MARK]), told]

    place.writer.table[Custom] = mark
    result, _ = run(place, Custom())
    assert replies(result) == [[[(7,)], [[(7,)]]]]


def test_each_who_asks_gets_its_own_answer(place: Afar) -> None:
    first, _ = run(place, once("a"))
    result, trips = run(place, taking("q"), taking("other"), once("a"), once("b"))
    one, other, again, new = replies(result)
    assert [message.seq_number for message in one.messages] == [1]
    assert [message.seq_number for message in other.messages] == [2]
    assert again == replies(first)[0]
    assert new != again
    assert trips == 2, "they ask together"


def test_sends_that_have_to_ask_ask_each_for_itself_and_together(place: Afar) -> None:
    result, trips = run(place, sending("once", b"a"), sending("once", b"b"), sending("q", b"c"))
    assert all(reply.seq_numbers for reply in replies(result))
    assert trips == 2
    assert place.writer.bodies("once") == [b"known", b"a", b"b"]


def test_a_queue_is_not_found_empty_by_who_comes_behind_a_send(place: Afar) -> None:
    place.writer.create("empty", wire.QueueConfig(dedup_window_ms=60_000))
    generation = place.store.ledger.queues["empty"].generation
    deletion = wire.DeleteQueueRequest(name="empty", generation=generation)
    result, _ = run(place, once("a", "empty"), deletion)
    assert result.outcomes[0].unwrap()
    with pytest.raises(QueueNotEmpty):
        result.outcomes[1].unwrap()
    assert place.writer.bodies("empty") == [b"a"]


def test_a_claim_that_finds_the_front_overdue_runs_again(place: Afar) -> None:
    place.writer.create("brief")
    batch = [wire.Message(body=b"over", ttl_ms=5), wire.Message(body=b"alive")]
    place.writer.ask(wire.SendRequest(queue="brief", messages=batch))
    place.writer.clock.advance(5)
    result, _ = run(place, taking("brief"), sending("q", b"a"))
    claimed, sent = replies(result)
    assert [message.body for message in claimed.messages] == [b"alive"]
    assert sent.seq_numbers


# -- what becomes of it ----------------------------------------------------------------------------


def test_what_one_wrote_that_then_breaks_is_in_nobody_elses_transaction(place: Afar) -> None:
    def mark(tx: Transaction, _request: object, _now_ms: int) -> object:
        tx.write([MARK])
        tx.run([READ_MARK])
        raise RuntimeError

    place.writer.table[Custom] = mark
    result, _ = run(place, Custom(), once("a"))
    with pytest.raises(Internal):
        result.outcomes[0].unwrap()
    assert result.outcomes[1].unwrap()
    assert place.server.look(READ_MARK[0].replace("?", "'other'")) != [(7,)]
    assert place.writer.bodies("once") == [b"known", b"a"]


def test_what_is_tried_again_counts_once(place: Afar) -> None:
    place.server.faults.add(BusyOnBegin(), times=2)
    result, _ = run(place, sending("q", b"a", b"b"))
    assert place.server.faults.is_over
    replies(result)
    assert result.events == {("q", "enqueued"): 2}
    assert result.wakes == {"q": 2}
    assert place.writer.ask(wire.StatsRequest(queue="q")).active == 3


def test_what_is_tried_again_has_all_its_requests_again(place: Afar) -> None:
    place.server.faults.add(Drop(after=False), nth=2)
    result, trips = run(place, once("same"), once("same"))
    first, second = replies(result)
    assert first == second
    assert result.commits == 1
    assert place.writer.bodies("once") == [b"known", b"same"]
    assert trips > 3, "the second was lost"


def test_an_unknown_outcome_is_told_to_those_who_were_in_it(
    place: Afar, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest, refusals = Patience.rest, iter([False])
    monkeypatch.setattr(Patience, "rest", lambda *args: next(refusals, True) and rest(*args))
    place.server.faults.add(Drop(after=True), when=commits, times=2)
    result, _ = run(place, *[once("same")] * 3)
    for outcome in result.outcomes[:2]:
        with pytest.raises(OutcomeUnknown):
            outcome.unwrap()
    assert result.outcomes[2].unwrap().seq_numbers, "it was in the next one"
    assert place.writer.bodies("once") == [b"known", b"same"]


def test_a_claim_whose_answer_was_lost_is_asked_for_and_everybody_who_waits_looks_again(
    place: Afar,
) -> None:
    place.server.faults.add(Drop(after=True), when=commits)
    result, _ = run(place, taking("q"))
    (message,) = replies(result)[0].messages
    assert message.body == b"known"
    assert result.is_doubtful, "nobody heard what became claimable"
    assert place.writer.ask(completing("q", message)).ok


def test_a_claim_of_which_nobody_can_ask_is_unknown(
    place: Afar, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Patience, "rest", lambda *_: False)
    place.server.faults.add(Drop(after=True), when=commits)
    place.server.faults.add(
        Drop(after=False), when=lambda request: taking_sql.LEASED in request.statements
    )
    result, _ = run(place, taking("q"))
    with pytest.raises(OutcomeUnknown, match="claimed"):
        result.outcomes[0].unwrap()


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (BusyOnBegin(), "did not take it in time: .*locked"),
        (Drop(after=False), "answer .* is lost; nothing was done"),
    ],
    ids=["busy", "lost"],
)
def test_who_is_refused_in_the_end_is_told_what_was_in_the_way(
    place: Afar, monkeypatch: pytest.MonkeyPatch, fault: Fault, told: str
) -> None:
    monkeypatch.setattr(Patience, "rest", lambda *_: False)
    place.server.faults.add(fault)
    result, _ = run(place, sending("q", b"a"))
    with pytest.raises(Unavailable, match=told):
        result.outcomes[0].unwrap()


def test_each_command_is_counted_as_what_it_did(place: Afar) -> None:
    place.store.complaint = "an outage, which is over"
    writes = sending("q", b"a"), once("b"), sending("nowhere", b"c")
    for requests, expected in (
        (
            writes,
            [
                ("read", QueueNotFound, 1),
                ("transaction", None, 1),
                ("write", None, 1),
                ("write", None, 1),
            ],
        ),
        ([wire.StatsRequest(queue="q")], [("read", None, 1), ("transaction", None, 1)]),
    ):
        result, _ = run(place, *requests)
        counted = [(name, error and type(error), n) for name, error, _, n in result.timings]
        assert sorted(counted, key=str) == expected
        assert all(0 <= seconds < PATIENCE for _, _, seconds, _ in result.timings)
    assert place.store.complaint == "", "the next one is a new line in the log"
