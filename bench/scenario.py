"""What a scenario is, and what is known of a run of it.

Used by every table of scenarios; run by `child.py`, each run in a process of its own, so that
processor time, memory and bytes written are the scenario's and nobody else's.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from typing import Final, Self

import msgspec

TICKS: Final = os.sysconf("SC_CLK_TCK")


class Sample(msgspec.Struct, frozen=True, omit_defaults=True):
    """One run. Latencies are those of one call in milliseconds; bytes are of the whole run."""

    rate: float
    """Operations per second."""
    operations: int
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    max_ms: float = 0.0
    cpu_seconds: float = 0.0
    """Of the process that holds the queue."""
    rss_mib: float = 0.0
    """Its highest resident size."""
    written_bytes: int = 0
    """What it handed to the disk."""
    disk_bytes: int = 0
    """Of the database and its log afterwards."""


Run = Callable[[Path, float], Sample]
"""(empty folder, scale of the work) to what was seen."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A row of a table. `needs` is a program or module without which it is left out."""

    name: str
    about: str
    run: Run
    needs: str = ""


class Usage(msgspec.Struct, frozen=True):
    """What a process has used since it began."""

    cpu_seconds: float
    written_bytes: int
    rss_mib: float


def usage(process: int) -> Usage:
    """Read from /proc; a process of our own only."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    written = 0
    for line in Path(f"/proc/{process}/io").read_text().splitlines():
        if line.startswith("write_bytes:"):
            written = int(line.split()[1])
    rss_kib = 0
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            rss_kib = int(line.split()[1])
    cpu = (int(fields[11]) + int(fields[12])) / TICKS
    return Usage(cpu_seconds=cpu, written_bytes=written, rss_mib=rss_kib / 1024)


class Watch:
    """Stands around the measured part: `with Watch(pid) as watch: …; watch.sample(…)`."""

    def __init__(self, process: int = 0) -> None:
        self._process = process or os.getpid()
        self.latencies: list[float] = []
        """Seconds of each call, filled by the scenario."""

    def __enter__(self) -> Self:
        self._before = usage(self._process)
        self._started = time.perf_counter()
        self._seconds = 0.0
        return self

    def __exit__(self, *_: object) -> None:
        self._seconds = time.perf_counter() - self._started
        self._after = usage(self._process)

    def sample(self, operations: int, folder: Path | None = None) -> Sample:
        """What was seen while the block ran."""
        p50, p99, longest = percentiles(self.latencies)
        return Sample(
            rate=operations / self._seconds,
            operations=operations,
            p50_ms=p50 * 1000,
            p99_ms=p99 * 1000,
            max_ms=longest * 1000,
            cpu_seconds=self._after.cpu_seconds - self._before.cpu_seconds,
            rss_mib=self._after.rss_mib,
            written_bytes=self._after.written_bytes - self._before.written_bytes,
            disk_bytes=disk_bytes(folder) if folder else 0,
        )


def percentiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Median, 99th percentile and largest; zeros of nothing."""
    if not values:
        return 0.0, 0.0, 0.0
    if len(values) == 1:
        return values[0], values[0], values[0]
    cuts = quantiles(values, n=100)
    return cuts[49], cuts[98], max(values)


def disk_bytes(folder: Path) -> int:
    """What the files of a folder take, its log's index left out: it is memory."""
    return sum(
        path.stat().st_blocks * 512
        for path in folder.iterdir()
        if path.is_file() and not path.name.endswith("-shm")
    )
