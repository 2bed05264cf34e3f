"""CARE: the rows of the commands that look after a store and what it stands on. They work on this
machine's files and settings, whatever broker is in force.

Read by `commands` alone, which puts all rows together.
"""

from __future__ import annotations

from mqlite_cli import flags
from mqlite_cli.flags import OUTPUT
from mqlite_cli.grammar import Command

CARE: tuple[Command, ...] = (
    Command(
        "check",
        "FILE",
        flags=(
            OUTPUT,
            flags.switch(
                "mend-counts", "count the messages of every queue anew, if they are wrong"
            ),
        ),
        summary="Check a store or a snapshot from end to end, and change nothing",
        handler="mqlite_cli.checking:check",
        details="Pages and indexes, format, references, and each queue's counts against its "
        "messages; whether or not a broker has the file. Takes as long as reading it. Exit 1 when "
        "something is wrong; each line says what mends it.",
        examples=("mqlite check mq.db", "mqlite check snapshot.db --output json"),
    ),
    Command(
        "restore",
        "SNAPSHOT",
        "FILE",
        flags=(
            OUTPUT,
            flags.text("replace", "NAME", "FILE's own name: replace it; it is moved aside"),
            flags.switch("verify", "check the copy from end to end first (default; =false: not)"),
        ),
        summary="Put a snapshot in the place of a store that nobody has open",
        handler="mqlite_cli.checking:restore",
        details="The copy is synced and checked before it gets its name. What stands at FILE, with "
        "its log, is moved to FILE.before-restore-1 and never deleted. Sequence numbers go on from "
        "the snapshot's, so numbers that were given out since come again.",
        examples=("mqlite restore snapshot.db restored.db",),
    ),
)
"""In the order of the help page."""
