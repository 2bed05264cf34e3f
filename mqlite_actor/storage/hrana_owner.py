"""Who owns a remote database, and how far its owner has come.

Called by `hrana.py`. One row of `meta` says it: the owner's secret word, the number of its last
transaction, until when it counts (on the clock of the server), and its name. Every transaction of
the owner ends with a statement that moves this row from its last number to the next, and fails,
with all else, if the row is not as the owner left it. So two engines never write to one database,
whatever their clocks say; and after a lost answer one more move of the row settles for good whether
the transaction committed or never will (ruling R41, spec/remote.md 4.6).
"""

from __future__ import annotations

import os
import secrets
import socket
from typing import Final, NamedTuple

from mqlite_actor.contract import limits
from mqlite_actor.storage.database import Row, Statement

NOW: Final = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"
"""The server's clock in ms, in words that every server knows."""

LOOK: Final = f"SELECT (SELECT value FROM meta WHERE key = 'owner'), {NOW}"

# NULL is refused by the table itself: that is how a transaction ends which must not go on.
_MOVE = f"""
INSERT INTO meta (key, value) VALUES ('owner', CASE WHEN {{}}
  THEN ? || ({NOW} + ?) || ? END)
ON CONFLICT (key) DO UPDATE SET value = excluded.value"""
STEP: Final = _MOVE.format("(SELECT substr(value, 1, length(?)) FROM meta WHERE key = 'owner') = ?")
TAKE: Final = _MOVE.format("coalesce((SELECT value FROM meta WHERE key = 'owner'), '') = ?")
LEAVE: Final = "UPDATE meta SET value = '' WHERE key = 'owner' AND substr(value, 1, ?) IN (?, ?)"


class Claim(NamedTuple):
    """The row as it was found: "" and 0 if nobody owns the database."""

    text: str
    word: str
    number: int
    until_ms: int
    name: str
    now_ms: int

    @property
    def is_over(self) -> bool:
        """Whether somebody else may take it."""
        return self.until_ms <= self.now_ms


def claim(row: Row) -> Claim:
    """What a row of LOOK says; a text that is none of ours is nobody's."""
    text, now_ms = str(row[0] or ""), int(row[1])
    parts = text.split(" ", 3)
    if len(parts) == 4 and parts[1].isdecimal() and parts[2].isdecimal():
        return Claim(text, parts[0], int(parts[1]), int(parts[2]), parts[3], now_ms)
    return Claim(text, "", 0, 0, "", now_ms)


class Owner:
    """This engine as an owner: a word that nobody else has, and the number of its last
    transaction."""

    __slots__ = ("_name", "_tried", "number", "word")

    def __init__(self) -> None:
        self.word = secrets.token_hex(16)
        self.number = 0
        self._tried = ""  # the word of a take whose success is not known yet
        self._name = f" {socket.gethostname()}:{os.getpid()}"

    def is_ours(self, found: Claim) -> bool:
        """Whether the row is this engine's, be it from a take whose answer was lost."""
        return bool(found.word) and found.word in (self.word, self._tried)

    def take(self, found: Claim) -> Statement:
        """Own the database from now on, if the row is still as it was found; `took` when it is so.

        The word is a new one, so that nothing that was sent under the old one counts any more.
        Until then the old one stays ours: a take that never ran leaves the row under it.
        """
        self._tried = self._tried or secrets.token_hex(16)
        text = f"{self._tried} 0 "
        return TAKE, (found.text, text, limits.OWNER_LEASE_MS, self._name)

    def took(self) -> None:
        """The take has committed."""
        self.word, self.number, self._tried = self._tried, 0, ""

    def step(self, by: int = 1) -> Statement:
        """Move the row on from the last number, or fail; it counts from now for another lease."""
        before, after = self._prefix(self.number), self._prefix(self.number + by)
        return STEP, (before, before, after, limits.OWNER_LEASE_MS, self._name)

    def leave(self) -> Statement:
        """Own it no more, under whichever of our words."""
        words = f"{self.word} ", f"{self._tried or self.word} "
        return LEAVE, (len(words[0]), *words)

    def _prefix(self, number: int) -> str:
        return f"{self.word} {number} "
