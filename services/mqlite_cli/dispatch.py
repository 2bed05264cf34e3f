"""From words to a handler, and from whatever it raises to a line and an exit code.

Called by `main`. The order is fixed (spec/tools.md 1.1): flags (2), number of arguments (1),
`--output` (1), then the handler. This is the one place that knows what an error looks like on
standard error: `error: CODE: message` for errors of the contract, `error: message` for the command
line's own; it shows no token, wherever on the line or in the environment somebody put it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from mqlite_actor.contract.errors import Closed, MqliteError, OpenError
from mqlite_cli import grammar, usage
from mqlite_cli.commands import ALIASES, BY_NAME, GROUPS
from mqlite_cli.escaping import field
from mqlite_cli.grammar import Arguments, Command
from mqlite_cli.invocation import Invocation
from mqlite_cli.output import Form, Output, read_form
from mqlite_cli.refusals import HelpWanted, Refusal, UsageError
from mqlite_cli.streams import OutputFailed, Streams
from mqlite_cli.terminal import Terminal


def dispatch(words: list[str], *, environ: Mapping[str, str], streams: Streams) -> int:
    """Run the command that `words` name; its exit code. OutputFailed passes."""
    word, *rest = words
    if word in GROUPS:
        return _dispatch_group(word, rest, environ=environ, streams=streams)
    command = BY_NAME.get(ALIASES.get(word, word))
    if command is None:
        hint = grammar.did_you_mean(word, [*BY_NAME, *ALIASES, *GROUPS])
        streams.complain(_masked(f"error: unknown command {field(word)}{hint}"))
        streams.write(usage.page())
        return 2
    return _run(command, rest, environ=environ, streams=streams)


def _dispatch_group(
    group: str, words: list[str], *, environ: Mapping[str, str], streams: Streams
) -> int:
    """A command of two words. The second must follow at once; `-h` in its place lists them."""
    second = words[0] if words else ""
    command = BY_NAME.get(f"{group} {second}")
    if command is not None:
        return _run(command, words[1:], environ=environ, streams=streams)
    if second.lstrip("-") in ("h", "help"):
        streams.write(usage.of_group(group))
        return 0
    names = "|".join(GROUPS[group])
    if not words:
        streams.complain(f"error: usage: mqlite {group} {names} [flags] ...")
        return 1
    hint = grammar.did_you_mean(second, list(GROUPS[group]))
    streams.complain(_masked(f"error: {group}: {field(second)} is none of {names}{hint}"))
    return 2


def _run(
    command: Command, words: list[str], *, environ: Mapping[str, str], streams: Streams
) -> int:
    try:
        arguments = grammar.parse(command, words)
        return _handle(command, arguments, environ=environ, streams=streams)
    except HelpWanted:
        streams.write(usage.of(command))
        return 0
    except UsageError as error:
        streams.complain(_masked(f"error: {command.name}: {error}"))
        for line in usage.of(command).splitlines():
            streams.complain(line)
        return 2
    except (MqliteError, Refusal) as error:
        streams.complain(_masked(f"error: {_worded(error)}"))
        return 1


def _handle(
    command: Command, arguments: Arguments, *, environ: Mapping[str, str], streams: Streams
) -> int:
    has_output = "output" in command.flags
    form = read_form(arguments.text("output", Form.TEXT)) if has_output else Form.TEXT
    output = Output(streams, form=form, terminal=Terminal(streams, environ))
    run = Invocation(command, arguments, environ=environ, streams=streams, output=output)
    try:
        return _resolve(command)(run)
    except OutputFailed:
        raise
    except MqliteError:
        # What was shown before the failure is true; it belongs in front of the error.
        streams.flush()
        raise


def _resolve(command: Command) -> Callable[[Invocation], int]:
    module, _, function = command.handler.partition(":")
    handler: Callable[[Invocation], int] = getattr(import_module(module), function)
    return handler


def _masked(line: str) -> str:
    from mqlite_actor.sdk.address import without_tokens  # noqa: PLC0415 - for errors alone

    return without_tokens(line)


def _worded(error: MqliteError | Refusal) -> str:
    """The error and its notes on one line. A store that does not open has no code of the wire."""
    notes = getattr(error, "__notes__", [])
    if isinstance(error, Refusal):
        return "; ".join([str(error), *notes])
    head = [] if isinstance(error, OpenError | Closed) else [f"{error.code}: "]
    return "".join(head) + "; ".join([error.message, *notes])
