"""`mqlite serve` as a process: what it says when it starts, and how it stops."""

from __future__ import annotations

import json
import re
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import trio

from mqlite_actor.engine.opening import open_engine
from mqlite_actor.sdk.embedded import Embedded
from mqlite_actor.sdk.stopping import ECHO_SECONDS
from tests.conformance.broker import BOUND_SECONDS
from tests.services.broker_process import (
    BEARER,
    READY,
    SERVE,
    BrokerProcess,
    launch,
    started,
    started_by,
)
from tests.services.broker_scene import path, raw
from tests.services.door_client import PATIENCE, Answer, Client, connect, wait

GENERATED = re.compile(r"mqk_[0-9a-f]{64}")

LARGE = 4 * 1024 * 1024
"""More than two socket buffers hold: an answer of this size waits for its reader."""

EITHER_ORDER = [(signal.SIGTERM, signal.SIGINT), (signal.SIGINT, signal.SIGTERM)]
"""Two different signals, since two equal ones at once are one."""


async def ask(
    broker: BrokerProcess, call: str, request: object = None, *, field: str = BEARER
) -> Answer:
    """One call on a connection of its own."""
    async with await broker.connect() as client:
        return await client.ask(
            raw(path(call), json.dumps(request or {}).encode(), fields=(field,))
        )


async def refused(port: int) -> None:
    """Return when connecting is refused; bounded."""
    with trio.fail_after(PATIENCE):
        while True:
            try:
                stream = await trio.open_tcp_stream("127.0.0.1", port)
            except OSError:
                return
            await stream.aclose()
            await trio.lowlevel.checkpoint()


# -- starting --------------------------------------------------------------------------------------


@pytest.mark.promise("W32", "W33", "T67")
async def test_a_generated_token_is_printed_once_and_works_and_differs_each_time(
    tmp_path: Path,
) -> None:
    tokens = []
    for _ in range(2):
        with started(tmp_path, MQLITE_TOKENS="") as broker:
            token = broker.err.first(GENERATED)[0]
            field = f"Authorization: Bearer {token}"
            assert (await ask(broker, "AdminService/Status", field=field)).status == 200
            assert (await ask(broker, "AdminService/Status")).status == 401
            said = "\n".join(broker.stop())
        assert GENERATED.findall(said) == [token]
        assert re.search(rf"{token}(?![0-9a-f])", said)
        tokens.append(token)
    assert tokens[0] != tokens[1]
    with started(tmp_path, MQLITE_TOKENS="", MQLITE_LOG_LEVEL="error") as silent:
        assert silent.err.first(GENERATED)[0] not in tokens


async def test_the_start_is_told_in_the_contracts_order(tmp_path: Path) -> None:
    with started(tmp_path, MQLITE_TOKENS="secret-one,secret-two", MQLITE_TOKNS="x") as broker:
        assert broker.port
        lines = broker.stop()
    order = [
        r"WARN .*MQLITE_TOKNS.*MQLITE_TOKENS\?",
        r"INFO mqlite broker version=\S+ addr=127\.0\.0\.1:0 db=\S+ sync=NORMAL backend=local$",
        r"INFO .*tokens.* n=2$",
        r"INFO .*cors=\*$",
        r"INFO console url=http://127\.0\.0\.1:\d+/ui/$",
        READY.pattern,
    ]
    places = [
        next(number for number, line in enumerate(lines) if re.search(pattern, line))
        for pattern in order
    ]
    assert places == sorted(places)
    assert not [line for line in lines if "secret" in line]
    assert all(re.match(r"\d\d:\d\d:\d\d\.\d{3} (INFO|WARN) ", line) for line in lines)


@pytest.mark.promise("T68")
@pytest.mark.parametrize(
    "addr", ["127.0.0.1:0", "localhost:0", "0.0.0.0:0", ":0", "[::1]:0", "[::]:0"]
)
async def test_connecting_succeeds_as_soon_as_the_ready_line_is_there(
    tmp_path: Path, addr: str
) -> None:
    if "::" in addr and not _has_ipv6():
        pytest.skip("no IPv6 on the loopback of this machine")
    with started(tmp_path, "--addr", addr, MQLITE_DB=":memory:") as broker:
        host = broker.url.removeprefix("http://").rpartition(":")[0].strip("[]")
        assert host == {"[::1]:0": "::1", "[::]:0": "::1", "localhost:0": "localhost"}.get(
            addr, "127.0.0.1"
        )
        async with Client(await trio.open_tcp_stream(host, broker.port)) as client:
            assert (await client.ask(raw("/healthz", method="GET"))).body == b"ok"


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.promise("W34", "T67")
async def test_authentication_off_is_warned_of_with_its_reach(tmp_path: Path) -> None:
    with started(tmp_path, MQLITE_TOKENS=" OFF ", MQLITE_DB=":memory:") as broker:
        assert (await ask(broker, "AdminService/Status", field="X: y")).status == 200
        broker.err.first(r"WARN .*authentication is off.*this machine")
        assert "Bearer" not in "\n".join(broker.stop())
    flag = "--insecure-allow-remote"
    with started(tmp_path, flag, "--addr", "0.0.0.0:0", MQLITE_TOKENS="off") as broker:
        broker.err.first(r"WARN .*authentication is off.*anyone")
        assert broker.port
        broker.stop()


@pytest.mark.promise("T69")
async def test_a_bad_size_is_warned_of_and_a_good_one_is_kept(tmp_path: Path) -> None:
    sent = {"queue": "q", "messages": [{"body": "eA=="}, {"body": "YWJj" * 100}]}
    for size, status in (("1MB", 200), ("299", 413), ("300", 200)):
        with started(tmp_path, MQLITE_MAX_MESSAGE_BYTES=size) as broker:
            await ask(broker, "AdminService/CreateQueue", {"name": "q"})
            assert (await ask(broker, "Send", sent)).status == status
            warnings = [line for line in broker.stop() if "MQLITE_MAX_MESSAGE_BYTES" in line]
        assert len(warnings) == (size == "1MB")


async def test_the_broker_without_the_command_line_serves_the_same(tmp_path: Path) -> None:
    program = (sys.executable, "-m", "mqlite_broker")
    with started_by(program, tmp_path, "--addr", "127.0.0.1:0", MQLITE_ADDR="x") as broker:
        assert (await ask(broker, "AdminService/Status")).status == 200
        broker.stop()


# -- stopping --------------------------------------------------------------------------------------


POLL = raw(
    path("Receive"), b'{"queue":"q","wait_time_ms":20000,"max_messages":1}', fields=(BEARER,)
)


@asynccontextmanager
async def polls(broker: BrokerProcess, number: int) -> AsyncIterator[list[Client]]:
    """Connections on which a poll waits, as far as anybody outside can tell."""
    await ask(broker, "AdminService/CreateQueue", {"name": "q"})
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(await broker.connect()) for _ in range(number)]
        for client in clients:
            await client.send(POLL)
        assert (await ask(broker, "Stats", {"queue": "q"})).status == 200
        yield clients


@pytest.mark.promise("W130", "T70")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_answers_the_polls_refuses_newcomers_and_ends_in_order(
    tmp_path: Path, number: signal.Signals
) -> None:
    with started(tmp_path) as broker:
        async with await broker.connect() as idle, polls(broker, 2) as waiting:
            assert (await idle.ask(raw("/healthz", method="GET"))).status == 200
            broker.signal(number)
            for client in waiting:
                answer = await client.answer("POST")
                assert (answer.status, answer.body) == (200, b'{"messages":[]}\n')
                assert answer.headers["connection"] == "close"
                assert await client.ended() == b""
            await refused(broker.port)
            assert await idle.ended() == b""
        assert broker.ended() == 0
        said = broker.err.to_the_end()
        async with open_engine(f"file:{tmp_path}/mq.db") as engine:
            assert (await Embedded(engine).stats("q")).total == 0
    assert [line for line in said if f"stopping signal={number.name}" in line]
    assert said[-1].endswith("stopped cut=0")


async def stalled(broker: BrokerProcess) -> Client:
    """A client that asked for more than the buffers hold, and does not read it."""
    await ask(broker, "AdminService/CreateQueue", {"name": "large"})
    body = b'{"queue":"large","messages":[{"body":"%s"}]}' % (b"QUFB" * (1024 * 1024 // 4))
    async with await broker.connect() as client:
        for _ in range(LARGE * 2 // (1024 * 1024)):
            answer = await client.ask(raw(path("Send"), body, fields=(BEARER,)))
            assert answer.status == 200
    client = await broker.connect(receive_buffer=4096)
    await client.send(raw(path("Peek"), b'{"queue":"large"}', fields=(BEARER,)))
    await client.until(b"\r\n\r\n")  # the answer has begun
    return client


async def forced(broker: BrokerProcess, first: signal.Signals, second: signal.Signals) -> int:
    """The exit code of a broker that has heard the first signal, and then another wish."""
    broker.signal(first)
    await refused(broker.port)
    threading.Event().wait(ECHO_SECONDS)
    broker.signal(second)
    return broker.ended()


async def test_the_port_is_free_at_once_for_the_next_broker(tmp_path: Path) -> None:
    """Though connections of the first one are still being forgotten by the kernel."""
    port = 0
    for _ in range(2):
        with started(tmp_path, "--addr", f"127.0.0.1:{port}") as broker:
            port = broker.port
            async with await broker.connect() as client:
                assert (await client.ask(raw("/healthz", method="GET"))).status == 200
                broker.stop()


async def test_a_broker_whose_log_nobody_reads_serves_on(tmp_path: Path) -> None:
    with launch(SERVE, tmp_path) as process:
        try:
            assert process.stderr is not None
            ready = next(match for line in process.stderr if (match := READY.search(line)))
            process.stderr.close()
            async with await connect(("127.0.0.1", int(ready[2]))) as client:
                for _ in range(3):
                    answer = await client.ask(raw(path("AdminService/Status"), fields=(BEARER,)))
                    assert answer.status == 200
            process.send_signal(signal.SIGTERM)
            assert process.wait(BOUND_SECONDS) == 0
        finally:
            process.kill()


@pytest.mark.parametrize("numbers", [(signal.SIGTERM,), *EITHER_ORDER])
async def test_a_client_that_does_not_read_is_cut_and_the_exit_code_says_so(
    tmp_path: Path, numbers: tuple[signal.Signals, ...]
) -> None:
    """In its time, though the wish to stop be told by two at once, as under `timeout`."""
    with started(tmp_path) as broker:
        async with await stalled(broker):
            broker.signal(*numbers)
            assert broker.ended() == 1
        assert broker.err.to_the_end()[-1].endswith("stopped cut=1")


@pytest.mark.parametrize("pair", EITHER_ORDER)
async def test_a_second_signal_ends_it_at_once_with_130(
    tmp_path: Path, pair: tuple[signal.Signals, signal.Signals]
) -> None:
    with started(tmp_path) as broker:
        async with await stalled(broker):
            assert await forced(broker, *pair) == 130
        said = broker.err.to_the_end()
        assert not [line for line in said if "Traceback" in line]
        assert said[-1].split(" ", 1)[1].startswith("WARN forced to stop signal=SIG")
    async with open_engine(f"file:{tmp_path}/mq.db") as engine:
        assert (await Embedded(engine).stats("large")).total == LARGE * 2 // (1024 * 1024)


async def test_a_stop_during_traffic_leaves_every_message_delivered_or_untouched(
    tmp_path: Path,
) -> None:
    """Polls that are served in the last moment either reach their client or did not happen."""
    delivered: list[int] = []
    sent: list[int] = []
    served = trio.Event()

    async def read(client: Client) -> None:
        reply = json.loads((await client.answer("POST")).body)
        delivered.extend(each["seq_number"] for each in reply["messages"])
        served.set()

    async def produce(broker: BrokerProcess) -> None:
        one = raw(path("Send"), b'{"queue":"q","messages":[{"body":"eA=="}]}', fields=(BEARER,))
        async with await broker.connect() as client:
            try:
                while True:
                    sent.extend(json.loads((await client.ask(one)).body)["seq_numbers"])
            except (EOFError, trio.BrokenResourceError):
                return  # the stop closed the connection

    with started(tmp_path) as broker:
        async with polls(broker, 40) as waiting, trio.open_nursery() as nursery:
            for client in waiting:
                nursery.start_soon(read, client)
            for _ in range(4):
                nursery.start_soon(produce, broker)
            await wait(served)
            broker.signal(signal.SIGTERM)
        assert broker.ended() == 0
    async with open_engine(f"file:{tmp_path}/mq.db") as engine:
        kept = await Embedded(engine).peek("q", max_messages=1000)
    counts = {message.seq_number: message.delivery_count for message in kept}
    assert set(sent) <= set(counts)
    assert {seq for seq, count in counts.items() if count} == set(delivered)
    assert len(set(delivered)) == len(delivered)
