"""Results on standard output, as text or as JSON (spec/tools.md 1.1).

Called by the handlers; writes through `streams`. Rules: text puts one result on one line and
escapes whatever a sender or a broker controls, and somebody at a terminal may get a table of the
same; JSON has two-space indentation, result objects sorted by key and messages exactly as on the
wire; lists are bare arrays; NDJSON is the same objects, each on a line of its own, and a list is
only its lines; messages are rendered one by one, because the text of a legal batch can be many
times its size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum

import msgspec

from mqlite_actor.contract.wire import Message
from mqlite_cli.escaping import field, json_text
from mqlite_cli.refusals import Refusal
from mqlite_cli.streams import OutputFailed, Streams
from mqlite_cli.terminal import Terminal

Pairs = Mapping[str, str | int]

_INDENT = 2


class Form(StrEnum):
    """How results are printed."""

    TEXT = "text"
    JSON = "json"
    NDJSON = "ndjson"


def read_form(word: str) -> Form:
    """The form that `--output` names."""
    try:
        return Form(word)
    except ValueError as error:
        raise Refusal(f"--output is {field(word)}; write text, json or ndjson") from error


class Output:
    """The results of one command."""

    __slots__ = ("_streams", "form", "terminal")

    def __init__(self, streams: Streams, *, form: Form, terminal: Terminal) -> None:
        self._streams = streams
        self.form = form
        self.terminal = terminal

    def done(self, pairs: Pairs) -> None:
        """What a changing command did: `ok:` and its pairs in this order, or one object.

        If it cannot be written, the OutputFailed says what has happened nevertheless.
        """
        self.took_effect(pairs, line=f"ok: {key_values(pairs)}")

    def took_effect(self, result: Mapping[str, object], *, line: str) -> None:
        """The same with a line of the caller's own."""
        try:
            self.record(result, line=line)
            self._streams.flush()
        except OutputFailed as error:
            raise OutputFailed(f"{error}; the command has taken effect ({line})") from error

    def record(self, result: Mapping[str, object], *, line: str | None) -> None:
        """One result object, or its line; None is no line."""
        if self.form is not Form.TEXT:
            self._streams.write(self._document(result))
        elif line is not None:
            head = "ok:"
            is_done = line.startswith(head) and self.terminal.is_coloured
            shown = self.terminal.styled(head, "good") + line[len(head) :] if is_done else line
            self._streams.write(f"{shown}\n")

    def document(self, value: msgspec.Struct, *, line: str, is_stream: bool = False) -> None:
        """One object of the wire with its own keys, or its lines. In a stream of documents each is
        one line, so that whoever reads them knows where one ends."""
        if self.form is Form.TEXT:
            self._streams.write(f"{line}\n")
        elif is_stream:
            self._streams.write(_line(value))
        else:
            self._streams.write(self._document(value))

    def rows(
        self,
        rows: Sequence[msgspec.Struct],
        lines: Sequence[str],
        *,
        empty: str,
        is_tabular: bool = True,
        totals: Sequence[str] = (),
    ) -> None:
        """A list of result objects: an array, or a line for each, or the line `empty`. Somebody at
        a terminal gets a table instead, with `totals` below."""
        if self.form is Form.JSON:
            self._streams.write(self._document(rows))
            return
        if self.form is Form.NDJSON:
            for row in rows:
                self._streams.write(self._document(row))
            return
        table = self.terminal.table(rows, totals) if is_tabular else None
        if table is not None:
            self._streams.write(table)
            return
        for line in lines or [empty]:
            self._streams.write(f"{line}\n")

    def messages(self, messages: Iterable[Message], line: Callable[[Message], str]) -> None:
        """At least one message: an array of wire objects, or a line for each."""
        if self.form is Form.TEXT:
            for message in messages:
                self._streams.write(f"{line(message)}\n")
            return
        if self.form is Form.NDJSON:
            for message in messages:
                self._streams.write(_line(message))
            return
        for at, message in enumerate(messages):
            self._streams.write(",\n" if at else "[\n")
            document = msgspec.json.format(msgspec.json.encode(message), indent=_INDENT)
            # A line break inside a JSON string is an escape, so each of these is layout.
            self._streams.write(
                " " * _INDENT + json_text(document).replace("\n", "\n" + " " * _INDENT)
            )
        self._streams.write("\n]\n")

    def nothing(self, *, text: str, json: str) -> None:
        """There were no results; of NDJSON that is no line."""
        if self.form is not Form.NDJSON:
            self._streams.write(f"{text if self.form is Form.TEXT else json}\n")

    def _document(self, value: object) -> str:
        encoded = msgspec.json.encode(value, order="sorted")
        if self.form is not Form.NDJSON:
            encoded = msgspec.json.format(encoded, indent=_INDENT)
        return json_text(encoded) + "\n"


def key_values(pairs: Pairs) -> str:
    """`key=value` pairs on one line, values quoted where they could mislead."""
    return " ".join(
        f"{key}={field(value) if isinstance(value, str) else value}" for key, value in pairs.items()
    )


def _line(value: msgspec.Struct) -> str:
    """An object of the wire in its own order."""
    return json_text(msgspec.json.encode(value)) + "\n"
