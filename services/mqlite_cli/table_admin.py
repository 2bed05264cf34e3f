"""QUEUES, STORE and KEYS: the rows of the commands that make, list and delete things.

Read by `commands` alone, which puts all rows together.
"""

from __future__ import annotations

from mqlite_cli import flags, grammar
from mqlite_cli.flags import DRY_RUN, GLOBAL
from mqlite_cli.grammar import Command, Flag

SETTINGS: tuple[Flag, ...] = (
    flags.duration("lock", "how long a received message stays locked (0: 30s)"),
    flags.integer("max-delivery", "N", "deliveries before a message is dead-lettered (0: 10)"),
    flags.duration("ttl", "how long messages live (0: for ever)"),
    flags.duration("dedup", "how long a message id is remembered (0: off)"),
    flags.text("ordering", "MODE", "standard, group_fifo or strict_fifo (default standard)"),
    flags.text("on-expire", "WHAT", "dead-letter or discard (default dead-letter)"),
    Flag(
        "dlq-max-age",
        "DURATION|unbounded",
        "age at which dead letters go (0: the broker's bound)",
        read=grammar.read_age_bound,
    ),
    Flag(
        "dlq-max-count",
        "N|unbounded",
        "dead letters kept (0: the broker's bound)",
        read=grammar.read_count_bound,
    ),
    Flag(
        "dlq-max-bytes",
        "N|unbounded",
        "bytes of dead letters kept (0: the broker's bound)",
        read=grammar.read_count_bound,
    ),
)
"""What configures a queue."""

QUEUES: tuple[Command, ...] = (
    Command(
        "create-queue",
        "NAME",
        flags=(
            *GLOBAL,
            *SETTINGS,
            flags.switch("if-not-exists", "leave a queue that is there as it is"),
        ),
        summary="Create a queue, or replace all settings of an existing one",
        handler="mqlite_cli.queues:create_queue",
        details="A setting that is not named gets its default, also in a queue that exists.",
        examples=("mqlite create-queue orders --lock 1m --max-delivery 5 --dedup 1h",),
    ),
    Command(
        "subscribe",
        "TOPIC",
        "NAME",
        flags=(*GLOBAL, flags.text("expr", "FILTER", "which messages (default: all)")),
        summary="Route a topic's messages into the queue NAME, or replace its filter",
        handler="mqlite_cli.subscriptions:subscribe",
        details="Also called `create-subscription`. The queue keeps its settings when the filter "
        "is replaced; without --expr the filter is removed.",
        examples=("mqlite subscribe sales gold --expr 'properties.tier == \"gold\"'",),
    ),
    Command(
        "list",
        flags=(
            *GLOBAL,
            flags.switch("stats", "with the messages of each, and of all; one call a queue"),
            flags.text(
                "sort",
                "BY",
                "name, or most first: active, locked, deferred, scheduled, dead, total, oldest",
            ),
            flags.text("format", "WORD", "of text: names, csv, or wide with settings and messages"),
        ),
        summary="List queues and subscription queues",
        handler="mqlite_cli.queues:list_queues",
        is_reader=True,
        examples=(
            "mqlite list --output json",
            "mqlite list --stats --sort dead",
            "mqlite list --format names",
        ),
    ),
    Command(
        "list-subscriptions",
        flags=GLOBAL,
        summary="List which subscription takes what of which topic",
        handler="mqlite_cli.subscriptions:list_subscriptions",
        is_reader=True,
        examples=("mqlite list-subscriptions",),
    ),
    Command(
        "delete-queue",
        "NAME",
        flags=(
            *GLOBAL,
            flags.text("generation", "G", "the queue that `list` showed with this generation"),
            flags.switch("yes", "look the generation up and delete the queue that is there now"),
            DRY_RUN,
        ),
        summary="Delete an empty queue",
        handler="mqlite_cli.queues:delete_queue",
        details="Any message in any state keeps the queue. Repeat a deletion whose answer was lost "
        "with the same --generation: a queue that was made anew meanwhile stays.",
        examples=("mqlite delete-queue parked --yes",),
    ),
)

STORE: tuple[Command, ...] = (
    Command(
        "status",
        flags=GLOBAL,
        summary="Describe the broker or the store",
        handler="mqlite_cli.storekeeping:status",
        is_reader=True,
        examples=("mqlite status",),
    ),
    Command(
        "observe",
        flags=(
            *GLOBAL,
            flags.texts("queue", "NAME", "show this queue alone; repeats"),
            flags.duration("watch", "show it again after so long, at least 1s, until interrupted"),
        ),
        summary="Show counts, counters and the health of the background work",
        handler="mqlite_cli.observing:observe",
        is_reader=True,
        details="A number that could not be had is n/a, never 0. With --watch each JSON document "
        "is one line.",
        examples=("mqlite observe --queue orders",),
    ),
    Command(
        "vacuum",
        flags=(
            *GLOBAL,
            flags.switch("full", "write the file anew; needs as much free space again"),
        ),
        summary="Give the free space inside a local store back to the disk",
        handler="mqlite_cli.storekeeping:vacuum",
        is_reader=True,
        details="Works on a file that no broker holds.",
        examples=("mqlite vacuum", "mqlite vacuum --full"),
    ),
)

KEYS: tuple[Command, ...] = (
    Command(
        "key create",
        flags=(
            *GLOBAL,
            flags.text("name", "TEXT", "what the key is for (needed)"),
            flags.text(
                "permissions", "A,B", "send, listen or manage, which includes both (needed)"
            ),
            flags.text("id", "HEX", "id of the key, 32 lowercase hex digits (default: a new one)"),
            flags.text("expires", "WHEN", "when it ends: 2030-01-31T08:00:00Z, or 90d"),
            flags.file("secret-file", "write the token to this new file instead of printing it"),
        ),
        summary="Make an access key; its token is shown this once",
        handler="mqlite_cli.keys:create",
        details="The id is printed to stderr before the request leaves. When the answer is lost, "
        "revoke that id and make another key.",
        examples=("mqlite key create --name billing --permissions send,listen --expires 90d",),
    ),
    Command(
        "key list",
        flags=(
            *GLOBAL,
            flags.integer("limit", "N", "keys of a page, 1 to 1000 (default 100)"),
            flags.text("after", "ID", "the page after this id"),
            flags.switch("all", "all pages"),
            flags.text("state", "STATE", "only those active, expired or revoked"),
            flags.text("sort", "ORDER", "id_asc or created_desc (default id_asc)"),
        ),
        summary="List access keys; never a token",
        handler="mqlite_cli.keys:list_keys",
        is_reader=True,
        examples=("mqlite key list --all --state active",),
    ),
    Command(
        "key revoke",
        "ID",
        flags=(
            *GLOBAL,
            flags.switch("yes", "also the key that this very command uses"),
            DRY_RUN,
        ),
        summary="Revoke an access key for good",
        handler="mqlite_cli.keys:revoke",
        details="The next request with the key is refused; a receive that waits already may still "
        "end.",
        examples=("mqlite key revoke 6e0f1c6a9d5b4c3e8f7a2b1c0d9e8f7a",),
    ),
)
