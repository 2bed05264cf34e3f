"""Writers that wait for each other; and the manners of tursodb, tried on the real one too."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqlite_actor.clock import ManualClock
from tests.hrana.faults import Hold
from tests.hrana.manners import TURSODB
from tests.hrana.real_server import BOUND_SECONDS
from tests.hrana.server import HranaServer, running_hrana
from tests.hrana.talking import (
    CLOSE,
    Talk,
    batch,
    code,
    condition,
    execute,
    outcomes,
    rows,
    talking,
)
from tests.hrana.tursodb import running_tursodb
from tests.hrana.values import Json, encoded

BEGIN, COMMIT = execute("BEGIN IMMEDIATE"), execute("COMMIT")


@pytest.fixture
def server(tmp_path: Path, clock: ManualClock) -> Iterator[HranaServer]:
    """As sqld, on the test's clock, with a table t."""
    with running_hrana(tmp_path, clock=clock) as server:
        with talking(server.url) as talk:
            talk.run("CREATE TABLE t (id INTEGER PRIMARY KEY, b TEXT)")
        yield server


class Asked:
    """A pipeline that somebody else asks for meanwhile."""

    def __init__(self, url: str, *requests: Json) -> None:
        self._results: list[Json] = []
        self._thread = threading.Thread(target=self._ask, args=(url, requests))
        self._thread.start()

    def _ask(self, url: str, requests: tuple[Json, ...]) -> None:
        with talking(url) as talk:
            self._results += talk.ask(*requests)

    def results(self) -> list[Json]:
        """What came back."""
        self._thread.join(BOUND_SECONDS)
        return self._results


def test_a_writer_waits_for_the_one_before(server: HranaServer) -> None:
    with talking(server.url) as talk:
        talk.ask(BEGIN, execute("INSERT INTO t VALUES (1, '')"))
        server.forget()
        other = Asked(server.url, execute("INSERT INTO t VALUES (2, '') RETURNING id"), CLOSE)
        server.wait_for(1)
        assert server.look("SELECT id FROM t") == []
        talk.ask(COMMIT, CLOSE, baton=talk.baton)
        assert rows(other.results()[0]) == [(2,)]
        assert talk.run("SELECT id FROM t") == [(1,), (2,)]


def test_writers_in_turn_lose_nothing(server: HranaServer) -> None:
    def add_up() -> None:
        with talking(server.url) as talk:
            for _ in range(5):
                _, found = talk.ask(BEGIN, execute("SELECT count(*) FROM t"))
                ((number,),) = rows(found)
                insert = execute("INSERT INTO t (b) VALUES (?)", str(number))
                talk.ask(insert, COMMIT, CLOSE, baton=talk.baton)
                talk.ask(execute("INSERT INTO t (b) VALUES ('alone')"), CLOSE)

    threads = [threading.Thread(target=add_up) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(BOUND_SECONDS)
    assert server.look("SELECT count(*) FROM t") == [(40,)]
    seen = [number for (number,) in server.look("SELECT b FROM t WHERE b <> 'alone' ORDER BY id")]
    at = server.look("SELECT id - 1 FROM t WHERE b <> 'alone' ORDER BY id")
    assert [(int(number),) for number in seen] == at, "each saw all that was committed before it"
    assert server.streams.number_open == 0


def test_a_transaction_that_holds_the_lock_too_long_loses_it(
    server: HranaServer, clock: ManualClock
) -> None:
    with talking(server.url) as talk:
        talk.ask(BEGIN, execute("INSERT INTO t VALUES (1, '')"))
        clock.advance(5000)
        other = Asked(server.url, execute("INSERT INTO t VALUES (2, '') RETURNING id"), CLOSE)
        assert rows(other.results()[0]) == [(2,)]
        late, later = talk.ask(execute("INSERT INTO t VALUES (3, '')"), COMMIT, baton=talk.baton)
        assert [code(late), code(later)] == ["TRANSACTION_TIMEOUT", "SQLITE_UNKNOWN"]
        assert talk.run("SELECT id FROM t") == [(2,)]


def test_nobody_takes_a_lock_that_nobody_wants(server: HranaServer, clock: ManualClock) -> None:
    with talking(server.url) as talk:
        talk.ask(BEGIN, execute("INSERT INTO t VALUES (1, '')"))
        clock.advance(9000)
        (committed, _) = talk.ask(COMMIT, CLOSE, baton=talk.baton)
        assert committed["type"] == "ok"


def test_a_request_that_is_held_keeps_its_lock(server: HranaServer) -> None:
    hold = Hold(after=True)
    server.faults.add(hold)
    first = Asked(server.url, BEGIN, execute("INSERT INTO t VALUES (1, '')"), COMMIT, CLOSE)
    assert hold.reached.wait(BOUND_SECONDS)
    with talking(server.url) as talk:
        assert talk.run("SELECT id FROM t") == [(1,)], "it ran; only its answer is held"
    hold.released.set()
    assert first.results()[2]["type"] == "ok"


# -- as tursodb: each test on the imitation and on the real one ------------------------------------


@pytest.fixture(scope="module", params=["imitation", "real"])
def turso(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The address of a server with tursodb's manners, with a table t."""
    folder = tmp_path_factory.mktemp("turso")
    is_real = request.param == "real"
    server = running_tursodb(folder) if is_real else running_hrana(folder, manners=TURSODB)
    with server as running:
        yield running.url


@pytest.fixture
def plain(turso: str) -> Iterator[Talk]:
    """A client of it that knows what it may ask; an empty table t."""
    with talking(turso) as talk:
        talk.version = 2
        talk.ask(execute("CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY, b TEXT)"))
        talk.ask(execute("DELETE FROM t"))
        yield talk


@pytest.mark.parametrize(
    "request_of_another_kind",
    [CLOSE, {"type": "sequence", "sql": "SELECT 1"}, {"type": "describe", "sql": "SELECT 1"}],
    ids=lambda request: str(request["type"]),
)
def test_tursodb_refuses_what_it_does_not_know_as_a_whole(
    plain: Talk, request_of_another_kind: Json
) -> None:
    insert = execute("INSERT INTO t VALUES (1, '')")
    status, text = plain.refused(insert, request_of_another_kind)
    kind = request_of_another_kind["type"]
    assert (status, f"unknown variant `{kind}`" in text) == (500, True)
    assert rows(plain.ask(execute("SELECT * FROM t"))[0]) == []


def test_tursodb_says_nothing_about_changed_rows(plain: Talk) -> None:
    (result,) = plain.ask(execute("INSERT INTO t VALUES (5, 'a') RETURNING id"))
    told = result["response"]["result"]
    assert (told["affected_row_count"], told["last_insert_rowid"]) == (0, None)
    assert told["rows"] == [[{"type": "integer", "value": "5"}]]


def test_tursodb_forgives_what_others_refuse(plain: Talk) -> None:
    by_name = execute("SELECT :a")
    by_name["stmt"]["named_args"] = [{"name": "a", "value": encoded(1)}]
    results = plain.ask(execute("SELECT ?, 1"), by_name, execute("SELECT 1; SELECT 2"))
    assert [rows(result) for result in results] == [[(None, 1)], [(None,)], [(1,)]]


def test_tursodb_has_codes_of_its_own(plain: Talk) -> None:
    insert = "INSERT INTO t VALUES (1, '')"
    _, constraint, unknown = plain.ask(execute(insert), execute(insert), execute("SELECT nope"))
    assert [code(constraint), code(unknown)] == ["EXECUTE_ERROR", "PREPARE_ERROR"]
    assert constraint["error"]["message"].startswith("Runtime error: UNIQUE constraint failed")
    (result,) = plain.ask(batch("SELECT nope", insert, "SELEC"))
    assert outcomes(result) == ["BATCH_STEP_ERROR"] * 3


def test_tursodb_does_not_count_a_skipped_step_as_an_error(plain: Talk) -> None:
    skipped = condition("not", condition("ok", 0))
    (result,) = plain.ask(
        batch("SELECT 1", ("SELECT 2", skipped), ("SELECT 3", condition("error", 1)))
    )
    assert outcomes(result) == ["ok", "skipped", "skipped"]


def test_tursodb_shares_one_transaction_among_all(plain: Talk, turso: str) -> None:
    plain.ask(BEGIN, execute("INSERT INTO t VALUES (1, '')"))
    with talking(turso) as other:
        other.version = 2
        begin, found, rollback = other.ask(BEGIN, execute("SELECT id FROM t"), execute("ROLLBACK"))
        assert "within a transaction" in begin["error"]["message"]
        assert rows(found) == [(1,)]
        assert rollback["type"] == "ok", "it was not ours"
    assert plain.ask(COMMIT)[0]["type"] == "error"


def test_tursodb_ends_the_connection_and_keeps_no_stream(plain: Talk) -> None:
    plain.ask(execute("SELECT 1"))
    assert plain.baton is None
    assert plain.headers["connection"] == "close"
    assert plain.pipeline(execute("SELECT 1"), baton="x")["baton"] == "x"


@pytest.mark.parametrize("path", ["/v2", "/v3", "/health"])
def test_tursodb_has_no_pages(plain: Talk, path: str) -> None:
    assert plain.get(path) == 404
    plain.post("/v3/pipeline", "{}")
    assert plain.status == 404
