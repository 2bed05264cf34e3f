"""Commands about the store as a whole: status, vacuum, backup.

Called by `dispatch` through the command table. `vacuum` works on the file itself, so it is refused
where a broker is in force: the broker does this work as part of its own.
"""

from __future__ import annotations

from mqlite_actor.contract.ext import BackupRequest
from mqlite_actor.contract.wire import StatusRequest, StatusResponse
from mqlite_cli.escaping import field, visible
from mqlite_cli.invocation import Invocation, StoreCaller
from mqlite_cli.refusals import Refusal
from mqlite_cli.target import StoreTarget, from_here

_MIB = 1024 * 1024


def status(run: Invocation) -> int:
    """`status`: never a credential; version, uptime and auth are a broker's."""
    found = run.ask(StatusRequest())
    served: dict[str, object] = {
        "version": found.version,
        "uptime_ms": found.uptime_ms,
        "auth": found.auth,
    }
    store: dict[str, object] = {
        "backend": found.backend,
        "remote": found.remote,
        "location": found.location,
        "schema_version": found.schema_version,
        "ping_ms": found.ping_ms,
        "db_size_bytes": found.db_size_bytes,
        "queues": found.queues,
        "subscriptions": found.subscriptions,
    }
    is_served = not run.is_local
    run.output.record(
        {**store, **served} if is_served else store,
        line="\n".join(_lines(found, is_served=is_served)),
    )
    return 0


def _lines(found: StatusResponse, *, is_served: bool) -> list[str]:
    rows: list[tuple[str, str]] = [
        ("version", field(found.version) if is_served else ""),
        ("backend", found.backend),
        ("location", found.location),
        ("schema", field(found.schema_version)),
        ("ping", f"{found.ping_ms}ms" if found.ping_ms >= 0 else "n/a"),
        ("size", "" if found.remote else f"{found.db_size_bytes} bytes"),
        ("queues", str(found.queues)),
        ("subscriptions", str(found.subscriptions)),
        ("uptime", f"{found.uptime_ms // 1000}s" if is_served else ""),
        ("auth", ("on" if found.auth else "off") if is_served else ""),
    ]
    return [f"{name + ':':<14} {visible(value)}" for name, value in rows if value]


def vacuum(run: Invocation) -> int:
    """`vacuum`: free pages back to the disk, or with --full the file written anew."""
    if not isinstance(run.target, StoreTarget):
        raise Refusal(
            f"vacuum works on a local file, and {run.target.endpoint.shown} is a broker; "
            "stop it and give --endpoint= to name the file of MQLITE_DB"
        )
    is_full = run.arguments.is_on("full")

    def work(caller: StoreCaller) -> tuple[int, int]:
        before = caller.call(StatusRequest()).db_size_bytes
        caller.compact(is_full=is_full)
        return before, caller.call(StatusRequest()).db_size_bytes

    before, after = run.on_store(work)
    name = run.command.name
    action = name.upper() if is_full else f"incremental_{name}"
    freed, grew = max(0, before - after), max(0, after - before)
    change = f"grew {_mib(grew)}" if grew else f"freed {_mib(freed)}"
    line = f"ok: {action} \N{EM DASH} {_mib(before)} -> {_mib(after)} ({change})"
    run.output.took_effect(
        {
            "action": action,
            "before_bytes": before,
            "after_bytes": after,
            "freed_bytes": freed,
            "grew_bytes": grew,
        },
        line=line,
    )
    return 0


def backup(run: Invocation) -> int:
    """`backup PATH`: a new file; one that is there is never overwritten. With --keep, one of a
    series, whose old ones go."""
    (path,) = run.arguments.words
    keep = run.arguments.number("keep")
    if run.arguments.has("keep") and keep < 1:
        raise Refusal("--keep: 1 or more; it counts the new snapshot, too")
    # A relative path is ours here, and the broker's business there.
    where = from_here(path) if run.is_local and path else path
    with run.output.terminal.progress(f"writing {where}"):
        made = run.ask(BackupRequest(path=where, keep=keep))
    if not made.done:
        raise Refusal("the broker ended first, and no file was made")
    result: dict[str, str | int] = {
        "action": "backup", "path": made.path, "size_bytes": made.size_bytes,
    }  # fmt: skip
    if keep:
        result["removed"] = len(made.removed)
    run.output.done(result)
    return 0


def _mib(size: int) -> str:
    return f"{size / _MIB:.2f} MiB"
