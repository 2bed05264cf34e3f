"""Read-only connections beside the writer's: lent one by one, stopped together, never left behind.

What they answer is shown by tests/engine/test_readers.py; this is about the connections.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import QueueNotFound, StorageDamaged, StorageFailed, Unavailable
from mqlite_actor.storage.connection import connect_outsider, connect_reader
from mqlite_actor.storage.database import Transaction
from mqlite_actor.storage.reading import Look, NoReader, Reader, Readers
from tests.storage.test_guard import told, use_elsewhere, use_second_library
from tests.storage.writer import Writer, killed_copy, writing

COUNT = ("SELECT count(*) FROM messages", ())
PATIENCE = 15


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "q.db"


@pytest.fixture
def writer(path: Path) -> Iterator[Writer]:
    with writing(path) as each:
        each.create("q")
        each.send("q", b"before")
        yield each


@pytest.fixture
def readers(path: Path, writer: Writer) -> Iterator[Readers]:
    assert writer.store.healthy
    found = Readers(lambda: Reader(connect_reader(str(path))))
    yield found
    found.shut()


def new_look() -> Look:
    return Look(ManualClock())


def count(tx: Transaction) -> int:
    number: int = tx.run([COUNT])[0][0][0]
    return number


# -- one reader ------------------------------------------------------------------------------------


@pytest.mark.parametrize("connect", [connect_reader, connect_outsider])
def test_a_reader_writes_nothing_whatever_it_is_told(
    path: Path, writer: Writer, connect: object
) -> None:
    assert callable(connect)
    connection: apsw.Connection = connect(str(path))
    try:
        for sql in ("DELETE FROM messages", "CREATE TABLE t (a)", "PRAGMA user_version = 7"):
            with pytest.raises(apsw.ReadOnlyError):
                connection.execute(sql)
        assert connection.pragma("query_only") == 1
        assert connection.pragma("cache_size") == -limits.READER_CACHE_KIB
        assert connection.pragma("temp_store") == 2
    finally:
        connection.close()
    assert writer.bodies("q") == [b"before"]


def test_a_look_sees_one_state_and_the_next_look_the_next(writer: Writer, readers: Readers) -> None:
    reader = readers.borrow()

    def twice(tx: Transaction) -> tuple[int, int]:
        first = count(tx)
        writer.send("q", b"meanwhile")
        return first, count(tx)

    assert reader.run(twice, new_look()) == (1, 1)
    assert reader.run(count, new_look()) == 2
    readers.give_back(reader, is_sound=True)


def test_no_transaction_is_left_open_however_a_look_ends(writer: Writer, readers: Readers) -> None:
    def refuse(tx: Transaction) -> None:
        count(tx)
        raise QueueNotFound("none")

    def fail(tx: Transaction) -> None:
        tx.run([("SELECT wrong", ())])

    def stop(tx: Transaction) -> None:
        look.is_given_up = True
        tx.run([COUNT])

    look = new_look()
    reader = readers.borrow()
    for step, error in ((refuse, QueueNotFound), (fail, apsw.SQLError), (stop, Unavailable)):
        with pytest.raises(error):
            reader.run(step, look)
        look = new_look()
        writer.send("q", b"more")
        assert writer.store.truncate_log(), "no snapshot is in the way"
    readers.give_back(reader, is_sound=True)


# -- all of them -----------------------------------------------------------------------------------


def test_at_most_so_many_are_lent_and_an_idle_one_is_used_again(readers: Readers) -> None:
    lent = [readers.borrow() for _ in range(limits.READERS_MAX)]
    assert (readers.open, readers.in_use) == (limits.READERS_MAX,) * 2
    with pytest.raises(NoReader):
        readers.borrow()
    for reader in lent:
        readers.give_back(reader, is_sound=True)
    assert (readers.open, readers.in_use) == (limits.READERS_MAX, 0)
    assert readers.borrow() in lent
    readers.give_back(lent[-1], is_sound=True)


def test_one_that_failed_is_closed_and_makes_room(readers: Readers) -> None:
    reader = readers.borrow()
    readers.give_back(reader, is_sound=False)
    assert readers.open == 0
    with pytest.raises(apsw.ConnectionClosedError):
        reader.run(count, new_look())


def test_shutting_them_stops_looks_waits_for_them_and_lends_none_until_admitted(
    readers: Readers,
) -> None:
    endless = "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n FROM c) SELECT max(n) FROM c"
    begun = threading.Event()
    told_to: list[type[BaseException]] = []

    def look_for_ever() -> None:
        def step(tx: Transaction) -> None:
            begun.set()
            tx.run([(endless, ())])

        reader = readers.borrow()
        try:
            reader.run(step, new_look())
        except Unavailable as error:
            told_to.append(type(error))
        finally:
            readers.give_back(reader, is_sound=True)

    thread = threading.Thread(target=look_for_ever)
    thread.start()
    assert begun.wait(PATIENCE)
    readers.shut()
    thread.join(PATIENCE)
    assert told_to == [Unavailable]
    assert readers.open == 0
    with pytest.raises(NoReader):
        readers.borrow()
    readers.admit()
    readers.give_back(readers.borrow(), is_sound=True)


def test_opening_that_fails_is_raised_and_counts_for_nothing(path: Path, writer: Writer) -> None:
    assert writer.store.healthy
    readers = Readers(lambda: Reader(connect_reader(str(path.with_name("none.db")))))
    for _ in range(limits.READERS_MAX + 1):
        with pytest.raises(apsw.CantOpenError):
            readers.borrow()
    assert readers.open == 0
    readers.shut()


# -- in the store ----------------------------------------------------------------------------------


def test_a_damaged_file_that_a_look_finds_is_opened_anew_by_the_writer(writer: Writer) -> None:
    def damaged(_: Transaction) -> None:
        raise apsw.CorruptError

    store = writer.store
    assert store.look(count, new_look()) == 1
    with pytest.raises(StorageDamaged):
        store.look(damaged, new_look())
    assert store._readers.open == 0
    with pytest.raises(NoReader):
        store.look(count, new_look())
    assert told(writer, b"after") is None
    assert store.look(count, new_look()) == 2


def test_opening_anew_leaves_no_connection_on_an_index_that_nobody_else_sees(
    path: Path, writer: Writer, tmp_path: Path
) -> None:
    """Connections of one process share the log's index: a checkpointer or reader that stayed open
    across the reopening would tie the writer to the deleted one (ruling R45)."""
    store = writer.store
    store.checkpoint_passive()
    assert store.look(count, new_look()) == 1
    use_second_library(path)
    assert use_elsewhere(path) == 1
    with pytest.raises(StorageFailed):
        store.look(count, new_look())
    number = 1
    for each in range(5):
        assert told(writer, b"after %d" % each) is None
        number += 1
        assert use_elsewhere(path) == number, "others see what was acknowledged"
        assert store.look(count, new_look()) == number
        store.checkpoint_passive()
    with writing(killed_copy(path, tmp_path / "killed")) as dead:
        assert len(dead.bodies("q")) == number
        dead.check()
