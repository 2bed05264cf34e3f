"""Messages that are looked at, in the form that was asked for: a line each, their parts below each
other, their bodies alone, or raw bytes.

Called by `messages` and `describing`. Rules: whatever form, nothing that a terminal obeys comes to
one, so raw bytes go into files and pipes only; in JSON a form changes what an object holds and adds
no key that `send --ndjson` would not read; messages are written as they come, because many of them
may be large.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from enum import StrEnum
from itertools import chain

import msgspec

from mqlite_actor.contract.wire import Message
from mqlite_cli.escaping import field, json_text, visible
from mqlite_cli.invocation import Invocation
from mqlite_cli.moments import shown_moment
from mqlite_cli.output import Form
from mqlite_cli.refusals import Empty, Refusal
from mqlite_cli.streams import STDOUT


class View(StrEnum):
    """The forms, by their flags; LINES is that of no flag."""

    LINES = ""
    RAW = "raw"
    PRETTY = "pretty"
    BODY_ONLY = "body-only"


def read_view(run: Invocation) -> View:
    """The form that the flags name. Refusal for two of them, and for one that cannot be."""
    named = [view for view in View if view and run.arguments.is_on(view)]
    if len(named) > 1:
        raise Refusal(f"{' and '.join(f'--{view}' for view in named)} are two forms; give one")
    view = named[0] if named else View.LINES
    if view is not View.RAW:
        return view
    if run.output.form is not Form.TEXT:
        raise Refusal("--raw prints bytes, which JSON cannot hold; leave it or --output out")
    if run.streams.is_terminal(STDOUT):
        raise Refusal(
            "--raw prints bytes as they are, and a terminal obeys some of them; send them to a file"
            " or a program, or take --body-only"
        )
    return view


def show(
    run: Invocation,
    messages: Iterable[Message],
    view: View,
    *,
    line: Callable[[Message], str],
    nothing: str,
) -> None:
    """Write all messages, or that there are none. OutputFailed; Empty if that is a failure."""
    coming = iter(messages)
    first = next(coming, None)
    if first is None:
        if view is not View.RAW:
            run.output.nothing(text=nothing, json="[]")
        if run.arguments.is_on("fail-empty"):
            raise Empty
        return
    everything = chain([first], coming)
    if view is View.RAW:
        _write_raw(run, everything)
    elif run.output.form is Form.TEXT:
        run.output.messages(everything, _TEXTS.get(view, line))
    else:
        run.output.messages(map(_OBJECTS.get(view, _itself), everything), line)


def _write_raw(run: Invocation, messages: Iterable[Message]) -> None:
    """Bodies byte for byte, a line feed between two, so that one alone is exactly itself."""
    for at, message in enumerate(messages):
        run.streams.write((b"\n" if at else b"") + message.body)


def _itself(message: Message) -> Message:
    return message


def _body_object(message: Message) -> Message:
    return Message(seq_number=message.seq_number, body=message.body)


def _readable_object(message: Message) -> Message:
    """A body that is text as `text`, as `send --ndjson` takes it."""
    from mqlite_cli.lines import Line  # noqa: PLC0415 - for this form alone

    try:
        text = message.body.decode()
    except UnicodeDecodeError:
        return message
    return Line(**{**msgspec.structs.asdict(message), "body": b""}, text=text)


def _card(message: Message) -> str:
    """A message over several lines, a blank one at the end."""
    facts: dict[str, str | int] = {
        "enqueued": _moment(message.enqueued_at_ms),
        "visible": _moment(message.visible_at_ms),
        "locked until": _moment(message.locked_until_ms),
        "expires": _moment(message.expires_at_ms),
        "deliveries": message.delivery_count,
        "reason": message.dead_letter_reason,
        "description": message.dead_letter_description,
        "message-id": message.message_id,
        "group": message.group_id,
        "correlation-id": message.correlation_id,
        "reply-to": message.reply_to,
        "subject": message.subject,
        "content-type": message.content_type,
        **{f"prop {field(key)}": value for key, value in message.properties.items()},
    }
    shown = [(name, visible(str(value))) for name, value in facts.items() if value != ""]
    width = max(len(name) for name, _ in shown)
    return "\n".join([
        f"message {message.seq_number} {visible(message.state)}",
        *(f"  {name:<{width}}  {value}" for name, value in shown),
        f"  body of {len(message.body)} bytes",
        *(f"    {visible(each)}" for each in _body_lines(message.body)),
        "",
    ])  # fmt: skip


def _moment(ms: int) -> str:
    return shown_moment(ms) if ms else ""


def _body_lines(body: bytes) -> Iterator[str]:
    """JSON laid out, other text line by line, anything else with escapes."""
    text = body.decode("utf-8", "surrogateescape")
    if body[:1] in (b"{", b"["):
        with suppress(msgspec.DecodeError, UnicodeDecodeError):  # it may only look like JSON
            text = json_text(msgspec.json.format(body, indent=2))
    yield from text.split("\n") if body else ()


_TEXTS: dict[View, Callable[[Message], str]] = {
    View.PRETTY: _card,
    View.BODY_ONLY: lambda message: visible(message.body.decode("utf-8", "surrogateescape")),
}
_OBJECTS: dict[View, Callable[[Message], Message]] = {
    View.PRETTY: _readable_object,
    View.BODY_ONLY: _body_object,
}
