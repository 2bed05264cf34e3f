"""`python -m mqlite_broker [FLAGS]`: the broker without the command line.

The same flags, settings and `run` as `mqlite serve`; for images and tests that want nothing else.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import NoReturn

from mqlite_actor.contract.errors import InvalidArgument
from mqlite_actor.sdk.address import without_tokens
from mqlite_broker import logs, standard_streams
from mqlite_broker.serve import run
from mqlite_broker.settings import FLAGS, SWITCHES, read_settings


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        super().error(without_tokens(message))


def main() -> int:
    """Read the command line and the environment, serve, and give the exit code."""
    standard_streams.hold()
    parser = _Parser(prog="mqlite_broker", allow_abbrev=False)
    for name in FLAGS:
        parser.add_argument(f"--{name}", dest=name)
    for name in SWITCHES:
        parser.add_argument(f"--{name}", dest=name, action="store_true", default=None)
    given: dict[str, str | bool | None] = vars(parser.parse_args())
    flags = {name: value for name, value in given.items() if value is not None}
    try:
        settings = read_settings(flags, os.environ)
    except InvalidArgument as error:
        line = without_tokens(logs.printable(error.message))
        print(f"error: {line}", file=sys.stderr)  # noqa: T201  # the one line of a refusal
        return 1
    return run(settings)


if __name__ == "__main__":
    sys.exit(main())
