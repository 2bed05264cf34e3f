"""The access log of a real broker: a line per request, its fields, and what never is in it."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mqlite_actor.engine.engine import Engine
from mqlite_broker import logs
from tests.services.broker_process import BEARER, TOKEN, BrokerProcess, started
from tests.services.broker_scene import Fields, path, raw, served
from tests.services.door_client import Client

pytestmark = pytest.mark.cold  # of each kind of program, some begin as they do for users

LINE_CHARACTERS_MAX = 2_000
"""A request can carry a megabyte of path and more of a name; a log must not repeat all of it."""

HEAD = r"\d\d:\d\d:\d\d\.\d{3} "
QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
DUR = r" dur=\d+\.\d{3}ms"
SECRETS = ("c2VjcmV0LWJvZHk=", "secret-body", "secret-value", "secret-name", "secret-corr")


class Log:
    """A client of one broker, and afterwards the lines that its requests left."""

    def __init__(self, broker: BrokerProcess, client: Client) -> None:
        self.broker = broker
        self.client = client
        self.requests = 0
        self.lines: list[str] = []
        self.secrets = [TOKEN, *SECRETS]

    async def ask(
        self,
        target: str | bytes,
        body: bytes = b"",
        *,
        method: str = "POST",
        fields: Fields = (BEARER,),
    ) -> Any:  # noqa: ANN401  # decoded JSON
        """One request; what its reply holds, if that is JSON."""
        answer = await self.client.ask(raw(target, body, method=method, fields=fields))
        self.requests += 1
        if answer.headers.get("connection") == "close":
            await self.client.close()
            self.client = await self.broker.connect()
        is_json = answer.headers.get("content-type") == "application/json"
        return json.loads(answer.body) if is_json else answer.body

    async def call(self, call: str, request: object = None) -> Any:  # noqa: ANN401  # decoded JSON
        """One call of the contract."""
        return await self.ask(path(call), json.dumps(request or {}).encode())


@asynccontextmanager
async def logged(folder: Path, **environ: str) -> AsyncIterator[Log]:
    """A broker and its log; `lines` hold what stands behind the ready line once the block ends."""
    with started(folder, MQLITE_DB=":memory:", **environ) as broker:
        async with await broker.connect() as client:
            log = Log(broker, client)
            yield log
            await log.client.close()
        said = broker.stop()
    first = next(n for n, line in enumerate(said) if "try: curl" in line) + 1
    last = next(n for n, line in enumerate(said) if "stopping" in line)
    log.lines = said[first:last]


async def a_life(log: Log) -> list[str]:
    """One request of many kinds; its lines, at level info, as patterns."""
    await log.call("AdminService/CreateQueue", {"name": "q"})
    sent = {
        "message_id": "m-1",
        "body": SECRETS[0],
        "properties": {"secret-name": "secret-value"},
        "correlation_id": "secret-corr",
    }
    await log.call("Send", {"queue": "q", "messages": [sent]})
    await log.call("Send", {"queue": "q", "messages": [sent, sent]})
    (taken,) = (await log.call("Receive", {"queue": "q"}))["messages"]
    await log.call("Peek", {"queue": "q"})
    lease = {"queue": "q", "seq_number": taken["seq_number"], "lock_token": taken["lock_token"]}
    await log.call("Renew", lease)
    await log.call("Complete", lease)
    await log.call("Abandon", lease)
    batch = [{"seq_number": 1, "lock_token": taken["lock_token"]}]
    await log.call("Complete", {**lease, "lock_token": "0" * 32})
    await log.call("CompleteBatch", {"queue": "q", "messages": batch})
    await log.call("Cancel", {"queue": "q", "seq_number": 99})
    await log.call("Stats", {"queue": "q"})
    await log.call("AdminService/ListQueues")
    await log.ask(path("Stats"), b'{"queue":"q"')
    await log.ask(path("Stats"), b'{"queue":"q"}', fields=("Authorization: Bearer secret-value",))
    await log.ask("/", method="GET")
    await log.ask("/nope/x", method="GET")
    await log.ask(path("Stats"), method="GET")
    log.secrets.append(taken["lock_token"])
    return [
        "INFO AdminService/CreateQueue status=200 queue=q",
        "INFO QueueService/Send status=200 queue=q n=1 msg_id=m-1",
        "INFO QueueService/Send status=200 queue=q n=2",
        "INFO QueueService/Receive status=200 queue=q msgs=1",
        "INFO QueueService/Peek status=200 queue=q msgs=3",
        "INFO QueueService/Renew status=200 queue=q seq=1",
        "INFO QueueService/Complete status=200 queue=q seq=1",
        "WARN QueueService/Abandon status=409 queue=q seq=1 code=lock_lost",
        "WARN QueueService/Complete status=409 queue=q seq=1 code=lock_lost",
        "INFO QueueService/CompleteBatch status=200 queue=q n=1",
        "WARN QueueService/Cancel status=404 queue=q seq=99 code=not_found",
        "INFO QueueService/Stats status=200 queue=q",
        "INFO AdminService/ListQueues status=200",
        "WARN QueueService/Stats status=400 code=invalid_argument",
        "WARN QueueService/Stats status=401 code=unauthenticated",
        "INFO / status=200",
        "WARN /nope/x status=404 code=not_found",
        "WARN QueueService/Stats status=405 code=unimplemented",
    ]


@pytest.mark.promise("W129", "T73")
async def test_each_request_is_one_line_with_its_fields_in_order(tmp_path: Path) -> None:
    async with logged(tmp_path) as log:
        expected = await a_life(log)
    assert len(log.lines) == len(expected) == log.requests
    for line, pattern in zip(log.lines, expected, strict=True):
        assert re.fullmatch(HEAD + re.escape(pattern) + DUR, line), (line, pattern)
    assert not [secret for secret in log.secrets if secret in "\n".join(log.lines)]


@pytest.mark.promise("W129", "T73")
async def test_an_empty_receive_and_a_preflight_are_hidden_at_info(tmp_path: Path) -> None:
    async with logged(tmp_path) as log:
        await log.call("AdminService/CreateQueue", {"name": "q"})
        await log.call("Receive", {"queue": "q"})
        await log.ask(path("Receive"), method="OPTIONS")
        await log.call("Receive", {"queue": "nope"})
    assert [line.split(" ")[2] for line in log.lines] == [
        "AdminService/CreateQueue", "QueueService/Receive",
    ]  # fmt: skip
    assert "status=404 queue=nope code=not_found" in log.lines[1]


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize(("level", "count"), [("info", 0), ("debug", 5)])
async def test_probes_that_find_all_well_are_hidden_at_info_and_others_are_not(
    tmp_path: Path, level: str, count: int, form: str
) -> None:
    well = ("/healthz", "/healthz?verbose=1", "/readyz", "/metrics", "/healthz")
    environ = {"MQLITE_METRICS": "on", "MQLITE_LOG_LEVEL": level, "MQLITE_LOG_FORMAT": form}
    async with logged(tmp_path, **environ) as log:
        for target in well:
            await log.ask(target, method="GET")
        for target in ("/healthz/", "/metrics/", "/mqlite.v1./healthz"):
            await log.ask(target, method="GET")
        await log.ask("/metrics", method="GET", fields=())
    hidden, shown = log.lines[:count], log.lines[count:]
    assert all("DEBUG" in line.upper() for line in hidden)
    assert all("WARN" in line.upper() for line in shown)
    assert (len(hidden), len(shown)) == (count, 4)


@pytest.mark.usefixtures("mqlite_logger")
async def test_a_probe_that_finds_something_wrong_is_loud(
    engine: Engine, capfd: pytest.CaptureFixture[str]
) -> None:
    logs.set_up("info", "text")
    async with served(engine) as scene:
        engine.close()
        assert (await scene.ask("/readyz", method="GET")).status == 503
    (line,) = capfd.readouterr().err.splitlines()
    assert " ERROR /readyz status=503 code=unavailable " in line


@pytest.fixture
def mqlite_logger() -> Iterator[logging.Logger]:
    """The logger that `logs.set_up` changes, put back afterwards."""
    logger = logging.getLogger("mqlite")
    before = (logger.handlers[:], logger.level, logger.propagate)
    yield logger
    logger.handlers[:], level, logger.propagate = before
    logger.setLevel(level)


@pytest.mark.promise("W129")
@pytest.mark.parametrize(
    ("level", "shown"),
    [
        ("debug", ["INFO", "DEBUG", "WARN", "ERROR"]),
        ("info", ["INFO", "WARN", "ERROR"]),
        ("warn", ["WARN", "ERROR"]),
        ("error", ["ERROR"]),
    ],
)
@pytest.mark.usefixtures("mqlite_logger")
async def test_each_level_hides_what_is_below_it(
    engine: Engine, capfd: pytest.CaptureFixture[str], level: str, shown: list[str]
) -> None:
    logs.set_up(level, "text")
    async with served(engine) as scene:
        await scene.call("AdminService/CreateQueue", {"name": "q"})
        await scene.call("Receive", {"queue": "q"})
        await scene.call("Receive", {"queue": "none"})
        engine.close()
        assert (await scene.call("Receive", {"queue": "q"})).status == 500
    lines = capfd.readouterr().err.splitlines()
    assert [line.split(" ")[1] for line in lines] == shown


@pytest.mark.usefixtures("mqlite_logger")
async def test_a_handler_of_the_programs_own_gets_every_field_in_one_line(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    """As where `q.serve` serves, in a program that logs as it likes."""
    caplog.set_level(logging.INFO, "mqlite")
    async with served(engine) as scene:
        assert (await scene.call("Receive", {"queue": "a\nb %s"})).status == 404
    (line,) = (each for each in caplog.messages if "Receive" in each)
    found = r'QueueService/Receive status=404 queue="a\\nb %s" code=not_found' + DUR
    assert re.fullmatch(found, line), line


HOSTILE_NAMES = (
    "a\nb",
    "a\r\n12:00:00.000 INFO forged status=200",
    "\x1b[2J\x1b]52;c;eA==\x07",
    "\x9b31m",
    "\u202eevil",
    "\u2028line\u2029paragraph",
    "x status=200 code=none",
    '"quoted" \\ and spaced',
    "\x00\x7f\x08",
    "\ufeff\u200b",
)


@pytest.mark.promise("T73")
@pytest.mark.parametrize("form", ["text", "json"])
async def test_no_name_can_forge_a_line_or_drive_a_terminal(tmp_path: Path, form: str) -> None:
    async with logged(tmp_path, MQLITE_LOG_FORMAT=form) as log:
        for name in HOSTILE_NAMES:
            await log.call("Stats", {"queue": name})
            await log.call("AdminService/CreateQueue", {"name": name})
            sent = [{"message_id": name, "body": "eA=="}]
            await log.call("Send", {"queue": name, "messages": sent})
            encoded = "".join(f"%{byte:02x}" for byte in name.encode())
            await log.ask(f"/{encoded}", method="GET")
            await log.ask(f"/mqlite.v1.{encoded}")
    assert len(log.lines) == log.requests
    for line in log.lines:
        assert line.isprintable(), line
        if form == "text":
            assert re.match(HEAD + r"(INFO|WARN) ", line), line
            assert QUOTED.sub("", line).count(" status=") == 1, line


async def test_a_line_is_short_whatever_a_client_names(tmp_path: Path) -> None:
    long = "long " * 20_000
    async with logged(tmp_path) as log:
        await log.call("AdminService/CreateQueue", {"name": "q"})
        await log.call("Stats", {"queue": long})
        await log.call("Send", {"queue": "q", "messages": [{"message_id": long}]})
        await log.ask("/" + "x" * 100_000)
        await log.ask("/" + "%1b" * 100_000, fields=())
    assert len(log.lines) == log.requests
    assert max(map(len, log.lines)) <= LINE_CHARACTERS_MAX


async def test_json_lines_parse_and_carry_the_same_fields(tmp_path: Path) -> None:
    async with logged(tmp_path, MQLITE_LOG_FORMAT="json", MQLITE_TOKNS="x") as log:
        expected = await a_life(log)
    rows = [json.loads(line) for line in log.lines]
    assert len(rows) == len(expected)
    for row, pattern in zip(rows, expected, strict=True):
        level, text, *fields = pattern.split(" ")
        assert list(row)[:3] == ["at", "level", "text"]
        assert (row["level"], row["text"]) == (level.lower(), text)
        rest = {name: row[name] for name in list(row)[3:-1]}
        assert [f"{name}={value}" for name, value in rest.items()] == fields
        assert list(row)[-1] == "dur"
        assert isinstance(row["status"], int)
    assert not [secret for secret in log.secrets if secret in "\n".join(log.lines)]
