"""Sequence numbers as they stand on the command line, decimal and positive; and bounds.

Called by every command that names or bounds messages. A word that is no number of a message is a
Refusal, because it is decided after the flags (spec/tools.md 1.1).
"""

from __future__ import annotations

from mqlite_actor.contract.errors import InvalidArgument
from mqlite_actor.contract.limits import INT64_MAX
from mqlite_cli.escaping import field
from mqlite_cli.grammar import Arguments
from mqlite_cli.refusals import Refusal

_DIGITS_MAX = len(str(INT64_MAX))


def read_seq(word: str, *, name: str) -> int:
    """The number of a message, or a Refusal that names the word's place."""
    is_decimal = word.isascii() and word.isdigit() and len(word) <= _DIGITS_MAX
    number = int(word) if is_decimal else 0
    if not 0 < number <= INT64_MAX:
        raise Refusal(f"{name}: {field(word[:64])} is no sequence number; they are 1, 2, 3 ...")
    return number


def read_seqs(text: str, *, name: str) -> list[int]:
    """The numbers of a comma list, at least one, in their order and each once."""
    words = [word.strip() for word in text.split(",")]
    return list(dict.fromkeys(read_seq(word, name=name) for word in words))


def read_bound(arguments: Arguments, name: str) -> int:
    """A flag that bounds something; 0, as without it, is no bound. InvalidArgument below that."""
    number = arguments.number(name)
    if number < 0:
        raise InvalidArgument(f"--{name}: must not be negative")
    return number
