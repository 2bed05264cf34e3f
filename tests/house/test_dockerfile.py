"""The recipe of the image, read as a text; tests/deploy/test_image.py does what it says.

What it promises: two stages, a user without rights, signals that reach the broker, a probe without
extra programs, and a build context of nothing but the packages.
"""

from __future__ import annotations

import ast
import json
import re

import pytest

from tests.deploy import image
from tests.deploy.image import Step
from tests.house.tree import ROOT

pytestmark = pytest.mark.promise("T84")


def steps() -> list[Step]:
    """(instruction, argument) of the Dockerfile."""
    return image.steps((ROOT / "Dockerfile").read_text(encoding="utf-8"))


def runtime() -> list[Step]:
    """The steps of the last stage."""
    found = steps()
    last = max(n for n, (instruction, _) in enumerate(found) if instruction == "FROM")
    return found[last:]


def only(instruction: str) -> str:
    (argument,) = [argument for name, argument in runtime() if name == instruction]
    return argument


def test_it_has_two_stages_on_one_slim_base() -> None:
    bases = [argument.split()[0] for instruction, argument in steps() if instruction == "FROM"]
    assert bases == ["${PYTHON}", "${PYTHON}"]
    assert re.fullmatch(r"PYTHON=python:3\.1[1-9]-slim-bookworm", dict(steps())["ARG"])


def test_the_last_stage_takes_the_environment_from_the_first_and_installs_nothing() -> None:
    assert only("COPY") == "--from=build /opt/mqlite /opt/mqlite"
    assert "pip" not in only("RUN")


def test_it_runs_as_a_user_without_rights_who_owns_the_data() -> None:
    assert only("USER") == "10001:10001"
    assert "install -d -o mqlite -g mqlite -m 0700 /data" in only("RUN")
    assert only("VOLUME") == "/data"
    order = [instruction for instruction, _ in runtime()]
    # A VOLUME keeps what stood there before it, so the owner must be set first.
    assert order.index("RUN") < order.index("VOLUME")


def test_signals_reach_the_broker() -> None:
    assert json.loads(only("ENTRYPOINT")) == ["mqlite"]
    assert json.loads(only("CMD")) == ["serve"]
    assert only("STOPSIGNAL") == "SIGTERM"


def test_it_listens_on_the_default_port_and_keeps_its_file_in_the_volume() -> None:
    assert only("EXPOSE") == "6754"
    variables = dict(pair.split("=", 1) for pair in only("ENV").split())
    assert variables["MQLITE_DB"] == "file:/data/mq.db"
    assert variables["PYTHONUNBUFFERED"] == "1"
    # A blank address is a start error, so the image must not pass one on.
    assert "MQLITE_ADDR" not in variables


def test_the_health_check_is_a_program_that_parses_and_needs_only_python() -> None:
    options, _, command = only("HEALTHCHECK").partition("CMD ")
    program, *flags, code = json.loads(command)
    assert (program, flags) == ("python", ["-I", "-c"]), "what lies in /data is no module of ours"
    ast.parse(code)
    assert "127.0.0.1" in code
    assert "/healthz" in code
    assert "--timeout=3s" in options


def test_the_build_context_is_the_packages_and_what_the_build_copies() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    kept = {line[1:] for line in lines if line.startswith("!")}
    copied = {
        name
        for instruction, argument in steps()
        if instruction == "COPY" and not argument.startswith("--from")
        for name in argument.split()[:-1]
    }
    assert "*" in lines
    assert kept == copied


def test_what_checkers_of_recipes_look_for_is_not_there() -> None:
    names = [instruction for instruction, _ in steps()]
    assert not {"ADD", "MAINTAINER", "ONBUILD", "SHELL"} & set(names)
    for name in ("ENTRYPOINT", "CMD", "HEALTHCHECK", "USER", "STOPSIGNAL", "WORKDIR"):
        assert [instruction for instruction, _ in runtime()].count(name) == 1, name
    for instruction, argument in steps():
        if instruction == "RUN":
            assert not re.search(r"\b(sudo|apt-get|curl|wget|chmod 777)\b", argument)
            assert "pip" not in argument or "--no-cache-dir" in argument
        if instruction == "WORKDIR":
            assert argument.startswith("/")
        if instruction in ("ARG", "ENV"):
            assert not re.search(r"(?i)token|secret|password", argument)


def test_the_image_says_what_it_is() -> None:
    labels = dict(re.findall(r'([\w.]+)="([^"]+)"', only("LABEL")))
    assert labels["org.opencontainers.image.title"] == "mqlite-actor"
    assert labels["org.opencontainers.image.licenses"] == "MIT"
