"""What a wheel holds, and what an editable install puts on the path.

Both are built in process by the build backend, so that no network is needed. The top level is what
a user sees in site-packages: five packages at most, each with a name of its own.
"""

from __future__ import annotations

import re
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path
from typing import Any

import pytest
from hatchling.builders.wheel import WheelBuilder

from mqlite_actor.version import __version__
from tests.house.tree import ROOT, project_files

PACKAGES = {"mqlite_actor", "mqlite_broker", "mqlite_cli", "mqlite_mcp", "mqlite_monitor"}


def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def build(folder: Path, version: str) -> zipfile.ZipFile:
    (path,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=[version])
    return zipfile.ZipFile(path)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    return build(tmp_path_factory.mktemp("wheel"), "standard")


def test_every_folder_of_services_is_listed_as_a_package() -> None:
    listed = pyproject()["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    folders = {
        "/".join(path.split("/")[:2]) for path in project_files() if path.startswith("services/")
    }
    assert set(listed) == {"mqlite_actor"} | folders


def test_every_package_is_known_to_the_import_linter() -> None:
    listed = pyproject()["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert {Path(each).name for each in listed} == set(
        pyproject()["tool"]["importlinter"]["root_packages"]
    )


def test_what_the_door_takes_apart_is_bounded_above() -> None:
    """It subclasses them, and imports names that they move: Quart 0.23, which only Python 3.13 and
    newer are given, has no RequestContext, and no broker started there."""
    broker = pyproject()["project"]["optional-dependencies"]["broker"]
    for name in ("hypercorn", "quart", "quart-trio"):
        bounds = [each for each in broker if re.split("[<>=!~]", each)[0] == name]
        assert "<" in "".join(bounds), f"{name}: {bounds}"


def test_the_wheel_holds_the_packages_at_its_top_level(wheel: zipfile.ZipFile) -> None:
    tops = {name.partition("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} <= PACKAGES
    assert {"mqlite_actor", "mqlite_broker", "mqlite_cli"} <= tops


def test_the_wheel_holds_every_file_of_the_packages(wheel: zipfile.ZipFile) -> None:
    expected = {
        path.removeprefix("services/")
        for path in project_files()
        if path.startswith(("mqlite_actor/", "services/"))
    }
    assert expected <= set(wheel.namelist())
    assert "mqlite_actor/py.typed" in expected
    assert "mqlite_actor/storage/schema.sql" in expected


def test_the_wheel_says_name_version_licence_and_script(wheel: zipfile.ZipFile) -> None:
    folder = f"mqlite_actor-{__version__}.dist-info"
    metadata = Parser().parsestr(wheel.read(f"{folder}/METADATA").decode())
    assert (metadata["Name"], metadata["Version"]) == ("mqlite-actor", __version__)
    assert metadata["License-Expression"] == "MIT"
    assert f"{folder}/licenses/LICENSE" in wheel.namelist()
    scripts = wheel.read(f"{folder}/entry_points.txt").decode()
    assert "mqlite = mqlite_cli.main:main" in scripts
    assert "mqlite-mcp = mqlite_mcp.main:run" in scripts


def test_an_editable_install_puts_the_root_and_services_on_the_path(tmp_path: Path) -> None:
    with build(tmp_path, "editable") as editable:
        (pth,) = [name for name in editable.namelist() if name.endswith(".pth")]
        lines = set(editable.read(pth).decode().split())
    assert lines == {str(ROOT), str(ROOT / "services")}


def test_every_dependency_has_a_lower_bound() -> None:
    project = pyproject()["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    for requirement in (each for group in groups for each in group):
        assert requirement.startswith("mqlite-actor[") or ">=" in requirement, requirement


def test_the_extra_all_brings_every_extra_but_those_of_developers() -> None:
    extras = pyproject()["project"]["optional-dependencies"]
    (everything,) = extras["all"]
    named = everything.removeprefix("mqlite-actor[").removesuffix("]").split(",")
    assert set(named) == set(extras) - {"all", "bench", "docs", "test"}
