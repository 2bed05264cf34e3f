"""A remote store over TLS: as the address says by itself, and only to whom the machine trusts."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from mqlite_actor import connect_sync
from mqlite_actor.contract.errors import OpenError
from tests.hrana.server import HranaServer, running_hrana
from tests.services.cli_process import Shell

AUTHORITY = trustme.CA()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[HranaServer]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    AUTHORITY.issue_cert("127.0.0.1").configure_cert(context)
    with running_hrana(tmp_path, tls=context, token="a secret") as server:
        yield server


@pytest.fixture
def trusted(tmp_path: Path) -> str:
    """The authority's certificate in a file, as SSL_CERT_FILE names it."""
    path = tmp_path / "authority.pem"
    AUTHORITY.cert_pem.write_to_path(path)
    return str(path)


def test_a_store_is_reached_over_tls(
    server: HranaServer, trusted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", trusted)
    assert server.dsn.startswith("libsql://")
    assert "tls=0" not in server.dsn
    with connect_sync(f"{server.dsn}?authToken=a%20secret") as q:
        q.create_queue("q")
        q.send_one("q", b"x")
        (message,) = q.receive("q")
        message.complete()


def test_a_server_that_nobody_vouches_for_is_refused_before_the_token_leaves(
    server: HranaServer,
) -> None:
    with (
        pytest.raises(OpenError, match=r"cannot be reached|certificate") as raised,
        connect_sync(f"{server.dsn}?authToken=a%20secret"),
    ):
        raise AssertionError("it was opened")
    assert "secret" not in str(raised.value)
    assert server.round_trips == 0


def test_the_command_line_reaches_it_by_the_environment(
    server: HranaServer, trusted: str, tmp_path: Path
) -> None:
    shell = Shell(
        tmp_path, MQLITE_DB=server.dsn, MQLITE_DB_AUTH_TOKEN="a secret", SSL_CERT_FILE=trusted
    )
    shell.ok("create-queue", "q")
    assert "seq=1" in shell.ok("send", "q", "x")
