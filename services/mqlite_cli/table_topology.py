"""TOPOLOGY: the rows of the commands that keep queues and subscriptions in a file.

Read by `commands` alone, which puts all rows together.
"""

from __future__ import annotations

from mqlite_cli import flags
from mqlite_cli.flags import DRY_RUN, GLOBAL, TARGET
from mqlite_cli.grammar import Command

TOPOLOGY: tuple[Command, ...] = (
    Command(
        "export-topology",
        flags=TARGET,
        summary="Print all queues and subscriptions with their settings as TOML",
        handler="mqlite_cli.applying:export_topology",
        is_reader=True,
        details="A table [queues.NAME] or [subscriptions.NAME] each; keys are the flags of "
        "create-queue, of a subscription also topic and filter. Settings that are defaults are "
        "left out. No message is in it: `export` prints those.",
        examples=("mqlite export-topology > queues.toml",),
    ),
    Command(
        "diff",
        "FILE",
        flags=(
            *GLOBAL,
            flags.switch("ignore-extra", "what is not in the file is no difference"),
        ),
        summary="Compare a file of queues and subscriptions with what there is",
        handler="mqlite_cli.applying:diff",
        is_reader=True,
        details="Exit 0 when they are the same, 1 when they differ; + is missing, ~ differs, - is "
        "not in the file. An error is exit 1, too, with a line on stderr.",
        examples=("mqlite diff queues.toml",),
    ),
    Command(
        "apply",
        "FILE",
        flags=(
            *GLOBAL,
            flags.integer("prune", "N", "delete what is not in the file, if it is N things"),
            DRY_RUN,
        ),
        summary="Create and change queues and subscriptions until they are as in a file",
        handler="mqlite_cli.applying:apply",
        details="A setting that is not in the file gets its default. Applied again, it changes "
        "nothing. Without --prune, what is not in the file stays; with it, what holds messages "
        "stops the run.",
        examples=("mqlite apply queues.toml --dry-run", "mqlite apply queues.toml --prune 0"),
    ),
)
"""In the order of the help page."""
