"""What stands at a store's path, moved aside and, if the work breaks off, put back.

`restoring.py` moves a store and its log before it puts another in their place; they are several
files, so a process can die between two of them. A note beside the store says from before the first
move until after the last what its files are called meanwhile, and whoever opens, checks or restores
the store next puts them back. Rule: everything here happens under the store's sidecar lock.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Final

from mqlite_actor.contract.errors import OpenError
from mqlite_actor.storage import files

LOG: Final = ("-wal", "-shm", "-journal")
"""Files that SQLite would take for a part of a database of the same name."""

_STORE, _LOG_ALONE = "store", "log"
"""What there was, in the note."""


def note_of(path: str) -> str:
    """The note's own path."""
    return f"{path}.restoring"


def is_broken_off(path: str) -> bool:
    """Whether somebody moves, or died while he moved, what stands here. Needs no lock."""
    return os.path.lexists(note_of(path))


def free_name(path: str) -> str:
    """The first name for what is moved aside that is free, for its log too."""
    number = 1
    while any(os.path.lexists(f"{path}.before-restore-{number}{part}") for part in ("", *LOG)):
        number += 1
    return f"{path}.before-restore-{number}"


def check_whole(path: str) -> None:
    """OpenError while what stands here is moved, or after that was broken off: it is not all there
    then, and to read it would be to read something older."""
    if is_broken_off(path):
        raise OpenError(
            f"a restore of {path} is going on or was broken off; what was there before is put back"
            " by whoever opens it next, a broker or a program, or by the next restore"
        )


def move(path: str) -> str:
    """Move the store and its log to the name returned. Until `settle`, `put_back` undoes it.

    OSError where a file cannot be moved; some may have moved then.
    """
    kept = free_name(path)
    note = note_of(path)
    with os.fdopen(files.make(note), "w", encoding="utf-8") as text:
        text.write(f"{os.path.basename(kept)} {_STORE if os.path.lexists(path) else _LOG_ALONE}\n")
        text.flush()
        files.give_away(text.fileno(), path)  # whoever opens the store next has to read it
        os.fsync(text.fileno())
    sync_folder(path)
    # The log first: a log without its store would be read into the next one.
    for part in (*LOG, ""):
        if os.path.lexists(path + part):
            os.rename(path + part, kept + part)
    return kept


def settle(path: str) -> None:
    """What stands at the path now is there to stay."""
    sync_folder(path)
    Path(note_of(path)).unlink(missing_ok=True)
    with suppress(OSError):  # it is done; only a loss of power right now would bring the note back
        sync_folder(path)


def put_back(path: str) -> None:
    """Undo a `move` that nobody settled. May be broken off and repeated as often as it takes.

    OSError where a file cannot be moved, OpenError where the note is none; it stays then.
    """
    kept, had_store = _noted(path)
    if kept and os.path.lexists(kept if had_store else path):
        # All had moved, and no part of it is back yet: what stands here is the copy given up.
        for part in LOG:
            if not os.path.lexists(kept + part):
                Path(path + part).unlink(missing_ok=True)
        if had_store:
            os.replace(kept, path)
        else:
            Path(path).unlink(missing_ok=True)
    for part in LOG if kept else ():
        if os.path.lexists(kept + part):
            os.replace(kept + part, path + part)
    settle(path)


def recover(path: str) -> None:
    """`put_back` if it is needed. DatabaseLocked while whoever moves the store is at work,
    OpenError where a file cannot be moved."""
    if not is_broken_off(path):
        return
    lock = files.FileLock(path)
    try:
        put_back(path)
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}"
        raise OpenError(
            f"what a restore of {path} had moved cannot be put back: {reason}"
        ) from error
    finally:
        lock.release()


def sync_folder(path: str) -> None:
    """Let the names beside this path outlast a loss of power, where the system can."""
    if os.name != "posix":
        return
    descriptor = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _noted(path: str) -> tuple[str, bool]:
    """What the store is called meanwhile and whether there was one, or only a log; "" if nothing
    had moved when the note was written. OpenError for a file that is no such note."""
    try:
        text = Path(note_of(path)).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return "", False
    start = f"{os.path.basename(path)}.before-restore-"
    found = re.fullmatch(rf"({re.escape(start)}[0-9]+) ({_STORE}|{_LOG_ALONE})\n", text)
    if found is not None:
        return os.path.join(os.path.dirname(path), found[1]), found[2] == _STORE
    # The line's end tells a whole note; one without it was not synced, so nothing had moved.
    torn = text.rstrip("\0")
    if start.startswith(torn) or (torn.startswith(start) and "\n" not in torn):
        return "", False
    raise OpenError(
        f"{note_of(path)} is in the way, and is no note of a restore; move it elsewhere"
    )
