"""What a store permits its file to take of a disk, and what it knows when it cannot ask."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mqlite_actor.contract import limits
from mqlite_actor.storage.room import PAGES_MAX, SLACK_BYTES, Boundless
from mqlite_actor.storage.sqlite import SqliteStore, open_store
from tests.storage.quota_vfs import SmallDisk, small_disk

SIZE = limits.RESERVE_BYTES + 4 * limits.MIB
AMPLE = 100 * limits.MIB


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path, SIZE) as each:
        yield each


@pytest.fixture
def store(disk: SmallDisk, tmp_path: Path) -> Iterator[SqliteStore]:
    each = open_store(str(tmp_path / "mq.db"))
    each.truncate_log()
    each.room.look()
    yield each
    disk.grow(AMPLE)
    each.close()


def pages_max(store: SqliteStore) -> int:
    number: int = store.connection.pragma("max_page_count")
    return number


def growth(store: SqliteStore) -> int:
    """Bytes by which the file may grow now."""
    return (pages_max(store) - int(store.connection.pragma("page_count"))) * 4096


def test_a_page_counts_twice_and_the_kept_part_not_at_all(
    store: SqliteStore, disk: SmallDisk
) -> None:
    free = disk.size - disk.used()
    for kept in (1.0, 0.75, 0.5, 0.25):
        store.room.permit(kept)
        expected = (free - int(kept * limits.RESERVE_BYTES)) // 2
        assert expected - 4096 <= growth(store) <= expected


def test_without_room_beside_the_reserve_the_file_may_not_grow(
    store: SqliteStore, disk: SmallDisk
) -> None:
    disk.grow(-4 * limits.MIB)
    store.room.look()
    assert growth(store) == 0
    store.room.permit(0.5)
    assert growth(store) > limits.MIB


def test_where_there_is_plenty_no_part_is_permitted_to_anybody(
    store: SqliteStore, disk: SmallDisk
) -> None:
    assert store.room.is_near
    assert store.ledger.is_tight
    disk.grow(AMPLE)
    store.room.look()
    before = pages_max(store)
    store.room.permit(0.25)
    assert pages_max(store) == before <= PAGES_MAX
    assert (store.room.is_near, store.ledger.is_tight) == (False, False)
    assert store.room.has_room(lambda: 1 << 40), "only little is watched"


def test_what_was_refused_is_taken_when_some_more_is_free(
    store: SqliteStore, disk: SmallDisk
) -> None:
    room = store.room
    fits = 2 * limits.MIB - 256 * 1024
    assert room.has_room(lambda: fits)
    assert not room.has_room(lambda: 3 * limits.MIB)
    assert room.is_short
    assert not room.has_room(lambda: fits), "it would be refused and taken in turn"
    disk.grow(SLACK_BYTES)
    room.look()
    assert room.has_room(lambda: fits)
    assert not room.is_short


def test_where_nothing_can_be_known_all_stays_as_it_was(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = pages_max(store)

    def gone(_path: object) -> object:
        raise OSError("the folder is gone")

    with monkeypatch.context() as patch:
        patch.setattr("shutil.disk_usage", gone)
        store.room.look()
    assert pages_max(store) == before
    store.connection.close(True)
    store.room.look()
    assert store.room.is_near
    store.reopen()
    assert store.room.asks_disk, "the new connection was told nothing yet"
    store.room.look()
    assert abs(pages_max(store) - before) <= 1, "its log has a page more"


def test_a_store_without_a_disk_has_room_for_everything() -> None:
    room = Boundless()
    room.look()
    room.permit(1.0)
    room.cut()
    room.forget()
    assert room.has_room(lambda: 1 << 60)
    assert not any((room.is_near, room.is_short, room.asks_disk, room.wants_cut))
