"""`support-bundle PATH`: what somebody far away needs to help, in one archive, without a credential
and without a message.

Called by `dispatch` through the command table; calls `doctor` for its report. Rules: what goes in
is chosen by name and nothing is copied whole but the diagnostic log, which is made of fixed words;
of settings the values go in only where they are known to hold no secret; the archive is its owner's
alone, replaces nothing, and is there only when it is whole.
"""

from __future__ import annotations

import io
import os
import platform
import sys
import tarfile
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

import msgspec

from mqlite_actor.clock import SystemClock
from mqlite_actor.contract.errors import MqliteError
from mqlite_actor.contract.observe import ObserveRequest
from mqlite_actor.engine import upkeep
from mqlite_actor.sdk.address import StoreKind, masked, parse_store, without_tokens
from mqlite_cli import doctor
from mqlite_cli.invocation import Invocation
from mqlite_cli.moments import shown_moment
from mqlite_cli.refusals import Refusal
from mqlite_cli.target import from_here

_MODE = 0o600
_INDENT = 2

_PLAIN = frozenset({
    "MQLITE_SYNC", "MQLITE_MAX_MESSAGE_BYTES", "MQLITE_ADDR", "MQLITE_TOKENS_FILE",
    "MQLITE_MONITOR_TOKENS_FILE", "MQLITE_TOKEN_FILE", "MQLITE_TLS_CERT", "MQLITE_TLS_KEY",
    "MQLITE_MAX_CONNECTIONS", "MQLITE_METRICS", "MQLITE_DLQ_RETENTION", "MQLITE_DLQ_MAX_AGE",
    "MQLITE_DLQ_MAX_COUNT", "MQLITE_DLQ_MAX_BYTES", "MQLITE_CORS", "MQLITE_LOG_LEVEL",
    "MQLITE_LOG_FORMAT", "MQLITE_DIAGNOSTICS_DIR", "MQLITE_LANE", "MQLITE_BACKUP_DIR",
    "MQLITE_WORKERS", "MQLITE_LINK_SOCKET", "MQLITE_CONTEXT"
})  # fmt: skip
"""Settings whose values are words, numbers and paths."""

_ADDRESSES = frozenset({"MQLITE_DB", "MQLITE_ENDPOINT"})
"""Settings that may hold a credential inside an address, which is masked."""

_ABOUT = """\
A support bundle of mqlite. It holds no credential, no message and no key.

doctor.json     what `mqlite doctor` found
settings.txt    the MQLITE_ variables; values that might be secret are masked
versions.txt    Python, the system and the installed packages
schema.sql      our tables as the store has them
queues.json     names and counts of the queues
observe.json    counters and health, if the broker or the store's owner could be looked at
diagnostics/    the diagnostic log, if MQLITE_DIAGNOSTICS_DIR names one
errors.txt      what could not be had, and why

Queue names and paths of this machine are in it: read it before you pass it on.
"""


def support_bundle(run: Invocation) -> int:
    """`support-bundle PATH`: a new file, or an error and no file."""
    path = Path(run.arguments.words[0])
    from_here(run.arguments.words[0])  # a current folder that is gone is told of first
    if os.path.lexists(path):  # no error for a path that cannot be: opening it tells which
        raise Refusal(f"{path} exists; a bundle never replaces anything")
    parts = list(_parts(run))
    content = _packed(parts, path.name.removesuffix(".gz").removesuffix(".tar"))
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
    except OSError as error:
        raise Refusal(f"cannot make {path}: {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise Refusal(f"cannot write {path}: {error.strerror}") from error
    run.output.done({
        "action": "support-bundle", "path": str(path), "files": len(parts),
        "size_bytes": len(content),
    })  # fmt: skip
    return 0


def _parts(run: Invocation) -> Iterator[tuple[str, bytes]]:
    """Name and content of each file; what fails is told in the last."""
    missing: list[str] = []
    for name, make in _makers(run):
        try:
            yield name, _without_tokens(make())
        except (MqliteError, OSError, Refusal) as error:
            reason = error.message if isinstance(error, MqliteError) else str(error)
            missing.append(f"{name}: {reason}\n")
    if missing:
        yield "errors.txt", _without_tokens("".join(missing).encode())


def _without_tokens(content: bytes) -> bytes:
    """In any encoding: somebody may have put a token where a path or a name is wanted."""
    return without_tokens(content.decode("latin-1")).encode("latin-1")


def _makers(run: Invocation) -> Iterator[tuple[str, Callable[[], bytes]]]:
    yield "README.txt", _ABOUT.encode
    yield "doctor.json", lambda: _doctor(run)
    yield "settings.txt", lambda: _settings(run)
    yield "versions.txt", _versions
    if (path := _store_path(run)) is not None:
        yield "schema.sql", lambda: upkeep.layout_found(path).encode()
        yield "queues.json", lambda: _json(upkeep.queues_found(path))
    yield "observe.json", lambda: _observed(run)
    for file in upkeep.log_files(run.environ.get("MQLITE_DIAGNOSTICS_DIR") or os.devnull):
        yield f"diagnostics/{file.name}", file.read_bytes


def _doctor(run: Invocation) -> bytes:
    found = list(doctor.findings(run))
    return _json(doctor.Report(not upkeep.failures(found), found))


def _settings(run: Invocation) -> bytes:
    names = sorted(name for name in run.environ if name.startswith("MQLITE_"))
    return "".join(f"{name}={_shown(name, run.environ[name])}\n" for name in names).encode(
        errors="backslashreplace"
    )


def _shown(name: str, value: str) -> str:
    if name in _PLAIN or not value:
        return value
    return masked(value) if name in _ADDRESSES else "***"


def _versions() -> bytes:
    packages = sorted({
        f"{each.metadata['Name']} {each.version}" for each in metadata.distributions()
    })  # fmt: skip
    head = [
        f"made {shown_moment(SystemClock().now_ms())}",
        f"python {sys.version}",
        f"system {platform.platform()}, {os.cpu_count()} processors",
    ]
    return "\n".join([*head, "", *packages, ""]).encode()


def _store_path(run: Invocation) -> str | None:
    """The file of the store that `doctor` looks at, if there is one."""
    try:
        dsn = doctor.store_of(run)
        if dsn is None or parse_store(dsn, bare_paths=True).kind is not StoreKind.FILE:
            return None
        path = upkeep.path_of(dsn)
    except (MqliteError, Refusal):
        return None  # the doctor's report names it
    try:
        return path if Path(path).is_file() else None
    except OSError:
        return None  # the same: a name that is too long, a folder that may not be looked into


def _observed(run: Invocation) -> bytes:
    """By the broker, or beside the owner of the file; nothing is opened for it."""
    if not run.is_local:
        return _json(run.ask(ObserveRequest()))
    from mqlite_actor import open_reader_sync  # noqa: PLC0415 - a loop, for this alone

    path = _store_path(run)
    if path is None:
        raise Refusal("there is no store yet")
    with open_reader_sync(f"file:{path}") as reader:
        return _json(reader.call(ObserveRequest()))


def _json(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value, order="sorted"), indent=_INDENT) + b"\n"


def _packed(parts: list[tuple[str, bytes]], folder: str) -> bytes:
    buffer = io.BytesIO()
    now = SystemClock().now_ms() // 1000
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in parts:
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size, member.mode, member.mtime = len(content), _MODE, now
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()
