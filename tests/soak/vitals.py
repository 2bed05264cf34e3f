"""What a broker takes of its machine, read from /proc and the folder of its store."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import median

from mqlite_actor.contract import limits

MB = 1 << 20

LOG_BYTES_MAX = 2 * limits.LOG_PAGES_MAX * 4096
"""The writer begins the log anew at LOG_PAGES_MAX; a transaction under way may add to it."""


@dataclass(frozen=True)
class Vitals:
    """One look. Sums over the broker's processes."""

    resident: int
    descriptors: int
    log_bytes: int
    file_bytes: int
    messages: int

    @staticmethod
    def of(pids: list[int], store: Path, messages: int) -> Vitals:
        """What is so now; a process that ended in between counts nothing."""
        resident = descriptors = 0
        for pid in pids:
            try:
                pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
                descriptors += len(list(Path(f"/proc/{pid}/fd").iterdir()))
            except (FileNotFoundError, ProcessLookupError):
                continue
            resident += pages * 4096
        log = store.with_name(f"{store.name}-wal")
        log_bytes = log.stat().st_size if log.exists() else 0
        return Vitals(resident, descriptors, log_bytes, store.stat().st_size, messages)

    def __str__(self) -> str:
        return (
            f"resident {self.resident / MB:.0f} MB, {self.descriptors} descriptors,"
            f" log {self.log_bytes / MB:.1f} MB, file {self.file_bytes / MB:.1f} MB,"
            f" {self.messages} messages"
        )


def growth(seen: list[Vitals]) -> list[str]:
    """What is not flat: the last third of a run against its second third.

    The first third fills caches and the file. A tenth and some megabytes is noise; a leak that
    matters in a week is more than that in the ten minutes between two thirds' middles.
    """
    third = len(seen) // 3
    middle, end = seen[third : 2 * third], seen[2 * third :]
    found = [
        f"the log had {each.log_bytes} bytes" for each in seen if each.log_bytes > LOG_BYTES_MAX
    ]
    if third < 3:
        return found
    for what, slack in (("resident", 24 * MB), ("descriptors", 40), ("file_bytes", 8 * MB)):
        was = median(getattr(each, what) for each in middle)
        now = median(getattr(each, what) for each in end)
        if now > 1.1 * was + slack:
            found.append(f"{what} grew from {was:.0f} to {now:.0f}")
    return found
