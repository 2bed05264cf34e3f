"""A caller's own SQL inside a transaction on a remote store, kept away from what is the engine's.

The counterpart of `user_sql.py`, where SQLite itself judges each access. Here nobody can ask the
server, so the text is judged, and in doubt refused: a statement that only reads may name any table;
any other may not name the engine's at all, in whatever quotes, be it as a value. One statement at a
time; none that ends the transaction, changes settings or looks beyond the database.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import isfinite
from typing import Final

from mqlite_actor.contract.errors import InvalidArgument, TxTimeout
from mqlite_actor.storage import schema
from mqlite_actor.storage.database import Row, Statement, Value

_TOKEN: Final = re.compile(
    r"--[^\n]*|/\*.*?(?:\*/|\Z)"  # comments
    r"|'((?:[^']|'')*)'|\"((?:[^\"]|\"\")*)\"|`((?:[^`]|``)*)`|\[([^\]]*)\]"  # quoted
    r"|([A-Za-z_\x80-\U0010ffff][\w$\x80-\U0010ffff]*)"  # names and words
    r"|(;)|[^\s]",
    re.DOTALL,
)

READS: Final = frozenset({"SELECT", "VALUES", "EXPLAIN"})
WRITES: Final = frozenset({
    "INSERT", "UPDATE", "DELETE", "REPLACE", "WITH", "CREATE", "DROP", "ALTER",
})  # fmt: skip
_WRITING_WORDS: Final = frozenset({"INSERT", "UPDATE", "DELETE", "REPLACE"})
_BOOKKEEPING: Final = re.compile(r"sqlite_|libsql_|pragma_", re.IGNORECASE)


class RemoteSql:
    """Runs a caller's statements by `run`, which sends one."""

    __slots__ = ("_run",)

    def __init__(self, run: Callable[[Statement], list[Row]]) -> None:
        self._run = run

    def run(self, sql: str, arguments: Sequence[Value], is_over: Callable[[], bool]) -> list[Row]:
        """Rows of one statement. InvalidArgument names what was refused or is wrong with it;
        TxTimeout when its time was over when the answer came."""
        check(sql)
        if not all(isinstance(each, int | float | str | bytes | None) for each in arguments):
            raise InvalidArgument("arguments: None, int, float, str or bytes")
        if any(isinstance(each, int) and not -(2**63) <= each < 2**63 for each in arguments):
            raise InvalidArgument("arguments: an integer of at most 64 bits")
        if any(isinstance(each, float) and not isfinite(each) for each in arguments):
            raise InvalidArgument("arguments: a finite number; no other goes to a remote store")
        if any(isinstance(each, str) and not _is_encodable(each) for each in arguments):
            raise InvalidArgument("arguments: a text without half a surrogate pair")
        found = self._run((sql, tuple(arguments)))
        if is_over():
            raise TxTimeout("the transaction took too long and was rolled back")
        return found


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check(sql: str) -> None:
    """InvalidArgument for a text that a caller may not run."""
    words: list[str] = []
    names: list[str] = []
    is_ended = False
    for found in _TOKEN.finditer(sql):
        *quoted, word, semicolon = found.groups()
        if semicolon:
            is_ended = True
            continue
        is_comment = found[0].startswith(("--", "/*"))
        if is_comment:
            continue
        if is_ended:
            raise InvalidArgument("refused inside tx(): one statement at a time")
        if word:
            words.append(word.upper())
        names += [each for each in (*quoted, word) if each is not None]
    verb = words[0] if words else ""
    if verb not in READS | WRITES:
        raise InvalidArgument(
            f"refused inside tx(): {verb or 'an empty text'} is not available on a remote store"
        )
    if verb in READS and not _WRITING_WORDS & set(words):
        return
    if verb == "CREATE" and {"TEMP", "TEMPORARY"} & set(words[1:3]):
        raise InvalidArgument("refused inside tx(): temporary tables end with the stream")
    _check_names(names)


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        if name.lower() in schema.layout():
            raise InvalidArgument(
                f"refused inside tx(): {name!r} is the engine's; use the queue's verbs, and pass"
                " values as arguments"
            )
        if _BOOKKEEPING.match(name):
            raise InvalidArgument(f"refused inside tx(): {name!r} is the database's own")
