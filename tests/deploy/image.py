"""The image without a container engine: the steps of the Dockerfile, done below a folder.

Used by test_image.py. Each instruction does what an engine does, with every absolute path of the
image moved below the folder; an instruction or a command that is not known here fails, so that the
recipe cannot say something that nobody tried. The packages that pip would fetch are copied from
what is installed here. The entry point is started by the image's own user; where the machine lets
us (`unshare`), as process 1 of its own and with every file system but the volume read-only.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cache
from pathlib import Path, PurePosixPath
from shutil import which
from typing import Final

from tests.house.tree import ROOT
from tests.packages.installed import closure, requirements_of, tops

Step = tuple[str, str]

BOUND_SECONDS: Final = 120.0
USER: Final = 10001
VIEW: Final = (
    'mount --bind "$1" "$1" && mount -o remount,bind,ro / && shift'
    f' && exec setpriv --reuid={USER} --regid={USER} --clear-groups "$@"'
)
ISOLATED: Final = (
    "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", VIEW, "sh",
)  # fmt: skip
"""A process tree and a view of the files of its own: all is read-only but the first argument."""


def steps(text: str) -> list[Step]:
    """(instruction, argument), comments gone and continued lines joined."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    pairs = [line.partition(" ") for line in joined.splitlines()]
    return [(instruction, argument.strip()) for instruction, _, argument in pairs]


def pairs(argument: str) -> dict[str, str]:
    """NAME=VALUE words."""
    found = [word.partition("=") for word in shlex.split(argument)]
    return {name: value for name, _, value in found}


@dataclass
class Stage:
    """One FROM and what follows, below `root`."""

    root: Path
    workdir: str = "/"
    environ: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    owners: dict[str, int] = field(default_factory=dict)

    def at(self, path: str) -> Path:
        """A path of the image on this machine."""
        return self.root / (PurePosixPath(self.workdir) / path).relative_to("/")


class Image:
    """What the steps made: the last stage."""

    def __init__(self, folder: Path) -> None:
        self._stages: dict[str, Stage] = {}
        self._arguments: dict[str, str] = {}
        self._folder = folder
        for instruction, argument in steps((ROOT / "Dockerfile").read_text("utf-8")):
            self._do(instruction, argument)

    @property
    def stage(self) -> Stage:
        """The one at work, and in the end the image."""
        return next(reversed(self._stages.values()))

    def _do(self, instruction: str, argument: str) -> None:
        match instruction:
            case "ARG":
                self._arguments.update(pairs(argument))
            case "FROM":
                base, _, name = argument.partition(" AS ")
                assert base.strip("${}") in self._arguments, f"{base} is no argument of the build"
                name = name or "image"
                self._stages[name] = Stage(self._folder / name)
                self.stage.root.mkdir()
            case "WORKDIR":
                self.stage.workdir = argument
                self.stage.at(".").mkdir(parents=True, exist_ok=True)
            case "ENV":
                self.stage.environ.update(pairs(argument))
            case "COPY":
                self._copy(shlex.split(argument))
            case "RUN":
                self._run(argument)
            case "ENTRYPOINT" | "CMD" | "EXPOSE" | "USER" | "VOLUME" | "STOPSIGNAL" | "LABEL":
                self.stage.settings[instruction] = argument
            case "HEALTHCHECK":
                self.stage.settings[instruction] = argument.partition("CMD ")[2]
            case _:
                raise AssertionError(f"nobody taught this test {instruction}")

    def _copy(self, words: list[str]) -> None:
        source: Stage | None = None
        if words[0].startswith("--from="):
            source = self._stages[words.pop(0).removeprefix("--from=")]
        *names, target = words
        for name in names:
            found = source.at(name) if source else ROOT / name
            assert source or is_in_context(name), f"{name} is not in the context of the build"
            place = self.stage.at(target)
            if target.endswith("/"):
                place /= found.name
            place.parent.mkdir(parents=True, exist_ok=True)
            if found.is_dir():
                ignored = shutil.ignore_patterns("__pycache__", "*.pyc") if not source else None
                shutil.copytree(found, place, symlinks=True, ignore=ignored)
            else:
                shutil.copy(found, place)

    def _run(self, line: str) -> None:
        if "useradd" in line:
            for command in line.split("&&"):
                self._account(shlex.split(command))
            return
        self._shell(line)
        lend_packages(self.stage.at("/opt/mqlite"))

    def _shell(self, line: str) -> None:
        """A command line of the build, its absolute paths moved, without a network."""
        moved = re.sub(
            r"(?<![\w./])/(opt|wheels|src)\b", rf"{shlex.quote(str(self.stage.root))}/\1", line
        )
        programs = self._folder / "programs"
        programs.mkdir(exist_ok=True)
        for name, command in (
            ("python", f'"{interpreter()}"'),
            ("pip", f'"{sys.executable}" -m pip'),
        ):
            (programs / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
            (programs / name).chmod(0o755)
        environ = {
            **os.environ,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": "",
            "PIP_NO_INDEX": "1",
            "PIP_NO_DEPS": "1",
            "PIP_NO_BUILD_ISOLATION": "0",  # pip's way to say that it is not to be isolated
            "PIP_QUIET": "1",
        }
        subprocess.run(
            ["sh", "-ec", moved],
            cwd=self.stage.at("."), env=environ, check=True, timeout=BOUND_SECONDS,
        )  # fmt: skip

    def _account(self, words: list[str]) -> None:
        """Users and their folders, without touching those of this machine."""
        match words:
            case ["groupadd", "--gid", number, name]:
                self.stage.owners[f"group {name}"] = int(number)
            case ["useradd", "--uid", number, "--gid", group, *_, name]:
                assert f"group {group}" in self.stage.owners
                self.stage.owners[name] = int(number)
            case ["install", "-d", "-o", owner, "-g", group, "-m", mode, path]:
                place = self.stage.at(path)
                place.mkdir(parents=True)
                place.chmod(int(mode, 8))
                if os.geteuid() == 0:
                    os.chown(place, self.stage.owners[owner], self.stage.owners[f"group {group}"])
            case _:
                raise AssertionError(f"nobody taught this test {words}")

    # -- a container -------------------------------------------------------------------------------

    def environ(self, **further: str) -> dict[str, str]:
        """What a process of a container gets, its paths moved."""
        path = self.stage.environ["PATH"].replace("$PATH", "/usr/bin:/bin")
        found = {**self.stage.environ, "PATH": path, "HOME": "/nonexistent"}
        found["PATH"] = found["PATH"].replace("/opt/", f"{self.stage.root}/opt/")
        found["MQLITE_DB"] = found["MQLITE_DB"].replace("/data", f"{self.stage.root}/data")
        return {**found, **further}

    def command(self, *words: str) -> list[str]:
        """The entry point with `words`, or with the image's own."""
        entry = json.loads(self.stage.settings["ENTRYPOINT"])
        return [*entry, *(words or json.loads(self.stage.settings["CMD"]))]

    def user(self) -> int:
        """Who runs it here: the image's user where we may become one."""
        assert self.stage.settings["USER"] == f"{USER}:{USER}"
        return USER if is_open_to_user(interpreter()) else os.geteuid()


@cache
def interpreter() -> str:
    """A Python of the version that the packages here are for, which the image's user may run too
    if there is one: the one that runs this test may lie in somebody's home."""
    name = "python{}.{}".format(*sys.version_info)
    found = [os.path.realpath(sys.executable), f"/usr/bin/{name}", f"/usr/local/bin/{name}"]
    return next((path for path in found if is_open_to_user(path)), found[0])


@cache
def is_open_to_user(program: str) -> bool:
    """Whether we may become the image's user, and then start this."""
    if os.geteuid() != 0:
        return False
    try:
        done = subprocess.run([program, "-c", ""], user=USER, group=USER, check=False, timeout=60)
    except OSError:
        return False
    return done.returncode == 0


def is_in_context(name: str) -> bool:
    """Whether .dockerignore lets a name of the top level into the build."""
    is_in = True
    for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines():
        pattern = line.strip()
        if pattern and not pattern.startswith("#") and fnmatch(name, pattern.lstrip("!")):
            is_in = pattern.startswith("!")
    return is_in


def lend_packages(environment: Path) -> None:
    """Copy what the wheel of an environment depends on, with all extras, from what is installed."""
    (site,) = environment.glob("lib/python*/site-packages")
    (metadata,) = site.glob("mqlite_actor-*.dist-info/METADATA")
    for found in closure(requirements_of(metadata.read_text("utf-8")), "all").values():
        for top in tops(found):
            source, place = Path(str(found.locate_file(top))), site / top
            if source.is_dir():
                shutil.copytree(source, place, dirs_exist_ok=True, copy_function=lent)
            elif source.is_file():
                lent(str(source), str(place))


def lent(source: str, place: str) -> str:
    """The same file under another name, which for its owner alone would not be safe: to make the
    copy read-only would make the original so."""
    if os.geteuid() == 0:
        try:
            os.link(source, place)
        except OSError:  # another file system, or there already
            return shutil.copy2(source, place)
        return place
    return shutil.copy2(source, place)


def can_isolate(volume: Path) -> bool:
    """Whether this machine lets us give a process a view of its own."""
    if not is_open_to_user(interpreter()) or not (which("unshare") and which("setpriv")):
        return False
    tried = subprocess.run(
        [*ISOLATED, str(volume), "true"], capture_output=True, check=False, timeout=BOUND_SECONDS
    )
    return tried.returncode == 0
