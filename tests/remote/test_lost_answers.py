"""A lost answer neither loses a message nor doubles it, whichever side of COMMIT it was lost on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import OutcomeUnknown, StorageFailed, Unavailable
from mqlite_actor.storage import hrana_owner
from mqlite_actor.storage.hrana_opening import open_remote
from tests.hrana.faults import BusyOnBegin, Drop, Fault, Move, Refuse, Request, TimeOut, Truncate
from tests.hrana.manners import SQLD, TURSODB, Manners
from tests.hrana.server import running_hrana
from tests.remote.afar import TXN_SECONDS, Afar, afar, commits, sends

DEDUP = wire.QueueConfig(dedup_window_ms=3_600_000)


@pytest.fixture(params=[SQLD, TURSODB], ids=["sqld", "tursodb"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Afar]:
    manners: Manners = request.param
    with afar(tmp_path, manners=manners) as place:
        yield place


LOSSES: dict[str, Callable[[], Fault]] = {
    "before it ran": lambda: Drop(after=False),
    "after COMMIT": lambda: Drop(after=True),
    "in the middle of the answer": lambda: Truncate(0.5),
    "503 instead": Refuse.overloaded,
    "503 after COMMIT": lambda: Refuse.overloaded(after=True),
    "502 after COMMIT": lambda: Refuse.with_status(502, after=True),
    "504 instead": lambda: Refuse.with_status(504),
    "408 after COMMIT": lambda: Refuse.with_status(408, after=True),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_a_send_whose_answer_is_lost_is_stored_once_and_answered(place: Afar, loss: str) -> None:
    place.server.faults.add(LOSSES[loss](), when=sends)
    (outcome,) = place.writer.group(place.sending(b"a"))
    assert outcome.unwrap() == wire.SendResponse(seq_numbers=[1])
    assert place.server.faults.is_over
    assert place.stored() == ["a"]
    assert place.writer.send("q", b"b") == [2]


@pytest.mark.parametrize("loss", LOSSES)
def test_repeating_a_send_with_an_id_never_doubles_it(place: Afar, loss: str) -> None:
    place.writer.create("q", DEDUP)
    place.server.faults.add(LOSSES[loss](), when=sends)
    numbers = [place.writer.ask(place.sending(b"a")).seq_numbers for _ in range(2)]
    assert numbers[0] == numbers[1]
    assert place.stored() == ["a"]


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("when", ["before", "after"])
def test_each_request_of_a_claim_and_a_settlement_may_be_lost(
    place: Afar, nth: int, when: str
) -> None:
    place.writer.send("q", b"a", b"b")
    place.server.faults.add(Drop(after=when == "after"), nth=nth)
    taken = place.writer.take("q", 2)
    assert [message.body for message in taken] == [b"a", b"b"]
    place.store.ledger.forget()  # so that the settlement has to ask
    place.server.faults.clear()
    place.server.faults.add(Drop(after=when == "after"), nth=nth)
    for message in taken:
        settle = wire.CompleteRequest(
            queue="q", seq_number=message.seq_number, lock_token=message.lock_token
        )
        assert place.writer.ask(settle).ok
    assert place.stored() == []
    stats = place.writer.ask(wire.StatsRequest(queue="q"))
    assert (stats.total, stats.locked) == (0, 0)


def test_a_claim_whose_answer_is_lost_still_looks_behind_what_is_overdue(place: Afar) -> None:
    overdue = wire.SendRequest(queue="q", messages=[wire.Message(body=b"late")], ttl_ms=5)
    place.writer.ask(overdue)
    place.writer.send("q", b"a")
    place.writer.clock.advance(5)
    place.server.faults.add(Drop(after=True))
    assert [message.body for message in place.writer.take("q", 2)] == [b"a"]


def test_an_unknown_outcome_is_told_and_never_run_again(
    place: Afar, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqlite_actor.storage.patience.Patience.rest", lambda *_: False)
    place.server.faults.add(Drop(after=True), times=4)
    (outcome,) = place.writer.group(place.sending(b"a"))
    with pytest.raises(OutcomeUnknown):
        outcome.unwrap()
    place.server.faults.clear()
    assert place.stored() == ["a"]
    assert place.writer.bodies("q") == [b"a"], "it is opened anew, and goes on"


TROUBLES: dict[str, tuple[Callable[[], Fault], int]] = {
    "busy": (BusyOnBegin, 2),
    "throttled": (lambda: Refuse.throttled("0"), 2),
    "throttled for a moment": (lambda: Refuse.throttled(""), 2),
    "overloaded": (lambda: Refuse.overloaded("0"), 2),
    "timed out over there": (lambda: TimeOut(1), 1),
    "moved": (Move, 1),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_what_passes_is_waited_for(place: Afar, trouble: str) -> None:
    fault, times = TROUBLES[trouble]
    place.writer.send("q", b"a")
    place.server.faults.add(fault(), times=times)
    assert [message.body for message in place.writer.take("q")] == [b"a"]


def test_trouble_that_does_not_pass_is_unavailable_and_nothing_is_done(
    place: Afar, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "REMOTE_PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr("mqlite_actor.storage.patience.Patience.rest", lambda *_: False)
    place.server.faults.add(BusyOnBegin(), times=50)
    outcomes = place.writer.group(place.sending(b"a"), place.sending(b"b"))
    for outcome in outcomes:
        with pytest.raises(Unavailable):
            outcome.unwrap()
    place.server.faults.clear()
    assert place.stored() == []


@pytest.mark.parametrize("status", [401, 400])
def test_a_token_that_ran_out_is_told_without_being_shown(tmp_path: Path, status: int) -> None:
    """400: as Turso Cloud says it of one that it cannot read."""
    with afar(tmp_path, token="very-secret") as place:
        place.server.faults.add(Refuse.unauthorized(status), times=2)
        (outcome,) = place.writer.group(place.sending(b"a"))
        with pytest.raises(StorageFailed, match="MQLITE_DB_AUTH_TOKEN") as caught:
            outcome.unwrap()
        assert "very-secret" not in repr(caught.value)
        place.server.faults.clear()
        assert place.writer.send("q", b"b") == [1]


def test_a_request_that_comes_late_changes_nothing_any_more(tmp_path: Path) -> None:
    """What was given up as lost is fenced off by the row of the owner."""
    with afar(tmp_path) as place:
        late = place.store._owner.step()
        place.writer.send("q", b"a")
        with pytest.raises(Exception, match="NOT NULL"):
            place.store._stream.finish([("DELETE FROM messages", ()), late])
        assert place.stored() == ["a"]
        assert commits(list(place.server.requests)[-1])


# -- owning the database ---------------------------------------------------------------------------


def takes(request: Request) -> bool:
    """Whether it makes the engine the owner."""
    return hrana_owner.TAKE in request.statements


TAKINGS = {
    "before it ran": LOSSES["before it ran"],
    "after COMMIT": LOSSES["after COMMIT"],
    "busy": BusyOnBegin,
}


@pytest.mark.parametrize("loss", TAKINGS)
def test_a_database_whose_taking_was_lost_is_ones_own_and_taken_at_once(
    place: Afar, loss: str
) -> None:
    """Not another engine's until the lease of its owner is over."""
    place.server.faults.add(Refuse.unauthorized())  # puts the store in doubt
    place.server.faults.add(TAKINGS[loss](), when=takes)
    for _ in range(2):
        (outcome,) = place.writer.group(place.sending(b"a"))
        with pytest.raises(StorageFailed) as caught:
            outcome.unwrap()
        assert "another engine" not in str(caught.value)
    assert place.server.faults.is_over
    assert place.writer.send("q", b"b") == [1]
    assert place.stored() == ["b"]
    place.store.close()
    with closing(open_remote(place.server.url)):  # it was given up, whatever its word was
        pass


@pytest.mark.parametrize("loss", TAKINGS)
def test_opening_goes_on_when_the_taking_was_lost(tmp_path: Path, loss: str) -> None:
    with running_hrana(tmp_path, txn_seconds=TXN_SECONDS) as server:
        server.faults.add(TAKINGS[loss](), when=takes)
        with closing(open_remote(server.url)) as store:
            assert store.healthy
        assert server.faults.is_over
