"""The diagnostic log: what went wrong and when it was over, kept in a private folder over restarts.

Written by the engine's watchdog and its passes, opened by the broker when it is told to, read
back for Observe. One JSON line per change of state, never one per failure. Entries are made of
fixed words, names of classes and numbers, so that no body, name, id or credential can get in.
Rules: at most FILES files of FILE_BYTES; folder 0700, files 0600; a log that cannot be written says
so once, in the program's own log, and stops nothing and nobody (spec/tools.md 5.9).
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from mqlite_actor.contract.errors import InvalidArgument, MqliteError
from mqlite_actor.contract.limits import MIB
from mqlite_actor.contract.observe import DiagnosticsInfo, EarlierBoot
from mqlite_actor.logs import logger

_log = logger("mqlite.diagnostics")

NAME: Final = "diagnostics.jsonl"
FILES: Final = 4
FILE_BYTES: Final = MIB
"""The contract's numbers: some 40,000 entries in all."""

DETAIL_BYTES: Final = 256
"""The contract's number, in UTF-8."""

BOOTS_SHOWN: Final = 8
"""Earlier starts that Observe tells of: enough to see a pattern."""

ENTRIES_PER_MINUTE: Final = 60
"""More changes of state than this are flapping; the rest of the minute adds nothing."""

STARTED: Final = "started"
STOPPED: Final = "stopped"
BROKER: Final = "broker"


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """A state that began, or (`recovered_at_ms`) one that is over.

    `task` is a maintenance task, `storage`, `writer` or `broker`; `code` a word of Observe.
    """

    at_ms: int
    task: str
    code: str
    detail: str = ""
    recovered_at_ms: int = 0


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the file."""

    at_ms: int
    boot_id: str
    task: str
    code: str
    detail: str
    recovered_at_ms: int = 0


Report = Callable[[Trouble], None]


def unreported(_: Trouble) -> None:
    """The report of an engine without a log."""


OFF: Final = DiagnosticsInfo(state="off", boot_id="", earlier_boots=[])
"""What Observe shows of an engine without a log."""


def detail_of(error: BaseException) -> str:
    """An error without its words, which may name things: its class, and the class behind it."""
    origin = error.origin if isinstance(error, MqliteError) else ""
    name = type(error).__name__
    return f"{name} from {origin}" if origin else name


class DiagnosticsLog:
    """An open log. Made by `open_log`; `report` is what the engine calls."""

    __slots__ = ("_earlier", "_failure", "_folder", "_minute", "_written", "boot_id")

    def __init__(self, folder: Path, earlier: list[EarlierBoot]) -> None:
        self._folder = folder
        self._earlier = earlier
        self._failure = ""
        self._minute = 0
        self._written = 0
        self.boot_id = secrets.token_hex(8)

    def report(self, trouble: Trouble) -> None:
        """Write one entry. Never raises: what cannot be written is said once and left out."""
        minute = trouble.at_ms // 60_000
        if minute != self._minute:
            self._minute, self._written = minute, 0
        self._written += 1
        if self._written > ENTRIES_PER_MINUTE:
            return
        entry = Entry(
            at_ms=trouble.at_ms,
            boot_id=self.boot_id,
            task=trouble.task,
            code=trouble.code,
            detail=_clipped(trouble.detail),
            recovered_at_ms=trouble.recovered_at_ms,
        )
        try:
            self._append(msgspec.json.encode(entry) + b"\n")
            self._failure = ""
        except OSError as error:
            reason = error.strerror or type(error).__name__
            if self._failure != reason:
                self._failure = reason
                _log.warning("the diagnostic log cannot be written: %s", reason)

    def shown(self) -> DiagnosticsInfo:
        """As Observe shows it."""
        state = "failing" if self._failure else "on"
        return DiagnosticsInfo(state=state, boot_id=self.boot_id, earlier_boots=self._earlier)

    def _append(self, line: bytes) -> None:
        path = self._folder / NAME
        descriptor = _open(path)
        try:
            if os.fstat(descriptor).st_size + len(line) <= FILE_BYTES:
                _write_whole(descriptor, line)
                return
        finally:
            os.close(descriptor)
        for number in range(FILES - 1, 0, -1):
            older = _numbered(path, number - 1)
            if older.exists():
                older.replace(_numbered(path, number))
        descriptor = _open(path)
        try:
            _write_whole(descriptor, line)
        finally:
            os.close(descriptor)


def open_log(folder: str) -> DiagnosticsLog:
    """Make the folder if it is missing, read what earlier starts left, and open the log.

    InvalidArgument for a folder that cannot be used or that others may enter. A full disk is no
    reason to refuse: the log then begins as `failing`.
    """
    path = Path(folder)
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = path.stat().st_mode
        if mode & 0o077:
            raise InvalidArgument(f"others may enter {folder!r}; chmod 700 it, or name another")
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            raise InvalidArgument(f"{folder!r} is not ours to write in")
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return DiagnosticsLog(path, [])
        raise InvalidArgument(f"{folder!r} cannot be used: {error.strerror}") from error
    return DiagnosticsLog(path, _summary(_lines(path)))


def earlier_boots(folder: str) -> list[EarlierBoot]:
    """What a log says of every start, the last of which may still run. Reads only; empty if there
    is none."""
    return _summary(_lines(Path(folder)))


def log_files(folder: str) -> list[Path]:
    """The files of a log that exist, oldest first."""
    path = Path(folder) / NAME
    numbered = [_numbered(path, number) for number in range(FILES - 1, -1, -1)]
    return [each for each in numbered if each.is_file()]


def _summary(lines: Iterator[bytes]) -> list[EarlierBoot]:
    """What the log says of each earlier start, oldest first; lines that are none are passed by."""
    boots: dict[str, EarlierBoot] = {}
    for line in lines:
        try:
            entry = msgspec.json.decode(line, type=Entry)
        except msgspec.MsgspecError:
            continue  # cut off by a kill or a full disk
        known = boots.get(entry.boot_id) or EarlierBoot(
            boot_id=entry.boot_id,
            first_at_ms=entry.at_ms,
            last_at_ms=entry.at_ms,
            failures=0,
            last_task="",
            last_code="",
            last_detail="",
            stopped=False,
        )
        boots[entry.boot_id] = _with(known, entry)
    return list(boots.values())[-BOOTS_SHOWN:]


def _with(boot: EarlierBoot, entry: Entry) -> EarlierBoot:
    at_ms = max(boot.last_at_ms, entry.at_ms, entry.recovered_at_ms)
    boot = msgspec.structs.replace(boot, last_at_ms=at_ms)
    if entry.task == BROKER:
        return msgspec.structs.replace(boot, stopped=entry.code == STOPPED)
    if entry.recovered_at_ms:
        return boot
    return msgspec.structs.replace(
        boot,
        failures=boot.failures + 1,
        last_task=entry.task,
        last_code=entry.code,
        last_detail=entry.detail,
    )


def _lines(folder: Path) -> Iterator[bytes]:
    """All lines, oldest first; a file that cannot be read has none."""
    for number in range(FILES - 1, -1, -1):
        try:
            descriptor = os.open(_numbered(folder / NAME, number), _READ)
        except OSError:
            continue
        with os.fdopen(descriptor, "rb") as file:
            yield from file.read(FILE_BYTES).splitlines()


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}") if number else path


_READ: Final = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
_APPEND: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
# Nobody else can write in the folder, so a link in it would be our own mistake; it is not followed.
_FLAGS: Final = _APPEND | getattr(os, "O_NOFOLLOW", 0)


def _open(path: Path) -> int:
    return os.open(path, _FLAGS, 0o600)


def _write_whole(descriptor: int, line: bytes) -> None:
    """All of the line, or, on a disk that fills up, none of it that the next line would mix
    with."""
    size = os.fstat(descriptor).st_size
    if os.write(descriptor, line) != len(line):
        os.ftruncate(descriptor, size)
        raise OSError("written in part")


def _clipped(text: str) -> str:
    return text.encode()[:DETAIL_BYTES].decode("utf-8", "ignore")
