"""A process that opens a store and keeps it: `python -m tests.storage.child PATH [UID]`.

Writes one line, `open` or the class and text of the refusal, then waits for its stdin to end.
With UID it gives up its rights first, so that a test run by root can be denied something. Started
by `holding`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mqlite_actor.contract.errors import MqliteError
from mqlite_actor.storage import schema
from mqlite_actor.storage.sqlite import open_store
from tests.warm.process import Popen

ROOT = Path(__file__).resolve().parents[2]

NOBODY = 65534


def main(path: str, uid: str = "") -> None:
    schema.layout()  # reads its text while that is still allowed
    if uid:
        os.setgid(int(uid))
        os.setuid(int(uid))
    try:
        store = open_store(path)
    except MqliteError as error:
        print(f"{type(error).__name__}: {error.message}", flush=True)
        return
    print("open", flush=True)
    sys.stdin.read()
    store.close()


@contextmanager
def holding(
    path: Path | str, *, uid: int | None = None
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A child that tried to open `path`: its line and the process, which ends with the block."""
    command = [sys.executable, "-m", "tests.storage.child", str(path)]
    if uid is not None:
        command.append(str(uid))
    with Popen[str](
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().rstrip(), process
        finally:
            process.kill()


if __name__ == "__main__":
    main(*sys.argv[1:])
