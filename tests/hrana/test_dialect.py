"""Every statement of the product means the same to everybody: the rows are SQLite's, in its order.

Run again on Turso's engine in this process (its newest release), behind its own server, and on the
reference server, whose parser refuses what servers of libSQL refuse.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.hrana.manners import SQLD, TURSODB, Manners
from tests.hrana.real_server import pipeline
from tests.hrana.recording import Row, Spoken, layout, recorded, replayed
from tests.hrana.server import running_hrana
from tests.hrana.statements import one
from tests.hrana.tursodb import Tursodb
from tests.storage.plans import statements
from tests.storage.turso_store import TursoStore

UNSPOKEN = {
    "counts.TRUE_COUNTS": "only checks count all messages",
    "messages.CERTIFY": "a distant store's; tests/remote run it",
    **{
        name: "a distant store's; tests/remote run it"
        for name in statements()
        if name.startswith("taking.")
    },
}
"""Statements that the workload of one local writer does not need, and why."""


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> list[Spoken]:
    """All that one writer says."""
    return recorded(tmp_path_factory.mktemp("spoken") / "mq.db")


def check(pairs: Iterable[tuple[Spoken, list[Row]]]) -> None:
    for spoken, rows in pairs:
        assert rows == spoken.rows, f"{spoken.sql} {spoken.arguments}"


def test_what_is_recorded_is_every_statement(spoken: list[Spoken]) -> None:
    seen = {each.sql for each in spoken}
    unspoken = {name for name, sql in statements().items() if not any(sql in each for each in seen)}
    assert unspoken == set(UNSPOKEN)
    assert any(each.rows for each in spoken)


def test_turso_gives_the_same_rows(tmp_path: Path, spoken: list[Spoken]) -> None:
    store = TursoStore(tmp_path / "turso.db")
    store.begin()
    check((each, store.run([(each.sql, each.arguments)])[0]) for each in spoken)
    store.commit()
    store.close()


def test_tursodb_gives_the_same_rows(tursodb: Tursodb, spoken: list[Spoken]) -> None:
    check(replayed([*layout(), *spoken], lambda request: pipeline(tursodb.url, request)[0]))


def test_sqld_gives_the_same_rows(sqld_url: str, spoken: list[Spoken]) -> None:
    said = [*layout(), *spoken]
    check(replayed(said, lambda request: pipeline(sqld_url, request, {"type": "close"})[0]))


@pytest.mark.parametrize("manners", [SQLD, TURSODB], ids=lambda manners: str(manners.name))
def test_the_reference_server_gives_the_same_rows(
    tmp_path: Path, spoken: list[Spoken], manners: Manners
) -> None:
    with running_hrana(tmp_path, manners=manners) as server:
        check(replayed([*layout(), *spoken], lambda request: pipeline(server.url, request)[0]))


@pytest.mark.parametrize("name", statements())
def test_a_statement_is_one_that_servers_take(name: str) -> None:
    assert one(statements()[name]).kind in ("read", "write")


@pytest.mark.parametrize(
    "strange",
    [
        Spoken("VACUUM", (), []),
        Spoken("WITH RECURSIVE c (x) AS (SELECT nope) SELECT x FROM c", (), []),
        Spoken("SELECT 1 WHERE ? = 1", (), []),
        Spoken("SELECT 1", (), [(2,)]),
    ],
    ids=["refused", "wrong", "few arguments", "other rows"],
)
def test_a_statement_with_another_meaning_is_noticed(tmp_path: Path, strange: Spoken) -> None:
    with (
        running_hrana(tmp_path) as server,
        pytest.raises(AssertionError, match=re.escape(strange.sql) + "|unsupported"),
    ):
        check(replayed([strange], lambda request: pipeline(server.url, request)[0]))
