"""What the drill on a real engine is made of: a copy of the project, under names of its own.

Used by test_engine.py. What the files and the pages say is tried as it stands but for OWN, so that
nothing of whoever runs the drill is met. The base of the image is the Dockerfile's, or the one that
MQLITE_CONTAINERS_BASE names, which may be imported by hand.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.request import Request, urlopen

from tests.house.tree import ROOT, project_files
from tests.packages.newcomer import blocks

BASE: Final = os.environ.get("MQLITE_CONTAINERS_BASE")
BOUND_SECONDS: Final = 900.0
"""For a build, whose packages come from far away."""

NAME: Final = f"mqlite-drill-{os.getpid()}"
BROKER: Final = f"{NAME}-mqlite-1"
COMPOSE: Final = "docker compose -f deploy/compose.yaml"
READY: Final = f"{COMPOSE} up --detach --wait"
COPIED: Final = re.compile(
    r"(mqlite_actor|services|deploy)/|(Dockerfile|\.dockerignore|\w+\.toml)$"
)
PAGES: Final = ("docs/how-to/run-as-a-service.md", "docs/how-to/monitoring.md")

OWN: Final = (
    ("name: mqlite\n", f"name: {NAME}\n"),
    ("name: mqlite-monitoring\n", f"name: {NAME}-monitoring\n"),
    ("image: mqlite-actor\n", f"image: {NAME}\n"),
    ("127.0.0.1:6754:6754", "127.0.0.1::6754"),
    ("127.0.0.1:9090:9090", "127.0.0.1::9090"),
    ("-t mqlite-actor ", f"-t {NAME} "),
    ("mqlite-mcp mqlite-actor\n", f"mqlite-mcp {NAME}\n"),
    ("mqlite_default", f"{NAME}_default"),
    ("mqlite mqlite top\n", "mqlite mqlite top --once\n"),  # there is no terminal to leave it by
    ("docker compose up --detach\n", "docker compose up --detach prometheus\n"),
)
"""What the files and the pages say, and what is tried: the same, beside whatever runs here."""


def own(text: str) -> str:
    for shown, tried in OWN:
        text = text.replace(shown, tried)
    return text


def shell(page: str) -> list[str]:
    """The blocks of a page that can be followed as they stand."""
    found = [text for language, text in blocks(page) if language == "sh"]
    return [own(text) for text in found if "…" not in text]


@dataclass
class Stand:
    """A copy of the project, whose broker runs and is healthy between two tests."""

    folder: Path

    def follow(self, commands: str, **environ: str) -> str:
        """What they print; the first that fails ends them, and the test."""
        lent = {name: text for name, text in os.environ.items() if not name.startswith("MQLITE_")}
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands],
            cwd=self.folder, env={**lent, **environ}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=BOUND_SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{commands}\n{done.stdout}{done.stderr}"
        return done.stdout

    def mqlite(self, words: str) -> str:
        """A command inside, with the page's own way to the broker."""
        lend = shell(PAGES[0])[2].splitlines()[0]
        inside = f"{COMPOSE} exec -e MQLITE_TOKEN -e MQLITE_ENDPOINT mqlite mqlite"
        return self.follow(f"{lend}\n{inside} {words}")

    def told(self, word: str, act: str) -> None:
        """Return once the engine has told `word` of the broker, after `act`."""
        events = f"timeout 180 docker events --since $began --filter container={BROKER}"
        self.follow(f"began=$(date +%s.%N); {act}; grep -m 1 '{word}' < <({events} 2>/dev/null)")

    def looked(self, what: str) -> str:
        return self.follow(f"docker inspect --format '{{{{{what}}}}}' {BROKER}").strip()

    def url(self) -> str:
        """Another one after each start, since the engine chooses the port."""
        return "http://" + self.follow(f"{COMPOSE} port mqlite 6754").strip()


def called(url: str, token: str, call: str, **fields: object) -> dict[str, Any]:
    request = Request(f"{url}/mqlite.v1.{call}", data=json.dumps(fields).encode())
    request.add_header("Authorization", f"Bearer {token}")
    with urlopen(request, timeout=60) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


@contextmanager
def standing(folder: Path) -> Iterator[Stand]:
    """The copy; its containers, volumes, networks and image are gone at the end."""
    for name in [*filter(COPIED.match, project_files()), "README.md", "LICENSE"]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    for path in folder.glob("deploy/**/compose.yaml"):
        path.write_text(own(path.read_text("utf-8")), "utf-8")
    if BASE:
        recipe = (folder / "Dockerfile").read_text("utf-8")
        recipe = re.sub("^ARG PYTHON=.*$", f"ARG PYTHON={BASE}", recipe, flags=re.MULTILINE)
        (folder / "Dockerfile").write_text(recipe, "utf-8")
    made = Stand(folder)
    try:
        yield made
    finally:
        made.follow(f"{COMPOSE} down --volumes --timeout 30; docker image rm {NAME}")
