"""The files for other programs that run a broker: they parse, and say what the broker understands.

Compose, systemd, Fly and Kubernetes each have their own words for the same things; what must hold
in all of them stands here once. Their programs' own descriptions are in test_schemas.py.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from mqlite_broker.settings import OTHERS, VARIABLES
from tests.deploy.containers import OWN, PAGES
from tests.deploy.prometheus_process import promtool
from tests.house.tree import ROOT, project_files
from tests.services.broker_process import started_by

DEPLOY: Final = ROOT / "deploy"
GRACE_SECONDS: Final = 30
"""Ten times what a stop takes."""

OPENING_SECONDS: Final = 600
"""A new version that rewrites a file of many gigabytes, on a slow disk."""

FILES: Final = sorted(path for path in project_files() if path.startswith("deploy/"))


def loaded(name: str) -> list[dict[str, Any]]:
    return [*yaml.safe_load_all((DEPLOY / name).read_text("utf-8"))]


def kubernetes(kind: str) -> dict[str, Any]:
    (found,) = [part for part in loaded("kubernetes/mqlite.yaml") if part["kind"] == kind]
    return found


def pod() -> dict[str, Any]:
    found: dict[str, Any] = kubernetes("StatefulSet")["spec"]["template"]["spec"]
    return found


def unit() -> list[tuple[str, str]]:
    """The assignments of the service."""
    lines = (DEPLOY / "systemd/mqlite.service").read_text("utf-8").splitlines()
    return [
        (name, value)
        for name, _, value in (line.partition("=") for line in lines if not line.startswith("#"))
        if value or name == "CapabilityBoundingSet"
    ]


def unit_environment() -> dict[str, str]:
    pairs = [value.partition("=") for name, value in unit() if name == "Environment"]
    return {name: value for name, _, value in pairs}


@pytest.mark.parametrize("path", FILES)
def test_every_file_parses_and_names_only_variables_of_the_broker(path: str) -> None:
    text = (ROOT / path).read_text("utf-8")
    if path.endswith((".yml", ".yaml")):
        assert list(yaml.safe_load_all(text))
    if path.endswith(".toml"):
        assert tomllib.loads(text)
    named = set(re.findall(r"\bMQLITE_[A-Z_]*[A-Z]\b", text)) - {"MQLITE_MONITORING_USER"}
    assert named <= {*VARIABLES, *OTHERS}


@pytest.mark.parametrize("path", FILES)
def test_no_file_holds_a_token(path: str) -> None:
    text = (ROOT / path).read_text("utf-8")
    assert not re.search(r"mqk_[0-9a-f]{8}", text)
    assert not re.search(r"TOKENS[=:] *[\"']?[A-Za-z0-9]{3}", text.replace("${", "$"))


def test_compose_publishes_on_this_machine_only_and_writes_into_its_volume_only() -> None:
    (whole,) = loaded("compose.yaml")
    broker = whole["services"]["mqlite"]
    assert whole["name"] == "mqlite", "else it is the folder's, and anybody's who has such a folder"
    assert broker["ports"] == ["127.0.0.1:6754:6754"]
    assert broker["volumes"] == ["mqlite:/data"]
    assert "mqlite" in whole["volumes"]
    assert (broker["read_only"], broker["cap_drop"]) == (True, ["ALL"])
    assert broker["stop_grace_period"] == f"{GRACE_SECONDS}s"
    assert broker["logging"]["options"] == {"max-size": "10m", "max-file": "5"}
    assert "MQLITE_ADDR" not in broker["environment"], "blank, it would be a start error"
    assert (DEPLOY / broker["build"] / "Dockerfile").resolve() == ROOT / "Dockerfile"


def test_the_monitoring_ports_are_open_to_this_machine_only() -> None:
    (whole,) = loaded("monitoring/compose.yaml")
    assert whole["name"] == "mqlite-monitoring"
    user, _, group = whole["services"]["prometheus"]["user"].rpartition(":")
    assert (user, group) == ("${MQLITE_MONITORING_USER:-65534}", "65534"), "/prometheus is its"
    for service in whole["services"].values():
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
        assert not service["image"].endswith(":latest")
        for volume in service["volumes"]:
            source = volume.partition(":")[0]
            assert source in whole["volumes"] or (DEPLOY / "monitoring" / source).is_dir()


def test_every_name_that_the_drill_on_an_engine_changes_stands_somewhere() -> None:
    texts = [(ROOT / name).read_text("utf-8") for name in PAGES]
    texts += [path.read_text("utf-8") for path in DEPLOY.glob("**/compose.yaml")]
    assert [shown for shown, _ in OWN if shown not in "".join(texts)] == []


def test_kubernetes_runs_one_broker_without_rights_on_one_disk() -> None:
    whole, inside = kubernetes("StatefulSet")["spec"], pod()
    (broker,) = inside["containers"]
    assert whole["replicas"] == 1
    assert whole["volumeClaimTemplates"][0]["spec"]["accessModes"] == ["ReadWriteOncePod"]
    assert inside["terminationGracePeriodSeconds"] == GRACE_SECONDS
    assert (inside["securityContext"]["runAsUser"], inside["securityContext"]["runAsNonRoot"]) == (
        10001, True,
    )  # fmt: skip
    assert broker["securityContext"]["readOnlyRootFilesystem"] is True
    probes = {name: broker[name]["httpGet"]["path"] for name in broker if name.endswith("Probe")}
    assert probes == {
        "startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz",
    }  # fmt: skip
    mounts = {mount["mountPath"] for mount in broker["volumeMounts"]}
    for entry in broker["env"]:
        if entry["value"].startswith("/"):
            assert any(entry["value"].startswith(f"{mount}/") for mount in mounts), entry
    assert kubernetes("NetworkPolicy")["spec"]["podSelector"] == whole["selector"]


def test_kubernetes_lets_a_large_file_be_opened_before_it_asks_whether_the_broker_hangs() -> None:
    startup = pod()["containers"][0]["startupProbe"]
    assert startup["failureThreshold"] * startup["periodSeconds"] >= OPENING_SECONDS


def test_kubernetes_leads_clients_to_the_first_broker_however_many_there_are() -> None:
    labels = kubernetes("StatefulSet")["spec"]["selector"]["matchLabels"]
    name = f"{kubernetes('StatefulSet')['metadata']['name']}-0"
    assert kubernetes("Service")["spec"]["selector"] == {
        **labels, "statefulset.kubernetes.io/pod-name": name,
    }  # fmt: skip


def test_kubernetes_takes_a_rollout_back_that_never_became_ready() -> None:
    assert kubernetes("StatefulSet")["spec"]["podManagementPolicy"] == "Parallel"


def test_kubernetes_tells_the_broker_and_its_commands_what_they_understand_and_no_more() -> None:
    (broker,) = pod()["containers"]
    said = {entry["name"]: entry["value"] for entry in broker["env"]}
    assert said["MQLITE_TOKEN_FILE"] == said["MQLITE_TOKENS_FILE"], "commands call as administrator"
    (port,) = broker["ports"]
    assert said["MQLITE_ENDPOINT"] == f"http://127.0.0.1:{port['containerPort']}"
    assert pod()["enableServiceLinks"] is False


def test_kubernetes_restores_into_the_volume_of_the_broker_as_its_user() -> None:
    (job,) = loaded("kubernetes/restore.yaml")
    inside, (served,) = job["spec"]["template"]["spec"], pod()["containers"]
    (restore,) = inside["containers"]
    assert inside["securityContext"] == pod()["securityContext"]
    for alike in ("image", "securityContext"):
        assert restore[alike] == served[alike]
    (claims,) = kubernetes("StatefulSet")["spec"]["volumeClaimTemplates"]
    (volume,) = inside["volumes"]
    assert volume["persistentVolumeClaim"]["claimName"] == f"{claims['metadata']['name']}-mqlite-0"
    assert served["volumeMounts"][0] in restore["volumeMounts"]
    assert (inside["restartPolicy"], job["spec"]["backoffLimit"]) == ("Never", 0), "once"


def test_fly_runs_one_machine_that_has_time_to_stop() -> None:
    whole = tomllib.loads((DEPLOY / "fly/fly.toml").read_text("utf-8"))
    assert whole["mounts"][0]["destination"] == "/data"
    assert whole["http_service"]["internal_port"] == 6754
    assert whole["http_service"]["min_machines_running"] == 1
    assert (whole["kill_signal"], whole["kill_timeout"]) == ("SIGTERM", f"{GRACE_SECONDS}s")


def test_systemd_finds_nothing_wrong(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed, and no server of ours needs it")
    text = (DEPLOY / "systemd/mqlite.service").read_text("utf-8")
    service = tmp_path / "mqlite.service"
    service.write_text(text.replace("/opt/mqlite/bin/mqlite", "/bin/true"), "utf-8")
    done = subprocess.run(
        [program, "verify", "--man=no", str(service)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "mqlite.service" not in done.stderr, done.stderr


def test_the_service_starts_with_its_own_words_and_stops_in_order(tmp_path: Path) -> None:
    values = dict(unit())
    assert (values["DynamicUser"], values["StateDirectory"]) == ("yes", "mqlite")
    assert int(values["TimeoutStopSec"]) == GRACE_SECONDS
    state, secrets = tmp_path / "state", tmp_path / "credentials"
    state.mkdir(mode=0o700)
    secrets.mkdir(mode=0o700)
    name = values["LoadCredential"].partition(":")[0]
    (secrets / name).write_text("service-token\n")
    moved = {
        variable: value.replace("/var/lib/mqlite", str(state)).replace("%d", str(secrets))
        for variable, value in unit_environment().items()
    }
    moved["MQLITE_ADDR"] = re.sub(r":\d+$", ":0", moved["MQLITE_ADDR"])
    program, *words = values["ExecStart"].split()
    assert Path(program).name == "mqlite"
    command = (sys.executable, "-m", "mqlite_cli", *words)
    with started_by(command, tmp_path, MQLITE_TOKENS="", **moved) as broker:
        assert broker.port
        assert not any("mqk_" in line for line in broker.stop()), "the tokens are those of the file"
    assert (state / "mq.db").is_file()
    assert (state / "diagnostics").stat().st_mode & 0o777 == 0o700


def test_the_alerts_of_the_page_on_clouds_are_in_the_starter(tmp_path: Path) -> None:
    page = (ROOT / "docs/how-to/cloud-monitoring.md").read_text("utf-8")
    rules = (DEPLOY / "monitoring/prometheus/mqlite.rules.yml").read_text("utf-8")
    assert all(f"alert: {name}\n" in rules for name in re.findall(r"`(Mqlite\w+)`", page))
    (job,) = [
        block for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "job_" in block
    ]
    (tmp_path / "job.yml").write_text(job.replace("/run/secrets", str(tmp_path)), "utf-8")
    (tmp_path / "mqlite-monitor-token").write_text("token")
    promtool(tmp_path, "check", "config", "job.yml")
