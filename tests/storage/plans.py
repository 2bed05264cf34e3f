"""How SQLite runs each statement of the store: the index it must use, pinned.

`statements` finds every statement of mqlite_actor.storage; PLANS says what EXPLAIN QUERY PLAN must
answer for it, without the lines that only give the shape of a compound. A statement that has no row
here fails the test, so whoever writes one looks at its plan once.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from types import ModuleType

import apsw

from mqlite_actor import storage

STATEMENT = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE)\b")
TOUCHES = re.compile(r"(SEARCH|SCAN) (?!\(subquery)|USE TEMP B-TREE")

BY_ID = ("SEARCH messages USING INTEGER PRIMARY KEY (rowid=?)",)
BY_STATE = ("SEARCH messages USING INDEX messages_by_state (queue_id=? AND state=?)",)
BY_STATE_ALONE = (
    "SEARCH messages USING COVERING INDEX messages_by_state (queue_id=? AND state=?)",
)
BODY = ("SEARCH b USING INTEGER PRIMARY KEY (rowid=?)",)  # of a row whose body is kept apart
BROWSE = (
    "SEARCH messages USING INDEX messages_by_state (queue_id=? AND state=? AND rowid>?)",
    *BODY,
)
SORTED_PAGE = (*BROWSE, "USE TEMP B-TREE FOR ORDER BY")  # at most a page of numbers and lengths
GROUP_LIVES = ("SEARCH e USING INDEX messages_by_group (queue_id=? AND group_id=? AND rowid>?)",)
QUEUE_LIVES = ("SEARCH e USING COVERING INDEX messages_by_state (queue_id=? AND state=?)",)

PLANS: dict[str, tuple[str, ...]] = {
    "counts.ADD": ("SEARCH counts USING INTEGER PRIMARY KEY (rowid=?)",),
    "counts.OLDEST": (*BY_ID, *BY_STATE_ALONE * 3),
    "counts.READ": ("SEARCH counts USING INTEGER PRIMARY KEY (rowid=?)",),
    "counts.START": (),
    "counts.TRUE_COUNTS": (
        "SEARCH messages USING INDEX messages_by_state (queue_id=?)",
        *BODY,
    ),
    "database.READ_COUNTER": ("SEARCH counters USING INDEX sqlite_autoindex_counters_1 (name=?)",),
    "database.WRITE_COUNTER": ("SEARCH counters USING INDEX sqlite_autoindex_counters_1 (name=?)",),
    "memory.ACCEPT": (),
    "memory.FIND_ATTEMPT": (
        "SEARCH attempts USING INDEX sqlite_autoindex_attempts_1 (queue_id=? AND attempt_id=?)",
    ),
    "memory.FIND_DUPLICATE": (
        "SEARCH dedup USING INDEX sqlite_autoindex_dedup_1 (queue_id=? AND key=?)",
    ),
    "memory.PRUNE_ATTEMPTS": (
        "SEARCH attempts USING INTEGER PRIMARY KEY (rowid=?)",
        "SEARCH attempts USING COVERING INDEX attempts_by_expiry (expires_at<?)",
    ),
    "memory.PRUNE_DUPLICATES": (
        "SEARCH dedup USING INTEGER PRIMARY KEY (rowid=?)",
        "SEARCH dedup USING COVERING INDEX dedup_by_age (queue_id=? AND seen_at<?)",
    ),
    "memory.REMEMBER_ATTEMPT": (),
    "messages.BURY": BY_ID,
    "messages.COMPLETE": BY_ID,
    "messages.DELETE": BY_ID,
    "messages.DELETE_BODY": ("SEARCH bodies USING INTEGER PRIMARY KEY (rowid=?)",),
    "messages.DUE": ("SEARCH messages USING INDEX messages_by_time (visible_at<?)", *BODY),
    "messages.EXPIRED": (
        "SEARCH messages USING INDEX messages_by_expiry (expires_at>? AND expires_at<?)",
        *BODY,
    ),
    "messages.EXPIRED_LEASES": (
        "SEARCH messages USING INDEX messages_by_lease (locked_until<?)",
        *BODY,
    ),
    "messages.FREE_HEADS": (
        *BY_STATE,
        "SEARCH e USING INDEX messages_by_group (queue_id=? AND group_id=? AND rowid<?)",
    ),
    "messages.FRESH_HEADS": (*BY_STATE, *BODY),
    "messages.GIVE_BACK": BY_ID,
    "messages.GIVE_BACK_IN_GROUP": (*BY_ID, GROUP_LIVES[0].replace(")", " AND rowid<?)")),
    "messages.GIVE_BACK_IN_QUEUE": (*BY_ID, QUEUE_LIVES[0].replace(")", " AND rowid<?)")),
    "messages.HEADS": (*BY_STATE, *BODY),
    "messages.HEAD_ROWS": (*BY_STATE, *BODY),
    "messages.HELD": (*BY_ID, *BODY),
    "messages.HELD_HEADS": (*BY_STATE, *BODY),
    "messages.HOLD_ALL": BY_STATE,
    "messages.INSERT": (),
    "messages.INSERT_BODY": (),
    "messages.INSERT_IN_GROUP": GROUP_LIVES,
    "messages.INSERT_IN_QUEUE": QUEUE_LIVES,
    "messages.LOCK": BY_ID,
    "messages.PROMOTE_IN_GROUP": (
        *BY_ID,
        "SEARCH messages USING INDEX messages_by_group (queue_id=? AND group_id=? AND rowid>?)",
    ),
    "messages.PROMOTE_IN_QUEUE": (*BY_ID, *BY_STATE_ALONE * 5),
    "messages.RENEW": BY_ID,
    "messages.REST": BY_ID,
    "messages.ROW": (*BY_ID, *BODY),
    "messages._PEEKS[1,2,3,4,5,6]": SORTED_PAGE * 6,
    "messages._PEEKS[1,2]": SORTED_PAGE * 2,
    "messages._PEEKS[3]": BROWSE,
    "messages._PEEKS[4]": BROWSE,
    "messages._PEEKS[5]": BROWSE,
    "messages._PEEKS[6]": BROWSE,
    "queues.BUMP_EPOCH": ("SEARCH meta USING INDEX sqlite_autoindex_meta_1 (key=?)",),
    "queues.BY_ID": ("SEARCH queues USING INTEGER PRIMARY KEY (rowid=?)",),
    "queues.FIND": ("SEARCH queues USING INDEX sqlite_autoindex_queues_1 (name=?)",),
    "queues.INSERT": (),
    "queues.LIST": ("SCAN queues USING INDEX sqlite_autoindex_queues_1",),
    "queues.UPDATE": ("SEARCH queues USING INTEGER PRIMARY KEY (rowid=?)",),
    "receipts.FIND": ("SEARCH receipts USING INDEX receipts_by_seq (seq_number=?)",),
    "receipts.INSERT": (),
    "receipts.PRUNE": (
        "SEARCH receipts USING INTEGER PRIMARY KEY (rowid=?)",
        "SCAN receipts",  # in row order, ends at its LIMIT
    ),
}

SCANS_ALLOWED = {
    "queues.LIST": "lists all queues",
    "receipts.PRUNE": "reads the oldest rows and stops at its LIMIT",
}


def statements() -> dict[str, str]:
    """module.NAME → text of every statement in mqlite_actor.storage, also those in tables."""
    found: dict[str, str] = {}
    for info in pkgutil.iter_modules(storage.__path__):
        module = importlib.import_module(f"{storage.__name__}.{info.name}")
        found |= dict(_statements_of(module))
    return found


def _statements_of(module: ModuleType) -> Iterator[tuple[str, str]]:
    short = module.__name__.rpartition(".")[2]
    for name, value in vars(module).items():
        is_piece = name.startswith("_")  # test_plans.py holds that nothing runs but what is listed
        if isinstance(value, str) and STATEMENT.match(value) and not is_piece:
            yield f"{short}.{name}", value
        elif isinstance(value, dict):
            for key, text in value.items():
                if isinstance(text, str) and STATEMENT.match(text):
                    states = ",".join(str(int(state)) for state in key)
                    yield f"{short}.{name}[{states}]", text


def parameters(sql: str) -> int:
    """How many positional arguments a statement takes."""
    numbered = [int(number) for number in re.findall(r"\?(\d+)", sql)]
    return max(numbered) if numbered else sql.count("?")


def plan(connection: apsw.Connection, sql: str) -> tuple[str, ...]:
    """The lines of the plan that say how a table is read."""
    rows = connection.execute(f"EXPLAIN QUERY PLAN {sql}", (None,) * parameters(sql)).fetchall()
    return tuple(str(detail) for *_, detail in rows if TOUCHES.match(str(detail)))
