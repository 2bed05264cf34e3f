"""The reference server keeps the protocol as the real sqld does: answers, refusals, streams."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqlite_actor.clock import ManualClock
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
from tests.hrana.values import Json, Value, encoded

OK, ERROR, NOT, AND, OR = "ok", "error", "not", "and", "or"


@pytest.fixture
def server(tmp_path: Path, clock: ManualClock) -> Iterator[HranaServer]:
    """As sqld, on the test's clock."""
    with running_hrana(tmp_path, clock=clock) as server:
        yield server


@pytest.fixture
def talk(peer: str) -> Iterator[Talk]:
    """A client of it, or of the real sqld, beside a table t (id, b)."""
    with talking(peer) as talk:
        talk.run("DROP TABLE IF EXISTS t")
        talk.run("CREATE TABLE t (id INTEGER PRIMARY KEY, b TEXT)")
        yield talk


@pytest.mark.parametrize("version", [2, 3])
def test_a_result_has_the_shape_of_the_protocol(talk: Talk, version: int) -> None:
    talk.version = version
    (result, closed) = talk.ask(execute("INSERT INTO t VALUES (7, 'x') RETURNING id, b"), CLOSE)
    assert closed == {"type": "ok", "response": {"type": "close"}}
    assert result["response"]["type"] == "execute"
    told = result["response"]["result"]
    assert told["cols"] == [
        {"name": "id", "decltype": "INTEGER"},
        {"name": "b", "decltype": "TEXT"},
    ]
    assert told["rows"] == [[{"type": "integer", "value": "7"}, {"type": "text", "value": "x"}]]
    assert told["affected_row_count"] == 1
    assert told["last_insert_rowid"] == "7"


def test_only_changes_count_as_affected_rows(talk: Talk) -> None:
    texts = ("INSERT INTO t (b) VALUES ('a'), ('b')", "SELECT * FROM t", "UPDATE t SET b = 'c'")
    told = [each["response"]["result"] for each in talk.ask(*map(execute, texts))]
    assert [each["affected_row_count"] for each in told] == [2, 0, 2]
    assert [each["last_insert_rowid"] for each in told] == ["2", None, None]


VALUES = (
    None,
    0,
    -(2**63),
    2**63 - 1,
    2**53 + 1,
    1.5,
    -0.0,
    "",
    "a\0b\U0001f600",
    b"",
    b"\xde\xad",
)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_comes_back_as_it_went(talk: Talk, value: Value) -> None:
    ((found,),) = talk.run("SELECT ?", value)
    assert (found, type(found)) == (value, type(value))


def test_blobs_come_without_padding_and_may_have_it(talk: Talk) -> None:
    padded = {"type": "blob", "base64": "3q2+7w=="}
    request = {"type": "execute", "stmt": {"sql": "SELECT ?", "args": [padded]}}
    (result,) = talk.ask(request)
    assert result["response"]["result"]["rows"] == [[{"type": "blob", "base64": "3q2+7w"}]]


@pytest.mark.parametrize(
    "value",
    [
        {"type": "integer", "value": 1},
        {"type": "integer", "value": str(2**63)},
        {"type": "float", "value": "1"},
        {"type": "text"},
        {"type": "blob", "base64": "*"},
        {"type": "date", "value": "1"},
        None,
    ],
    ids=repr,
)
def test_a_value_of_another_make_fails_the_request(talk: Talk, value: Json) -> None:
    request = {"type": "execute", "stmt": {"sql": "SELECT ?", "args": [value]}}
    assert talk.refused(request)[0] == 400


def named(sql: str, *positional: Value, **arguments: Value) -> Json:
    """A request with arguments by name."""
    args = [{"name": name, "value": encoded(value)} for name, value in arguments.items()]
    return {
        "type": "execute",
        "stmt": {"sql": sql, "args": [encoded(each) for each in positional], "named_args": args},
    }


def test_arguments_are_bound_by_name_or_by_place(talk: Talk) -> None:
    names = {":a": 1, "b": 2, "$c": 3}
    assert rows(talk.ask(named("SELECT :a, @b, $c", **names))[0]) == [(1, 2, 3)]
    assert talk.run("SELECT ?2, ?1", 1, 2) == [(2, 1)]


def test_arguments_must_match(talk: Talk) -> None:
    few, many, none, both = talk.ask(
        execute("SELECT ?, ?", 1),
        execute("SELECT ?", 1, 2),
        named("SELECT :a", b=1),
        named("SELECT ?", 1, a=1),
    )
    assert [code(each) for each in (few, many, none)] == ["ARGS_INVALID"] * 3
    assert code(both) == "ARGS_BOTH_POSITIONAL_AND_NAMED"


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("", "SQL_NO_STATEMENT"),
        ("-- only words", "SQL_NO_STATEMENT"),
        ("SELECT 1; SELECT 2", "SQL_MANY_STATEMENTS"),
        ("SELEC 1", "SQL_PARSE_ERROR"),
        ("SELECT (1", "SQL_PARSE_ERROR"),
        ("SELECT nope FROM t", "SQL_INPUT_ERROR"),
        ("INSERT INTO t VALUES (1, 'a'), (1, 'b')", "SQLITE_CONSTRAINT"),
        ("COMMIT", "SQLITE_UNKNOWN"),
        ("VACUUM", "SQL_PARSE_ERROR"),
        ("ANALYZE", "SQL_PARSE_ERROR"),
        ("ATTACH 'x' AS y", "SQL_PARSE_ERROR"),
        ("CREATE TEMP TABLE u (a)", "SQL_PARSE_ERROR"),
        ("PRAGMA journal_mode = DELETE", "SQL_PARSE_ERROR"),
        ("PRAGMA synchronous = OFF", "SQL_PARSE_ERROR"),
        ("PRAGMA busy_timeout(5)", "SQL_PARSE_ERROR"),
        ("PRAGMA wal_checkpoint", "SQL_PARSE_ERROR"),
        ("PRAGMA optimize", "SQL_PARSE_ERROR"),
    ],
)
def test_a_statement_is_refused_in_band(talk: Talk, sql: str, expected: str) -> None:
    refused, following = talk.ask(execute(sql), execute("SELECT 1"))
    assert code(refused) == expected
    assert rows(following) == [(1,)]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT ';' ; -- the end",
        "/* first */ SELECT 1;;",
        "PRAGMA journal_mode",
        "PRAGMA foreign_keys = ON",
        "PRAGMA user_version(3)",
        "PRAGMA table_info(t)",
        "SELECT name FROM pragma_table_info('t')",
        "EXPLAIN SELECT 1",
        "CREATE TRIGGER r AFTER INSERT ON t BEGIN DELETE FROM t; SELECT 1; END",
        "WITH x AS (SELECT 1) SELECT * FROM x",
    ],
)
def test_a_statement_is_taken(talk: Talk, sql: str) -> None:
    rows(talk.ask(execute(sql))[0])


def test_rows_that_nobody_wants_stay_away(talk: Talk) -> None:
    request = execute("INSERT INTO t VALUES (1, 'a') RETURNING id")
    request["stmt"]["want_rows"] = False
    assert rows(talk.ask(request)[0]) == []
    assert talk.run("SELECT id FROM t") == [(1,)]


def test_unknown_fields_are_overlooked(talk: Talk) -> None:
    request = {**execute("SELECT 1"), "priority": 3}
    request["stmt"]["replication_index"] = "7"
    (result,) = talk.pipeline(request, trace="abc")["results"]
    assert rows(result) == [(1,)]


def test_a_step_runs_when_its_condition_holds(talk: Talk) -> None:
    fine, wrong = condition(OK, 0), condition(OK, 1)
    (result,) = talk.ask(
        batch(
            "SELECT 1",
            "SELECT nope",
            ("SELECT 2", fine),
            ("SELECT 3", wrong),
            ("SELECT 4", condition(NOT, wrong)),
            ("SELECT 5", condition(AND, fine, condition(NOT, wrong))),
            ("SELECT 6", condition(AND, fine, wrong)),
            ("SELECT 7", condition(OR, wrong, fine)),
            ("SELECT 8", condition(AND)),
            ("SELECT 9", condition(OR)),
            ("SELECT 10", condition(ERROR, 1)),
            ("SELECT 11", condition(ERROR, 3)),  # which was skipped: true here, false elsewhere
            ("SELECT 12", {"type": "is_autocommit"}),
        )
    )
    skipped, error = "skipped", "SQL_INPUT_ERROR"
    expected = [OK, error, OK, skipped, OK, OK, skipped, OK, OK, skipped, OK, OK, OK]
    assert outcomes(result) == expected


@pytest.mark.parametrize(
    "wrong",
    [condition(OK, 1), condition(OK, -1), {"type": "maybe"}, condition(NOT, condition(ERROR, 5))],
    ids=repr,
)
def test_a_condition_that_cannot_be_told_fails_the_request(talk: Talk, wrong: Json) -> None:
    assert talk.refused(batch("INSERT INTO t VALUES (1, '')", ("SELECT 1", wrong)))[0] == 400
    assert talk.run("SELECT * FROM t") == []


def test_one_text_that_cannot_be_parsed_stops_the_batch_before_it_runs(talk: Talk) -> None:
    (result,) = talk.ask(batch("INSERT INTO t VALUES (1, '')", "SELEC"))
    assert code(result) == "SQL_PARSE_ERROR"
    assert talk.run("SELECT * FROM t") == []


def atomic(*texts: str) -> Json:
    """All of these or nothing."""
    steps: list[Json] = ["BEGIN IMMEDIATE"]
    steps += [(text, condition(OK, number)) for number, text in enumerate(texts)]
    last = len(texts)
    steps.append(("COMMIT", condition(OK, last)))
    lost = condition(NOT, condition(OK, last + 1))
    return batch(*steps, ("ROLLBACK", condition(AND, condition(OK, 0), lost)))


def test_an_atomic_batch_is_whole_or_nothing(talk: Talk) -> None:
    insert = "INSERT INTO t VALUES (1, 'a')"
    (done,) = talk.ask(atomic(insert, insert.replace("1", "2")))
    assert outcomes(done) == [OK, OK, OK, OK, "skipped"]
    (undone,) = talk.ask(atomic("INSERT INTO t VALUES (3, 'c')", insert, "SELECT 1"))
    assert outcomes(undone) == [OK, OK, "SQLITE_CONSTRAINT", "skipped", "skipped", OK]
    assert talk.run("SELECT id FROM t") == [(1,), (2,)]


def test_a_sequence_ends_at_its_first_error(talk: Talk) -> None:
    insert = "INSERT INTO t VALUES ({0}, 'a;b');"
    texts = "".join(map(insert.format, (1, 2, 2, 3)))
    (result,) = talk.ask({"type": "sequence", "sql": texts})
    assert code(result) == "SQLITE_CONSTRAINT"
    assert talk.run("SELECT id FROM t") == [(1,), (2,)]
    assert talk.ask({"type": "sequence", "sql": "-- nothing"})[0]["type"] == "ok"


def test_a_statement_is_described_without_running(talk: Talk) -> None:
    wanted = {"type": "describe", "sql": "SELECT id, b AS c FROM t WHERE b = ? AND id = :id"}
    (result,) = talk.ask(wanted)
    assert result["response"]["result"] == {
        "params": [{"name": None}, {"name": ":id"}],
        "cols": [{"name": "id", "decltype": "INTEGER"}, {"name": "c", "decltype": "TEXT"}],
        "is_explain": False,
        "is_readonly": True,
    }
    (deletes,) = talk.ask({"type": "describe", "sql": "DELETE FROM t"})
    assert deletes["response"]["result"]["is_readonly"] is False


def stored(number: int) -> Json:
    """A request for a text that the stream keeps."""
    return {"type": "execute", "stmt": {"sql_id": number}}


def test_a_stream_keeps_texts(talk: Talk) -> None:
    store = {"type": "store_sql", "sql_id": 1, "sql": "SELECT 7"}
    drop = {"type": "close_sql", "sql_id": 1}
    results = talk.ask(store, stored(1), drop, drop, {**store, "sql": "SELECT 8"}, stored(1))
    assert [rows(results[index]) for index in (1, 5)] == [[(7,)], [(8,)]]
    assert talk.refused(stored(1))[0] == 400, "another stream does not know it"
    assert talk.refused(store, store)[0] == 400
    assert talk.refused({"type": "execute", "stmt": {"sql": "SELECT 1", "sql_id": 1}})[0] == 400
    fifty = [{**store, "sql_id": number} for number in range(51)]
    assert code(talk.ask(*fifty)[50]) == "SQL_STORE_TOO_MANY"
    assert code(talk.ask({**store, "sql": " " * 5001})[0]) == "SQL_STORE_TOO_LARGE"


def test_a_stream_lives_by_its_latest_baton(talk: Talk) -> None:
    talk.ask(execute("BEGIN"), execute("INSERT INTO t VALUES (1, '')"))
    first = talk.baton
    assert first
    autocommit = {"type": "get_autocommit"}
    _, told = talk.ask(execute("SELECT 1"), autocommit, baton=first)
    assert told["response"]["is_autocommit"] is False
    second = talk.baton
    status, text = talk.refused(execute("COMMIT"), baton=first)
    assert (status, "already been used" in text) == (400, True)
    talk.ask(execute("COMMIT"), CLOSE, baton=second)
    assert talk.baton is None
    assert talk.refused(execute("SELECT 1"), baton=second)[0] == 400
    assert talk.refused(execute("SELECT 1"), baton=f"{second}x")[0] == 400
    assert talk.run("SELECT id FROM t") == [(1,)]


def test_closing_rolls_back_and_comes_last(talk: Talk) -> None:
    insert = execute("INSERT INTO t VALUES (1, '')")
    talk.ask(execute("BEGIN"), insert, CLOSE)
    assert talk.run("SELECT * FROM t") == []
    assert talk.refused(insert, CLOSE, insert)[0] == 400
    assert talk.run("SELECT id FROM t") == [(1,)], "what ran before stays"


def test_a_protocol_error_costs_the_stream(talk: Talk) -> None:
    talk.ask(execute("BEGIN"), execute("INSERT INTO t VALUES (1, '')"))
    baton = talk.baton
    assert talk.refused({"type": "dance"}, baton=baton)[0] == 400
    assert talk.refused(execute("COMMIT"), baton=baton)[0] == 400
    assert talk.run("SELECT * FROM t") == []


def test_version_2_knows_nothing_of_version_3(talk: Talk) -> None:
    talk.version = 2
    assert talk.refused({"type": "get_autocommit"})[0] == 400
    assert talk.refused(batch(("SELECT 1", {"type": "is_autocommit"})))[0] == 400
    talk.post("/v2/cursor", json.dumps({"baton": None, "batch": {"steps": []}}))
    assert talk.status == 404


@pytest.mark.parametrize("body", ["", "{", "[]", '{"baton": null}', '{"requests": 1}'])
def test_a_body_of_another_make_is_refused(talk: Talk, body: str) -> None:
    talk.post("/v3/pipeline", body)
    assert talk.status == 400


def test_an_idle_stream_expires(talk: Talk, clock: ManualClock) -> None:
    talk.ask(execute("BEGIN IMMEDIATE"), execute("INSERT INTO t VALUES (1, '')"))
    clock.advance(10_000)
    talk.ask(execute("SELECT 1"), baton=talk.baton)
    baton = talk.baton
    clock.advance(10_001)
    status, text = talk.refused(execute("COMMIT"), baton=baton)
    assert (status, json.loads(text)["code"]) == (400, "STREAM_EXPIRED")
    assert talk.run("SELECT * FROM t") == []
    clock.advance(300_001)
    assert "invalid baton" in talk.refused(execute("COMMIT"), baton=baton)[1]


def test_a_cursor_streams_the_steps(talk: Talk) -> None:
    steps = [{"stmt": {"sql": sql}} for sql in ("SELECT 1 UNION SELECT 2", "SELECT x", "SELECT 3")]
    steps[2]["condition"] = condition(OK, 1)
    text = talk.post("/v3/cursor", json.dumps({"baton": None, "batch": {"steps": steps}}))
    head, *entries = [json.loads(line) for line in text.splitlines()]
    assert head["baton"]
    assert head["base_url"] is None
    kinds = [(each["type"], each.get("step")) for each in entries]
    begin, end = ("step_begin", 0), ("step_end", None)
    assert kinds == [begin, ("row", None), ("row", None), end, ("step_error", 1)]
    assert entries[1]["row"] == [{"type": "integer", "value": "1"}]


def test_an_answer_has_a_largest_size(talk: Talk) -> None:
    large = execute("SELECT printf('%.*c', 4000000, 'x') FROM (VALUES (1), (2), (3))")
    assert code(talk.ask(large)[0]) == "RESPONSE_TOO_LARGE"
    assert code(talk.ask(execute("SELECT zeroblob(5000001)"))[0]) == "SQLITE_TOOBIG"


def test_the_versions_are_told(talk: Talk) -> None:
    paths = ("/v2", "/v3", "/health", "/v4", "/v3/pipeline/x")
    assert [talk.get(path) for path in paths] == [200, 200, 200, 404, 404]
    talk.post("/v4/pipeline", "{}")
    assert talk.status == 404
