"""`serve` and `openapi`: where the command line meets the broker (design.md R4).

Called by `main` through the command table. The broker is looked up when it is asked for, because
its packages are an extra; when they are missing the answer is the pip line.
"""

from __future__ import annotations

from mqlite_cli.invocation import Invocation
from mqlite_cli.refusals import Refusal

_OURS = ("mqlite_broker", "mqlite_actor", "mqlite_cli")


def serve(run: Invocation) -> int:
    """`serve`: the broker in this process, until it is told to stop; its exit code."""
    try:
        from mqlite_broker.serve import run as run_broker  # noqa: PLC0415 - an extra, see above
        from mqlite_broker.settings import read_settings  # noqa: PLC0415 - an extra, see above
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", *_OURS):
            raise  # a fault of ours, not a missing extra
        raise Refusal(
            f"serve needs packages that are not installed ({package}); "
            "install mqlite-actor[broker]: pip install 'mqlite-actor[broker]'"
        ) from error
    flags = {
        name: value
        for name, value in run.arguments.given().items()
        if isinstance(value, str | bool)
    }
    return run_broker(read_settings(flags, run.environ))


def openapi(run: Invocation) -> int:
    """`openapi`: print what a broker of this version serves, as OpenAPI 3.1."""
    from mqlite_broker import openapi as description  # noqa: PLC0415 - only for who asks

    run.streams.write(description.text())
    return 0
