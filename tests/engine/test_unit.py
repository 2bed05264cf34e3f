"""A unit of a remote group by itself: run, stopped at a question, and run again with its answer.

The steps are a test's own; what they ask for and write is only ever looked at, never run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from mqlite_actor.contract.errors import NotFound
from mqlite_actor.engine.unit import Step, Unit
from mqlite_actor.storage.database import Ledger, Row, Statement, Transaction


def select(number: int) -> Statement:
    return "SELECT ?", (number,)


def update(word: str) -> Statement:
    return "UPDATE t SET w = ?", (word,)


def rows(word: str) -> list[Row]:
    return [(word,)]


class Trial:
    """One unit, and a ledger for it."""

    def __init__(self, step: Step, *, is_alone: bool = False) -> None:
        self.unit = Unit([0], step, None if is_alone else frozenset())
        self.ledger = Ledger(page_bytes=1000, keeps_leases=True)

    def goes_on(self) -> bool:
        return self.unit.go_on(self.ledger)

    @property
    def unsent(self) -> list[Sequence[Statement]]:
        return [writing.statements for writing in self.unit.unsent]

    def learn(self, *found: list[Row], written: Sequence[list[list[Row]]] = ()) -> None:
        self.unit.learn(written or [[] for _ in self.unit.unsent], list(found))


def test_what_was_sent_is_not_sent_again_when_a_unit_goes_on() -> None:
    def step(tx: Transaction) -> Sequence[Any]:
        tx.write([update("a")])
        tx.write([update("b")])
        found = tx.run([select(1)])
        tx.write([update("c")])
        return found

    trial = Trial(step)
    assert not trial.goes_on()
    assert trial.unsent == [[update("a")], [update("b")]]
    assert trial.unit.asked == [select(1)]
    assert trial.unit.wrote
    trial.learn(rows("x"))
    assert trial.unsent == []
    assert trial.goes_on()
    assert trial.unsent == [[update("c")]]
    assert trial.unit.answers == [rows("x")]


def test_a_question_that_is_asked_twice_is_answered_twice() -> None:
    trial = Trial(lambda tx: [*tx.run([select(1)]), *tx.run([select(1)])])
    for word in ("first", "second"):
        assert not trial.goes_on()
        assert trial.unit.asked == [select(1)]
        trial.learn(rows(word))
    assert trial.goes_on()
    assert trial.unit.answers == [rows("first"), rows("second")]
    assert not trial.unit.wrote


def test_what_will_be_asked_is_asked_with_the_first_question_and_once() -> None:
    def step(tx: Transaction) -> Sequence[Any]:
        tx.expect([])
        tx.expect([select(2), select(3)])
        first = tx.run([select(1)])
        assert tx.run([]) == []
        return [*first, *tx.run([select(2), select(3)])]

    trial = Trial(step)
    assert not trial.goes_on()
    assert trial.unit.asked == [select(1), select(2), select(3)]
    trial.learn(*map(rows, "abc"))
    assert trial.goes_on(), "what is known is not asked again"
    assert trial.unit.answers == [rows(word) for word in "abc"]


def test_a_statement_that_writes_is_known_by_its_text_and_one_that_reads_by_its_values() -> None:
    words = iter(["one", "two", "three", "four"])

    def step(tx: Transaction) -> Sequence[Any]:
        other = ("DELETE FROM t WHERE w = ?", ("x",))
        return [
            *tx.run([update(next(words))]),
            *tx.run([other]),
            *tx.run([select(len(words_left))]),
        ]

    words_left = [1, 2]
    trial = Trial(step)
    assert not trial.goes_on()
    trial.learn(rows("updated"))
    assert not trial.goes_on()
    assert trial.unit.asked[0][0].startswith("DELETE"), "another text is another statement"
    trial.learn(rows("deleted"))
    assert not trial.goes_on()
    assert trial.unit.asked == [select(2)]
    trial.learn(rows("two left"))
    words_left.pop()
    assert not trial.goes_on()
    assert trial.unit.asked == [select(1)]


def test_what_is_drawn_stays_the_same_from_run_to_run() -> None:
    drawn: list[tuple[bytes, bytes]] = []

    def step(tx: Transaction) -> Sequence[Any]:
        drawn.append((tx.random(4), tx.random(4)))
        return tx.run([select(1)])

    trial = Trial(step)
    assert not trial.goes_on()
    trial.learn(rows("x"))
    assert trial.goes_on()
    first, again = drawn
    assert first == again
    assert first[0] != first[1]


def test_what_a_write_returned_is_told_when_the_unit_goes_on() -> None:
    told: list[list[list[Row]]] = []

    def step(tx: Transaction) -> Sequence[Any]:
        tx.later([update("a")], told.append)
        return tx.run([select(1)])

    trial = Trial(step)
    assert not trial.goes_on()
    assert told == []
    trial.learn(rows("x"), written=[[rows("was b")]])
    assert trial.goes_on()
    assert told == [[rows("was b")]]


def test_a_refusal_is_an_answer_until_something_was_written() -> None:
    def refuse(_: Transaction) -> Sequence[Any]:
        raise NotFound("no")

    def write_and_refuse(tx: Transaction) -> Sequence[Any]:
        tx.write([])
        tx.write([update("a")])
        raise NotFound("no")

    trial = Trial(refuse)
    assert trial.goes_on()
    (answer,) = trial.unit.answers
    assert isinstance(answer, NotFound)
    with pytest.raises(NotFound):
        Trial(write_and_refuse).goes_on()


def test_a_run_that_stops_at_a_question_leaves_nothing_in_the_ledger() -> None:
    numbers: list[int] = []
    queue: Any = "what it knows of a queue"

    def step(tx: Transaction) -> Sequence[Any]:
        numbers.append(tx.next_seq())
        tx.ledger.queues["new"] = queue
        return tx.run([select(1)])

    trial = Trial(step, is_alone=True)
    trial.ledger.last_seq = 10
    assert not trial.goes_on()
    assert (trial.ledger.last_seq, trial.ledger.queues) == (10, {})
    trial.learn(rows("x"))
    assert trial.goes_on()
    assert numbers == [11, 11]
    assert (trial.ledger.last_seq, trial.ledger.queues) == (11, {"new": queue})


def test_rows_that_are_written_together_are_statements_of_their_own() -> None:
    def step(tx: Transaction) -> Sequence[Any]:
        tx.write_many("UPDATE t SET w = ?", [("a",), ("b",)])
        return [True]

    trial = Trial(step)
    assert trial.goes_on()
    assert trial.unsent == [[update("a"), update("b")]]
