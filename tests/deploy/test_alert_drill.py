"""A drill with the monitoring starter: a real Prometheus, a real broker, real trouble.

Prometheus runs with the very files that are shipped; only the target and the pace are changed: a
minute is 300 ms, so that an alert fires within seconds, and a scrape has half a second, for a
machine that is busy elsewhere. What is not provoked here is named with the reason, and fires and
clears on made-up series in test_monitoring.py.
"""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

import mqlite_actor as mq
from tests.deploy.prometheus_process import (
    Prometheus,
    config_copied,
    running_prometheus,
    until,
)
from tests.deploy.test_monitoring import MONITOR, RULES, alerts, expressions
from tests.services.broker_process import SERVE, TOKEN, BrokerProcess, started_by
from tests.services.test_broker_small_disk import can_mount

MINUTE_MS: Final = 300
PACE_MS: Final = 500

OTHERS: Final = {
    'process_start_time_seconds{job="mqlite"}[30m]': (
        'process_start_time_seconds{job="mqlite"}[20s]'
    ),
    "oldest_message_age_seconds > 300": "oldest_message_age_seconds > 1.5",
    "last_success_timestamp_seconds > 120": "last_success_timestamp_seconds > 2",
}
"""Minutes that a rule counts in seconds, not below the pace of scrapes; and starts take longer."""

SMALL: Final = 256 * 2**20
"""A disk that MqliteDiskLow finds too small, and the drill large enough."""
ON_A_SMALL_DISK: Final = (
    "unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
    f'mount -t tmpfs -o size={SMALL} tmpfs "$0" && exec "$@"',
)  # fmt: skip

NOT_PROVOKED: Final = {
    "MqliteWriterBehind": "a thousand commands have to wait, more than one client machine sends",
    "MqliteDiskFullInADay": "it looks at six hours, which no test has",
    "MqliteLogGrows": "half a gigabyte has to be written, for which a test is too short",
    "MqliteSettleSlow": "completions have to take a second, for which the disk has to be slow",
}


class Drill:
    """A broker, a Prometheus that scrapes it with the files of the starter, and what was told."""

    def __init__(self, folder: Path, port: int, prometheus: Prometheus) -> None:
        self.folder = folder
        self.url = f"http://127.0.0.1:{port}"
        self.dsn = f"mqlite://{TOKEN}@127.0.0.1:{port}"
        self.prometheus = prometheus
        self.told: set[str] = set()

    def firing(self) -> set[str]:
        now = self.prometheus.firing()
        self.told |= now
        return now

    def until_told(self, wanted: set[str], wrong: Callable[[], object] = lambda: None) -> None:
        """Keep something wrong until all of `wanted` has fired."""

        def was_told() -> bool:
            wrong()
            self.firing()
            return wanted <= self.told

        until(was_told, lambda: f"{wanted - self.told} do not fire")

    def until_clear(self, but: set[str]) -> None:
        """Return once nothing fires any more but what has to."""
        until(lambda: self.firing() <= but, lambda: f"{self.firing() - but} still fire")

    def last_start(self) -> float:
        """When the broker started that was scraped last, by its own clock; 0 if none was."""
        found = self.prometheus.series("last_over_time(process_start_time_seconds[5m])")
        return float(found[0]["value"][1]) if found else 0.0

    def status(self, call: str, credential: str, body: bytes = b"{}") -> int:
        """How a call ends."""
        request = Request(f"{self.url}/mqlite.v1.{call}", body)
        request.add_header("Authorization", f"Bearer {credential}")
        try:
            with urlopen(request, timeout=30) as answer:
                return int(answer.status)
        except HTTPError as refusal:
            with refusal:
                return refusal.code

    def guess(self) -> None:
        """Somebody tries a credential that is none."""
        assert self.status("AdminService/Status", "nonsense") == 401


def quickened(config: Path, target: str) -> None:
    """Another target, and another pace: the rest of the file stays as it is shipped."""
    text = config.read_text("utf-8")
    assert text.count("127.0.0.1:6754") == 1
    text = text.replace("127.0.0.1:6754", target).replace(": 15s", f": {PACE_MS}ms")
    config.write_text(text, "utf-8")
    rules = config.parent / RULES.name
    text = rules.read_text("utf-8")
    for shipped, quick in OTHERS.items():
        assert text.count(shipped) == 1
        text = text.replace(shipped, quick)
    text = re.sub(
        r"(?<=for: )(\d+)m$|(?<=\[)(\d+)m(?=\])",
        lambda minutes: f"{int(minutes[1] or minutes[2]) * MINUTE_MS}ms",
        text,
        flags=re.MULTILINE,
    )
    rules.write_text(text, "utf-8")


def serving(
    folder: Path, *before: str, address: str = "127.0.0.1:0"
) -> AbstractContextManager[BrokerProcess]:
    """A broker with metrics and a monitor's token, its store in `disk`."""
    return started_by(
        (*before, *SERVE), folder, MQLITE_DB=f"file:{folder}/disk/mq.db", MQLITE_METRICS="on",
        MQLITE_MONITOR_TOKENS=MONITOR, MQLITE_ADDR=address,
    )  # fmt: skip


@contextmanager
def opened(folder: Path) -> Iterator[Drill]:
    """A Prometheus that looks for a broker where there was one."""
    (folder / "disk").mkdir()
    config = config_copied(folder / "prometheus", MONITOR)
    with serving(folder) as broker:
        port = broker.port
        broker.stop()
    quickened(config, f"127.0.0.1:{port}")
    with running_prometheus(config) as prometheus:
        yield Drill(folder, port, prometheus)


def test_panels_show_something_and_alerts_fire_and_clear(tmp_path: Path) -> None:
    """One test, because a Prometheus takes seconds and workers share nothing."""
    low = {"MqliteDiskLow"} if can_mount(tmp_path) else set()
    small = (*ON_A_SMALL_DISK, f"{tmp_path}/disk") if low else ()
    with opened(tmp_path) as drill:
        address = drill.url.removeprefix("http://")
        a_broker_that_is_gone_and_starts_again_and_again_is_told(drill, address)
        with serving(tmp_path, *small, address=address) as broker:
            assert broker.url == drill.url
            every_panel_shows_something_of_a_busy_broker(drill)
            clients_that_fail_and_queues_that_nobody_works_off_are_told(drill)
            descriptors_that_run_out_are_told(drill, broker.process.pid)
            drill.until_told(low)
            drill.until_clear(low)
            a_store_that_cannot_be_reached_is_told(drill, broker.process.pid)
            drill.until_clear(low)
            broker.stop()
        with serving(tmp_path, address=address) as broker:
            assert broker.url == drill.url
            drill.until_clear(set())
            broker.stop()
        assert drill.told == alerts().keys() - NOT_PROVOKED.keys() - {"MqliteDiskLow"} | low


def a_broker_that_is_gone_and_starts_again_and_again_is_told(drill: Drill, address: str) -> None:
    drill.until_told({"MqliteDown"})

    def start_again() -> None:
        before = drill.last_start()
        with serving(drill.folder, address=address):
            until(lambda: drill.last_start() > before, lambda: "no scrape")

    drill.until_told({"MqliteRestarts"}, start_again)


def every_panel_shows_something_of_a_busy_broker(drill: Drill) -> None:
    waiting = expressions()

    def worked() -> bool:
        with mq.connect_sync(drill.dsn) as q:
            q.send("orders", [b"1", b"2", b"3"])
            first, second, third = q.receive("orders", max_messages=3)
            first.complete()
            second.abandon()
            third.reject("spoilt")
            q.receive("orders", max_messages=9, at_most_once=True)
            with pytest.raises(mq.NotFound):
                q.send_one("nowhere", b"")
        drill.guess()
        for name, text in list(waiting.items()):
            if drill.prometheus.series(text):
                del waiting[name]
        return not waiting

    with mq.connect_sync(drill.dsn) as q:
        q.create_queue("orders")
    until(worked, lambda: f"no series for {waiting}")


def clients_that_fail_and_queues_that_nobody_works_off_are_told(drill: Drill) -> None:
    with mq.connect_sync(drill.dsn) as q:
        q.create_queue("flood")
        for _ in range(101):
            q.send("flood", [b"x"] * 100)
        q.create_queue("again", max_delivery_count=1000)
        q.send_one("again", b"too much for its handler")
        q.subscribe("sold", "accounts", filter='int(properties["cents"]) > 500')

        def go_wrong() -> None:
            for _ in range(5):
                drill.guess()
            q.receive("flood")[0].reject("spoilt")
            q.receive("again")[0].abandon()
            q.send_one("sold", b"without its price")

        drill.until_told(
            {
                "MqliteBacklogHigh", "MqliteBacklogStuck", "MqliteCredentialsRefused",
                "MqliteDeadLettersGrow", "MqliteFiltersFail", "MqliteRedeliveryStorm",
            },
            go_wrong,
        )  # fmt: skip
        q.purge_active("flood", expected_count=q.stats("flood").active)
        q.purge_active("again", expected_count=1)


def descriptors_that_run_out_are_told(drill: Drill, process: int) -> None:
    """The limit comes down to what is in use; room is left for the scrape."""
    limits = resource.prlimit(process, resource.RLIMIT_NOFILE)
    used = len(os.listdir(f"/proc/{process}/fd"))  # noqa: PTH208 - a count, no paths
    resource.prlimit(process, resource.RLIMIT_NOFILE, (used + 3, limits[1]))
    drill.until_told({"MqliteDescriptorsLow"})
    resource.prlimit(process, resource.RLIMIT_NOFILE, limits)


def a_store_that_cannot_be_reached_is_told(drill: Drill, process: int) -> None:
    """Somebody moves the file away, and puts it back."""
    seen = Path(f"/proc/{process}/root{drill.folder}/disk")
    (seen / "mq.db").rename(seen / "aside.db")
    drill.until_told(
        {
            "MqliteCallsFail", "MqliteCollectionStale", "MqliteMaintenanceFails",
            "MqliteStorageErrors", "MqliteStoreUnreadable",
        },
        lambda: drill.status("AdminService/CreateQueue", TOKEN, b'{"name": "orders"}'),
    )  # fmt: skip
    (seen / "aside.db").rename(seen / "mq.db")
