"""A newcomer's desk: one shell in an empty folder, with the wheel installed and no source in sight.

Used by test_pages.py, which follows the pages with it. A page's console block is a list of commands
with what each prints; its `python` blocks, in order, are one program, and its first `text` block is
the program's output. Commands run as they are printed, one shell for the whole page, and what they
say on both outputs is compared. Only this is not as printed:

- the port, the broker's generated token (`mqk_…`) and folders of the system, which are moved;
- `mqlite serve` and `make run` go on beside the shell, as they would in another window;
- in outputs `<n>` and `<ms>` are numbers, `<id>` 32 hexadecimal digits, `<path>` a path, `<time>` a
  moment, `<token>` and a beginning like `9670b58b…` a secret that later commands may name.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.deploy.prometheus_process import until
from tests.house.tree import ROOT
from tests.packages.installed import Installed
from tests.services.broker_process import READY, Lines

Block = tuple[str, str]
"""A fenced block: its language and its text."""

FENCE: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PORT: Final = "127.0.0.1:6754"
SECRET: Final = re.compile(r"<token>|\b[0-9a-f]{8}…")
SIGNS: Final = {
    "<n>": r"\d+",
    "<ms>": r"\d+",
    "<id>": "[0-9a-f]{32}",
    "<path>": r"/\S*?",
    "<time>": r"\d{4}-\d\d-\d\dT[\d:.]+Z",
}
MOVED: Final = ("/var/lib/mqlite", "/run/user/1000")
"""Folders that pages name and that are there on a real machine."""
END: Final = "\x1e"
"""Begins the line that the shell prints behind each command."""
BOUND_SECONDS: Final = 60.0


@dataclass
class Step:
    """One command and what is printed behind it."""

    command: str
    output: str = ""


def blocks(page: str) -> list[Block]:
    """Those of a page, by its path from the top."""
    return FENCE.findall((ROOT / page).read_text("utf-8"))


def steps(text: str) -> list[Step]:
    """The commands of a console block."""
    found: list[Step] = []
    is_command = False
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append(Step(line.removeprefix("$ ")))
            is_command = True
        elif is_command and found[-1].command.endswith("\\"):
            found[-1].command += f"\n{line}"
        else:
            is_command = False
            found[-1].output += f"{line}\n"
    return found


def pattern(output: str) -> re.Pattern[str]:
    """What may be printed where a page prints `output`."""
    parts = re.split(f"({'|'.join(SIGNS)}|{SECRET.pattern})", output.rstrip("\n"))
    for place, part in enumerate(parts):
        is_secret = SECRET.fullmatch(part)
        parts[place] = "(?:mqk_)?([0-9a-f]+)" if is_secret else SIGNS.get(part) or re.escape(part)
    return re.compile("".join(parts))


class Desk:
    """One shell, and the broker that it may have started. As a context it ends both."""

    def __init__(self, folder: Path, environment: Installed) -> None:
        self.folder = folder
        self.secret = ""
        self.said: list[str] = []
        self._short = Path(tempfile.mkdtemp(prefix="mqlite-desk-"))  # sockets have short paths
        self._address = PORT
        self._key = "mqk_…"
        self._log: Path | None = None
        self._taken = 0
        programs = environment.folder / "environment" / "bin"
        self._shell = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=folder,
            env={
                "HOME": str(self._short),
                "LANG": "C.UTF-8",
                "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
                "PYTHONPATH": environment.environ("all", {})["PYTHONPATH"],
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self._shell.stdout is not None
        self._lines = Lines(self._shell.stdout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self.end_broker()
        finally:
            for number in {*self._beside(), self._shell.pid}:
                subprocess.run(["kill", "-9", str(number)], check=False, timeout=BOUND_SECONDS)
            if self._shell.stdin:
                self._shell.stdin.close()
            self._shell.wait()
            self._lines.to_the_end()
            shutil.rmtree(self._short)

    def _beside(self) -> list[int]:
        """The broker's process, if one is at work."""
        if self._log is None:
            return []
        return [int(self._log.with_suffix(".pid").read_text())]

    # -- what a newcomer does ----------------------------------------------------------------------

    def follow(self, found: Sequence[Block]) -> None:
        """Do what the blocks say, in their order; AssertionError where something else happens."""
        program = [text for language, text in found if language == "python"]
        for language, text in found:
            if language == "console":
                for step in steps(text):
                    self.check(step)
            elif language == "python" and text is program[-1]:
                output = next((text for language, text in found if language == "text"), None)
                self.check_program("\n\n".join(program), output)

    def check(self, step: Step) -> None:
        """Run the step; what it prints must be what the page prints."""
        command = SECRET.sub(self.secret, self._here(step.command))
        command = re.sub(r"\bmake run\b", "mqlite serve", command)
        if re.match(r"(\w+=\S* )*mqlite serve\b", command):
            self.serve(command)
            return
        printed, code = self.run(command)
        wanted = self._here(step.output)
        match = pattern(wanted).fullmatch(printed)
        assert match, f"{command}\nprints\n{printed}\nthe page says\n{wanted}"
        is_refused = printed.rpartition("\n")[2].startswith("error: ")
        assert (code == 0) is not is_refused, (command, code)
        self.secret = next(iter(match.groups()), self.secret)

    def check_program(self, program: str, output: str | None) -> None:
        """Run a page's program; warnings are errors, what it logs is not compared."""
        (self.folder / "program.py").write_text(self._here(program), "utf-8")
        printed, code = self.run("python -W error program.py 2> program.err")
        assert code == 0, (self.folder / "program.err").read_text("utf-8")
        if output is not None:
            assert printed == self._here(output).rstrip("\n")

    def run(self, command: str) -> tuple[str, int]:
        """What a command prints on both outputs, and its exit code."""
        number = self._taken
        self._type(f"{{ {command}\n}} < /dev/null\nprintf '\\n{END}{number} %d\\n' $?\n")
        code = self._lines.first(re.compile(rf"^{END}{number} (\d+)$"))[1]
        lines = self._lines.so_far()
        end = lines.index(f"{END}{number} {code}")
        printed = "\n".join(lines[self._taken : end])
        self._taken = end + 1
        return printed.rstrip("\n"), int(code)

    def serve(self, command: str) -> None:
        """A broker beside the shell, with the shell's variables; one that runs is ended first."""
        self.end_broker()
        log = self._short / f"serve-{self._taken}.log"
        pid = log.with_suffix(".pid")
        self._type(f"MQLITE_ADDR=127.0.0.1:0 {command} 2> {log} < /dev/null & echo $! > {pid}\n")
        until(lambda: pid.is_file() and pid.read_text().strip(), lambda: "no process")
        until(log.is_file, lambda: "no log")
        self._log = log
        until(lambda: READY.search(log.read_text("utf-8")), lambda: log.read_text("utf-8"))
        said = log.read_text("utf-8")
        ready, key = READY.search(said), re.search("mqk_[0-9a-f]{64}", said)
        assert ready
        self._address = ready[1].partition("://")[2]
        self._key = key[0] if key else self._key

    def end_broker(self) -> None:
        """As a supervisor does, and it must end in order."""
        if self._log is None:
            return
        (number,) = self._beside()
        _, code = self.run(f"kill -TERM {number}; wait {number}")
        self.said += self._log.read_text("utf-8").splitlines()
        self._log = None
        assert code == 0, self.said

    def sign_in(self) -> None:
        """Name the broker and its token to the commands of the shell."""
        words = (f"MQLITE_ENDPOINT=http://{self._address}", f"MQLITE_TOKEN={self._key}")
        self.run(f"export {shlex.join(words)}")

    # -- how it is done ----------------------------------------------------------------------------

    def _type(self, text: str) -> None:
        assert self._shell.stdin is not None
        self._shell.stdin.write(text)
        self._shell.stdin.flush()

    def _here(self, text: str) -> str:
        """A page's text with what differs here."""
        text = text.replace(PORT, self._address).replace("mqk_…", self._key)
        for path in MOVED:
            if path in text:
                place = self._short / Path(path).name
                place.mkdir(exist_ok=True)
                text = text.replace(path, str(place))
        return text
