"""MORE: the rows of the commands beyond the contract's 24. Each stands on a call of our own, so a
broker of another make, or an older one, answers `unsupported`.

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
    SOUGHT,
    VIEWS,
)
from mqlite_cli.grammar import Command
from mqlite_cli.table_admin import SETTINGS

_GENERATION = flags.text("generation", "G", "only if it is (still) the queue of this generation")

MORE: tuple[Command, ...] = (
    Command(
        "describe",
        "QUEUE",
        flags=GLOBAL,
        summary="Show all settings of a queue, its counts and its subscription",
        handler="mqlite_cli.describing:describe",
        is_reader=True,
        examples=("mqlite describe orders",),
    ),
    Command(
        "update-queue",
        "NAME",
        flags=(*GLOBAL, *SETTINGS, _GENERATION),
        summary="Change some settings of a queue and leave the others",
        handler="mqlite_cli.queues:update_queue",
        details="0 sets a setting back to its default.",
        examples=("mqlite update-queue orders --max-delivery 3",),
    ),
    Command(
        "delete-subscription",
        "TOPIC",
        "NAME",
        flags=(
            *GLOBAL,
            flags.switch("discard", "delete what its queue still holds, too"),
            _GENERATION,
            DRY_RUN,
        ),
        summary="End a subscription and delete its queue",
        handler="mqlite_cli.subscriptions:delete_subscription",
        examples=("mqlite delete-subscription sales gold --discard",),
    ),
    Command(
        "explain",
        "QUEUE",
        rest="SEQ",
        flags=GLOBAL,
        summary="Say why a message, or the front of a queue, is not delivered",
        handler="mqlite_cli.describing:explain",
        is_reader=True,
        examples=("mqlite explain orders",),
    ),
    Command(
        "search",
        "QUEUE",
        flags=(
            *GLOBAL,
            flags.text("state", "STATE", "active, locked, deferred, scheduled or dead_lettered"),
            *SOUGHT,
            flags.integer("from", "SEQ", "lowest sequence number"),
            flags.integer("to", "SEQ", "highest sequence number"),
            flags.integer("max", "N", "messages to show, at most 1000 (default 16)"),
            NEWEST_FIRST,
            *VIEWS,
            FAIL_EMPTY,
        ),
        summary="Look for messages that are all of what is given",
        handler="mqlite_cli.describing:search",
        is_reader=True,
        details="Looks through the whole queue, some hundred messages a call.",
        examples=(
            "mqlite search orders --state dead_lettered --prop table=7",
            "mqlite search orders --filter 'body_json.item == \"tea\"' --since 1h --body-only",
        ),
    ),
    Command(
        "purge",
        "QUEUE",
        flags=(
            *GLOBAL,
            flags.integer("expect", "N", "only if that many are active, which you saw"),
            flags.switch("yes", "however many there are, and without a question"),
            flags.integer("max", "N", "at most so many, the oldest first"),
            flags.duration("older-than", "only those sent longer ago than this"),
            DRY_RUN,
        ),
        summary="Delete active messages",
        handler="mqlite_cli.dead_letters:purge_active",
        details="Without --expect and --yes it says how many there are. At a terminal whoever then "
        "types the queue's name has them deleted; anywhere else nothing is.",
        examples=(
            "mqlite purge orders --older-than 30d --dry-run",
            "mqlite purge orders --yes",
        ),
    ),
    Command(
        "resubmit",
        "QUEUE",
        "SEQ",
        rest="BODY",
        flags=(
            *GLOBAL,
            BODY_FILE,
            *METADATA,
            flags.text("to", "QUEUE", "put it into this queue (default: back where it was)"),
        ),
        summary="Mend a dead letter and make it active again, in one step",
        handler="mqlite_cli.dead_letters:resubmit",
        details="What is not given stays as it is; --prop replaces all properties.",
        examples=('mqlite resubmit orders 7 \'{"item":"tea"}\' --prop mended=yes',),
    ),
    Command(
        "backup",
        "PATH",
        flags=(
            *GLOBAL,
            flags.integer(
                "keep", "N", "PATH is a series: put the time into the name, keep the N newest"
            ),
        ),
        summary="Write a checked snapshot of the store into a new file, while it runs",
        handler="mqlite_cli.storekeeping:backup",
        is_reader=True,
        details="PATH is on the machine of the broker. With --keep, nightly.db becomes "
        "nightly.20270115T080000000Z.db, and the oldest of that series are removed once the new "
        "one is whole. `restore` puts a snapshot back.",
        examples=("mqlite backup snapshot.db", "mqlite backup nightly.db --keep 7"),
    ),
)
"""In the order of the help page."""
