"""A drill with the monitoring starter: a real Prometheus, real brokers, real trouble.

Every alert that is shipped is provoked, fires, and clears again when its cause is gone; and every
panel of the dashboard shows something of a busy broker. How the pace is changed stands in drill.py.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import pytest

import mqlite_actor as mq
from mqlite_actor.contract import limits
from tests.deploy.drill import (
    CROWD,
    HELD,
    LONG_LOG,
    READS,
    Drill,
    at_the_disk_of,
    complete_behind_a_lock,
    disk_seen,
    enlarge,
    few_descriptors,
    on_a_small_disk,
    quickened,
    serving,
    somebody_who,
)
from tests.deploy.prometheus_process import config_copied, running_prometheus, until
from tests.deploy.test_monitoring import MONITOR, alerts, expressions
from tests.services.broker_process import TOKEN
from tests.services.test_broker_small_disk import can_mount

OF_A_SMALL_DISK: Final = frozenset({"MqliteDiskFullInADay", "MqliteDiskLow"})
"""What cannot be provoked where nobody may mount a disk of his own."""

SLOW_SECONDS: Final = 1.2
"""For how long somebody else has the lock: longer than a completion may take, and shorter than a
client waits."""

BODY: Final = bytes(limits.MIB)

Trouble = Callable[[Drill, int], None]
"""Does something to a broker, of which it gets the process, until the alerts came and went."""


def test_panels_show_something_and_alerts_fire_and_clear(tmp_path: Path) -> None:
    """One test, because a Prometheus takes seconds and workers share nothing."""
    small = OF_A_SMALL_DISK if can_mount(tmp_path) else frozenset()
    troubles: dict[str, Trouble] = {
        "clients": it_is_busy_and_then_clients_fail_and_nobody_works_off,
        "disk": partial(its_disk_is_small_and_its_file_is_held, small=small),
        "store": its_descriptors_run_out_and_its_store_is_moved_away,
    }
    with room_for_a_crowd(), ExitStack() as stack:
        gone = stack.enter_context(serving(tmp_path / "gone"))
        brokers = {
            name: stack.enter_context(
                serving(
                    tmp_path / name,
                    *(on_a_small_disk(tmp_path / name) if small and name == "disk" else ()),
                )
            )
            for name in troubles
        }
        ports = {name: broker.port for name, broker in {"gone": gone, **brokers}.items()}
        gone.stop()
        config = config_copied(tmp_path / "prometheus", MONITOR)
        quickened(config, [f"127.0.0.1:{port}" for port in ports.values()])
        prometheus = stack.enter_context(running_prometheus(config))
        drills = {name: Drill(prometheus, tmp_path / name, port) for name, port in ports.items()}
        with ThreadPoolExecutor(len(drills)) as threads:
            running = [
                threads.submit(trouble, drills[name], brokers[name].process.pid)
                for name, trouble in troubles.items()
            ]
            it_is_gone_and_starts_again_and_again(drills["gone"])
            for each in running:
                each.result()
        for broker in brokers.values():
            broker.stop()
    told = {name for drill in drills.values() for name in drill.told}
    assert told == alerts().keys() - (OF_A_SMALL_DISK - small)


@contextmanager
def room_for_a_crowd() -> Iterator[None]:
    """Each worker of the crowd is a connection of this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4 * CROWD)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def it_is_gone_and_starts_again_and_again(drill: Drill) -> None:
    drill.until_told({"MqliteDown"})
    with ExitStack() as lives:

        def start_again() -> None:
            lives.close()
            before = drill.last_start()
            lives.enter_context(serving(drill.folder, address=drill.address))
            until(lambda: drill.last_start() > before, lambda: "no scrape")

        drill.until_told({"MqliteRestarts"}, start_again)
        drill.until_clear()


# -- clients ---------------------------------------------------------------------------------------


def it_is_busy_and_then_clients_fail_and_nobody_works_off(drill: Drill, _: int) -> None:
    every_panel_shows_something(drill)
    with mq.connect_sync(drill.dsn) as q:
        q.create_queue("flood")
        for _each in range(101):
            q.send("flood", [b"x"] * 100)
        q.create_queue("again", max_delivery_count=1000)
        q.send_one("again", b"too much for its handler")
        q.subscribe("sold", "accounts", filter='int(properties["cents"]) > 500')
        dead_letters_come_at_once(drill, q)

        def go_wrong() -> None:
            for _each in range(5):
                drill.guess()
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
    drill.until_clear()


def dead_letters_come_at_once(drill: Drill, q: mq.SyncHandle) -> None:
    """All of them between two scrapes, and none after."""
    where = f'instance="{drill.address}", queue="burst"'
    q.create_queue("burst")
    q.send("burst", [b"x"] * 10)
    counts = f'mqlite_queue_messages{{{where}, state="dead_lettered"}}'
    until(lambda: drill.prometheus.series(counts), lambda: "no scrape")
    for message in q.receive("burst", max_messages=10):
        message.reject("spoilt")
    alert = f'ALERTS{{{where}, alertname="MqliteDeadLettersGrow", alertstate="firing"}}'
    until(lambda: drill.prometheus.series(alert), lambda: "nobody is told of a burst")
    drill.firing()


def every_panel_shows_something(drill: Drill) -> None:
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


# -- the disk, and the lock of the file ------------------------------------------------------------


def its_disk_is_small_and_its_file_is_held(
    drill: Drill, process: int, *, small: frozenset[str]
) -> None:
    """A reader that stays makes the log grow; a foreign lock lets the writer and everybody wait."""
    before = at_the_disk_of(process) if small else ()
    log = disk_seen(drill.folder, process) / "mq.db-wal"
    until(drill.last_start, lambda: "no scrape")  # before there is less room than there was
    with mq.connect_sync(drill.dsn) as q:
        q.create_queue(HELD)
        q.create_queue("large")
        with somebody_who(READS, drill.folder, before):
            while log.stat().st_size <= LONG_LOG:
                q.send("large", [BODY] * 4)

            wanted = {"MqliteLogGrows", "MqliteSettleSlow", "MqliteWriterBehind", *small}

            def hold() -> None:
                if wanted - drill.told <= {"MqliteDiskLow", "MqliteLogGrows"}:
                    return  # these need nothing but time
                q.send("large", [BODY] * 4)
                began = time.monotonic()
                is_over = partial(_is_slow_and_told, drill, began)
                first = "MqliteWriterBehind" not in drill.told
                complete_behind_a_lock(drill, before, CROWD if first else 10, is_over)

            drill.until_told(wanted, hold)
        q.purge_active("large", expected_count=q.stats("large").active)

        def is_empty() -> bool:
            q.receive(HELD, max_messages=limits.RECEIVE_MESSAGES_MAX, at_most_once=True)
            return q.stats(HELD).total == 0

        until(is_empty, lambda: "somebody holds a message for ever")
    if small:
        enlarge(drill.folder, process)
    drill.until_clear()


def _is_slow_and_told(drill: Drill, began: float) -> bool:
    """Whether those who wait have waited for long, and if they are many, the alert has come."""
    drill.firing()
    waited = time.monotonic() - began
    is_told = "MqliteWriterBehind" in drill.told
    return waited > SLOW_SECONDS and (is_told or waited > limits.BUSY_MS / 2000)


# -- descriptors, and a file that is not there -----------------------------------------------------


def its_descriptors_run_out_and_its_store_is_moved_away(drill: Drill, process: int) -> None:
    until(drill.last_start, lambda: "no scrape")  # which is a connection that stays
    with few_descriptors(process, 3):
        drill.until_told({"MqliteDescriptorsLow"})
    disk = disk_seen(drill.folder, process)
    (disk / "mq.db").rename(disk / "aside.db")
    drill.until_told(
        {
            "MqliteCallsFail", "MqliteCollectionStale", "MqliteMaintenanceFails",
            "MqliteStorageErrors", "MqliteStoreUnreadable",
        },
        lambda: drill.status("AdminService/CreateQueue", TOKEN, b'{"name": "orders"}'),
    )  # fmt: skip
    (disk / "aside.db").rename(disk / "mq.db")
    drill.until_clear()
