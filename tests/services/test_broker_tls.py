"""HTTPS on the broker's port: calls over it, strangers on it, and files that are none."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio
import trustme

from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import InvalidArgument
from mqlite_actor.engine.engine import Engine
from mqlite_actor.sdk.address import parse_endpoint
from mqlite_actor.sdk.http_sync import HttpSyncClient
from mqlite_broker.app import BrokerApp
from mqlite_broker.door import DoorLimits
from mqlite_broker.settings import read_settings
from mqlite_broker.tls import server_context
from tests.services.broker_process import BEARER, TOKEN, started
from tests.services.broker_scene import path, raw
from tests.services.door_client import (
    NEVER,
    PATIENCE,
    Client,
    RunningDoor,
    connect,
    descriptors,
    open_door,
    request,
    until,
)

POLL = raw(path("Receive"), b'{"queue":"q","wait_time_ms":20000}', fields=(BEARER,))


@dataclass(frozen=True)
class Papers:
    """A certificate for the loopback, its key, and who trusts it."""

    cert: str
    key: str
    trusting: ssl.SSLContext

    @property
    def serving(self) -> ssl.SSLContext:
        return server_context(self.cert, self.key)


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    folder = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    issued = authority.issue_cert("localhost", "127.0.0.1")
    issued.private_key_pem.write_to_path(str(folder / "key"))
    for pem in issued.cert_chain_pems:
        pem.write_to_path(str(folder / "cert"), append=True)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    return Papers(str(folder / "cert"), str(folder / "key"), trusting)


@asynccontextmanager
async def opened(
    engine: Engine, papers: Papers, limits: DoorLimits | None = None
) -> AsyncIterator[RunningDoor]:
    settings = read_settings({"addr": "127.0.0.1:0"}, {"MQLITE_TOKENS": TOKEN})
    async with open_door(BrokerApp(engine, settings), limits, tls=papers.serving) as door:
        yield door


class SecretClient(Client):
    """The raw client through TLS."""

    def __init__(self, stream: trio.SocketStream, trusting: ssl.SSLContext) -> None:
        super().__init__(stream)
        self.secret = trio.SSLStream(stream, trusting, server_hostname="localhost")

    async def send(self, data: bytes) -> None:
        with trio.fail_after(PATIENCE):
            await self.secret.send_all(data)

    async def _more(self) -> bool:
        with trio.fail_after(PATIENCE):
            data = bytes(await self.secret.receive_some(65536))
        self.buffer += data
        return bool(data)


async def come(door: RunningDoor, papers: Papers) -> SecretClient:
    return SecretClient((await connect(door.address)).stream, papers.trusting)


async def test_calls_go_over_it_and_connections_are_kept(engine: Engine, papers: Papers) -> None:
    async with opened(engine, papers) as door, await come(door, papers) as client:
        create = raw(path("AdminService/CreateQueue"), b'{"name":"q"}', fields=(BEARER,))
        for _ in range(3):
            assert (await client.ask(create)).status == 200
        assert (await client.ask(raw("/healthz", method="GET"))).body == b"ok"
        assert client.secret.selected_alpn_protocol() is None
        body = b'{"queue":"q","messages":[{"body":"%s"}]}' % (b"QUFB" * 300_000)
        large = raw(path("Send"), body, fields=(BEARER,))
        assert (await client.ask(large)).status == 200
        answer = await client.ask(raw(path("Peek"), b'{"queue":"q"}', fields=(BEARER,)))
        assert len(answer.body) > 1_200_000


async def test_the_end_of_a_connection_is_said(engine: Engine, papers: Papers) -> None:
    """A client that got no last record could not tell an end from a cut."""
    async with opened(engine, papers) as door, await come(door, papers) as client:
        answer = await client.ask(request("/healthz", fields="Connection: close\r\n"))
        assert answer.headers["connection"] == "close"
        assert bytes(await client.secret.receive_some()) == b"", (
            "an end, and no BrokenResourceError"
        )


async def test_a_client_that_leaves_ends_its_poll(engine: Engine, papers: Papers) -> None:
    async with opened(engine, papers) as door:
        client = await come(door, papers)
        create = raw(path("AdminService/CreateQueue"), b'{"name":"q"}', fields=(BEARER,))
        await client.ask(create)
        await client.send(POLL)
        await until(lambda: engine.statistics()["waiters"].get("q") == 1)
        await trio.aclose_forcefully(client.stream)
        await until(lambda: not engine.statistics()["waiters"].get("q"))
        await until(lambda: not door.door.statistics().connections)


@pytest.mark.parametrize(
    "asked", [request("/healthz"), request("/", method="POST", body=b"x" * 100_000), b"\r\n\r\n"]
)
async def test_http_in_clear_is_told_so_and_ended(
    engine: Engine, papers: Papers, asked: bytes
) -> None:
    async with opened(engine, papers) as door, await door.connect() as client:
        await client.send(asked)
        answer = await client.answer()
        assert (answer.status, answer.headers["connection"]) == (400, "close")
        assert b"HTTPS" in answer.body
        assert await client.ended() == b""


async def test_strangers_and_silent_ones_cost_nothing(engine: Engine, papers: Papers) -> None:
    limits = DoorLimits(header_seconds=0.2)
    async with opened(engine, papers, limits) as door:
        before = descriptors()
        for first in (b"", b"\x16", b"\x16\x03\x01\x00\x05hello", b"\x16" + bytes(64)):
            async with await door.connect() as client:
                if first:
                    await client.send(first)
                await client.ended()
        await until(lambda: not door.door.statistics().connections)
        assert descriptors() == before
        async with await come(door, papers) as client:
            assert (await client.ask(request("/healthz"))).body == b"ok"


async def test_a_stop_ends_handshakes_and_idle_connections_at_once(
    engine: Engine, papers: Papers
) -> None:
    limits = DoorLimits(header_seconds=NEVER, grace_seconds=NEVER)
    async with (
        opened(engine, papers, limits) as door,
        await door.connect() as silent,
        await come(door, papers) as idle,
    ):
        await idle.ask(request("/healthz"))
        assert await door.stop() == 0
        assert await silent.ended() == b""


async def test_silent_ones_make_room_for_those_who_ask(engine: Engine, papers: Papers) -> None:
    limits = DoorLimits(header_seconds=NEVER, connections_max=2)
    async with (
        opened(engine, papers, limits) as door,
        await door.connect() as one,
        await door.connect(),
        await come(door, papers) as client,
    ):
        assert (await client.ask(request("/healthz"))).body == b"ok"
        assert await one.ended() == b""


async def test_a_client_that_trusts_nobody_of_ours_leaves_no_trace(
    engine: Engine, papers: Papers, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(engine, papers) as door:
        stream = (await connect(door.address)).stream
        client = SecretClient(stream, ssl.create_default_context())
        with pytest.raises(trio.BrokenResourceError):
            await client.ask(request("/healthz"))
        await client.stream.aclose()
        await until(lambda: not door.door.statistics().connections)
    assert caplog.records == []


def test_old_versions_are_not_spoken(papers: Papers) -> None:
    assert papers.serving.minimum_version == ssl.TLSVersion.TLSv1_2


async def test_the_program_serves_it_to_the_clients_of_the_system(
    tmp_path: Path, papers: Papers
) -> None:
    flags = ("--tls-cert", papers.cert, "--tls-key", papers.key)
    with started(tmp_path, *flags) as broker:
        assert broker.url.startswith("https://127.0.0.1:")
        endpoint = parse_endpoint(f"mqlites://{TOKEN}@127.0.0.1:{broker.port}")

        def ask() -> str:
            with HttpSyncClient(endpoint, tls=papers.trusting) as client:
                return client.call(wire.StatusRequest()).backend

        assert await trio.to_thread.run_sync(ask) == "local file"
        broker.stop()


# -- files that are none ---------------------------------------------------------------------------


@contextmanager
def refused() -> Iterator[pytest.ExceptionInfo[InvalidArgument]]:
    with pytest.raises(InvalidArgument) as caught:
        yield caught
    assert caught.value.message.startswith("TLS: ")
    assert "\n" not in caught.value.message


def test_files_that_are_no_certificate_and_key_are_refused(papers: Papers, tmp_path: Path) -> None:
    (tmp_path / "nonsense").write_text("nonsense\n")
    (tmp_path / "empty").write_text("")
    for name in ("nonsense", "empty", "none", "."):
        bad = str(tmp_path / name)
        for cert, key in ((bad, papers.key), (papers.cert, bad)):
            with refused() as caught:
                server_context(cert, key)
            assert repr(bad) in caught.value.message


def test_a_key_of_another_certificate_is_refused(papers: Papers, tmp_path: Path) -> None:
    trustme.CA().issue_cert("localhost").private_key_pem.write_to_path(str(tmp_path / "other"))
    with refused() as caught:
        server_context(papers.cert, str(tmp_path / "other"))
    assert "does not belong" in caught.value.message


def test_a_key_with_a_password_is_refused_and_nobody_is_asked_for_it(
    papers: Papers, tmp_path: Path
) -> None:
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key(Path(papers.key).read_bytes(), None)
    (tmp_path / "locked").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    with refused() as caught:
        server_context(papers.cert, str(tmp_path / "locked"))
    assert "password" in caught.value.message


@pytest.mark.parametrize("given", ["MQLITE_TLS_CERT", "MQLITE_TLS_KEY"])
def test_one_of_the_two_alone_is_refused_by_name(given: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        read_settings({}, {given: "x"})
    assert "MQLITE_TLS_CERT" in caught.value.message
    assert "MQLITE_TLS_KEY" in caught.value.message
