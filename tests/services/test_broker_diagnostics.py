"""The diagnostic log of a real broker: what it keeps over restarts, and what is in no place at
all."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.services.broker_process import BEARER, TOKEN, BrokerProcess, content, started
from tests.services.broker_scene import Fields, path, raw
from tests.services.credentials import bearer, key_request
from tests.services.door_client import Client

pytestmark = pytest.mark.cold  # of each kind of program, some begin as they do for users

NAME = "diagnostics.jsonl"
SECRETS = ("secret-body", "c2VjcmV0LWJvZHk=", "secret-value", "secret-id")
"""Of a message: its body, plain and on the wire, a property and its id."""


Document = Any
"""Decoded JSON."""


async def ask(client: Client, name: str, request: object, fields: Fields = (BEARER,)) -> Document:
    answer = await client.ask(raw(path(name), json.dumps(request).encode(), fields=fields))
    return json.loads(answer.body)


def entries(folder: Path) -> list[Document]:
    return [json.loads(line) for line in (folder / NAME).read_text().splitlines()]


async def boots(broker: BrokerProcess) -> Document:
    async with await broker.connect() as client:
        return (await ask(client, "AdminService/Observe", {}))["diagnostics"]


async def test_observe_tells_of_earlier_starts_and_how_they_ended(tmp_path: Path) -> None:
    folder = tmp_path / "private"
    with started(tmp_path, MQLITE_DIAGNOSTICS_DIR=str(folder)) as broker:
        first = await boots(broker)
        broker.stop()
    with started(tmp_path, "--diagnostics-dir", str(folder)) as broker:
        second = await boots(broker)
        broker.signal(signal.SIGKILL)
        broker.process.wait()
    with started(tmp_path, MQLITE_DIAGNOSTICS_DIR=str(folder)) as broker:
        third = await boots(broker)
        broker.stop()
    assert (first["state"], first["earlier_boots"]) == ("on", [])
    assert [each["boot_id"] for each in second["earlier_boots"]] == [first["boot_id"]]
    assert [(each["boot_id"], each["stopped"]) for each in third["earlier_boots"]] == [
        (first["boot_id"], True),
        (second["boot_id"], False),
    ]
    words = [(each["task"], each["code"]) for each in entries(folder)]
    assert words == [
        ("broker", "started"), ("broker", "stopped"), ("broker", "started"),
        ("broker", "started"), ("broker", "stopped"),
    ]  # fmt: skip
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / NAME).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("kind", ["a file", "open to others"])
def test_a_folder_that_is_no_private_one_is_refused_by_its_variable(
    tmp_path: Path, kind: str
) -> None:
    folder = tmp_path / "folder"
    if kind == "a file":
        folder.write_text("")
    else:
        folder.mkdir()
        folder.chmod(0o755)
    before = content(tmp_path)
    with started(tmp_path, MQLITE_DIAGNOSTICS_DIR=str(folder)) as broker:
        assert broker.ended() == 1
        (line,) = broker.err.to_the_end()
    assert line.startswith("error: MQLITE_DIAGNOSTICS_DIR: ")
    assert content(tmp_path) == before


@pytest.mark.promise("W55")
async def test_a_secret_is_in_no_file_no_log_no_diagnostics_and_no_observe(tmp_path: Path) -> None:
    folder = tmp_path / "private"
    environ = {"MQLITE_LOG_LEVEL": "debug", "MQLITE_DIAGNOSTICS_DIR": str(folder)}
    with started(tmp_path, "--metrics", MQLITE_MONITOR_TOKENS="monitor-word", **environ) as broker:
        async with await broker.connect() as client:
            await ask(client, "AdminService/CreateQueue", {"name": "q"})
            made = await ask(client, "AuthService/CreateKey", key_request("manage"))
            token = str(made["token"])
            sent = {"body": SECRETS[1], "message_id": SECRETS[3], "properties": {"a": SECRETS[2]}}
            await ask(client, "Send", {"queue": "q", "messages": [sent]}, bearer(token))
            (taken,) = (await ask(client, "Receive", {"queue": "q"}, bearer(token)))["messages"]
            for fields in (bearer(token), bearer(token + "x"), bearer("monitor-word")):
                await ask(client, "Stats", {"queue": "q"}, fields)
            seen = json.dumps(
                [
                    await ask(client, "AdminService/Observe", {}, bearer(token)),
                    await ask(client, "AdminService/Status", {}, bearer(token)),
                    await ask(client, "AuthService/ListKeys", {}, bearer(token)),
                ]
            )
            scraped = await client.ask(raw("/metrics", method="GET", fields=bearer(token)))
            assert scraped.status == 200
        running = content(tmp_path)
        said = "\n".join(broker.stop())
    files = [*running.items(), *content(tmp_path).items()]
    assert {name for name, _ in files} >= {"mq.db", "mq.db-wal", f"private/{NAME}"}
    of_keys = (token, token.removeprefix("mqk_"), TOKEN, "monitor-word")
    for secret in of_keys:
        assert not [name for name, data in files if data and secret.encode() in data]
        assert secret not in seen
    of_messages = (*SECRETS[:3], str(taken["lock_token"]))
    for secret in (*of_keys, *of_messages):
        assert secret not in said
        assert secret.encode() not in scraped.body
        assert secret not in (folder / NAME).read_text()
        assert secret not in seen
