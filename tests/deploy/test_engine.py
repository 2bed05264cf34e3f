"""The pages on containers, followed on a real engine. Only when somebody asks:

    MQLITE_CONTAINERS=1 pytest -x tests/deploy/test_engine.py

Wants Docker with its plugins `compose` and `buildx`, and five minutes; Prometheus is tried where
its image is to be had. The tests build on each other: between two of them the broker is healthy.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

import pytest

from tests.deploy.containers import (
    BROKER,
    COMPOSE,
    NAME,
    PAGES,
    READY,
    Stand,
    called,
    shell,
    standing,
)
from tests.deploy.prometheus_process import Prometheus, until

if os.environ.get("MQLITE_CONTAINERS") != "1":
    pytest.skip("nobody asked: MQLITE_CONTAINERS=1", allow_module_level=True)

MONITOR: Final = "monitor-of-the-drill"


@pytest.fixture(scope="module")
def stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    with standing(tmp_path_factory.mktemp("containers")) as made:
        yield made


def test_the_page_starts_a_broker_gives_it_a_token_and_finds_both_programs(stand: Stand) -> None:
    start, lasting, programs, _ = shell(PAGES[0])
    assert stand.follow(start).count("token=mqk_") == 1
    stand.follow(lasting)
    assert "access manage" in stand.follow(programs)
    assert stand.looked(".State.Health.Status") == "healthy"


def test_the_broker_has_no_rights_and_writes_into_its_volume_only(stand: Stand) -> None:
    said = stand.follow(
        f"{COMPOSE} exec mqlite sh -c 'id -u; stat -c %U:%a /data; touch /x || touch /tmp/x ||"
        ' grep -E "^(Cap(Eff|Bnd)|NoNewPrivs)" /proc/1/status\''
    )
    nothing = "0" * 16
    assert said.split() == [
        "10001", "mqlite:700", "CapEff:", nothing, "CapBnd:", nothing, "NoNewPrivs:", "1",
    ]  # fmt: skip
    assert stand.looked(".Config.StopTimeout") == "30"
    assert stand.looked(".HostConfig.LogConfig.Config") == "map[max-file:5 max-size:10m]"


def test_a_backup_an_upgrade_and_a_restore_keep_what_was_sent(stand: Stand) -> None:
    stand.mqlite("create-queue jobs")
    stand.mqlite("send jobs kept")
    stand.follow("\n".join([shell(PAGES[0])[2].splitlines()[0], shell(PAGES[0])[3]]))
    assert (stand.folder / "monday.db").read_bytes().startswith(b"SQLite format 3\0")
    assert " active=1 " in stand.mqlite("metrics jobs")


def test_a_broker_that_is_killed_is_started_again_with_its_messages(stand: Stand) -> None:
    number = stand.looked(".State.Pid")
    kill = f"docker run --rm --pid host --user 0 --entrypoint python {NAME}"
    stand.told("container start", f"{kill} -c 'import os; os.kill({number}, 9)'")
    stand.follow(READY)
    assert stand.looked(".RestartCount") == "1"
    assert " active=1 " in stand.mqlite("metrics jobs")


def test_one_that_hangs_is_shown_as_unhealthy_and_well_again_when_it_goes_on(stand: Stand) -> None:
    stand.told("health_status: unhealthy", f"docker kill --signal STOP {BROKER}")
    stand.told("health_status: healthy", f"docker kill --signal CONT {BROKER}")


def test_a_stop_answers_a_long_poll_and_is_in_order(stand: Stand) -> None:
    stand.mqlite("create-queue empty")
    url, token = stand.url(), stand.follow("sed -n s/^MQLITE_TOKENS=//p deploy/.env").strip()

    def waits() -> bool:
        seen = called(url, token, "AdminService/Observe")["receive_waiters"]
        return any(each["queue"] == "empty" and each["count"] for each in seen)

    with ThreadPoolExecutor() as pool:
        poll = pool.submit(
            called, url, token, "QueueService/Receive", queue="empty", wait_time_ms=20_000
        )
        until(waits, lambda: "nobody waits")
        stand.follow(f"{COMPOSE} stop")
        assert poll.result(60)["messages"] == []
    assert stand.looked(".State.ExitCode") == "0"
    assert "stopped cut=0" in stand.follow(f"{COMPOSE} logs --tail 1 mqlite")
    stand.follow(READY)


def test_a_second_broker_on_the_volume_is_refused(stand: Stand) -> None:
    said = stand.follow(f"{COMPOSE} run --rm mqlite 2>&1 || echo $?")
    assert "/data/mq.db is in use by another engine" in said
    assert said.endswith("\n1\n")


def test_a_folder_of_somebody_else_is_refused_by_name(stand: Stand) -> None:
    (stand.folder / "data").mkdir()
    said = stand.follow(f"docker run --rm -v $PWD/data:/data --read-only {NAME} 2>&1 || echo $?")
    assert "the folder /data is not writable" in said
    assert said.endswith("\n1\n")


def test_a_quarter_of_a_gigabyte_is_enough(stand: Stand) -> None:
    one, token = f"{NAME}-small", "of-the-drill"
    limited = f"docker run -d --name {one} --memory 256m --read-only -e MQLITE_TOKENS={token}"
    inside = f"docker exec -e MQLITE_TOKEN={token} -e MQLITE_ENDPOINT=http://127.0.0.1:6754 {one}"
    state = f"docker inspect --format '{{{{.State.ExitCode}}}} {{{{.State.OOMKilled}}}}' {one}"
    try:
        stand.follow(f"{limited} {NAME}; {inside} mqlite wait-ready --timeout 60s")
        stand.follow(f"{inside} mqlite create-queue jobs; docker stop --time 30 {one}")
        assert stand.follow(state) == "0 false\n"
    finally:
        stand.follow(f"docker rm --force --volumes {one}")


def test_prometheus_of_the_starter_reaches_the_broker_of_compose(stand: Stand) -> None:
    starter = (stand.folder / "deploy/monitoring/compose.yaml").read_text("utf-8")
    (image,) = re.findall(r"image: (prom/\S+)", starter)
    with suppress(AssertionError):  # not to be had: the next line says so
        stand.follow(f"docker image inspect {image} || docker pull {image}")
    if not stand.follow(f"docker images --quiet {image}"):
        pytest.skip(f"{image} is not to be had here")
    with (stand.folder / "deploy/.env").open("a") as settings:
        settings.write(f"MQLITE_METRICS=on\nMQLITE_MONITOR_TOKENS={MONITOR}\n")
    stand.follow(READY)
    first, second = shell(PAGES[1])
    try:
        stand.follow(first, MONITOR_TOKEN=MONITOR, GRAFANA_PASSWORD="of-the-drill")
        stand.follow(f"cd deploy/monitoring\n{second}")
        there = stand.follow("cd deploy/monitoring; docker compose port prometheus 9090").strip()
        prometheus = Prometheus(f"http://{there}")

        def scraped() -> bool:
            with suppress(OSError):  # it is starting
                return any(each["value"][1] == "1" for each in prometheus.series("up"))
            return False

        until(scraped, lambda: stand.follow("cd deploy/monitoring; docker compose logs prometheus"))
    finally:
        stand.follow("cd deploy/monitoring; docker compose down --volumes")
