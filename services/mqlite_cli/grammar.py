"""The grammar of the command line (spec/tools.md 1.1): words to flags and positionals.

Called by `main` with a row of `commands.COMMANDS`; knows no command itself and opens nothing.
Rules: one or two dashes are equal; a value follows as `--x=v` or `--x v`; a switch takes a value
only behind `=`; the last repetition wins; flags and positionals may interleave; `--` ends the
flags; `-` is a positional; no abbreviations. What cannot be read is a UsageError (exit 2), a wrong
number of positionals a Refusal (exit 1). An unknown flag is named without its value, which may be a
secret.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mqlite_actor.sdk.notation import parse_duration
from mqlite_cli.refusals import HelpWanted, Refusal, UsageError

Value = str | int | bool
Pairs = tuple[tuple[str, str], ...]

_INT64 = range(-(2**63), 2**63)
_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})
_HELP = frozenset({"h", "help"})


class Flag:
    """One flag: its name without dashes, how its value is read and shown in help, and what it
    means. `repeats`: every repetition counts, where else the last one wins."""

    __slots__ = ("meaning", "metavar", "name", "read", "repeats")

    def __init__(
        self,
        name: str,
        metavar: str,
        meaning: str,
        *,
        read: Callable[[str], Value | Pairs],
        repeats: bool = False,
    ) -> None:
        self.name = name
        self.metavar = metavar
        self.meaning = meaning
        self.read = read
        self.repeats = repeats

    @property
    def is_switch(self) -> bool:
        """A switch is on when it is named and takes a value only behind `=`."""
        return self.read is read_switch


class Command:
    """A row of the command table.

    `name` is one word, or two for a command of a group (`key create`). `words` are the positionals
    in order; `rest` names further words that may follow, or is "". `handler` is `module:function`,
    resolved when the command runs, so that one command's imports cost no other anything.
    `is_reader`: it creates nothing, so a missing file stays missing. `details` is what its help
    says beyond the summary, `examples` are command lines that the tests run.
    """

    __slots__ = (
        "details", "examples", "flags", "handler", "is_reader", "name", "rest", "summary", "words",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        *words: str,
        rest: str = "",
        flags: Sequence[Flag] = (),
        summary: str,
        handler: str,
        is_reader: bool = False,
        details: str = "",
        examples: Sequence[str] = (),
    ) -> None:
        self.details = details
        self.examples = tuple(examples)
        self.name = name
        self.words = words
        self.rest = rest
        self.flags = {flag.name: flag for flag in flags}
        self.summary = summary
        self.handler = handler
        self.is_reader = is_reader

    @property
    def usage(self) -> str:
        """`mqlite send [flags] QUEUE [BODY ...]`"""
        tail = [f"[{self.rest} ...]"] if self.rest else []
        return " ".join(["mqlite", self.name, "[flags]", *self.words, *tail])


class Arguments:
    """What was said: the positionals, and the value of each flag that was given."""

    __slots__ = ("_command", "_given", "_repeated", "words")

    def __init__(
        self,
        command: Command,
        words: list[str],
        given: dict[str, Value],
        repeated: dict[str, list[Value | Pairs]] | None = None,
    ) -> None:
        self._command = command
        self._repeated = repeated or {}
        self._given = given
        self.words = words

    def has(self, name: str) -> bool:
        """Whether the flag was given, whatever its value."""
        assert name in self._command.flags, name
        return name in self._given or name in self._repeated

    def text(self, name: str, default: str = "") -> str:
        """The value of a text flag."""
        value = self._given[name] if self.has(name) else default
        assert isinstance(value, str), name
        return value

    def number(self, name: str, default: int = 0) -> int:
        """The value of an integer flag, or of a duration flag in nanoseconds."""
        value = self._given[name] if self.has(name) else default
        assert type(value) is int, name
        return value

    def is_on(self, name: str) -> bool:
        """Whether a switch is on."""
        value = self._given[name] if self.has(name) else False
        assert isinstance(value, bool), name
        return value

    def texts(self, name: str) -> list[str]:
        """Every value of a text flag that repeats."""
        assert self._command.flags[name].repeats, name
        return [value for value in self._repeated.get(name, []) if isinstance(value, str)]

    def pairs(self, name: str) -> dict[str, str]:
        """What all repetitions of a `key=value` flag say; of one key the last."""
        assert self._command.flags[name].repeats, name
        found = self._repeated.get(name, [])
        return {key: value for pairs in found if isinstance(pairs, tuple) for key, value in pairs}

    def given(self) -> dict[str, Value]:
        """All flags that were given, by name, but those that repeat."""
        return dict(self._given)


def parse(command: Command, words: Sequence[str]) -> Arguments:
    """Read `words` by the command's row. Raises UsageError, HelpWanted, or Refusal for the
    arity."""
    positionals: list[str] = []
    given: dict[str, Value] = {}
    repeated: dict[str, list[Value | Pairs]] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            positionals += rest
            break
        if word == "-" or not word.startswith("-"):
            positionals.append(word)
            continue
        flag, text = _flag(command, word)
        if text is None:
            text = _value(flag, rest)
        try:
            value = flag.read(text)
        except ValueError as error:
            raise UsageError(f"--{flag.name}: {error}") from error
        if flag.repeats:
            repeated.setdefault(flag.name, []).append(value)
        else:
            assert not isinstance(value, tuple), flag.name
            given[flag.name] = value
    _check_arity(command, positionals)
    return Arguments(command, positionals, given, repeated)


def _flag(command: Command, word: str) -> tuple[Flag, str | None]:
    """The flag that `word` names, and the value behind its `=` if there is one."""
    name, equals, text = word.removeprefix("-").removeprefix("-").partition("=")
    if not name or name.startswith("-"):
        raise UsageError(f"{word.partition('=')[0]} is no flag")
    flag = command.flags.get(name)
    if flag is None:
        if name in _HELP:
            raise HelpWanted
        raise UsageError(f"unknown flag --{name}{did_you_mean(name, command.flags, dashes='--')}")
    return flag, text if equals else None


def _value(flag: Flag, rest: list[str]) -> str:
    if flag.is_switch:
        return "true"
    if not rest:
        raise UsageError(f"--{flag.name} needs a value: --{flag.name}={flag.metavar}")
    return rest.pop(0)


def _check_arity(command: Command, positionals: list[str]) -> None:
    needed = len(command.words)
    if len(positionals) < needed or (len(positionals) > needed and not command.rest):
        raise Refusal(f"usage: {command.usage}")
    for name, word in zip(command.words, positionals, strict=False):
        try:
            read_text(word)
        except ValueError as error:
            raise Refusal(f"{name}: {error}") from error


def did_you_mean(word: str, names: Sequence[str] | dict[str, Flag], *, dashes: str = "") -> str:
    """`; did you mean X?`, or "" when nothing is near. What begins so is nearest."""
    import difflib  # noqa: PLC0415 - only for somebody who mistyped

    begun = [name for name in names if word and name.startswith(word)]
    near = begun if len(begun) == 1 else difflib.get_close_matches(word, list(names), n=1)
    return f"; did you mean {dashes}{near[0]}?" if near else ""


# -- how values are read: text to value, ValueError with the mend ----------------------------------


def read_text(text: str) -> str:
    """Any text that is UTF-8."""
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        raise ValueError("not UTF-8")
    return text


def read_path(text: str) -> str:
    """A file name; whatever bytes the system has."""
    if not text or "\0" in text:
        raise ValueError("not a file name")
    return text


def read_integer(text: str) -> int:
    """An int64: decimal, or 0x, 0o, 0b; `_` may separate digits."""
    try:
        if not text.isascii() or text != text.strip():
            raise ValueError
        value = int(text, 0)
    except ValueError:
        raise ValueError("not an integer") from None  # int()'s words would repeat the value
    if value not in _INT64:
        raise ValueError("outside the range of int64")
    return value


def read_duration(text: str) -> int:
    """A duration, in nanoseconds."""
    return parse_duration(text)


def read_age_bound(text: str) -> int:
    """A duration in nanoseconds, or `unbounded` or -1 for none, which is -1."""
    return -1 if text in {"unbounded", "-1"} else parse_duration(text)


def read_count_bound(text: str) -> int:
    """An integer, or `unbounded` for none, which is -1."""
    return -1 if text == "unbounded" else read_integer(text)


def read_pairs(text: str) -> Pairs:
    """`key=value`, several joined by commas; behind a backslash a comma is part of the value."""
    parts, escaped = [""], False
    for char in read_text(text):
        if escaped:
            parts[-1] += char if char in ",\\" else f"\\{char}"
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == ",":
            parts.append("")
        else:
            parts[-1] += char
    parts[-1] += "\\" if escaped else ""
    return tuple(_pair(part) for part in parts)


def _pair(part: str) -> tuple[str, str]:
    key, equals, value = part.partition("=")
    if not equals or not key:
        raise ValueError("not key=value; a comma inside a value is written \\,")
    return key, value


def read_switch(text: str) -> bool:
    """The words for on and off."""
    if text not in _TRUE and text not in _FALSE:
        raise ValueError("a switch is true or false")
    return text in _TRUE
