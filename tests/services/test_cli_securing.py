"""--ca-file, --client-cert, --timeout: how a broker is reached (tools.md 8, row 15)."""

from __future__ import annotations

import ssl
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme

from tests.sdk.loopback import BOUND_SECONDS, Recorded, loopback, reply
from tests.services.cli_process import Shell


@dataclass(frozen=True)
class Papers:
    """A server that wants to see a certificate, and the files of a client that has one."""

    serving: ssl.SSLContext
    ca: str
    cert: str
    key: str


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    folder = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(serving)
    authority.configure_trust(serving)
    serving.verify_mode = ssl.CERT_REQUIRED
    client = authority.issue_cert("client.example")
    ca, cert, key = (folder / name for name in ("ca", "cert", "key"))
    authority.cert_pem.write_to_path(str(ca))
    client.cert_chain_pems[0].write_to_path(str(cert))
    client.private_key_pem.write_to_path(str(key))
    return Papers(serving, str(ca), str(cert), str(key))


def test_a_private_authority_and_a_certificate_of_ours_open_the_door(
    tmp_path: Path, papers: Papers
) -> None:
    with loopback(lambda _: reply(200, {"queues": []}), tls=papers.serving) as server:
        shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url.replace("http:", "https:"))
        words = ["list", "--ca-file", papers.ca, "--client-cert", papers.cert]
        assert shell.ok(*words, "--client-key", papers.key) == "(no queues)\n"
        # Nobody trusts a stranger, and the other side trusts nobody without a certificate.
        assert shell.run("list", check=1).err.startswith("error: unavailable: ")
        assert len(shell.run("list", "--ca-file", papers.ca, check=1).errors) == 1
        assert len(server.requests) == 1


def test_the_monitor_trusts_whom_it_is_told_and_tells_its_token_to_nobody_else(
    tmp_path: Path, papers: Papers
) -> None:
    with loopback(lambda _: reply(200, {}), tls=papers.serving) as server:
        address = server.url.replace("http:", "https:")
        # With the authority trusted by the system, and another one named.
        shell = Shell(tmp_path, MQLITE_ENDPOINT=address, SSL_CERT_FILE=papers.ca)
        ours = ("--client-cert", papers.cert, "--client-key", papers.key)
        other = tmp_path / "other.pem"
        trustme.CA().cert_pem.write_to_path(str(other))
        shell.run("top", "--once", *ours, "--ca-file", str(other), "--token", "secret", check=1)
        assert server.requests == []
        shell.run("top", "--once", *ours, "--ca-file", papers.ca)
        assert server.requests
    for words, mend in (
        (["--ca-file", "none"], "--ca-file: cannot be used: No such file or directory"),
        (["--timeout", "1s"], "--timeout: top asks again by itself"),
        (["--retries", "1"], "--retries: top asks again by itself"),
        (["--ca-file", papers.ca, "--endpoint", f"unix:{tmp_path}/x"], "--ca-file is for a broker"),
        (["--ca-file", papers.ca, "--db", "q.db"], "--ca-file is for a broker"),
    ):
        (error,) = shell.run("top", "--once", *words, check=1).errors
        assert mend in error, (words, error)


def test_files_that_cannot_be_used_are_refused_before_any_connection(
    tmp_path: Path, papers: Papers
) -> None:
    shell = Shell(tmp_path, MQLITE_ENDPOINT="https://127.0.0.1:1")
    (tmp_path / "empty").touch()
    for words, mend in (
        (["--ca-file", "none"], "--ca-file: cannot be used: No such file or directory"),
        (["--ca-file", "empty"], "--ca-file: cannot be used: "),
        (["--client-cert", papers.cert], "--client-cert: cannot be used: "),
        (["--client-key", papers.key], "--client-key needs --client-cert"),
        (["--ca-file", papers.ca, "--endpoint", "http://127.0.0.1:1"], "needs an https://"),
        (["--ca-file", papers.ca, "--endpoint="], "--ca-file is for a broker"),
        (["--timeout", "1s", "--endpoint="], "--timeout is for a broker"),
        (["--timeout", "0"], "--timeout: "),
        (["--timeout", "-1s"], "--timeout: "),
    ):
        (error,) = shell.run("list", *words, check=1).errors
        assert mend in error, (words, error)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["empty"]


def test_a_broker_that_does_not_answer_is_given_up(tmp_path: Path) -> None:
    free = threading.Event()

    def hang(_: Recorded) -> None:
        free.wait(BOUND_SECONDS)

    with loopback(hang) as server:
        shell = Shell(tmp_path, MQLITE_ENDPOINT=server.url)
        try:
            done = shell.run("list", "--timeout", "200ms", check=1)
            assert "gave no whole answer within 0.2 s" in done.err
            # What the command itself asks the broker to wait comes on top.
            done = shell.run("receive", "q", "--wait", "100ms", "--timeout", "200ms", check=1)
            assert "within 0.3 s" in done.err
        finally:
            free.set()
