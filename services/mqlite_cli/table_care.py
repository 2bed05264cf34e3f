"""CARE: the rows of the commands that look after a store and what it stands on. They work on this
machine's files and settings, whatever broker is in force.

Read by `commands` alone, which puts all rows together.
"""

from __future__ import annotations

from mqlite_cli import flags
from mqlite_cli.flags import DRY_RUN, GLOBAL, OUTPUT, TLS_FILES
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
            DRY_RUN,
        ),
        summary="Put a snapshot in the place of a store that nobody has open",
        handler="mqlite_cli.checking:restore",
        details="The copy is synced and checked before it gets its name. What stands at FILE, with "
        "its log, is moved to FILE.before-restore-1 and never deleted. Sequence numbers go on from "
        "the snapshot's, so numbers that were given out since come again. --dry-run checks the "
        "snapshot, the place and the room, writes nothing, and refuses what would be refused.",
        examples=(
            "mqlite restore snapshot.db restored.db --dry-run",
            "mqlite restore snapshot.db restored.db",
        ),
    ),
    Command(
        "doctor",
        flags=GLOBAL,
        summary="Look for what is wrong with this machine, its store and the broker in force",
        handler="mqlite_cli.doctor:doctor",
        is_reader=True,
        details="Python, SQLite, clocks, credentials, folder and disk, the store with its counts "
        "(not every page: `check` reads those), who has it open, the diagnostic log, and whether "
        "the broker answers, takes the token and is well. Changes nothing. Each line is ok, warn "
        "or fail and says the mend; exit 1 if one failed.",
        examples=("mqlite doctor", "mqlite doctor --output json"),
    ),
    Command(
        "support-bundle",
        "PATH",
        flags=GLOBAL,
        summary="Gather what somebody needs to help into a new archive (tar.gz)",
        handler="mqlite_cli.bundling:support_bundle",
        is_reader=True,
        details="What doctor found, masked settings, versions, the layout and the counts of the "
        "store, Observe and the diagnostic log. No credential, no message, no key; queue names and "
        "paths are in it.",
        examples=("mqlite support-bundle bundle.tar.gz",),
    ),
    Command(
        "context add",
        "NAME",
        flags=(
            OUTPUT,
            flags.text("endpoint", "URL", "the broker that gets the name (needed)"),
            flags.text("token", "TOKEN", "its credential, kept in the private file of contexts"),
            flags.switch("token-stdin", "read the credential from standard input, and keep it"),
            flags.file("token-file", "read the credential from this file at each use"),
            *TLS_FILES,
            flags.switch("replace", "the name may be taken"),
        ),
        summary="Give a broker a name, with the credential for it",
        handler="mqlite_cli.contexting:add",
        details="Kept in mqlite/contexts.json of XDG_CONFIG_HOME (or ~/.config), readable by its "
        "owner alone. --context NAME or MQLITE_CONTEXT names one, `context use` one for all "
        "commands. What decides, in this order: --endpoint, --context, MQLITE_ENDPOINT, "
        "MQLITE_CONTEXT, MQLITE_DB, the context in use, file:./mq.db. Nothing is dialled.",
        examples=(
            "mqlite context add far --endpoint https://queues.example --token-file far.token",
        ),
    ),
    Command(
        "context list",
        flags=(OUTPUT,),
        summary="List the brokers that have a name; never a credential",
        handler="mqlite_cli.contexting:list_contexts",
        examples=("mqlite context list",),
    ),
    Command(
        "context use",
        rest="NAME",
        flags=(OUTPUT, flags.switch("none", "no longer any")),
        summary="Let commands that name nothing talk to this broker",
        handler="mqlite_cli.contexting:use",
        details="A flag, MQLITE_ENDPOINT, MQLITE_CONTEXT and MQLITE_DB win over it.",
        examples=("mqlite context use far", "mqlite context use --none"),
    ),
    Command(
        "context remove",
        "NAME",
        flags=(OUTPUT, DRY_RUN),
        summary="Forget a broker's name and credential",
        handler="mqlite_cli.contexting:remove",
        examples=("mqlite context remove far",),
    ),
)
"""In the order of the help page."""
