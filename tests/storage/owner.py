"""An engine in a process of its own: it owns a file while a test looks at it from outside.

The owner does what it is told, a line a command, and answers each with a line when it is done (that
is, committed). `kill` ends it as a crash would.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import trio

from mqlite_actor.sdk.embedded import open_embedded
from tests.storage.child import ROOT
from tests.warm.process import Popen


class Owner:
    """The other end of an owning process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def tell(self, line: str) -> None:
        """A command; returns when it is committed."""
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(line + "\n")
        stdin.flush()
        assert stdout.readline() == "done\n", line

    def send(self, queue: str, text: str, *, times: int = 1, number: int = 1) -> None:
        """Send `number` messages, each `text` so many times over."""
        self.tell(f"send {queue} {text} {times} {number}")

    def end(self) -> None:
        """Close the engine in order."""
        assert self.process.stdin is not None
        self.process.stdin.write("end\n")
        self.process.stdin.close()
        assert self.process.wait(15) == 0

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.kill()
        self.process.wait(15)


@contextmanager
def owning(path: Path) -> Iterator[Owner]:
    """A process with an engine on `path`, and a queue `q`."""
    with Popen(
        [sys.executable, "-m", "tests.storage.owner", str(path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            owner = Owner(process)
            owner.tell("create q")
            yield owner
        finally:
            process.kill()


async def main() -> None:
    """The owner itself."""
    async with open_embedded(f"file:{sys.argv[1]}", background=False) as q:
        print("ready", flush=True)
        while line := await trio.to_thread.run_sync(sys.stdin.readline):
            word, *rest = line.split()
            if word == "create":
                await q.create_queue(rest[0])
            elif word == "send":
                await q.send(rest[0], [rest[1] * int(rest[2])] * int(rest[3]))
            elif word == "checkpoint":
                await q.compact()
            elif word == "vacuum":
                await q.compact(is_full=True)
            elif word == "end":
                break
            print("done", flush=True)


if __name__ == "__main__":
    trio.run(main)
