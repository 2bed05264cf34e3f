"""The project as its users get it: an archive, a wheel made from it, and an environment for that.

Used by the suites of this folder. The wheel is built from the unpacked source archive by the build
backend in this process, and installed by pip into an environment that holds nothing else; neither
needs a network. What the wheel depends on is lent to one program at a time, extra by extra, as a
folder of links to what is installed here: so a program sees exactly the packages that its extra
brings, and never the source tree.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.parser import Parser
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Final

from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.house.tree import ROOT

BOUND_SECONDS: Final = 120.0
"""pip takes a second or two; this is for a machine that is busy elsewhere."""


@dataclass(frozen=True)
class Built:
    """A source archive, and the wheel that was made from it."""

    archive: Path
    wheel: Path

    def archive_names(self) -> list[str]:
        """The files of the archive, below its one folder."""
        with tarfile.open(self.archive) as archive:
            names = [member.name for member in archive.getmembers() if member.isfile()]
        return sorted(name.partition("/")[2] for name in names)

    def wheel_names(self) -> list[str]:
        with zipfile.ZipFile(self.wheel) as wheel:
            return sorted(wheel.namelist())

    def requirements(self) -> list[Requirement]:
        """What the wheel says that it needs."""
        with zipfile.ZipFile(self.wheel) as wheel:
            (metadata,) = [n for n in wheel.namelist() if n.endswith(".dist-info/METADATA")]
            return requirements_of(wheel.read(metadata).decode())


def requirements_of(metadata: str) -> list[Requirement]:
    """What a distribution says that it needs."""
    lines = Parser().parsestr(metadata).get_all("Requires-Dist", [])
    return [Requirement(line) for line in lines]


def built(folder: Path) -> Built:
    """Both, with everything in between, below `folder`."""
    (archive,) = SdistBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    with tarfile.open(archive) as opened:
        opened.extractall(folder / "unpacked", filter="data")
    (tree,) = (folder / "unpacked").iterdir()
    (wheel,) = WheelBuilder(str(tree)).build(directory=str(folder), versions=["standard"])
    return Built(Path(archive), Path(wheel))


def closure(requirements: Sequence[Requirement], *extras: str) -> dict[str, Distribution]:
    """Every distribution that `requirements` bring here, by its name; ours itself is not one."""
    found: dict[str, Distribution] = {}
    waiting = [each for each in requirements if _applies(each, extras)]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        if (name, frozenset(wanted.extras)) in seen:
            continue
        seen.add((name, frozenset(wanted.extras)))
        if name == "mqlite-actor":
            waiting += [each for each in requirements if _applies(each, tuple(wanted.extras))]
            continue
        found[name] = distribution(name)
        further = [Requirement(text) for text in found[name].requires or ()]
        waiting += [each for each in further if _applies(each, tuple(wanted.extras))]
    return found


def _applies(requirement: Requirement, extras: Sequence[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras))


def tops(found: Distribution) -> Iterator[str]:
    """The names of a distribution beside others in site-packages; no scripts, no caches."""
    tops = {file.parts[0] for file in found.files or ()}
    yield from (top for top in tops if top not in ("..", "__pycache__"))


@dataclass(frozen=True)
class Installed:
    """The wheel in an environment of its own; programs get the packages of the extras they name."""

    folder: Path
    requirements: list[Requirement]

    def run(
        self, extra: str, script: str, *words: str, **environ: str
    ) -> subprocess.CompletedProcess[str]:
        """A program of the environment to its end, with what `extra` brings ("" is the core)."""
        return subprocess.run(
            self.command(script, words),
            cwd=self.folder,
            env=self.environ(extra, environ),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=BOUND_SECONDS,
            check=False,
        )

    def command(self, script: str, words: Sequence[str]) -> list[str]:
        return [str(self.folder / "environment" / "bin" / script), *words]

    def environ(self, extra: str, further: Mapping[str, str]) -> dict[str, str]:
        """This environment without our variables, with the links of one extra."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MQLITE_")}
        return {**kept, "PYTHONPATH": str(self._links(extra)), **further}

    def _links(self, extra: str) -> Path:
        place = self.folder / f"packages-{extra or 'core'}"
        if not place.is_dir():
            place.mkdir()
            for found in closure(self.requirements, *([extra] if extra else [])).values():
                for top in tops(found):
                    if not (place / top).exists():  # a namespace that two share
                        (place / top).symlink_to(Path(str(found.locate_file(top))))
        return place


def installed(built: Built, folder: Path) -> Installed:
    """An environment that holds the wheel and not one package beside it."""
    environment = folder / "environment"
    venv.EnvBuilder(symlinks=True).create(environment)
    subprocess.run(
        [
            sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python"), "--quiet",
            "install", "--no-deps", "--no-index", "--no-compile", str(built.wheel),
        ],
        check=True,
        timeout=BOUND_SECONDS,
    )  # fmt: skip
    return Installed(folder, built.requirements())
