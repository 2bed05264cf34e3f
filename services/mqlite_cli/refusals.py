"""The command line's own errors: what it refuses before, beside or instead of a call.

Raised by every module of this package and turned into a line and an exit code in `main` alone.
Errors of the contract are not wrapped; they carry their code and message already.
"""

from __future__ import annotations


class UsageError(Exception):
    """The words cannot be read as flags: exit 2, with the command's flag table."""


class Refusal(Exception):
    """Decided after reading the flags: exit 1. The message is one sentence with its mend."""


class Empty(Refusal):
    """There was no message, and `--fail-empty` makes that a failure."""

    def __init__(self) -> None:
        super().__init__("there is no message")


class HelpWanted(Exception):
    """`-h` stood among the flags: show the command's help and exit 0."""


class Interrupted(BaseException):
    """A signal ended the command after it had put back what it held: exit 128 + `number`."""

    def __init__(self, number: int) -> None:
        super().__init__(f"signal {number}")
        self.number = number
