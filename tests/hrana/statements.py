"""SQL texts: where one ends, what kind it is, and which kinds a server takes.

Servers of libSQL parse a text before SQLite sees it. They take one statement where one is wanted,
and none that would change the connection or the file for everybody (TEMP objects, VACUUM, ANALYZE,
ATTACH, most settings). Here SQLite itself is the parser, on an empty database: whatever is wrong
besides the syntax shows when the statement is prepared where it belongs.
"""

from __future__ import annotations

import re
import threading
from functools import lru_cache
from typing import Final, NamedTuple

import apsw
import apsw.ext

from tests.hrana.values import SqlFailure

BEGIN, END, READ, WRITE, OTHER = "begin", "end", "read", "write", "other"

_BLANK = re.compile(r"(\s|;|--[^\n]*(\n|$)|/\*.*?\*/)+", re.DOTALL)
_WORD = re.compile(r"\w+")
_SYNTAX = re.compile(r"syntax error|incomplete input|unrecognized token")

_KINDS: Final = {
    "BEGIN": BEGIN, "COMMIT": END, "END": END, "ROLLBACK": END, "SAVEPOINT": OTHER,
    "RELEASE": OTHER, "EXPLAIN": OTHER, "SELECT": READ, "VALUES": READ, "WITH": WRITE,
    "INSERT": WRITE, "REPLACE": WRITE, "UPDATE": WRITE, "DELETE": WRITE, "CREATE": WRITE,
    "DROP": WRITE, "ALTER": WRITE,
}  # fmt: skip
"""By the first word; what is not here is refused, PRAGMA apart."""

_PRAGMAS: Final = frozenset({
    "table_list", "table_info", "table_xinfo", "index_list", "index_xinfo", "pragma_list",
    "compile_options", "database_list", "function_list", "module_list", "encoding",
    "defer_foreign_keys", "foreign_keys", "foreign_key_list", "foreign_key_check",
    "collation_list", "data_version", "freelist_count", "integrity_check", "page_count",
    "quick_check", "user_version",
})  # fmt: skip
_PRAGMAS_TO_READ: Final = frozenset({
    "application_id", "auto_vacuum", "busy_timeout", "cache_size", "journal_mode",
    "journal_size_limit", "locking_mode", "mmap_size", "page_size", "query_only",
    "recursive_triggers", "schema_version", "secure_delete", "synchronous", "temp_store",
    "wal_autocheckpoint",
})  # fmt: skip
"""Without a value only."""

_parser = apsw.Connection(":memory:")
_parsing = threading.Lock()


class Facts(NamedTuple):
    """What is known of a text before it is prepared."""

    first: str
    """The first statement, without what stands before it."""

    rest: str
    """What follows it, "" when nothing does."""

    kind: str
    """One of the five above; "" is a kind that no server of libSQL takes."""

    word: str
    """The first word, in capitals."""

    syntax_error: str


@lru_cache(4096)
def facts(sql: str) -> Facts:
    """Looked at once for each text."""
    start = _BLANK.match(sql)
    text = sql[start.end() :] if start else sql
    first, rest = _split(text)
    words = [word.upper() for word in _WORD.findall(first[:200])]
    word = words[0] if words else ""
    return Facts(first, rest, _kind(first, words), word, _syntax_error(first) if first else "")


def one(sql: str) -> Facts:
    """The facts of a text that holds one statement which may run; SqlFailure otherwise."""
    found = facts(sql)
    if found.syntax_error:
        message = f"SQL string could not be parsed: {found.syntax_error}"
        raise SqlFailure("SQL_PARSE_ERROR", message)
    if not found.first:
        raise SqlFailure("SQL_NO_STATEMENT", "SQL string does not contain any statement")
    if not found.kind:
        message = f"SQL string could not be parsed: unsupported statement: {sql}"
        raise SqlFailure("SQL_PARSE_ERROR", message)
    if found.rest:
        raise SqlFailure("SQL_MANY_STATEMENTS", "SQL string contains more than one statement")
    return found


def in_one_line(sql: str) -> str:
    """A definition as a server writes it that keeps the tree and not the text."""
    if "'" in sql or '"' in sql:
        return sql
    return " ".join(re.sub(r"--[^\n]*", " ", sql).split())


def _split(text: str) -> tuple[str, str]:
    at = text.find(";")
    while at >= 0:
        if apsw.complete(text[: at + 1]):
            after = _BLANK.match(text, at)
            return text[:at], text[after.end() :] if after else ""
        at = text.find(";", at + 1)
    return text, ""


def _kind(first: str, words: list[str]) -> str:
    word, second = (*words, "", "")[:2]
    if word == "PRAGMA":
        name = words[-1] if len(words) < 2 else words[1]
        if len(words) > 2 and words[1] in ("MAIN", "TEMP"):
            name = words[2]
        has_value = "=" in first or "(" in first
        is_taken = name.lower() in _PRAGMAS or (name.lower() in _PRAGMAS_TO_READ and not has_value)
        return READ if is_taken else ""
    if word == "CREATE" and second in ("TEMP", "TEMPORARY"):
        return ""
    if word == "ROLLBACK" and "TO" in words:
        return OTHER
    return _KINDS.get(word, "")


def _syntax_error(sql: str) -> str:
    with _parsing:
        try:
            apsw.ext.query_info(_parser, sql)
        except apsw.Error as error:
            return str(error) if _SYNTAX.search(str(error)) else ""
    return ""
