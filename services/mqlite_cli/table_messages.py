"""MESSAGES: the rows of the commands that put messages in, look at them, take and settle them.

Read by `commands` alone, which puts all rows together.
"""

from __future__ import annotations

from mqlite_cli import flags
from mqlite_cli.flags import (
    BODY_FILE,
    DRY_RUN,
    FAIL_EMPTY,
    GLOBAL,
    METADATA,
    NEWEST_FIRST,
    PROPERTIES,
    SOUGHT,
    VIEWS,
)
from mqlite_cli.grammar import Command, Flag

_LEASE = "LOCK_TOKEN is what `receive --no-ack` printed behind lock-token=."


def _settling(verb: str, summary: str, *own: Flag, example: str = "") -> Command:
    return Command(
        verb,
        "QUEUE",
        "SEQ",
        "LOCK_TOKEN",
        flags=(*GLOBAL, *own),
        summary=summary,
        handler=f"mqlite_cli.settling:{verb}",
        details=_LEASE,
        examples=(f"mqlite {verb} orders 7 $LOCK_TOKEN{example}",),
    )


MESSAGES: tuple[Command, ...] = (
    Command(
        "send",
        "QUEUE",
        rest="BODY",
        flags=(
            *GLOBAL,
            BODY_FILE,
            *METADATA,
            flags.duration(
                "ttl", "how long the message lives, at most the queue's own (0: the queue's)"
            ),
            flags.switch("ndjson", "a message for each line of stdin or --file, which is JSON"),
            flags.switch("lines", "a message for each line of stdin or --file, which is its body"),
            flags.integer(
                "count", "N", "send it so many times; {{n}} in its texts is the number of the copy"
            ),
        ),
        summary="Store a message in a queue, or publish it to a topic; BODY `-` reads stdin",
        handler="mqlite_cli.messages:send",
        details="Several BODY words are joined by single blanks. seq=0 means that no subscription "
        "of the topic wanted the message. A line of --ndjson is an object with the keys that "
        "`peek --output ndjson` prints, and `text` for a body that is text; what it does not say "
        "the flags say. When a line fails, all lines in front of it are stored.",
        examples=(
            'mqlite send orders "two coffees" --message-id order-1 --prop table=7',
            'echo \'{"item":"tea"}\' | mqlite send orders - --content-type application/json',
            'echo \'{"text":"two teas","subject":"drinks"}\' | mqlite send orders --ndjson',
            "mqlite send orders 'tea for table {{n}}' --prop table={{n}} --count 3",
        ),
    ),
    Command(
        "schedule",
        "QUEUE",
        rest="BODY",
        flags=(
            *GLOBAL,
            flags.text("at", "WHEN", "when it may be delivered: 2030-01-31T08:00:00Z, or 30m"),
            BODY_FILE,
            *METADATA,
        ),
        summary="Store a message that is delivered later; BODY `-` reads stdin",
        handler="mqlite_cli.messages:schedule",
        examples=('mqlite schedule orders "wake up" --at 30m',),
    ),
    Command(
        "cancel",
        "QUEUE",
        "SEQ",
        flags=(*GLOBAL, DRY_RUN),
        summary="Delete a scheduled message that was never delivered",
        handler="mqlite_cli.messages:cancel",
        examples=("mqlite cancel orders 7",),
    ),
    Command(
        "receive",
        "QUEUE",
        flags=(
            *GLOBAL,
            flags.integer("max", "N", "messages to take at a time, 1 to 256 (default 1)"),
            flags.integer(
                "count", "N", "take so many, batch by batch, or until --wait was in vain"
            ),
            flags.duration("wait", "wait this long for the first one, at most 20s"),
            flags.switch("no-ack", "keep them locked and print their lock tokens"),
            flags.switch("delete", "remove them as they are read: at most once"),
            FAIL_EMPTY,
        ),
        summary="Take messages, print them, then complete them",
        handler="mqlite_cli.receiving:receive",
        details="Nothing is completed before it was written to standard output. Interrupted, the "
        "command gives back what it holds and exits 130, or 143 after SIGTERM. What --no-ack keeps "
        "can be settled later at a broker; a local store ends all leases when it is opened.",
        examples=(
            "mqlite receive orders --max 10 --wait 1s",
            "mqlite receive orders --no-ack --output json",
            "mqlite receive orders --count 1000 --output ndjson",
        ),
    ),
    Command(
        "receive-deferred",
        "QUEUE",
        flags=(*GLOBAL, flags.text("seq", "A,B", "numbers of the deferred messages"), FAIL_EMPTY),
        summary="Take deferred messages by number, and print their lock tokens",
        handler="mqlite_cli.receiving:receive_deferred",
        details="Numbers that are unknown or not deferred are left out. A message whose lease ends "
        "without a verdict is active afterwards, not deferred.",
        examples=("mqlite receive-deferred orders --seq 3,4",),
    ),
    _settling("complete", "Remove a message that was handled"),
    _settling(
        "abandon",
        "Give a message back, now or after a delay",
        flags.duration("delay", "deliver it again after this long (default at once)"),
        example=" --delay 30s",
    ),
    _settling(
        "reject",
        "Make a message a dead letter",
        flags.text("reason", "TEXT", "dead_letter_reason (default AppRequested)"),
        flags.text("detail", "TEXT", "dead_letter_description: what a person should know"),
        example=" --reason 'no such photo'",
    ),
    _settling("defer", "Set a message aside; `receive-deferred` fetches it by number"),
    _settling("renew", "Extend the lease of a message by the queue's lock duration"),
    Command(
        "peek",
        "QUEUE",
        flags=(
            *GLOBAL,
            flags.text("state", "STATE", "active, locked, deferred, scheduled or dead_lettered"),
            flags.integer("from", "SEQ", "lowest sequence number"),
            flags.integer("max", "N", "messages to show, at most 1000 (default 16)"),
            *SOUGHT,
            NEWEST_FIRST,
            *VIEWS,
            FAIL_EMPTY,
        ),
        summary="Look at messages without touching them",
        handler="mqlite_cli.messages:peek",
        is_reader=True,
        details="With a flag that says which ones, or --newest-first, it searches, and a broker "
        "that cannot search answers `unsupported`.",
        examples=(
            "mqlite peek orders --state dead_lettered --output json",
            "mqlite peek orders --newest-first --max 3 --pretty",
            "mqlite peek orders --message-id order-1 --raw",
        ),
    ),
    Command(
        "metrics",
        "QUEUE",
        flags=GLOBAL,
        summary="Count a queue's messages by state",
        handler="mqlite_cli.queues:metrics",
        is_reader=True,
        examples=("mqlite metrics orders",),
    ),
    Command(
        "redrive",
        "QUEUE",
        flags=(
            *GLOBAL,
            flags.text("to", "QUEUE", "move them to this queue (default: active in place)"),
            flags.text("seq", "A,B", "only these numbers"),
            *SOUGHT,
            flags.integer("max", "N", "at most so many, the oldest first (0: all)"),
            flags.duration("older-than", "only those first sent longer ago than this (0: all)"),
            flags.integer("rate", "N", "so many a second (0: as fast as it goes)"),
            flags.texts(
                "set",
                "KEY=VALUE",
                "change this first: subject, group, message-id, correlation-id, reply-to, "
                "content-type, body or prop.NAME; repeats",
            ),
            flags.texts("drop-prop", "NAME", "take this property away first; repeats"),
            BODY_FILE,
            DRY_RUN,
        ),
        summary="Make dead letters active again: all, or those that are chosen; mended, if need be",
        handler="mqlite_cli.redriving:redrive",
        details="Dead letters are moved that are all of what is given, up to the newest there was "
        "at the beginning. With --set, --drop-prop or --file each is mended and moved in one step, "
        "as by `resubmit`. --dry-run says how many it would be and which come first.",
        examples=(
            "mqlite redrive orders --max 100 --rate 50",
            "mqlite redrive orders --reason 'no such photo' --older-than 1h --dry-run",
            "mqlite redrive orders --filter 'properties.table == \"7\"' --set prop.table=8",
        ),
    ),
    Command(
        "purge-dlq",
        "QUEUE",
        flags=(
            *GLOBAL,
            flags.integer("max", "N", "at most so many, the oldest first"),
            flags.duration("older-than", "only those first sent longer ago than this"),
            flags.switch("all", "all of them; needed when there is no other bound"),
            DRY_RUN,
        ),
        summary="Delete dead letters",
        handler="mqlite_cli.dead_letters:purge",
        examples=(
            "mqlite purge-dlq orders --older-than 14d",
            "mqlite purge-dlq orders --all --dry-run",
        ),
    ),
)
"""In the order of the help page."""

TRIAL = Command(
    "test-filter",
    "EXPR",
    rest="BODY",
    flags=(
        *GLOBAL,
        BODY_FILE,
        flags.text("subject", "TEXT", "subject of the sample"),
        flags.text("group", "ID", "ordering group of the sample"),
        PROPERTIES,
    ),
    summary="Check a filter, and try it on a sample message if one is described",
    handler="mqlite_cli.subscriptions:test_filter",
    details="A filter that does not compile, or fails on the sample, is exit 1; one that does not "
    "match is exit 0.",
    examples=("mqlite test-filter 'properties.tier == \"gold\"' --prop tier=gold",),
)
