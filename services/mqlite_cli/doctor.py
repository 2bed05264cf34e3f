"""`doctor`: what a store and a broker need, each looked at and each with its mend.

Called by `dispatch` through the command table, and by `bundling` for its report. Looks at this
machine, at the store of MQLITE_DB unless only a broker is named, and at the broker in force. Rules:
nothing is made, opened for writing or recovered; one look that fails is a finding and never the end
of the others; no line holds a credential.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from mqlite_actor.clock import SystemClock
from mqlite_actor.contract.errors import MqliteError
from mqlite_actor.engine import upkeep
from mqlite_actor.engine.upkeep import Finding, Verdict
from mqlite_actor.sdk.address import Store, StoreKind, masked, parse_store, without_tokens
from mqlite_actor.version import __version__
from mqlite_cli.checking import told
from mqlite_cli.invocation import Invocation
from mqlite_cli.moments import shown_moment
from mqlite_cli.refusals import Refusal
from mqlite_cli.target import STORE_DEFAULT, from_here

_PYTHON_MINIMUM = (3, 11)
_YEAR_2026_MS = 1_767_225_600_000
"""A clock in front of it was never set."""


class Report(msgspec.Struct, frozen=True):
    """What `doctor` prints as JSON."""

    ok: bool
    findings: list[Finding]


def doctor(run: Invocation) -> int:
    """`doctor`: a line for each thing looked at; 1 if one of them failed."""
    found = list(findings(run))
    report = Report(not upkeep.failures(found), found)
    return told(run, report, found)


def findings(run: Invocation) -> Iterator[Finding]:
    """Everything, in the order in which it matters."""
    for each in _looks(run):
        yield Finding(each.name, each.verdict, _fit(each.detail), _fit(each.mend))


def _fit(text: str) -> str:
    """For a report: a path may be no UTF-8, and somebody may have put a token in its place."""
    return without_tokens(text.encode("utf-8", "backslashreplace").decode("utf-8"))


def _looks(run: Invocation) -> Iterator[Finding]:
    yield from _machine()
    yield from _secrets(run)
    is_readable = True
    try:
        run.choose()
    except (MqliteError, Refusal) as error:
        is_readable = False
        reason = error.message if isinstance(error, MqliteError) else str(error)
        yield Finding("settings", Verdict.FAIL, reason, "mend the flag or variable that it names")
    if (dsn := store_of(run, is_readable=is_readable)) is not None:
        yield from _store(dsn)
    if folder := run.environ.get("MQLITE_DIAGNOSTICS_DIR", ""):
        yield _log(folder)
    if is_readable and not run.is_local:
        from mqlite_cli.doctor_broker import broker  # noqa: PLC0415 - for a broker alone

        yield from broker(run)


def store_of(run: Invocation, *, is_readable: bool = True) -> str | None:
    """The store to look at; None where only a broker is in force."""
    named = run.environ.get("MQLITE_DB", "")
    return named or (STORE_DEFAULT if is_readable and run.is_local else None)


def _machine() -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    is_new = sys.version_info >= _PYTHON_MINIMUM
    yield Finding(
        "python",
        Verdict.OK if is_new else Verdict.FAIL,
        f"{version} on {sys.platform}, mqlite-actor {__version__}",
        "" if is_new else "install Python 3.11 or newer",
    )
    yield upkeep.examine_library()
    now_ms = SystemClock().now_ms()
    is_set = now_ms >= _YEAR_2026_MS
    yield Finding(
        "clock",
        Verdict.OK if is_set else Verdict.FAIL,
        shown_moment(now_ms),
        "" if is_set else "set this machine's clock; leases, schedules and expiries hang on it",
    )


def _secrets(run: Invocation) -> Iterator[Finding]:
    """Files with credentials, and whether others may read them."""
    paths = [run.arguments.text("token-file"), *(
        run.environ.get(name, "") for name in
        ("MQLITE_TOKEN_FILE", "MQLITE_TOKENS_FILE", "MQLITE_MONITOR_TOKENS_FILE", "MQLITE_TLS_KEY")
    )]  # fmt: skip
    for path in dict.fromkeys(filter(None, paths)):
        try:
            found = Path(path).stat()
        except OSError as error:
            detail, mend = f"{path}: {error.strerror}", "name a file that exists"
            yield Finding("credentials", Verdict.FAIL, detail, mend)
            continue
        if os.name != "posix" or not found.st_mode & 0o077:
            yield Finding("credentials", Verdict.OK, f"{path} is its owner's alone")
        elif _is_lent(found):
            detail = f"{path} is its owner's, who lets this user's group read it"
            yield Finding("credentials", Verdict.OK, detail)
        else:
            mend = f"chmod 600 {path}"
            yield Finding("credentials", Verdict.WARN, f"others may read {path}", mend)


def _is_lent(found: os.stat_result) -> bool:
    """Whether somebody else's file is readable through a group of this process and in no other way.

    So root hands out a secret, as Kubernetes does with fsGroup: by its group it is that we may read
    it at all. Who else is in that group is whoever chose it to say.
    """
    is_read_by_group_alone = found.st_mode & 0o077 == 0o040
    is_ours = found.st_gid in (os.getegid(), *os.getgroups())
    return is_read_by_group_alone and is_ours and found.st_uid != os.geteuid()


def _store(dsn: str) -> Iterator[Finding]:
    try:
        store = parse_store(dsn, bare_paths=True)
        is_file = store.kind is StoreKind.FILE
        path = ""
        if is_file:
            from_here(store.location)  # a current folder that is gone ends this, as any command
            path = upkeep.path_of(dsn)
    except MqliteError as error:
        yield Finding("store", Verdict.FAIL, error.message, "set MQLITE_DB to file:PATH")
        return
    if not is_file:
        yield Finding("store", Verdict.OK, _without_file(store))
        return
    places = list(upkeep.examine_place(path))
    yield from places
    if upkeep.failures(places):
        return
    try:
        is_there = Path(path).is_file()
    except OSError as error:  # too long a name, a folder that may not be looked into
        yield Finding("store", Verdict.FAIL, f"{path}: {error.strerror}",
                      "set MQLITE_DB to a file that can be")  # fmt: skip
        return
    if not is_there:
        yield Finding("store", Verdict.WARN, f"{path} does not exist",
                      "the first command that writes, or `mqlite serve`, makes it")  # fmt: skip
        return
    yield Finding("store", Verdict.OK, path)
    found = upkeep.check_file(path, is_whole=False)
    yield from found
    if not upkeep.failures(found):
        yield from upkeep.examine_size(path)


def _without_file(store: Store) -> str:
    if store.kind is StoreKind.MEMORY:
        return "in memory; it ends with the process"
    return f"{masked(store.location)}, which is another service's business"


def _log(folder: str) -> Finding:
    """What the diagnostic log says last."""
    boots = upkeep.earlier_boots(folder)
    if not boots:
        return Finding("failures", Verdict.OK, f"the log in {folder} tells of none")
    last = boots[-1]
    since = shown_moment(last.first_at_ms)
    if last.failures:
        return Finding(
            "failures",
            Verdict.WARN,
            f"{last.failures} since the start of {since}, the last {last.last_task}"
            f" {last.last_code} {last.last_detail} before {shown_moment(last.last_at_ms)}",
            f"read {upkeep.log_files(folder)[-1]}",
        )
    crashed = [each for each in boots[:-1] if not each.stopped]
    if crashed:
        return Finding("failures", Verdict.WARN, f"{len(crashed)} start(s) did not end in order",
                       "look for kills and full memory in the system's log")  # fmt: skip
    return Finding("failures", Verdict.OK, f"none since the start of {since}")
