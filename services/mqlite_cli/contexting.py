"""`context add`, `list`, `use` and `remove`: give brokers names, and change between them.

Called by `dispatch` through the command table; `contexts` owns the file. Nothing is dialled: a
broker may be away when its name is written down. No credential is ever printed. Of two commands at
once the second changes what the first has left.
"""

from __future__ import annotations

import os
import re
import secrets
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from mqlite_actor.sdk.address import parse_endpoint
from mqlite_cli.bodies import read_body
from mqlite_cli.contexts import Context, Contexts, load
from mqlite_cli.escaping import field
from mqlite_cli.foretelling import tell
from mqlite_cli.invocation import Invocation
from mqlite_cli.refusals import Refusal
from mqlite_cli.target import contexts_path, from_here

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MODE = 0o600
_FOLDER_MODE = 0o700
_FILES = ("token-file", "ca-file", "client-cert", "client-key")

_LOCK_SECONDS = 10.0
_LOCK_PAUSE_SECONDS = 0.02
"""For another command to write its few lines, and between two looks whether it has."""


class Row(msgspec.Struct, frozen=True):
    """What `context list` shows of one."""

    name: str
    endpoint: str
    token: str
    current: bool


def add(run: Invocation) -> int:
    """`context add NAME --endpoint URL`: a new name, or with --replace another broker for it."""
    arguments = run.arguments
    (name,) = arguments.words
    if not _NAME.fullmatch(name):
        raise Refusal(f"{field(name)} is no name; letters, digits, . _ - and at most 64 of them")
    if not arguments.text("endpoint"):
        raise Refusal("--endpoint is needed: the broker that gets the name")
    parse_endpoint(arguments.text("endpoint"))
    _refuse_known(name, _load(run), run)
    ways = [each for each in ("token", "token-file", "token-stdin") if arguments.has(each)]
    if len(ways) > 1:
        raise Refusal(f"--{ways[0]} and --{ways[1]} name two credentials; give one")
    files = {each.replace("-", "_"): _absolute(arguments.text(each)) for each in _FILES}
    context = Context(endpoint=arguments.text("endpoint"), token=_token(run), **files)
    path = _path(run)
    with _locked(path):
        known = _load(run)
        _refuse_known(name, known, run)
        known.contexts[name] = context
        _save(known, path)
    run.output.done({"action": "context-add", "name": name, "path": path})
    return 0


def list_contexts(run: Invocation) -> int:
    """`context list`: by name; the one in use is marked."""
    known = _load(run)
    rows = [
        Row(name, parse_endpoint(each.endpoint).shown, _shown_token(each), name == known.current)
        for name, each in sorted(known.contexts.items())
    ]
    lines = [
        f"{row.name:<20} {field(row.endpoint)} token={field(row.token)}"
        + (" current" if row.current else "")
        for row in rows
    ]
    run.output.rows(rows, lines, empty="(no contexts)")
    return 0


def use(run: Invocation) -> int:
    """`context use NAME`, or `--none`: what commands talk to that name nothing."""
    words, is_none = run.arguments.words, run.arguments.is_on("none")
    if len(words) > 1 or is_none == bool(words):
        raise Refusal(f"usage: {run.command.usage}; a NAME, or --none")
    name, path = words[0] if words else "", _path(run)
    if name:
        _load(run).named(name)
    with _locked(path):
        known = _load(run)
        if name:
            known.named(name)
        known.current = name
        _save(known, path)
    run.output.done({"action": "context-use", "name": name})
    return 0


def remove(run: Invocation) -> int:
    """`context remove NAME`: the name and its credential; the broker is not told."""
    (name,) = run.arguments.words
    _load(run).named(name)
    if run.arguments.is_on("dry-run"):
        return tell(run, {"name": name})
    path = _path(run)
    with _locked(path):
        known = _load(run)
        known.named(name)
        del known.contexts[name]
        if known.current == name:
            known.current = ""
        _save(known, path)
    run.output.done({"action": "context-remove", "name": name})
    return 0


def _refuse_known(name: str, known: Contexts, run: Invocation) -> None:
    if name in known.contexts and not run.arguments.is_on("replace"):
        raise Refusal(f"there is a context {field(name)}; --replace replaces it")


def _absolute(path: str) -> str:
    return from_here(path) if path else ""


def _token(run: Invocation) -> str:
    if not run.arguments.is_on("token-stdin"):
        return run.arguments.text("token")
    token = os.fsdecode(read_body(["-"], file="", streams=run.streams)).strip()
    if not token:
        raise Refusal("standard input holds no token")
    return token


def _shown_token(context: Context) -> str:
    if context.token_file:
        return context.token_file
    return "stored" if context.token or parse_endpoint(context.endpoint).token else "none"


def _load(run: Invocation) -> Contexts:
    return load(contexts_path(run.environ))


def _path(run: Invocation) -> str:
    path = contexts_path(run.environ)
    if not path:
        raise Refusal("there is no place for contexts; set XDG_CONFIG_HOME or HOME")
    return path


@contextmanager
def _locked(path: str) -> Iterator[None]:
    """Keep other commands from changing the file meanwhile; its folder is made. Refusal if that
    cannot be done, or another command does not end."""
    folder = Path(path).parent
    try:
        folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
    except OSError as error:
        raise Refusal(f"cannot write {path}: {error.strerror}") from error
    with _held(folder) as is_held:
        if not is_held:
            raise Refusal(f"cannot write {path}: another command has been at it for too long")
        yield


if sys.platform == "win32":  # pragma: no cover - no Windows machine in CI

    @contextmanager
    def _held(_folder: Path) -> Iterator[bool]:
        yield True  # a folder cannot be locked there

else:
    import fcntl

    @contextmanager
    def _held(folder: Path) -> Iterator[bool]:
        """The lock of the folder, since the file is replaced; False if it cannot be had."""
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise Refusal(f"cannot write to {folder}: {error.strerror}") from error
        try:
            yield _has_locked(descriptor)
        finally:
            os.close(descriptor)

    def _has_locked(descriptor: int) -> bool:
        for _ in range(int(_LOCK_SECONDS / _LOCK_PAUSE_SECONDS) + 1):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                threading.Event().wait(_LOCK_PAUSE_SECONDS)
            except OSError:
                return True  # a file system without locks; names can be given there all the same
            else:
                return True
        return False


def _save(contexts: Contexts, path: str) -> None:
    """Replace the file as a whole. Refusal if that cannot be done."""
    target = Path(path)
    partial = target.with_name(f"{target.name}.{secrets.token_hex(4)}.partial")
    content = msgspec.json.format(msgspec.json.encode(contexts), indent=2) + b"\n"
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(descriptor)
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise Refusal(f"cannot write {path}: {error.strerror}") from error
