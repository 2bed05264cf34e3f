"""The script `mqlite`: the first and last thing of every run.

`run` looks at the standard streams before anything can open a file, answers `version` and `help`
itself, and hands every other command to `dispatch`, which is imported only then: `mqlite version`
costs little more than starting Python, and a test holds that. Exit codes: 0, 1, 2 (spec/tools.md
1.1), and 128 and the signal's number when interrupted.
"""

from __future__ import annotations

import os
import sys

from mqlite_cli.refusals import Interrupted
from mqlite_cli.streams import OutputFailed, Streams

TYPE_CHECKING = False  # what type checkers take for true; typing itself would cost too much
if TYPE_CHECKING:
    from typing import NoReturn

_VERSION = frozenset({"version", "-v", "--version"})
_HELP = frozenset({"help", "-h", "--help"})


def main() -> NoReturn:
    """The script: `run`, then the end of this process.

    A light command ends without the interpreter's own clearing up, a tenth of what it costs: its
    output is written, its sockets end with it. Whatever has started a loop ends in the usual way.
    """
    code = run()
    if "trio" in sys.modules:
        sys.exit(code)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(code)


def run() -> int:
    """Run the command line of this process and return its exit code."""
    streams = Streams()
    try:
        code = _run(sys.argv[1:], streams)
        streams.flush()
    except OutputFailed as error:
        streams.complain(f"error: cannot write to standard output: {error}")
        return 1
    except KeyboardInterrupt:
        return 130
    except Interrupted as interrupted:
        return 128 + interrupted.number
    return code


def _run(words: list[str], streams: Streams) -> int:
    word = words[0] if words else "help"
    if word in _VERSION or word in _HELP:
        if len(words) > 1:
            streams.complain(f"error: usage: mqlite {word} takes no arguments")
            return 1
        streams.write(_version() if word in _VERSION else _page())
        return 0 if words else 2
    _import_msgspec()
    from mqlite_cli.dispatch import dispatch  # noqa: PLC0415 - `version` must not pay for it

    return dispatch(words, environ=os.environ, streams=streams)


def _import_msgspec() -> None:
    """Import msgspec without typing_extensions, of which it would use what typing has, too: where
    it happens to be installed, that and what it imports cost half as much as Python itself."""
    name = "typing_extensions"
    if name in sys.modules:
        return
    sys.modules[name] = None  # type: ignore[assignment]  # how an import is made to fail
    try:
        import msgspec  # noqa: F401, PLC0415 - `version` must not pay for it
    finally:
        del sys.modules[name]


def _version() -> str:
    from mqlite_actor.version import __version__  # noqa: PLC0415 - the package, for this word alone

    return f"mqlite {__version__}\n"


def _page() -> str:
    from mqlite_cli import usage  # noqa: PLC0415 - `version` must not pay for it

    return usage.page()
