"""What is guessed of a lease that was given out: only what its row would say, and only once.

A guess that is wrong costs a group run twice, and one that is not checked would lose a message; so
each is looked at here by itself, and never sent.
"""

from __future__ import annotations

from typing import Final

import pytest

from mqlite_actor.engine import foresight
from mqlite_actor.engine.foresight import guess
from mqlite_actor.storage import messages
from mqlite_actor.storage.database import Ledger, Row, Statement, Stored

QUEUE: Final = 3
TOKEN: Final = bytes(16)
UNTIL: Final = 1000


def leased(seq: int, *, state: Stored = Stored.LOCKED) -> Row:
    return seq, QUEUE, int(state), 1, UNTIL, TOKEN, 0, "g", 5, 0


@pytest.fixture
def ledger() -> Ledger:
    """One that remembers two leases."""
    ledger = Ledger(keeps_leases=True)
    assert ledger.leases is not None
    ledger.leases |= {seq: leased(seq) for seq in (1, 2)}
    return ledger


def complete(seq: int, *, now_ms: int = 0, token: bytes = TOKEN) -> Statement:
    return messages.complete(seq, QUEUE, token, now_ms)


def renew(seq: int, until: int) -> Statement:
    return messages.renew(seq, QUEUE, TOKEN, 0, until)


def test_a_settlement_is_sent_behind_the_proof_that_its_row_is_as_guessed(ledger: Ledger) -> None:
    made = guess(ledger, [complete(1), complete(2)])
    assert made is not None
    assert made.statements == [
        messages.certify(leased(1)), complete(1), messages.certify(leased(2)), complete(2),
    ]  # fmt: skip
    assert made.rows == [[(1, TOKEN, "g", 0)], [(2, TOKEN, "g", 0)]]
    assert not made.is_check
    assert ledger.leases == {}, "what is settled is forgotten"
    assert guess(ledger, [complete(1)]) is None


def test_a_look_in_order_to_settle_changes_nothing_and_forgets(ledger: Ledger) -> None:
    made = guess(ledger, [messages.held(1)])
    assert made is not None
    assert made.statements == [messages.certify(leased(1))]
    assert made.rows == [[leased(1)]]
    assert made.is_check
    assert ledger.leases == {2: leased(2)}


def test_what_only_looks_in_part_is_no_check(ledger: Ledger) -> None:
    made = guess(ledger, [messages.held(1), complete(2)])
    assert made is not None
    assert not made.is_check


def test_a_renewed_lease_is_remembered_with_its_later_end(ledger: Ledger) -> None:
    for until, holds in ((UNTIL + 5, UNTIL + 5), (UNTIL + 1, UNTIL + 5)):
        made = guess(ledger, [renew(1, until)])
        assert made is not None
        assert made.rows == [[(holds,)]], "never shortened"
        assert ledger.leases is not None
        row = leased(1)
        assert ledger.leases[1] == (*row[:4], holds, *row[5:])
        assert ledger.leases[2] == leased(2)


@pytest.mark.parametrize(
    "statements",
    [
        [complete(9)],
        [complete(1), complete(1)],
        [complete(1), ("SELECT ?", (2,))],
        [complete(1, token=bytes(range(16)))],
        [messages.complete(1, QUEUE + 1, TOKEN, 0)],
        [complete(1, now_ms=UNTIL)],
        [("SELECT ?", (1,))],
    ],
)
def test_what_the_fence_would_refuse_or_nobody_knows_is_asked(
    ledger: Ledger, statements: list[Statement]
) -> None:
    assert guess(ledger, statements) is None
    assert ledger.leases == {1: leased(1), 2: leased(2)}, "and nothing is forgotten"


def test_a_lease_that_is_over_is_no_lease(ledger: Ledger) -> None:
    assert ledger.leases is not None
    ledger.leases[1] = leased(1, state=Stored.READY)
    assert guess(ledger, [complete(1)]) is None
    assert guess(ledger, [complete(2, now_ms=UNTIL - 1)]) is not None


def test_more_leases_than_the_bound_are_all_forgotten(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foresight, "LEASES_MAX", 2)
    assert guess(ledger, [messages.held(1)]) is not None, "as many as the bound are kept"
    assert ledger.leases is not None
    ledger.leases |= {seq: leased(seq) for seq in (3, 4)}
    assert guess(ledger, [messages.held(2)]) is None
    assert ledger.leases == {}
    assert guess(Ledger(), [complete(1)]) is None, "a store nearby remembers none"
