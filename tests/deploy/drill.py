"""What the drill with the monitoring starter is made of: brokers in trouble, and one Prometheus.

Used by test_alert_drill.py. Prometheus runs with the very files that are shipped; only the targets
and the pace are changed: a minute is 300 ms, so that an alert fires within seconds, and a scrape
has half a second, for a machine that is busy elsewhere. Each broker has its own trouble, its own
thread and its own alerts, so that all of them wait at the same time.
"""

from __future__ import annotations

import json
import re
import resource
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Final
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import mqlite_actor as mq
from mqlite_actor.contract import limits
from tests.deploy.prometheus_process import BOUND_SECONDS, Prometheus, until
from tests.deploy.test_monitoring import MONITOR, RULES
from tests.services.broker_process import BEARER, SERVE, TOKEN, BrokerProcess, started_by

MINUTE_MS: Final = 300
PACE_MS: Final = 500

LONG_LOG: Final = limits.WAL_BYTES_KEPT + 8 * limits.MIB
"""A log that is too long: longer than one that was long once may stay."""

OTHERS: Final = {
    'process_start_time_seconds{job="mqlite"}[30m]': (
        'process_start_time_seconds{job="mqlite"}[15s]'
    ),
    "oldest_message_age_seconds > 300": "oldest_message_age_seconds > 1.5",
    "last_success_timestamp_seconds > 120": "last_success_timestamp_seconds > 2",
    'rpc=~"QueueService/Complete(Batch)?"}[5m]': 'rpc=~"QueueService/Complete(Batch)?"}[3s]',
    "free_bytes[6h], 86400": "free_bytes[6s], 432",
    "for: 1h": "for: 3s",
    "wal_bytes > 536870912": f"wal_bytes > {LONG_LOG}",
}
"""Minutes and hours that a rule counts otherwise: not below the pace of scrapes, of starts and of
locks. A day is one at the pace of the drill, and so is what a log may gather."""

SMALL: Final = 512 * limits.MIB
LARGE: Final = 2048 * limits.MIB
"""A disk that MqliteDiskLow finds too small, and one that it does not."""

HELD: Final = "held"
"""The queue whose messages are completed slowly."""

CROWD: Final = 800
"""Who waits for the writer when MqliteWriterBehind fires: more than its bound and the group that
the writer may have taken out, and fewer than a broker lets in."""


class Drill:
    """A broker with a trouble, as Prometheus sees it, and what was told of it so far."""

    def __init__(self, prometheus: Prometheus, folder: Path, port: int) -> None:
        self.prometheus = prometheus
        self.folder = folder
        self.address = f"127.0.0.1:{port}"
        self.dsn = f"mqlite://{TOKEN}@{self.address}"
        self.told: set[str] = set()

    def firing(self) -> set[str]:
        now = self.prometheus.firing(self.address)
        self.told |= now
        return now

    def until_told(self, wanted: set[str], wrong: Callable[[], object] = lambda: None) -> None:
        """Keep something wrong until all of `wanted` has fired."""

        def was_told() -> bool:
            wrong()
            self.firing()
            return wanted <= self.told

        until(was_told, lambda: f"{wanted - self.told} do not fire")

    def until_clear(self) -> None:
        """Return once nothing fires any more."""
        until(lambda: not self.firing(), lambda: f"{self.firing()} still fire")

    def last_start(self) -> float:
        """When the broker started that was scraped last, by its own clock; 0 if none was."""
        seen = f'process_start_time_seconds{{instance="{self.address}"}}'
        found = self.prometheus.series(f"last_over_time({seen}[5m])")
        return float(found[0]["value"][1]) if found else 0.0

    def status(self, call: str, credential: str, body: bytes = b"{}") -> int:
        """How a call ends."""
        request = Request(f"http://{self.address}/mqlite.v1.{call}", body)
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

    def completing(self, queue: str, seq: int, token: str) -> socket.socket:
        """A worker that has sent its completion and waits for the answer."""
        host, _, port = self.address.partition(":")
        head = f"POST /mqlite.v1.QueueService/Complete HTTP/1.1\r\nHost: {self.address}\r\n{BEARER}"
        body = json.dumps({"queue": queue, "seq_number": seq, "lock_token": token})
        waiting = socket.create_connection((host, int(port)), timeout=30)
        waiting.sendall(f"{head}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        return waiting


# -- the files of the starter, quicker -------------------------------------------------------------


def quickened(config: Path, targets: Sequence[str]) -> None:
    """Other targets, and another pace: the rest of the files stays as it is shipped."""
    text = config.read_text("utf-8")
    shipped = '["127.0.0.1:6754"]'
    assert text.count(shipped) == 1
    text = text.replace(shipped, json.dumps([*targets])).replace(": 15s", f": {PACE_MS}ms")
    config.write_text(text, "utf-8")
    rules = config.parent / RULES.name
    text = rules.read_text("utf-8")
    for slow, quick in OTHERS.items():
        assert text.count(slow) == 1, slow
        text = text.replace(slow, quick)
    text = re.sub(
        r"(?<=for: )(\d+)m$|(?<=\[)(\d+)m(?=\])",
        lambda minutes: f"{int(minutes[1] or minutes[2]) * MINUTE_MS}ms",
        text,
        flags=re.MULTILINE,
    )
    rules.write_text(text, "utf-8")


# -- brokers and their disks -----------------------------------------------------------------------


def serving(
    folder: Path, *before: str, address: str = "127.0.0.1:0"
) -> AbstractContextManager[BrokerProcess]:
    """A broker with metrics and a monitor's token, its store in `disk`."""
    (folder / "disk").mkdir(parents=True, exist_ok=True)
    return started_by(
        (*before, *SERVE), folder, MQLITE_DB=f"file:{folder}/disk/mq.db", MQLITE_METRICS="on",
        MQLITE_MONITOR_TOKENS=MONITOR, MQLITE_ADDR=address,
    )  # fmt: skip


def on_a_small_disk(folder: Path) -> tuple[str, ...]:
    """What a command begins with whose `disk` is to be one by itself, and a small one."""
    mount = f'mount -t tmpfs -o size={SMALL} tmpfs "$0" && exec "$@"'
    alone = ("unshare", "--user", "--map-root-user", "--mount")
    return (*alone, "sh", "-c", mount, f"{folder}/disk")


def at_the_disk_of(process: int) -> tuple[str, ...]:
    """What a command begins with that is to see the small disk of a broker."""
    return ("nsenter", "--user", "--mount", "--preserve-credentials", "--target", str(process))


def enlarge(folder: Path, process: int) -> None:
    """Somebody gives the small disk more room while the broker runs."""
    more = ("mount", "-o", f"remount,size={LARGE}", f"{folder}/disk")
    subprocess.run([*at_the_disk_of(process), *more], check=True, timeout=BOUND_SECONDS)


def disk_seen(folder: Path, process: int) -> Path:
    """The disk of a broker, from here."""
    return Path(f"/proc/{process}/root{folder}/disk")


# -- what goes wrong -------------------------------------------------------------------------------

SOMEBODY: Final = """
import sqlite3, sys
with sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30) as other:
    for statement in sys.argv[2:]:
        other.execute(statement).fetchall()
    print("there", flush=True)
    sys.stdin.read()
"""
"""A program that does something to a file, says so, and stays until its input ends."""

READS: Final = ("BEGIN", "SELECT count(*) FROM sqlite_schema")
"""It looks into the file, so that what was written since stays in the log."""
LOCKS: Final = ("BEGIN IMMEDIATE",)
"""It is about to write, so that nobody else can."""


@contextmanager
def somebody_who(does: Sequence[str], folder: Path, before: Sequence[str]) -> Iterator[None]:
    """Another program at the file of a broker, for the length of the block."""
    with subprocess.Popen(
        [*before, sys.executable, "-c", SOMEBODY, f"{folder}/disk/mq.db", *does],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as other:  # fmt: skip
        assert other.stdout is not None
        assert other.stdout.readline() == "there\n"
        yield  # what follows this closes its input and waits for its end
    assert other.returncode == 0


@contextmanager
def few_descriptors(process: int, more: int) -> Iterator[None]:
    """The limit of a process comes down to what it uses and `more`."""
    before = resource.prlimit(process, resource.RLIMIT_NOFILE)
    used = sum(1 for _ in Path(f"/proc/{process}/fd").iterdir())
    resource.prlimit(process, resource.RLIMIT_NOFILE, (used + more, before[1]))
    yield
    resource.prlimit(process, resource.RLIMIT_NOFILE, before)


def complete_behind_a_lock(
    drill: Drill, before: Sequence[str], count: int, is_over: Callable[[], bool]
) -> None:
    """Workers complete what they hold while somebody else has the lock of the file."""
    with mq.connect_sync(drill.dsn) as q, ExitStack() as open_till_answered:
        q.send(HELD, [b"x"] * count)
        held: list[mq.SyncReceivedMessage] = []
        while len(held) < count:
            held += q.receive(HELD, max_messages=limits.RECEIVE_MESSAGES_MAX)
        with somebody_who(LOCKS, drill.folder, before):
            waiting = [
                open_till_answered.enter_context(
                    drill.completing(HELD, each.seq_number, each.lock_token)
                )
                for each in held
            ]
            until(is_over, lambda: "the lock is held for too long")
        for each in waiting:  # 503 says that the lock was held for too long: a busy machine
            assert each.recv(12) in {b"HTTP/1.1 200", b"HTTP/1.1 503"}
