"""A question to somebody at a terminal before something is gone for good.

Called by `purge`. The answer is the name of what is meant: nobody types that by a slip, and nobody
means another queue by it. The question stands on standard error, so that results stay alone.
"""

from __future__ import annotations

import os

from mqlite_cli.escaping import field
from mqlite_cli.invocation import Invocation
from mqlite_cli.refusals import Refusal
from mqlite_cli.streams import STDERR, STDIN, read_some

_ANSWER_BYTES = 4096
"""The longest line that a terminal hands over."""


def can_ask(run: Invocation) -> bool:
    """Whether somebody sits there who can read the question and type an answer."""
    return run.streams.is_terminal(STDIN) and run.streams.is_terminal(STDERR)


def confirm(run: Invocation, name: str, about: str) -> None:
    """Return once `name` was typed; Refusal for anything else, and at the end of the input."""
    run.streams.complain(f"{about} Type its name to go on:")
    answer = os.fsdecode(read_some(STDIN, _ANSWER_BYTES)).removesuffix("\n")
    if answer != name:
        raise Refusal(f"that is not {field(name)}; nothing was deleted")
