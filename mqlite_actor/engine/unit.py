"""A command, or neighbours of one kind, on a store where each question costs a round trip.

Made by `waves.py`. The verb's own function runs from the start with the rows that are known so far;
when it asks for more it is left (`Blocked`), and run again from the start once they are there. So
the verbs are written once, for every store, and many of them ask in one request. A function that is
run again must do the same: the clock is read once per unit, random bytes are drawn from it
(`Transaction.random`), and a statement that was sent and is not repeated to the letter is our
mistake, and raises.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from mqlite_actor.contract.errors import CallerError
from mqlite_actor.engine import foresight
from mqlite_actor.engine.footprints import Keys
from mqlite_actor.engine.foresight import Guess
from mqlite_actor.storage.database import (
    Ledger,
    Recall,
    Row,
    Statement,
    Told,
    Transaction,
    Value,
)

Step = Callable[[Transaction], Sequence[Any]]
"""Runs the verb; answers for the first of the unit's commands."""


ROUNDS_MAX: Final = 1000
"""Questions of one unit: more than any verb has, and few enough to find the mistake soon."""


class Blocked(BaseException):
    """Rows are needed first. No Exception, so that nothing on the way up takes it for a failure."""


class Writing(NamedTuple):
    """Statements that nobody waits for, and what to do with their rows. `is_check`: they only make
    sure of something. `recall`: what to ask when the rows are lost."""

    statements: Sequence[Statement]
    told: Told | None = None
    is_check: bool = False
    recall: Recall | None = None


class Unit:
    """`indexes` are its commands in the group; `keys` None: it runs alone.

    After `go_on` returned True: `answers` for the first of its commands, `tx` with what came true,
    `unsent` still to be written, upon whose rows answers may be filled, or the last of them be
    taken back. After False: `unsent` and then `asked` have to be run, and
    `learn` told of it.
    """

    __slots__ = (
        "_draws", "_expected", "_known", "_place", "_random", "_sent", "_step", "_used", "_wanted",
        "answers", "asked", "indexes", "keys", "tx", "unsent",
    )  # fmt: skip

    def __init__(self, indexes: Sequence[int], step: Step, keys: Keys | None) -> None:
        self.indexes = indexes
        self.keys = keys
        self._step = step
        # Questions with their answers, which may be guessed.
        self._known: list[tuple[Sequence[Statement], list[list[Row]], Guess | None]] = []
        self._used: set[int] = set()  # of those, in this run
        self._sent: list[tuple[Writing, list[list[Row]]]] = []
        self._random: list[bytes] = []  # what was drawn, in order
        self._draws = 0  # of that, in this run
        self._place = 0
        self._expected: list[Sequence[Statement]] = []  # sets that will be asked for, in this run
        self._wanted: list[Sequence[Statement]] = []  # the sets that `asked` is made of
        self.asked: Sequence[Statement] = ()
        self.unsent: list[Writing] = []
        self.answers: Sequence[Any] = ()
        self.tx: Transaction

    @property
    def wrote(self) -> bool:
        """Whether it changes anything."""
        sent = [writing for writing, _ in self._sent]
        return any(not each.is_check for each in sent + self.unsent)

    def go_on(self, ledger: Ledger) -> bool:
        """Run from the start; whether it came to its end.

        Raises what the verb raises; a refusal before anything was written is an answer.
        """
        mark = ledger.mark(is_whole=self.keys is None)  # others write no queue rows
        self._place = self._draws = 0
        self._used = set()
        self._expected = []
        self.unsent = []
        self.tx = Transaction(
            self._run,
            self._run_many,
            ledger,
            write=self._write,
            write_many=self._write_many,
            later=self._later,
            expect=self._expect,
            random=self._draw,
        )
        try:
            self.answers = self._step(self.tx)
        except Blocked:
            ledger.go_back(mark)
            return False
        except CallerError as refusal:
            if self.wrote:
                raise  # a refusal after a write: only a rollback makes it true
            self.answers = (refusal,)
        return True

    def learn(self, written: Sequence[list[list[Row]]], found: list[list[Row]]) -> None:
        """The rows of `unsent`, each, and of `asked`."""
        self._sent += zip(self.unsent, written, strict=True)
        at = 0
        for each in self._wanted:
            self._known.append((each, found[at : at + len(each)], None))
            at += len(each)
        self.unsent = []

    # -- what the verb calls -----------------------------------------------------------------------

    def _run(self, statements: Sequence[Statement]) -> list[list[Row]]:
        if not statements:
            return []
        place = self._find(statements)
        if place is None:
            guess = foresight.guess(self.tx.ledger, statements)
            if guess is None:
                assert len(self._known) < ROUNDS_MAX, "a verb that never has what it asks for"
                self._wanted = [list(statements), *self._unheard()]
                self.asked = [each for wanted in self._wanted for each in wanted]
                raise Blocked
            place = len(self._known)
            self._known.append((list(statements), guess.rows, guess))
        self._used.add(place)
        _, found, guess = self._known[place]
        if guess is not None:
            self._put(Writing(guess.statements, is_check=guess.is_check))
        return found

    def _unheard(self) -> list[Sequence[Statement]]:
        """What is expected to be asked, and not known."""
        return [each for each in self._expected if self._find(each) is None]

    def _expect(self, statements: Sequence[Statement]) -> None:
        if statements:
            self._expected.append(list(statements))

    def _find(self, statements: Sequence[Statement]) -> int | None:
        """Where these were asked before, and not used in this run. By what is asked and not by its
        turn, since what the ledger has learned meanwhile is asked no more."""
        for place, (asked, _, _) in enumerate(self._known):
            if place not in self._used and _is_same(asked, statements):
                return place
        return None

    def _draw(self, number: int) -> bytes:
        place, self._draws = self._draws, self._draws + 1
        if place == len(self._random):
            self._random.append(secrets.token_bytes(number))
        return self._random[place]

    def _run_many(self, sql: str, arguments: Sequence[tuple[Value, ...]]) -> list[Row]:
        found = self._run([(sql, each) for each in arguments])
        return [row for rows in found for row in rows]

    def _write(self, statements: Sequence[Statement]) -> None:
        if statements:
            self._put(Writing(list(statements)))

    def _write_many(self, sql: str, arguments: Sequence[tuple[Value, ...]]) -> None:
        self._write([(sql, each) for each in arguments])

    def _later(
        self, statements: Sequence[Statement], told: Told, recall: Recall | None = None
    ) -> None:
        self._put(Writing(list(statements), told, recall=recall))

    def _put(self, writing: Writing) -> None:
        place, self._place = self._place, self._place + 1
        if place >= len(self._sent):
            self.unsent.append(writing)
            return
        sent, rows = self._sent[place]
        assert sent.statements == writing.statements, "what was sent cannot be taken back"
        if writing.told is not None:
            writing.told(rows)


def _is_same(asked: Sequence[Statement], statements: Sequence[Statement]) -> bool:
    """Whether these are those that were asked before. A statement that writes may hold a random
    word, and is asked once."""
    return len(asked) == len(statements) and all(
        old == new or (old[0] == new[0] and not new[0].lstrip().startswith("SELECT"))
        for old, new in zip(asked, statements, strict=True)
    )
