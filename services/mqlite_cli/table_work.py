"""WORK: the rows of the commands that keep a queue going from a shell. They stand on calls of the
contract, so any broker answers them.

Read by `commands` alone, which puts all rows together.
"""

from __future__ import annotations

from mqlite_cli import flags
from mqlite_cli.flags import BODY_FILE, GLOBAL, TARGET
from mqlite_cli.grammar import Command

WORK: tuple[Command, ...] = (
    Command(
        "consume",
        "QUEUE",
        flags=(
            *GLOBAL,
            flags.text("exec", "COMMAND", "shell command that handles one message (needed)"),
            flags.integer("concurrency", "N", "commands at once, 1 to 256 (default 1)"),
            flags.integer("count", "N", "end after so many messages"),
            flags.duration("idle", "end when no message came for this long (0: never)"),
            flags.text("on-failure", "WHAT", "abandon or reject (default abandon)"),
            flags.integer("reject-exit", "CODE", "exit code of COMMAND, 1 to 255, that rejects"),
            flags.duration(
                "delay", "before another delivery, doubled for each up to 5m (default 1s)"
            ),
            flags.duration("limit", "end a command that runs longer (0: never)"),
            flags.duration("grace", "what commands get to end in after a signal (default 30s)"),
        ),
        summary="Run a shell command for each message, and complete it on exit 0",
        handler="mqlite_cli.consuming:consume",
        details="The body is the command's standard input. MESSAGE_QUEUE, MESSAGE_SEQ, "
        "MESSAGE_DELIVERY_COUNT, MESSAGE_ID, MESSAGE_CORRELATION_ID, MESSAGE_REPLY_TO, "
        "MESSAGE_GROUP_ID, MESSAGE_CONTENT_TYPE, MESSAGE_SUBJECT, MESSAGE_ENQUEUED_AT_MS, "
        "MESSAGE_EXPIRES_AT_MS and MESSAGE_PROPERTIES (JSON) are its environment. The lease is "
        "renewed while it runs. After SIGTERM or SIGINT nothing more is taken; a command that "
        "does not end in time gets SIGTERM and 5s later SIGKILL, with all that it started in its "
        "process group; when nobody of it is left, its message is given back uncounted, unless it "
        "ended with exit 0 and without SIGKILL. A second signal, half a second later or more, "
        "kills the commands and ends at once. The exit code is 1 if messages are counted as lost "
        "(after a signal: since then): their lease was over, or nobody took what became of them.",
        examples=("mqlite consume orders --exec 'cat >> handled.txt' --idle 1ms",),
    ),
    Command(
        "export",
        "QUEUE",
        flags=(
            *TARGET,
            flags.text("state", "STATE", "active, locked, deferred, scheduled or dead_lettered"),
            flags.integer("from", "SEQ", "lowest sequence number"),
            flags.integer("to", "SEQ", "highest sequence number"),
        ),
        summary="Print the messages of a queue as lines of JSON, and change nothing",
        handler="mqlite_cli.carrying:export",
        is_reader=True,
        details="Bodies are base64, keys those of the wire. How many there were is said on "
        "stderr. The queue goes on meanwhile: this is no snapshot, `backup` makes one.",
        examples=("mqlite export orders --state dead_lettered > dead.ndjson",),
    ),
    Command(
        "import",
        "QUEUE",
        rest="-",
        flags=(*GLOBAL, BODY_FILE),
        summary="Send the messages that `export` printed; from stdin or --file",
        handler="mqlite_cli.carrying:import_",
        details="They are new messages: numbered anew, active, or scheduled if they were and "
        "their time has not come. They keep what is left of their time to live; those that have "
        "expired are left out and counted, but a dead letter begins a new life, as `redrive` gives "
        "it one. When a line fails, all lines in front of it are stored.",
        examples=("mqlite import parked --file dead.ndjson",),
    ),
    Command(
        "ping",
        flags=(*GLOBAL, flags.integer("count", "N", "so many calls (default 1)")),
        summary="Call the broker, or open the store, and say how long it took",
        handler="mqlite_cli.reaching:ping",
        is_reader=True,
        examples=("mqlite ping",),
    ),
    Command(
        "wait-ready",
        flags=(*GLOBAL, flags.duration("within", "give up after this long (default 30s)")),
        summary="Wait until the broker answers, for scripts that have started one",
        handler="mqlite_cli.reaching:wait_ready",
        is_reader=True,
        details="A broker that is not there yet, or not ready, is asked again; one that refuses "
        "the credential, or is none, ends the wait at once with exit 1.",
        examples=("mqlite wait-ready --within 10s",),
    ),
)
"""In the order of the help page."""
