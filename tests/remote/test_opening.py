"""Whose database it is, what kind of server, and what is refused without being touched."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import (
    DatabaseLocked,
    OpenError,
    SchemaVersionMismatch,
    StorageFailed,
    Unsupported,
)
from mqlite_actor.contract.ext import BackupRequest
from mqlite_actor.engine.engine import EngineOptions
from mqlite_actor.engine.opening import open_engine
from mqlite_actor.storage.hrana_opening import masked, open_remote
from tests.conformance.broker import Broker
from tests.hrana.faults import Refuse
from tests.hrana.manners import SQLD, TURSODB
from tests.hrana.server import HranaServer, running_hrana
from tests.remote.afar import Afar, afar


@pytest.fixture
def server(tmp_path: Path) -> Iterator[HranaServer]:
    with running_hrana(tmp_path) as server:
        yield server


def test_what_was_stored_is_there_after_reopening(server: HranaServer) -> None:
    first = open_remote(server.url)
    place = Afar(server, first)
    place.writer.create("q")
    place.writer.send("q", b"a")
    first.close()
    again = open_remote(server.url)
    assert Afar(server, again).writer.bodies("q") == [b"a"]
    again.close()


@pytest.mark.parametrize("manners", [SQLD, TURSODB], ids=["sqld", "tursodb"])
def test_a_live_owner_is_not_disturbed(tmp_path: Path, manners: object) -> None:
    refused: list[BaseException] = []

    def open_another(url: str) -> None:
        try:
            open_remote(url).close()
        except DatabaseLocked as error:
            refused.append(error)

    with afar(tmp_path, manners=manners) as place:
        thread = threading.Thread(target=open_another, args=(place.server.url,))
        thread.start()
        while thread.is_alive():
            place.writer.send("q", b"a")
        thread.join()
        assert len(refused) == 1
        assert "another engine" in str(refused[0])


def test_a_dead_owner_is_waited_for_and_can_do_nothing_any_more(
    server: HranaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "OWNER_LEASE_MS", 300)
    first = Afar(server, open_remote(server.url))
    first.writer.create("q")
    second = Afar(server, open_remote(server.url))
    assert second.writer.send("q", b"b") == [1]
    monkeypatch.setattr(limits, "OWNER_LEASE_MS", 60_000)
    second.store.stay()
    for _ in range(2):
        (outcome,) = first.writer.group(first.sending(b"a"))
        with pytest.raises(StorageFailed, match="another engine"):
            outcome.unwrap()
    assert second.stored() == ["b"]
    second.store.close()
    assert first.writer.send("q", b"c") == [2], "nobody owns it any more, so it may come back"
    first.store.close()


FOREIGN = {
    "a table of ours of other make": ("CREATE TABLE queues (id INTEGER)",),
    "another format": (
        "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT",
        "INSERT INTO meta VALUES ('schema_version', '5')",
    ),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_foreign_tables_are_refused_untouched(server: HranaServer, kind: str) -> None:
    for sql in FOREIGN[kind]:
        server.look(sql)
    before = server.look("SELECT sql FROM sqlite_schema ORDER BY name")
    with pytest.raises(SchemaVersionMismatch):
        open_remote(server.url)
    assert server.look("SELECT sql FROM sqlite_schema ORDER BY name") == before


def test_tables_of_an_application_stay(server: HranaServer) -> None:
    server.look("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    server.look("INSERT INTO orders VALUES (7)")
    store = open_remote(server.url)
    assert server.look("SELECT id FROM orders") == [(7,)]
    store.close()


def test_a_trigger_on_our_tables_is_refused(server: HranaServer) -> None:
    open_remote(server.url).close()
    server.look("CREATE TRIGGER t AFTER INSERT ON messages BEGIN DELETE FROM meta; END")
    with pytest.raises(SchemaVersionMismatch, match="trigger"):
        open_remote(server.url)


def test_no_setting_of_a_connection_is_made(server: HranaServer) -> None:
    open_remote(server.url).close()
    said = [text for request in server.requests for text in request.statements]
    assert said
    assert not [text for text in said if text.lstrip().upper().startswith(("PRAGMA", "VACUUM"))]


def test_without_create_an_empty_database_is_left_alone(server: HranaServer) -> None:
    with pytest.raises(OpenError, match="no queue"):
        open_remote(server.url, create=False)
    assert server.look("SELECT name FROM sqlite_schema") == []


def test_a_broker_is_no_database(broker: Broker) -> None:
    with pytest.raises(OpenError, match="did you mean MQLITE_ENDPOINT"):
        open_remote(broker.url)


def test_a_wrong_token_is_refused_and_not_shown(tmp_path: Path) -> None:
    with running_hrana(tmp_path, token="right") as server:
        with pytest.raises(OpenError, match="MQLITE_DB_AUTH_TOKEN") as caught:
            open_remote(server.url, auth_token="wrong-token")
        assert "wrong-token" not in f"{caught.value!r} {caught.value.__cause__!r}"
        open_remote(server.url, auth_token="right").close()


def test_a_server_that_is_throttled_is_waited_for(server: HranaServer) -> None:
    server.faults.add(Refuse.throttled("0"), times=2)
    open_remote(server.url).close()


def test_nobody_there_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqlite_actor.storage.patience.Patience.rest", lambda *_: False)
    with running_hrana(tmp_path) as server:
        url = server.url
    with pytest.raises(OpenError, match="cannot be reached"):
        open_remote(url)


def test_clocks_that_differ_are_told(server: HranaServer, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        open_remote(server.url, clock=ManualClock()).close()
    assert "clocks" in caplog.text


def test_without_the_http_client_the_mend_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpcore", None)
    with pytest.raises(Unsupported, match=r"install mqlite-actor\[client\]"):
        open_remote("http://127.0.0.1:1")


@pytest.mark.promise("T56")
@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://queue-acme.turso.io", "libsql://***.turso.io"),
        ("https://queue.eu.example.org:8080/db?x=secret", "libsql://***.eu.example.org"),
        ("http://10.1.2.3:8080", "libsql://***"),
        ("http://localhost:8080", "libsql://***"),
    ],
)
def test_the_location_is_masked(address: str, shown: str) -> None:
    assert masked(address) == shown


async def test_upkeep_is_refused_with_its_reason(server: HranaServer) -> None:
    async with open_engine(server.url, EngineOptions(background=False)) as engine:
        status = await engine.call(wire.StatusRequest())
        assert (status.backend, status.remote, status.db_size_bytes) == (
            "remote libSQL/Turso",
            True,
            0,
        )
        assert "127.0.0.1" not in status.location
        with pytest.raises(Unsupported, match="provider"):
            await engine.compact()
        with pytest.raises(Unsupported, match="provider"):
            await engine.call(BackupRequest(path="copy.db"))
