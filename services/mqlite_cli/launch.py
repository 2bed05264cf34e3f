"""`serve`, `openapi` and `top`: where the command line meets broker and monitor (design.md R4).

Called by `main` through the command table. Both are looked up when they are asked for, because
their packages are extras; when those are missing the answer is the pip line.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING

from mqlite_actor.contract.errors import Unsupported
from mqlite_actor.sdk.address import StoreKind, dial, masked, parse_store
from mqlite_actor.sdk.durations import nanoseconds_to_ms
from mqlite_cli.grammar import Arguments
from mqlite_cli.invocation import Invocation
from mqlite_cli.output import Form
from mqlite_cli.refusals import Refusal
from mqlite_cli.securing import refuse_for_store, tls_context
from mqlite_cli.target import BrokerTarget

if TYPE_CHECKING:
    from mqlite_actor import Handle

_OURS = ("mqlite_broker", "mqlite_actor", "mqlite_cli", "mqlite_monitor")


def serve(run: Invocation) -> int:
    """`serve`: the broker in this process, until it is told to stop; its exit code."""
    try:
        from mqlite_broker.serve import run as run_broker  # noqa: PLC0415 - an extra, see above
        from mqlite_broker.settings import read_settings  # noqa: PLC0415 - an extra, see above
    except ModuleNotFoundError as error:
        raise _missing(error, "serve", extra="broker") from error
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


def top(run: Invocation) -> int:
    """`top`: the live monitor in this terminal, until it is left; its exit code."""
    try:
        from mqlite_monitor.app import run as run_monitor  # noqa: PLC0415 - an extra, see above
        from mqlite_monitor.options import TopOptions  # noqa: PLC0415 - an extra, see above
    except ModuleNotFoundError as error:
        raise _missing(error, "top", extra="monitor") from error
    arguments = run.arguments
    is_json = run.output.form is Form.JSON
    if is_json and not arguments.is_on("once"):
        raise Refusal("--output json goes with --once; `mqlite observe --watch` prints more")
    opening, source = _unopened if arguments.has("replay") else _look(run)
    interval_ms = 1_000
    if arguments.has("interval"):
        interval_ms = nanoseconds_to_ms(arguments.number("interval"), field="--interval")

    def write(text: str) -> None:
        run.streams.write(text)
        run.streams.flush()

    return run_monitor(
        TopOptions(
            opening=opening,
            source=source,
            write=write,
            environ=run.environ,
            interval_ms=interval_ms,
            has_interval=arguments.has("interval"),
            sort=arguments.text("sort", "concern"),
            search=arguments.text("filter"),
            is_once=arguments.is_on("once"),
            document=partial(run.output.document, line="") if is_json else None,
            record=arguments.text("record"),
            replay=arguments.text("replay"),
        )
    )


Opening = Callable[[], AbstractAsyncContextManager["Handle"]]


def _unopened_handle() -> AbstractAsyncContextManager[Handle]:
    raise AssertionError("a recording asks nobody")


_unopened: tuple[Opening, str] = (_unopened_handle, "")


def _look(run: Invocation) -> tuple[Opening, str]:
    """How the monitor gets a handle, and what that is called. Refusal for flags that do not hold
    there: whom to trust is never passed over in silence."""
    from mqlite_actor import connect, open_reader  # noqa: PLC0415 - a loop, for this command alone

    arguments = run.arguments
    if arguments.has("db"):
        if arguments.has("endpoint"):
            raise Refusal("--db and --endpoint name two places to look at; give one")
        store, dsn = parse_store(arguments.text("db"), bare_paths=True), arguments.text("db")
    elif arguments.text("endpoint").startswith("unix:"):
        address = arguments.text("endpoint")
        refuse_for_store(arguments)
        return partial(connect, address), address
    else:
        target = run.target
        if isinstance(target, BrokerTarget):
            return _opening_broker(target, arguments), target.endpoint.shown
        store, dsn = target.store, target.dsn
    if store.kind is not StoreKind.FILE:
        raise Unsupported(
            f"top looks at a broker or at a file that is in use; {masked(dsn)} is neither"
        )
    refuse_for_store(arguments)
    return partial(open_reader, f"file:{store.location}"), store.location


def _opening_broker(target: BrokerTarget, arguments: Arguments) -> Opening:
    from mqlite_actor.sdk.http_async import open_http  # noqa: PLC0415 - for this command alone

    for name in ("timeout", "retries"):
        if arguments.has(name):
            raise Refusal(f"--{name}: top asks again by itself, every --interval")
    tls = tls_context(arguments, target.files, is_tls=dial(target.endpoint).is_tls)
    return partial(open_http, target.endpoint, token=target.token, tls=tls)


def _missing(error: ModuleNotFoundError, command: str, *, extra: str) -> Exception:
    """What is raised instead: the pip line, or the error itself where it is a fault of ours."""
    package = (error.name or "").partition(".")[0]
    if package in ("", *_OURS):
        return error
    return Refusal(
        f"{command} needs packages that are not installed ({package}); "
        f"install mqlite-actor[{extra}]: pip install 'mqlite-actor[{extra}]'"
    )
