"""A snapshot put in the place of a store, so that whenever it breaks off either the old or the new
one is there, and never the one without its log or with the other's (fault B9).

Called by the command line for `restore` and its dry run, which writes nothing. Rules: nobody has
the store meanwhile, because its sidecar lock is held; the copy is whole, synced and checked under a
name of its own before it gets the store's; what was there is moved aside, its log first, and never
deleted; a snapshot is read only, and one that is somebody's live file is refused.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import InvalidArgument, OpenError, StorageDamaged, StorageFull
from mqlite_actor.storage import aside, checking, files, schema, sizes


class Restored(NamedTuple):
    """What stands at `path` now. `kept`: where that which stood there before is, or ""."""

    path: str
    size_bytes: int
    kept: str


class NotAlone(InvalidArgument):
    """Something stands where the snapshot is to go; `names` are the files."""

    def __init__(self, message: str, *, names: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.names = names


def restore(
    snapshot: str,
    path: str,
    *,
    may_replace: bool,
    is_checked: bool = True,
    tick: Callable[[], None] | None = None,
) -> Restored:
    """Put the snapshot at this canonical path, and what is there aside.

    DatabaseLocked while an engine has the store; NotAlone if something is there and it must not be
    replaced; StorageDamaged for a snapshot that is not sound, OpenError for one that is no
    snapshot. Whatever is raised, the store is as it was. `is_checked` False saves reading the whole
    copy once more.
    """
    _check_snapshot(snapshot, path)
    partial = _check_place(path)
    lock = files.FileLock(path)
    is_done = False
    try:
        if aside.is_broken_off(path):
            aside.put_back(path)
        taken = _taken(path, may_replace=may_replace)
        try:
            _copy(snapshot, partial, place=path)
            _check_copy(partial, is_checked=is_checked, tick=tick)
            try:
                kept = aside.move(path) if taken else ""
                os.rename(partial, path)
                aside.settle(path)
            except BaseException:
                aside.put_back(path)
                raise
            is_done = True
        finally:
            Path(partial).unlink(missing_ok=True)
        return Restored(path, os.path.getsize(path), kept)
    finally:
        lock.release(is_untouched=not is_done)


def foretell(
    snapshot: str,
    path: str,
    *,
    may_replace: bool,
    is_checked: bool = True,
    tick: Callable[[], None] | None = None,
) -> Restored:
    """What `restore` with these arguments would do now; makes and changes no file.

    Raises what it would raise, and StorageFull where the copy would find no room: it stands beside
    the store before that is moved aside.
    """
    _check_snapshot(snapshot, path)
    _check_place(path)
    aside.check_whole(path)
    with files.undisturbed(path) as is_live:
        if is_live:
            raise files.in_use(path)
        taken = _taken(path, may_replace=may_replace)
        _check_copy(snapshot, is_checked=is_checked, tick=tick)
        size, room = os.path.getsize(snapshot), sizes.disk_free(path)
        if room is not None and room < size:
            raise StorageFull(f"{size} bytes are needed beside {path}, and {room} are free")
        return Restored(path, size, aside.free_name(path) if taken else "")


def _check_place(path: str) -> str:
    """Where the copy is to be made, beside the place that it is for; OpenError if it cannot be."""
    files.check_place(path)
    partial = f"{path}.{secrets.token_hex(4)}.partial"
    files.check_name(partial)
    return partial


def _taken(path: str, *, may_replace: bool) -> list[str]:
    """What stands where the snapshot is to go."""
    taken = [each for each in (path, *_beside(path)) if os.path.lexists(each)]
    if taken and not may_replace:
        raise NotAlone(f"{', '.join(taken)} would be replaced", names=taken)
    return taken


def _check_snapshot(snapshot: str, path: str) -> None:
    if not os.path.isfile(snapshot):
        raise OpenError(f"{snapshot} does not exist, or is no file")
    if os.path.exists(path) and os.path.samefile(snapshot, path):
        raise InvalidArgument("the snapshot and the store are the same file")
    with files.undisturbed(snapshot) as is_live:
        if is_live:
            raise OpenError(f"{snapshot} is in use by an engine; `mqlite backup` copies it")
    for suffix in aside.LOG:
        if os.path.exists(snapshot + suffix) and os.path.getsize(snapshot + suffix):
            raise OpenError(
                f"{snapshot} has a log beside it ({suffix}), so it is a store and no snapshot; make"
                " one with `mqlite backup`"
            )


def _beside(path: str) -> list[str]:
    return [path + suffix for suffix in aside.LOG]


def _copy(snapshot: str, partial: str, *, place: str) -> None:
    """Copy into a new file, which belongs to whoever owns what is replaced."""
    descriptor = files.make(partial)
    with open(snapshot, "rb") as source, os.fdopen(descriptor, "wb") as copy:
        shutil.copyfileobj(source, copy, limits.MIB)
        copy.flush()
        files.give_away(descriptor, place)
        os.fsync(descriptor)


def _check_copy(copy: str, *, is_checked: bool, tick: Callable[[], None] | None) -> None:
    if is_checked:
        for each in checking.failures(checking.check_file(copy, tick=tick)):
            raise StorageDamaged(f"the snapshot's {each.name}: {each.detail}; nothing was restored")
    elif not schema.inspect(copy):
        raise OpenError("the snapshot holds no queues of mqlite-actor; nothing was restored")
