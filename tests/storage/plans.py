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
SORTED_PAGE_OF = {states: (*BROWSE * states, "USE TEMP B-TREE FOR ORDER BY") for states in (2, 6)}
DOWNWARDS = (BROWSE[0].replace("rowid>?", "rowid<?"), *BODY)
SORTED_DOWNWARDS = (*DOWNWARDS, "USE TEMP B-TREE FOR ORDER BY")  # as large as a page
GROUP_LIVES = ("SEARCH e USING INDEX messages_by_group (queue_id=? AND group_id=? AND rowid>?)",)
QUEUE_LIVES = ("SEARCH e USING COVERING INDEX messages_by_state (queue_id=? AND state=?)",)
IN_FRONT_IN_GROUP = (GROUP_LIVES[0].replace(")", " AND rowid<?)"),)
IN_FRONT_IN_QUEUE = (QUEUE_LIVES[0].replace(")", " AND rowid<?)"),)
AHEAD = (BY_STATE_ALONE[0].replace(")", " AND rowid<?)"),)
TAKEN_PAGE = (*BY_STATE, *BODY, *BY_STATE)
TOMBSTONE = (
    "SEARCH tombstones USING COVERING INDEX sqlite_autoindex_tombstones_1 (name=? AND generation=?)"
)
KEY = "SEARCH access_keys USING INDEX sqlite_autoindex_access_keys_{} ({})"

PLANS: dict[str, tuple[str, ...]] = {
    "counts.ADD": ("SEARCH counts USING INTEGER PRIMARY KEY (rowid=?)",),
    "counts.FREE_BYTES": (
        "SCAN p VIRTUAL TABLE INDEX 0:",
        "SCAN f VIRTUAL TABLE INDEX 0:",
    ),
    "counts.OLDEST": (*BY_ID, *BY_STATE_ALONE * 3),
    "counts.READ": ("SEARCH counts USING INTEGER PRIMARY KEY (rowid=?)",),
    "counts.START": (),
    "counts.TRUE_COUNTS": (
        "SEARCH messages USING INDEX messages_by_state (queue_id=?)",
        *BODY,
    ),
    "database.READ_COUNTER": (
        "SEARCH counters USING INDEX sqlite_autoindex_counters_1 (name=?)",
        "SEARCH messages",
    ),
    "database.WRITE_COUNTER": ("SEARCH counters USING INDEX sqlite_autoindex_counters_1 (name=?)",),
    "dead_letters.AGED": (*BY_ID, *BY_STATE_ALONE, *BODY),
    "dead_letters.CHOOSE": (
        BROWSE[0].replace(")", " AND rowid<?)"),
        *BODY,
    ),
    "dead_letters.EDIT": BY_ID,
    "dead_letters.EDIT_BODY": BY_ID,
    "dead_letters.GROUP_LIVES": GROUP_LIVES,
    "dead_letters.LAST": BY_STATE_ALONE,
    "dead_letters.MOVE": BY_ID,
    "dead_letters.MOVE_BODY": ("SEARCH bodies USING INTEGER PRIMARY KEY (rowid=?)",),
    "dead_letters.MOVE_TO_GROUP": (*BY_ID, *GROUP_LIVES),
    "dead_letters.MOVE_TO_QUEUE": (*BY_ID, *QUEUE_LIVES),
    "dead_letters.OLDEST": (*BY_STATE, *BODY),
    "dead_letters.QUEUE_LIVES": QUEUE_LIVES,
    "dead_letters.REPLACE_BODY": (),
    "dead_letters.REVIVE": BY_ID,
    "dead_letters.REVIVE_IN_GROUP": (*BY_ID, *IN_FRONT_IN_GROUP),
    "dead_letters.REVIVE_IN_QUEUE": (*BY_ID, *IN_FRONT_IN_QUEUE),
    "dead_letters.STAND_BACK_IN_GROUP": (
        "SEARCH messages USING INDEX messages_by_group (queue_id=? AND group_id=? AND rowid>?)",
    ),
    "dead_letters.STAND_BACK_IN_QUEUE": (
        "SEARCH messages USING INDEX messages_by_state (queue_id=? AND state=? AND rowid>?)",
    ),
    "keys.BY_HASH": (KEY.format(2, "token_hash=?"),),
    "keys.BY_ID": (KEY.format(1, "id=?"),),
    "keys.BY_ID_ASCENDING": (KEY.format(1, "id>?"),),
    "keys.EXISTS": (KEY.format(1, "id=?"), KEY.format(2, "token_hash=?")),
    "keys.INSERT": (),
    "keys.NEWEST_FIRST": (
        "SEARCH access_keys USING INDEX access_keys_by_age ((created_at,id)<(?,?))",
    ),
    "keys.REVOKE": (KEY.format(1, "id=?"),),
    "looking.AHEAD_IN_GROUP": (
        GROUP_LIVES[0].replace(" e ", " messages ").replace(")", " AND rowid<?)"),
    ),
    "looking.AHEAD_IN_QUEUE": AHEAD * 5,
    "looking.AHEAD_READY": AHEAD,
    "looking.BODY_HOLDS": (*BY_ID, *BODY),
    "looking.DOWNWARDS[1,2,3,4,5,6]": SORTED_DOWNWARDS * 6,
    "looking.DOWNWARDS[1,2]": SORTED_DOWNWARDS * 2,
    "looking.DOWNWARDS[3]": DOWNWARDS,
    "looking.DOWNWARDS[4]": DOWNWARDS,
    "looking.DOWNWARDS[5]": DOWNWARDS,
    "looking.DOWNWARDS[6]": DOWNWARDS,
    "looking.ENQUEUED_AT": BY_ID,
    "looking.ENVELOPE": (*BY_ID, *BODY),
    "looking.GROUP_HEAD": (
        "SEARCH messages USING INDEX messages_by_group (queue_id=? AND group_id=? AND rowid>?)",
        *BODY,
    ),
    "looking.LAST_ACTIVE": BY_STATE_ALONE * 2,
    "looking.LAST_SETTLED": ("SEARCH receipts USING INDEX receipts_by_seq (seq_number=?)",),
    "looking.OLDEST_DEAD": BY_STATE,
    "looking.QUEUE_HEAD": BY_STATE_ALONE * 5,
    "looking.QUEUE_HEAD_ENVELOPE": (*BY_ID, *BY_STATE_ALONE * 5, *BODY),
    "looking.WAITING_LANES": (
        *BY_STATE,
        "USE TEMP B-TREE FOR GROUP BY",  # of the rows looked at, a thousand at most
        "USE TEMP B-TREE FOR ORDER BY",
    ),
    "memory.ACCEPT": (),
    "memory.FIND_ATTEMPT": (
        "SEARCH attempts USING INDEX sqlite_autoindex_attempts_1 (queue_id=? AND attempt_id=?)",
    ),
    "memory.FIND_DUPLICATE": (
        "SEARCH dedup USING INDEX sqlite_autoindex_dedup_1 (queue_id=? AND key=?)",
    ),
    "memory.FORGET_ATTEMPT": (
        "SEARCH attempts USING INDEX sqlite_autoindex_attempts_1 (queue_id=? AND attempt_id=?)",
    ),
    "memory.PRUNE_ATTEMPTS": (
        "SEARCH attempts USING INTEGER PRIMARY KEY (rowid=?)",
        "SEARCH attempts USING COVERING INDEX attempts_by_expiry (expires_at<?)",
    ),
    "memory.SHORTEN_ATTEMPTS": (
        "SEARCH attempts USING INTEGER PRIMARY KEY (rowid=?)",
        "SEARCH attempts USING COVERING INDEX attempts_by_expiry (expires_at>?)",
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
    "messages.GIVE_BACK_IN_GROUP": (*BY_ID, *IN_FRONT_IN_GROUP),
    "messages.GIVE_BACK_IN_QUEUE": (*BY_ID, *IN_FRONT_IN_QUEUE),
    "messages.GROUP_LIVES": GROUP_LIVES,
    "messages.HEADS": (*BY_STATE, *BODY),
    "messages.CERTIFY": ("SCAN CONSTANT ROW", *BY_ID),
    "messages.HELD_ACTIVE": (*BY_ID, *SORTED_PAGE_OF[2], *BODY),
    "messages.HELD_ALL": (*BY_ID, *SORTED_PAGE_OF[6], *BODY),
    "messages.HEAD_ROWS": (*BY_STATE, *BODY),
    "messages.HELD": (*BY_ID, *BODY),
    "messages.HELD_HEADS": (*BY_STATE, *BODY),
    "messages.HOLD_ALL": BY_STATE,
    "messages.INSERT": (),
    "messages.INSERT_BODY": (),
    "messages.INSERT_IN_GROUP": GROUP_LIVES,
    "messages.INSERT_IN_QUEUE": QUEUE_LIVES,
    "messages.LOCK": BY_ID,
    "messages.NEXT_EXPIRY": ("SEARCH messages USING INDEX messages_by_expiry (expires_at>?)",),
    "messages.NEXT_LEASE_END": ("SCAN messages USING COVERING INDEX messages_by_lease",),
    "messages.NEXT_TIME": ("SCAN messages USING COVERING INDEX messages_by_time",),
    "messages.PROMOTE_IN_GROUP": (
        *BY_ID,
        "SEARCH messages USING INDEX messages_by_group (queue_id=? AND group_id=? AND rowid>?)",
    ),
    "messages.PROMOTE_IN_QUEUE": (*BY_ID, *BY_STATE_ALONE * 5),
    "messages.QUEUE_LIVES": QUEUE_LIVES,
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
    "queues.BURY": (),
    "queues.BY_ID": ("SEARCH queues USING INTEGER PRIMARY KEY (rowid=?)",),
    "queues.DELETE_ALL_OF[0]": ("SEARCH dedup USING INDEX dedup_by_age (queue_id=?)",),
    "queues.DELETE_ALL_OF[1]": (
        "SEARCH attempts USING INDEX sqlite_autoindex_attempts_1 (queue_id=?)",
    ),
    "queues.DELETE_ALL_OF[2]": ("SEARCH counts USING INTEGER PRIMARY KEY (rowid=?)",),
    "queues.DELETE_ALL_OF[3]": ("SEARCH subscriptions USING INTEGER PRIMARY KEY (rowid=?)",),
    "queues.DELETE_ALL_OF[4]": ("SEARCH queues USING INTEGER PRIMARY KEY (rowid=?)",),
    "queues.FIND": ("SEARCH queues USING INDEX sqlite_autoindex_queues_1 (name=?)",),
    "queues.FIND_TOMBSTONE": (TOMBSTONE,),
    "queues.INSERT": (),
    "queues.LIST": ("SCAN queues USING INDEX sqlite_autoindex_queues_1",),
    "queues.PRUNE_TOMBSTONES": (
        "SEARCH tombstones USING INTEGER PRIMARY KEY (rowid=?)",
        "SCAN tombstones",
    ),
    "queues.UPDATE": ("SEARCH queues USING INTEGER PRIMARY KEY (rowid=?)",),
    "receipts.FIND": ("SEARCH receipts USING INDEX receipts_by_seq (seq_number=?)",),
    "receipts.INSERT": (),
    "receipts.SHORTEN": (
        "SEARCH receipts USING INTEGER PRIMARY KEY (rowid=?)",
        "SEARCH receipts USING INTEGER PRIMARY KEY (rowid>?)",
    ),
    "receipts.PRUNE": (
        "SEARCH receipts USING INTEGER PRIMARY KEY (rowid=?)",
        "SCAN receipts",
    ),
    "subscriptions.LIST": (
        "SCAN s USING INDEX subscriptions_by_topic",
        "SEARCH q USING INTEGER PRIMARY KEY (rowid=?)",
        "USE TEMP B-TREE FOR LAST TERM OF ORDER BY",
    ),
    "subscriptions.OF_QUEUE": ("SEARCH subscriptions USING INTEGER PRIMARY KEY (rowid=?)",),
    "subscriptions.ROSTER": (
        "SEARCH s USING INDEX subscriptions_by_topic (topic=?)",
        "SEARCH q USING INTEGER PRIMARY KEY (rowid=?)",
        "USE TEMP B-TREE FOR ORDER BY",  # of one topic's subscriptions
    ),
    "subscriptions.SUBSCRIBE": (),
    "subscriptions.TOPIC_EXISTS": (
        "SEARCH subscriptions USING COVERING INDEX subscriptions_by_topic (topic=?)",
    ),
    "subscriptions.TOPIC_OF": ("SEARCH subscriptions USING INTEGER PRIMARY KEY (rowid=?)",),
    "subscriptions.UNSUBSCRIBE": ("SEARCH subscriptions USING INTEGER PRIMARY KEY (rowid=?)",),
    "taking.COUNT": (
        *TAKEN_PAGE,
        "SEARCH counts USING INTEGER PRIMARY KEY (rowid=?)",
        "SCAN page",
    ),
    "taking.FRONT": (*BY_ID, *TAKEN_PAGE, *BODY),
    "taking.IN_GROUP": (
        *BY_ID,
        "SEARCH messages USING INDEX messages_by_group (queue_id=? AND group_id=? AND rowid>?)",
        *BODY * 2,
    ),
    "taking.IN_QUEUE": (*BY_ID, BROWSE[0], AHEAD[0].replace(" messages ", " e ", 1), *BODY * 2),
    "taking.LEASED": ("SEARCH messages USING INDEX messages_by_lease (locked_until=?)", *BODY),
    "taking.OVERDUE": (
        "SEARCH messages USING INDEX messages_by_expiry (expires_at>? AND expires_at<?)",
        *BODY,
    ),
    "taking.STALE": BY_STATE,
    "taking.TAKE": (*TAKEN_PAGE, *BY_ID),
    "taking.WEIGHED": (*BY_ID, *BODY),
}

SCANS_ALLOWED = {
    "counts.FREE_BYTES": "two pragmas of one row",
    "messages.CERTIFY": "one row that is no table's",
    "taking.COUNT": "one row that is no table's",
    "messages.NEXT_LEASE_END": "reads the first entry of its index",
    "messages.NEXT_TIME": "reads the first entry of its index",
    "queues.LIST": "lists all queues",
    "queues.PRUNE_TOMBSTONES": "deletions of one day, in row order",
    "receipts.PRUNE": "reads the oldest rows in row order and stops at its LIMIT",
    "subscriptions.LIST": "lists all subscriptions",
}


def statements() -> dict[str, str]:
    """module.NAME → text of every statement in mqlite_actor.storage, also those in tables.

    Not those by which a remote database is opened and owned: SQLite here never runs them.
    """
    found: dict[str, str] = {}
    for info in pkgutil.iter_modules(storage.__path__):
        if info.name.startswith("hrana"):
            continue
        module = importlib.import_module(f"{storage.__name__}.{info.name}")
        found |= dict(_statements_of(module))
    return found


def _statements_of(module: ModuleType) -> Iterator[tuple[str, str]]:
    """Private texts are pieces; test_plans.py holds that nothing runs but what is listed here."""
    short = module.__name__.rpartition(".")[2]
    for name, value in vars(module).items():
        if isinstance(value, str) and STATEMENT.match(value) and not name.startswith("_"):
            yield f"{short}.{name}", value
        entries = value.items() if isinstance(value, dict) else ()
        if isinstance(value, tuple) and not name.startswith("_"):
            entries = dict(enumerate(value)).items()
        for key, text in entries:
            if isinstance(text, str) and STATEMENT.match(text):
                label = ",".join(str(int(state)) for state in key) if type(key) is tuple else key
                yield f"{short}.{name}[{label}]", text


def parameters(sql: str) -> int:
    """How many positional arguments a statement takes."""
    numbered = [int(number) for number in re.findall(r"\?(\d+)", sql)]
    return max(numbered) if numbered else sql.count("?")


def plan(connection: apsw.Connection, sql: str) -> tuple[str, ...]:
    """The lines of the plan that say how a table is read."""
    rows = connection.execute(f"EXPLAIN QUERY PLAN {sql}", (None,) * parameters(sql)).fetchall()
    return tuple(str(detail) for *_, detail in rows if TOUCHES.match(str(detail)))
