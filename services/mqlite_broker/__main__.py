"""`python -m mqlite_broker [--addr HOST:PORT] [--insecure-allow-remote]`: the broker without the
CLI.

The same settings and the same `run` as `mqlite serve`; for images and tests that want nothing else.
"""

from __future__ import annotations

import argparse
import os
import sys

from mqlite_actor.contract.errors import InvalidArgument
from mqlite_broker.serve import run
from mqlite_broker.settings import read_settings


def main() -> int:
    """Read the command line and the environment, serve, and give the exit code."""
    parser = argparse.ArgumentParser(prog="mqlite_broker", allow_abbrev=False)
    parser.add_argument("--addr")
    parser.add_argument("--insecure-allow-remote", action="store_true")
    parser.add_argument("--metrics", action="store_true")
    parser.add_argument("--workers")
    parser.add_argument("--link-socket")
    given = parser.parse_args()
    flags: dict[str, str | bool] = {"insecure-allow-remote": given.insecure_allow_remote}
    if given.metrics:
        flags["metrics"] = True
    texts = {"addr": given.addr, "workers": given.workers, "link-socket": given.link_socket}
    flags.update({name: text for name, text in texts.items() if text is not None})
    try:
        settings = read_settings(flags, os.environ)
    except InvalidArgument as error:
        print(f"error: {error.message}", file=sys.stderr)  # noqa: T201  # the one line of a refusal
        return 1
    return run(settings)


if __name__ == "__main__":
    sys.exit(main())
