"""What the machine below does: network file systems are refused, freed memory is kept."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mqlite_actor.contract.errors import OpenError
from mqlite_actor.storage import allocator, files
from mqlite_actor.storage.sqlite import open_store
from tests.storage.writer import snapshot

MOUNTS = """\
/dev/vda / ext4 rw,relatime 0 0
proc /proc proc rw 0 0
server:/export /data nfs4 rw,vers=4.2 0 0
/dev/vdb /data/local ext4 rw 0 0
//nas/share /mnt/the\\040share cifs rw 0 0
share /mnt/vm 9p rw 0 0
old:/x /covered nfs rw 0 0
/dev/vdc /covered ext4 rw 0 0
/dev/vdd /hidden ext4 rw 0 0
new:/x /hidden nfs rw 0 0
broken line
"""

KINDS = {
    "/": None,
    "/home/me": None,
    "/data": "NFS",
    "/data/deep/er": "NFS",
    "/data/local": None,
    "/data/local/x": None,
    "/data2": None,
    "/mnt/the share": "SMB",
    "/mnt/the share/x": "SMB",
    "/mnt/vm": "9p",
    "/covered/x": None,
    "/hidden/x": "NFS",
}


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Callable[[str | None], None]:
    """Lets the machine have these mounts, or (None) keep them to itself."""
    if not sys.platform.startswith("linux"):
        pytest.skip("mounts are read on Linux only")
    read_text = Path.read_text

    def have(mounts: str | None) -> None:
        def read(path: Path, encoding: str | None = None, errors: str | None = None) -> str:
            if str(path) != "/proc/self/mounts":
                return read_text(path, encoding, errors)
            if mounts is None:
                raise PermissionError
            return mounts

        monkeypatch.setattr(Path, "read_text", read)

    return have


@pytest.mark.parametrize("folder", KINDS)
def test_the_file_system_is_that_of_the_nearest_mount(
    pretend: Callable[[str], None], folder: str
) -> None:
    pretend(MOUNTS)
    assert files._network_file_system(folder) == KINDS[folder]


@pytest.mark.parametrize("kind", sorted(files.NETWORK_FILE_SYSTEMS))
def test_a_store_on_a_network_file_system_is_refused_untouched(
    tmp_path: Path, pretend: Callable[[str], None], kind: str
) -> None:
    pretend(f"somewhere {tmp_path} {kind} rw 0 0\n")
    with pytest.raises(OpenError, match="local disk"):
        open_store(str(tmp_path / "q.db"))
    assert snapshot(tmp_path) == {}


def test_a_machine_that_does_not_tell_its_mounts_is_trusted(
    tmp_path: Path, pretend: Callable[[str | None], None]
) -> None:
    pretend(None)
    open_store(str(tmp_path / "q.db")).close()


def test_freed_memory_is_kept_where_the_c_library_can() -> None:
    is_glibc = platform.libc_ver()[0] == "glibc"
    assert allocator.keep_freed_memory() is is_glibc
    assert allocator.keep_freed_memory() is is_glibc
