"""What a broker takes of its machine, read from /proc and the folder of its store."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from mqlite_actor.contract import limits

MB = 1 << 20

LOG_BYTES_MAX = 2 * limits.LOG_PAGES_MAX * 4096
"""The writer begins the log anew at LOG_PAGES_MAX; a transaction under way may add to it."""


GROWS_MAX = 4 * MB
"""What the writer's own memory may grow by, and a twentieth: from one third of a run to the next,
at its lowest. A flood that was larger than all before leaves more of the heap in pieces."""


FILLED = 12
"""Looks in a third of a run, a minute, after which SQLite's page caches are full."""


@dataclass(frozen=True)
class Vitals:
    """One look. Sums over the broker's processes, of which there were so many."""

    processes: int
    resident: int
    own: int
    """Of the writer alone, without pages of files: it is the one that lives as long as the run."""
    descriptors: int
    """Without sockets."""
    sockets: int
    log_bytes: int
    file_bytes: int
    messages: int

    @staticmethod
    def of(pids: list[int], store: Path, messages: int) -> Vitals:
        """What is so now; the writer is the first. One that ended in between counts nothing."""
        processes = resident = descriptors = sockets = 0
        for pid in pids:
            try:
                pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
                kinds = _kinds(pid)
            except (FileNotFoundError, ProcessLookupError):
                continue
            processes += pages > 0  # one that has ended, and was not waited for, has none
            resident += pages * 4096
            sockets += kinds["socket"]
            descriptors += kinds.total() - kinds["socket"]
        log = store.with_name(f"{store.name}-wal")
        log_bytes = log.stat().st_size if log.exists() else 0
        file_bytes = store.stat().st_size
        return Vitals(
            processes,
            resident,
            _own(pids[0]),
            descriptors,
            sockets,
            log_bytes,
            file_bytes,
            messages,
        )

    def __str__(self) -> str:
        return (
            f"{self.processes} processes, resident {self.resident / MB:.0f} MB,"
            f" {self.own / MB:.1f} MB the writer's own,"
            f" {self.descriptors} descriptors,"
            f" {self.sockets} sockets,"
            f" log {self.log_bytes / MB:.1f} MB, file {self.file_bytes / MB:.1f} MB,"
            f" {self.messages} messages"
        )


def _own(pid: int) -> int:
    """Bytes of memory that belong to no file."""
    lines = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    (kib,) = (line.split()[1] for line in lines if line.startswith("RssAnon:"))
    return int(kib) * 1024


def _kinds(pid: int) -> Counter[str]:
    """How many descriptors of each kind a process has."""
    kinds: Counter[str] = Counter()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed in between
            kinds[str(each.readlink()).partition(":")[0]] += 1
    return kinds


def growth(seen: list[Vitals], sockets_max: int) -> list[str]:
    """What is not flat: the last third of a run against its second third. Sockets come and go with
    clients and killed workers, and are never more than `sockets_max`.

    The first third fills caches and the file. What is resident goes up and down with floods and
    killed workers, so there a tenth and some megabytes is noise. The writer's own memory at its
    lowest is what floods leave behind, and hardly moves.
    """
    most = max((each.processes for each in seen), default=0)
    whole = [each for each in seen if each.processes == most]  # a killed worker takes nothing
    third = len(whole) // 3
    middle, end = whole[third : 2 * third], whole[2 * third :]
    found = [
        f"the log had {each.log_bytes} bytes" for each in seen if each.log_bytes > LOG_BYTES_MAX
    ]
    found += [f"{each.sockets} sockets" for each in seen if each.sockets > sockets_max]
    if third < 3:
        return found
    for what, slack in (("resident", 24 * MB), ("descriptors", 10), ("file_bytes", 8 * MB)):
        was = median(getattr(each, what) for each in middle)
        now = median(getattr(each, what) for each in end)
        if now > 1.1 * was + slack:
            found.append(f"{what} grew from {was:.0f} to {now:.0f}")
    was, now = (min(each.own for each in part) for part in (middle, end))
    if third >= FILLED and now > 1.05 * was + GROWS_MAX:
        found.append(f"the writer's own memory grew from {was} to {now}")
    return found
