"""The files for other programs are what those programs take: held to their own descriptions.

Kubernetes' published schemas, the parser of the Compose specification and the linter of Dockerfiles
come as packages. Of Fly's file there is no such thing, so its keys stand here as its client reads
them. What the values must be for a broker is in test_units.py.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

import compose_spec
import kubernetes_validate
import pytest
import yaml

from tests.house.tree import ROOT

DEPLOY: Final = ROOT / "deploy"
COMPOSE: Final = ("compose.yaml", "monitoring/compose.yaml")

SINCE: Final = "1.29"
"""The first Kubernetes in which ReadWriteOncePod is more than a trial."""

SECONDS: Final = r"\d+s"
FLY: Final[dict[str, Any]] = {
    "app": r"[a-z0-9-]+",
    "primary_region": r"[a-z]{3}",
    "kill_signal": "SIG(TERM|INT|QUIT|USR1|USR2|KILL|STOP)",
    "kill_timeout": SECONDS,
    "env": None,
    "mounts": {"source": r"[a-z0-9_]+", "destination": r"/\w+"},
    "http_service": {
        "internal_port": int,
        "force_https": bool,
        "auto_stop_machines": "off|stop|suspend",
        "auto_start_machines": bool,
        "min_machines_running": int,
        "checks": {
            "method": "GET",
            "path": "/.*",
            "interval": SECONDS,
            "timeout": SECONDS,
            "grace_period": SECONDS,
        },
    },
    "vm": {"size": r"(shared|performance)-cpu-\d+x", "memory": r"\d+(mb|gb)"},
}
"""Key → a pattern or a type of its value, a table of its own, or None for names of ours."""


def test_kubernetes_knows_every_key_of_every_manifest() -> None:
    texts = [path.read_text("utf-8") for path in sorted(DEPLOY.glob("kubernetes/*.yaml"))]
    manifests = [each for text in texts for each in yaml.safe_load_all(text)]
    newest = kubernetes_validate.latest_version()
    for manifest in manifests:
        for version in (SINCE, newest):
            kubernetes_validate.validate(manifest, version, strict=True)
    manifests[0]["spec"]["replicsa"] = 1
    with pytest.raises(kubernetes_validate.ValidationError, match="replicsa"):
        kubernetes_validate.validate(manifests[0], newest, strict=True)


def test_kubernetes_would_find_the_secret_and_the_port_that_the_manifest_names() -> None:
    text = (DEPLOY / "kubernetes/mqlite.yaml").read_text("utf-8")
    files = re.findall(r"--from-file=(\w+)=PATH", text)
    (name,) = re.findall(r"create secret generic (\S+)", text)
    read = re.findall(r"_FILE, value: /run/secrets/mqlite/(\w+)", text)
    assert f"secretName: {name}" in text
    assert sorted(files) == sorted({*read})


@pytest.mark.parametrize("name", COMPOSE)
def test_the_compose_specification_knows_every_key(name: str) -> None:
    text = interpolated((DEPLOY / name).read_text("utf-8"))
    whole = compose_spec.PyOptions().from_yaml(text)
    whole.validate()
    assert sorted(whole.service_names()) == sorted(yaml.safe_load(text)["services"])
    with pytest.raises(ValueError, match="restrat"):
        compose_spec.PyOptions().from_yaml(text.replace("restart:", "restrat:"))


def interpolated(text: str) -> str:
    """A file as an engine fills it in: variables with their defaults, or some number, and its own
    word for the address of the machine."""
    text = text.replace(":host-gateway", ":192.0.2.1")
    return re.sub(r"\$\{\w+(?::-(\w*)|:\?[^}]*)?\}", lambda name: name[1] or "1000", text)


def test_fly_knows_every_key() -> None:
    whole = tomllib.loads((DEPLOY / "fly/fly.toml").read_text("utf-8"))
    assert misfits(whole, FLY) == []
    whole["http_service"]["min_machine_running"] = 1
    whole["kill_timeout"] = 30
    assert misfits(whole, FLY) == ["kill_timeout", "min_machine_running"]


def misfits(table: dict[str, Any], known: dict[str, Any]) -> list[str]:
    """The keys that are unknown, or whose values are no such thing."""
    found = []
    for key, value in table.items():
        wanted = known.get(key, "")
        if isinstance(wanted, dict):
            for part in value if isinstance(value, list) else [value]:
                found += misfits(part, wanted)
        elif isinstance(wanted, str):
            if not (isinstance(value, str) and re.fullmatch(wanted, value)):
                found.append(key)
        elif wanted is not None and type(value) is not wanted:
            found.append(key)
    return found


def test_the_linter_of_dockerfiles_finds_nothing(tmp_path: Path) -> None:
    assert linted(ROOT / "Dockerfile") == ""
    bad = tmp_path / "Dockerfile"
    bad.write_text("FROM python\nRUN pip install x\n", "utf-8")
    assert "DL3006" in linted(bad), "an image without a version"


def linted(path: Path) -> str:
    """What hadolint says, with notes that are mere style."""
    beside = Path(sys.executable).parent / "hadolint"
    program = str(beside) if beside.is_file() else shutil.which("hadolint")
    assert program is not None
    done = subprocess.run(
        [program, "--no-color", "--failure-threshold", "style", str(path)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode == 0) is (done.stdout == ""), done
    return done.stdout
