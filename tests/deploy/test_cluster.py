"""The page on Kubernetes, followed on the cluster that kubectl reaches. Only when somebody asks:

    MQLITE_CLUSTER=1 MQLITE_CLUSTER_IMAGES="ONE OTHER" pytest -x tests/deploy/test_cluster.py

Wants a default storage class, the right to make a pod that sees the processes of its node, and two
names of images, the second for an upgrade; else they are the manifest's and the page's own. All of
it is in a namespace that is removed at the end. Between two tests, which build on each other, the
broker is ready.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Final
from urllib.request import Request, urlopen

import pytest

from tests.deploy.containers import Stand, called
from tests.deploy.prometheus_process import until
from tests.house.tree import ROOT
from tests.packages.newcomer import blocks

if os.environ.get("MQLITE_CLUSTER") != "1":
    pytest.skip("nobody asked: MQLITE_CLUSTER=1", allow_module_level=True)

SHOWN: Final = tuple(f"registry.example.com/mqlite-actor:0.1.{last}" for last in (0, 1))
IMAGES: Final = tuple(os.environ.get("MQLITE_CLUSTER_IMAGES", " ".join(SHOWN)).split())
SINCE: Final = 29  # is the minor version from which on the manifest is tried as it stands
NAMESPACE: Final = f"mqlite-drill-{os.getpid()}"
READY: Final = "kubectl rollout status statefulset/mqlite --timeout=180s"
ENDPOINTS: Final = "kubectl get endpoints mqlite --output jsonpath='{..addresses[*].hostname}'"
RESTARTS: Final = "kubectl get pod mqlite-0 --output jsonpath='{..restartCount}'"

HAND: Final = '{"spec": {"hostPID": true, "terminationGracePeriodSeconds": 1}}'
SIGNAL: Final = """import os, pathlib, sys
for one in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
    if b"serve" in one.read_bytes().split(b"\\0"):
        if sys.argv[2] in one.with_name("cgroup").read_text().replace("_", "-"):
            os.kill(int(one.parent.name), int(sys.argv[1]))
"""
"""Ends or stops the broker of a pod, from one that sees it and is the same user."""


@pytest.fixture(scope="module")
def stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    """A namespace, and a folder with the manifests from which kubectl means it."""
    made = Stand(tmp_path_factory.mktemp("cluster"))
    shutil.copytree(ROOT / "deploy/kubernetes", made.folder / "deploy/kubernetes")
    mine = made.folder / "kubeconfig"
    mine.touch(0o600)
    mine.write_text(made.follow("kubectl config view --raw --minify --flatten"), "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(mine))
        said = json.loads(made.follow("kubectl version --output json"))
        minor = int(re.sub(r"\D", "", said["serverVersion"]["minor"]))
        for path in made.folder.glob("deploy/kubernetes/*.yaml"):
            text = own(path.read_text("utf-8"))
            path.write_text(text if minor >= SINCE else text.replace("OncePod]", "Once]"), "utf-8")
        made.follow(f"kubectl config set-context --current --namespace {NAMESPACE}")
        made.follow(f"kubectl create namespace {NAMESPACE}")
        try:
            yield made
        finally:
            made.follow(f"kubectl delete namespace {NAMESPACE} --timeout=300s")


def own(text: str) -> str:
    for shown, tried in zip(SHOWN, IMAGES, strict=True):
        text = text.replace(shown, tried)
    return text


def shell() -> list[str]:
    return [own(text) for language, text in blocks("docs/how-to/kubernetes.md") if language == "sh"]


def inside(words: str) -> str:
    return f"kubectl exec mqlite-0 -- mqlite {words}"


def has_restarted(stand: Stand, count: int) -> bool:
    return stand.follow(RESTARTS) == str(count)


@contextmanager
def forwarded() -> Iterator[str]:
    """The broker's URL on this machine."""
    words = ["kubectl", "port-forward", "mqlite-0", ":6754"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            (port,) = re.findall(r"127\.0\.0\.1:(\d+)", process.stdout.readline())
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


def test_the_page_starts_a_broker_and_its_commands_work_inside(stand: Stand) -> None:
    start, commands, *_ = shell()
    stand.follow(start)
    said = stand.follow(commands)
    assert "accepted, with the rights: manage" in said
    assert " active=1 " in stand.follow(inside("metrics jobs"))
    assert not re.search("mqk_|is not a setting", said)


def test_the_broker_has_no_rights_and_writes_into_its_volume_only(stand: Stand) -> None:
    said = stand.follow(
        "kubectl exec mqlite-0 -- sh -c 'id -u; stat -c %G /data; touch /x || touch /tmp/x ||"
        ' grep -E "^(Cap(Eff|Bnd)|NoNewPrivs)" /proc/1/status\''
    )
    nothing = "0" * 16
    rights = ["CapEff:", nothing, "CapBnd:", nothing, "NoNewPrivs:", "1"]
    assert said.split() == ["10001", "mqlite", *rights]


def test_the_monitor_of_the_secret_reads_metrics_and_nothing_else(stand: Stand) -> None:
    token = (stand.folder / "monitor").read_text("utf-8").strip()
    with forwarded() as url:
        scrape = Request(f"{url}/metrics", headers={"Authorization": f"Bearer {token}"})
        with urlopen(scrape, timeout=60) as answer:
            assert b'mqlite_queue_messages{queue="jobs"' in answer.read()
        with pytest.raises(OSError, match="403"):
            called(url, token, "AdminService/ListQueues")


def test_one_that_is_killed_or_hangs_is_started_again_with_its_messages(stand: Stand) -> None:
    hand = f"kubectl run hand --image {IMAGES[0]} --overrides '{HAND}' --command -- sleep infinity"
    stand.follow(f"{hand}; kubectl wait --for=condition=ready pod/hand --timeout=180s")
    uid = stand.follow("kubectl get pod mqlite-0 --output jsonpath={.metadata.uid}")
    for count, signal in enumerate(("9", "19"), 1):
        stand.follow(f"kubectl exec hand -- python -c '{SIGNAL}' {signal} {uid}")
        until(partial(has_restarted, stand, count), lambda: "not started again")
        stand.follow("kubectl wait --for=condition=ready pod/mqlite-0 --timeout=180s")
        assert " active=1 " in stand.follow(inside("metrics jobs"))
    stand.follow("kubectl delete pod hand")


def test_a_restart_answers_a_long_poll_and_is_in_order(stand: Stand) -> None:
    token = (stand.folder / "administrator").read_text("utf-8").strip()
    stand.follow(inside("create-queue empty"))

    def waits() -> bool:
        seen = called(url, token, "AdminService/Observe")["receive_waiters"]
        return any(each["queue"] == "empty" and each["count"] for each in seen)

    with forwarded() as url, ThreadPoolExecutor() as pool:
        ask = partial(called, url, token, queue="empty", wait_time_ms=20_000)
        poll = pool.submit(ask, "QueueService/Receive")
        until(waits, lambda: "nobody waits")
        log = pool.submit(stand.follow, "kubectl logs --follow --tail 1 mqlite-0 2>&1 || true")
        stand.follow("kubectl rollout restart statefulset/mqlite")
        assert poll.result(60)["messages"] == []
        assert "stopped cut=0" in log.result(180)
    stand.follow(READY)


def test_a_backup_an_upgrade_and_the_way_back_keep_what_was_sent(stand: Stand) -> None:
    _, _, backup, upgrade, undo, _ = shell()
    stand.follow(backup)
    assert (stand.folder / "monday.db").read_bytes().startswith(b"SQLite format 3\0")
    image = "kubectl get pod mqlite-0 --output jsonpath='{.spec.containers[0].image}'"
    for words, tried in ((upgrade, IMAGES[1]), (undo, IMAGES[0])):
        stand.follow(words)
        assert stand.follow(image) == tried
        assert " active=1 " in stand.follow(inside("metrics jobs"))


def test_an_image_that_does_not_exist_is_left_by_the_way_back(stand: Stand) -> None:
    stand.follow(f"kubectl set image statefulset/mqlite mqlite={IMAGES[0]}-nowhere")
    why = "kubectl get pod mqlite-0 --output jsonpath='{..waiting.reason}'"
    until(lambda: stand.follow(f"{why} || true").startswith(("ErrImage", "Image")), lambda: why)
    stand.follow(shell()[4])
    assert " active=1 " in stand.follow(inside("metrics jobs"))


def test_a_second_replica_is_not_reached_by_the_name_of_the_service(stand: Stand) -> None:
    stand.follow(f"kubectl scale statefulset/mqlite --replicas=2; {READY}")
    assert stand.follow(ENDPOINTS) == "mqlite-0"
    stand.follow("kubectl scale statefulset/mqlite --replicas=1")
    stand.follow("kubectl wait --for=delete pod/mqlite-1 --timeout=180s")
    stand.follow("kubectl delete pvc data-mqlite-1")


def test_a_restore_has_what_the_backup_had_and_so_has_a_new_apply(stand: Stand) -> None:
    stand.follow(inside("send jobs later"))
    assert "kept=/data/mq.db.before-restore-1" in stand.follow(shell()[5])
    assert " active=1 " in stand.follow(inside("metrics jobs"))
    manifest = "deploy/kubernetes/mqlite.yaml"
    stand.follow(f"kubectl delete -f {manifest}; kubectl apply -f {manifest}; {READY}")
    assert " active=1 " in stand.follow(inside("metrics jobs"))
