"""A system of its own, booted by the machine's systemd, with our unit and nothing else in it.

Used by test_systemd.py. The root of the machine is seen through an overlay, so nothing of it
changes; processes, network, mounts and control groups are separate, and all of it ends with the
process that was started. `/opt/mqlite` is made there as the head of the unit says, from the wheel;
what the wheel needs is lent from the environment of this test.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tests.deploy.image import interpreter
from tests.deploy.prometheus_process import until
from tests.house.tree import ROOT

UNIT: Final = ROOT / "deploy/systemd/mqlite.service"
SYSTEMD: Final = Path("/lib/systemd/systemd")
BOUND_SECONDS: Final = 90.0

ALONE: Final = (
    "unshare", "--mount", "--pid", "--fork", "--kill-child", "--net", "--cgroup", "--uts", "--ipc",
)  # fmt: skip

OVERLAY: Final = """
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs "$1"
mkdir "$1/up" "$1/work" "$1/root"
mount -t overlay -o lowerdir=/,upperdir="$1/up",workdir="$1/work" overlay "$1/root"
cd "$1/root"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t tmpfs tmpfs sys/fs/cgroup
mount -t cgroup2 cgroup2 sys/fs/cgroup
ip link set lo up
"""
"""The view of the files; it fails where the machine does not allow one."""

BOOT: Final = (
    OVERLAY
    + """
mount -t tmpfs tmpfs dev
mkdir dev/pts dev/shm
for name in null zero full random urandom tty; do
    touch "dev/$name"
    mount --bind "/dev/$name" "dev/$name"
done
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
mount -t tmpfs tmpfs etc/systemd/system    # whatever the machine starts does not start here
cp "$4" etc/systemd/system/mqlite.service
install -d -m 0700 etc/mqlite
(umask 077; echo service-token > etc/mqlite/tokens)
chroot . "$5" -m venv --without-pip /opt/mqlite
mkdir opt/lent
mount --bind "$2" opt/lent
site=$(echo opt/mqlite/lib/python*/site-packages)
"$5" -m zipfile -e "$3" "$site"
chroot . "$5" -m compileall -q "/$site"    # as pip does; the service may not write there
echo /opt/lent > "$site/lent.pth"
printf '%s\\n' '#!/opt/mqlite/bin/python' 'import sys' 'from mqlite_cli.main import main' \\
    'sys.exit(main())' > opt/mqlite/bin/mqlite
chmod 755 opt/mqlite/bin/mqlite
pivot_root . mnt
umount -l mnt
mount --make-rshared /
exec env -i container=other /lib/systemd/systemd --system --unit=mqlite.service \\
    --log-target=journal --log-level=info --show-status=0
"""
)
"""Arguments: a folder to work in, what is lent, the wheel, the unit, Python."""


def _groups() -> Path | None:
    """Where control groups of the second kind are, if they are anywhere."""
    for line in Path("/proc/self/mounts").read_text("utf-8").splitlines():
        _, place, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(place)
    return None


@contextmanager
def _group() -> Iterator[Path | None]:
    """A control group of our own, or None where the machine gives none."""
    above = _groups()
    group = above / f"mqlite-test-{os.getpid()}" if above else None
    try:
        if group:
            group.mkdir()
    except OSError:
        group = None
    try:
        yield group
    finally:
        if group:
            folders = sorted(group.rglob("*/"), key=lambda each: len(each.parts), reverse=True)
            for folder in (*folders, group):
                with suppress(OSError):  # one that is not empty yet stays, and holds nothing
                    folder.rmdir()


def _started(group: Path, script: str, *words: str, output: Path) -> subprocess.Popen[bytes]:
    """A script in namespaces of its own, in `group` from the start."""
    enter = f'echo $$ > "{group}/cgroup.procs" && exec "$@"'
    with output.open("wb") as said:
        return subprocess.Popen(
            ["sh", "-c", enter, "sh", *ALONE, "sh", "-c", script, "sh", *words],
            stdin=subprocess.DEVNULL, stdout=said, stderr=said,
        )  # fmt: skip


def lacking() -> list[str]:
    """The programs that this needs and that are not there."""
    names = [name for name in ("ip", "nsenter", "systemctl", "unshare") if not shutil.which(name)]
    return names if SYSTEMD.exists() else [*names, "systemd"]


def is_allowed(folder: Path) -> bool:
    """Whether this machine lets us have a system of our own."""
    if os.geteuid() != 0:
        return False
    with _group() as group:
        if group is None:
            return False
        tried = _started(group, OVERLAY, str(folder), output=folder / "tried.log")
        return tried.wait(BOUND_SECONDS) == 0


class System:
    """One that has booted, or is about to."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log

    def said(self) -> str:
        """What went wrong before it had a journal, or what stands there."""
        told = self.tried("journalctl", "--no-pager", "--lines=40").stdout
        return self._log.read_text("utf-8", "replace") + told

    def first(self) -> int:
        """Its process 1, by the number that it has here."""
        number = self._process.pid
        children = Path(f"/proc/{number}/task/{number}/children")
        until(lambda: children.read_text().split(), lambda: self._log.read_text("utf-8"))
        return int(children.read_text().split()[0])

    def tried(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command in it, as root."""
        return subprocess.run(
            ["nsenter", "-t", str(self.first()), "-a", "-r", "-w", *words],
            capture_output=True, text=True, timeout=BOUND_SECONDS, check=False,
        )  # fmt: skip

    def run(self, *words: str) -> str:
        """The same; it must succeed."""
        done = self.tried(*words)
        assert done.returncode == 0, f"{done.stdout}{done.stderr}\n{self.said()}"
        return done.stdout

    def mqlite(self, *words: str) -> str:
        """Our command, to the broker of the unit."""
        words = (*words, "--endpoint", "http://127.0.0.1:6754")
        return self.run("/opt/mqlite/bin/mqlite", *words, "--token-file", "/etc/mqlite/tokens")

    def dropped_in(self, text: str) -> None:
        """Other words in the service's section of the unit, in the place of earlier ones."""
        place = "/run/systemd/system/mqlite.service.d"
        write = f"mkdir -p {place} && printf '[Service]\\n%s\\n' \"$0\" > {place}/other.conf"
        self.run("sh", "-c", write, text)
        self.run("systemctl", "daemon-reload")

    def shown(self, name: str) -> str:
        """A property of the unit."""
        return self.run("systemctl", "show", "--value", f"--property={name}", "mqlite").strip()


@contextmanager
def booted(folder: Path, wheel: Path) -> Iterator[System]:
    """The system, ended with everything in it at the end of the block."""
    lent, log = sysconfig.get_path("purelib"), folder / "boot.log"
    place = folder / "system"
    place.mkdir()
    with _group() as group:
        assert group is not None
        process = _started(
            group, BOOT, str(place), lent, str(wheel), str(UNIT), interpreter(), output=log
        )
        system = System(process, log)
        try:
            yield system
        finally:
            process.kill()
            process.wait(BOUND_SECONDS)
            events = group / "cgroup.events"
            until(lambda: "populated 0" in events.read_text(), lambda: "it goes on")
