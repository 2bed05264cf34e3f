"""What the test's script says happens, to the request that it names and to no other."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from tests.hrana.faults import (
    BusyOnBegin,
    Delay,
    Drop,
    Fault,
    Hold,
    Move,
    Refuse,
    Request,
    TimeOut,
    Truncate,
)
from tests.hrana.recording import Spoken, transaction
from tests.hrana.server import HranaServer, running_hrana
from tests.hrana.talking import CLOSE, Talk, execute, outcomes, talking
from tests.hrana.values import Json

TOKEN = "a token"
HANGS_UP = (http.client.RemoteDisconnected, ConnectionError)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[HranaServer]:
    """As sqld, with a token."""
    with running_hrana(tmp_path, token=TOKEN) as server:
        yield server


@pytest.fixture
def talk(server: HranaServer) -> Iterator[Talk]:
    """A client of it, beside a table t; nothing recorded yet."""
    with talking(server.url, TOKEN) as talk:
        talk.run("CREATE TABLE t (id INTEGER PRIMARY KEY)")
        server.forget()
        yield talk


def insert(number: int) -> Json:
    """A request for one row, in a transaction of its own."""
    return transaction([Spoken("INSERT INTO t VALUES (?)", (number,), [])])


def ids(server: HranaServer) -> list[int]:
    return [number for (number,) in server.look("SELECT id FROM t")]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_connection_drops_before_or_after_the_commit(
    server: HranaServer, talk: Talk, when: str
) -> None:
    after = when == "after"
    server.faults.add(Drop(after=after), nth=2)
    talk.ask(insert(1), CLOSE)
    with pytest.raises(HANGS_UP):
        talk.ask(insert(2), CLOSE)
    assert ids(server) == ([1, 2] if after else [1])
    talk.ask(insert(3), CLOSE)
    assert [request.status for request in server.requests] == [200, 0, 200]
    assert [request.was_run for request in server.requests] == [True, after, True]
    assert server.faults.is_over


def test_an_answer_ends_in_the_middle(server: HranaServer, talk: Talk) -> None:
    server.faults.add(Truncate())
    with pytest.raises(http.client.IncompleteRead):
        talk.ask(insert(1), CLOSE)
    assert ids(server) == [1]


@pytest.mark.parametrize(
    ("fault", "status", "kind", "wait"),
    [
        (Refuse.unauthorized(), 401, "application/json", None),
        (Refuse.throttled("3"), 429, "application/json", "3"),
        (Refuse.overloaded("2"), 503, "text/html; charset=utf-8", "2"),
        (Refuse.with_status(502), 502, "text/plain", None),
    ],
    ids=["401", "429", "503", "502"],
)
def test_a_request_is_refused_without_running(
    server: HranaServer, talk: Talk, fault: Fault, status: int, kind: str, wait: str | None
) -> None:
    server.faults.add(fault, times=2)
    for _ in range(2):
        assert talk.refused(insert(1))[0] == status
        assert talk.headers["content-type"] == kind
        assert talk.headers.get("retry-after") == wait
    assert ids(server) == []
    talk.ask(insert(1), CLOSE)
    assert [request.connection for request in server.requests] == [1, 1, 1]


def test_a_proxy_refuses_what_ran(server: HranaServer, talk: Talk) -> None:
    server.faults.add(Refuse.overloaded(after=True))
    status, text = talk.refused(insert(1), CLOSE)
    assert (status, text.startswith("<html>")) == (503, True)
    assert ids(server) == [1]


def test_begin_finds_the_lock_taken(server: HranaServer, talk: Talk) -> None:
    server.faults.add(BusyOnBegin())
    (result, _) = talk.ask(insert(1), CLOSE)
    assert outcomes(result) == ["SQLITE_BUSY", "skipped", "skipped", "skipped"]
    assert ids(server) == []


def test_a_transaction_times_out_in_the_middle(server: HranaServer, talk: Talk) -> None:
    server.faults.add(TimeOut(before_step=2))
    (result, _) = talk.ask(insert(1), CLOSE)
    assert outcomes(result) == ["ok", "ok", "TRANSACTION_TIMEOUT", "TRANSACTION_TIMEOUT"]
    assert ids(server) == []


def test_a_stream_moves_to_another_address(server: HranaServer, talk: Talk) -> None:
    server.faults.add(Move())
    moved = talk.pipeline(execute("BEGIN"), execute("INSERT INTO t VALUES (1)"))
    assert moved["base_url"] == server.url_of(1)
    assert talk.refused(execute("COMMIT"), baton=moved["baton"])[0] == 400
    with talking(moved["base_url"], TOKEN) as there:
        there.ask(execute("COMMIT"), CLOSE, baton=moved["baton"])
    assert ids(server) == [1]
    assert [request.door for request in server.requests] == [0, 0, 1]


def test_a_request_stands_still_until_it_is_released(server: HranaServer, talk: Talk) -> None:
    hold = Hold(after=False)
    server.faults.add(hold)
    asking = threading.Thread(target=talk.ask, args=(insert(1), CLOSE))
    asking.start()
    assert hold.reached.wait(15)
    assert ids(server) == []
    hold.released.set()
    asking.join(15)
    assert ids(server) == [1]


def test_a_late_answer_is_whole(server: HranaServer, talk: Talk) -> None:
    server.faults.add(Delay(0.01))
    assert talk.run("SELECT 1") == [(1,)]


def test_a_fault_takes_its_turn_among_those_it_likes(server: HranaServer, talk: Talk) -> None:
    def commits(request: Request) -> bool:
        return "COMMIT" in request.statements

    server.faults.add(Refuse.throttled(), nth=2, times=2, when=commits)
    statuses = []
    for request in (insert(1), execute("SELECT 1"), insert(2), insert(3), insert(4)):
        talk.refused(request, CLOSE)
        statuses.append(talk.status)
    assert statuses == [200, 200, 429, 429, 200]
    assert ids(server) == [1, 4]


@pytest.mark.parametrize("token", ["", "another"])
def test_nobody_is_served_without_the_token(server: HranaServer, talk: Talk, token: str) -> None:
    with talking(server.url, token) as stranger:
        status, text = stranger.refused(insert(1))
    assert (status, "error" in json.loads(text)) == (401, True)
    talk.ask(CLOSE)
    assert ids(server) == []


def test_a_restart_ends_streams_and_connections(server: HranaServer, talk: Talk) -> None:
    talk.ask(execute("BEGIN"), execute("INSERT INTO t VALUES (1)"))
    server.restart()
    with pytest.raises(HANGS_UP):
        talk.ask(CLOSE)
    assert talk.refused(execute("COMMIT"), baton=talk.baton)[0] == 400
    assert ids(server) == []


def test_a_stream_outlives_its_connection(server: HranaServer, talk: Talk) -> None:
    talk.ask(execute("BEGIN"), execute("INSERT INTO t VALUES (1)"))
    server.hang_up()
    with pytest.raises(HANGS_UP):
        talk.ask(execute("SELECT 1"))
    talk.ask(execute("COMMIT"), CLOSE, baton=talk.baton)
    assert ids(server) == [1]
    assert [request.connection for request in server.requests] == [1, 2]
    assert server.connections == 2


@pytest.mark.usefixtures("talk")
def test_a_request_runs_after_its_client_has_left(server: HranaServer) -> None:
    hold = Hold(after=False)
    server.faults.add(hold)
    with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))) as leaving:
        body = json.dumps({"baton": None, "requests": [insert(1), CLOSE]}).encode()
        head = f"POST /v2/pipeline HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n"
        leaving.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        assert hold.reached.wait(15)
    assert ids(server) == []
    hold.released.set()
    server.wait_until_idle()
    assert ids(server) == [1]


def test_requests_are_recorded(server: HranaServer, talk: Talk) -> None:
    talk.ask(execute("BEGIN"), insert(1))
    talk.ask(CLOSE, baton=talk.baton)
    body = {"baton": None, "batch": {"steps": [{"stmt": {"sql": "SELECT 1"}}]}}
    talk.post("/v3/cursor", json.dumps(body))
    begin, close, cursor = server.requests
    assert begin.kinds == ("execute", "batch")
    assert begin.statements[:3] == ("BEGIN", "BEGIN IMMEDIATE", "INSERT INTO t VALUES (?)")
    assert (begin.baton, bool(close.baton), close.kinds) == (None, True, ("close",))
    assert (cursor.kinds, cursor.statements) == (("cursor",), ("SELECT 1",))
    assert cursor.headers["authorization"] == f"Bearer {TOKEN}"
    assert server.round_trips == 3


def test_the_address_in_the_schemes_of_clients(tmp_path: Path) -> None:
    authority = trustme.CA()
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(serving)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    with running_hrana(tmp_path, tls=serving) as server:
        assert server.dsn == server.url.replace("https://", "libsql://")
        with talking(server.url, tls=trusting) as talk:
            assert talk.run("SELECT 1") == [(1,)]
    with running_hrana(tmp_path) as server:
        assert server.dsn == server.url.replace("http://", "libsql://") + "?tls=0"
