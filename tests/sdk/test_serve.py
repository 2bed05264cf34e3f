"""`q.serve`: an embedded engine that is a broker for a while, and goes on without it."""

from __future__ import annotations

import json
import re
import resource
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
import trio
import trio.testing
import trustme

from mqlite_actor import Embedded, ServeInfo, open_embedded
from mqlite_actor.contract.errors import InvalidArgument, OpenError
from mqlite_actor.sdk.serve import ServeOptions
from mqlite_broker.embedding import settings_of
from tests.engine.gate import until as eventually
from tests.services.broker_scene import Fields, message, path, raw
from tests.services.cli_process import clean_environ
from tests.services.door_client import PATIENCE, Answer, Client, connect

ANYWHERE = "127.0.0.1:0"


@pytest.fixture
async def q(store: Path) -> AsyncIterator[Embedded]:
    async with open_embedded(f"file:{store}", background=False) as q:
        await q.create_queue("q")
        yield q


@asynccontextmanager
async def serving(q: Embedded, **options: object) -> AsyncIterator[ServeInfo]:
    """A broker for the length of the block; then it is cancelled, and has to end."""
    async with trio.open_nursery() as nursery:
        serve = {"addr": ANYWHERE, **options}

        async def run(task_status: trio.TaskStatus[ServeInfo]) -> None:
            await q.serve(**serve, task_status=task_status)  # type: ignore[arg-type]  # by tests

        yield await nursery.start(run)
        nursery.cancel_scope.cancel()


def reached(info: ServeInfo) -> tuple[str, int]:
    host, _, port = info.address.rpartition(":")
    return host, int(port)


async def ask(info: ServeInfo, call: str, request: object = None, *, token: str = "") -> Answer:
    fields: Fields = (f"Authorization: Bearer {token or info.token}",)
    async with await connect(reached(info)) as client:
        return await client.ask(raw(path(call), json.dumps(request or {}).encode(), fields=fields))


async def test_the_address_and_a_generated_token_are_handed_out_and_work(q: Embedded) -> None:
    async with serving(q) as info:
        assert re.fullmatch(r"mqk_[0-9a-f]{64}", info.token)
        assert re.fullmatch(r"127\.0\.0\.1:[1-9]\d*", info.address)
        assert info.url == f"http://{info.address}"
        sent = await ask(info, "Send", {"queue": "q", "messages": [{"body": "eA=="}]})
        assert sent.status == 200
        (received,) = await q.receive("q")
        assert received.body == b"x"
        assert (await ask(info, "Stats", {"queue": "q"}, token="wrong")).status == 401
        assert info.token not in repr(info)


@pytest.mark.parametrize("tokens", ["a, b", ["a", " b "], ("a", "b")])
async def test_given_tokens_work_and_none_is_handed_out(
    q: Embedded, tokens: str | list[str]
) -> None:
    async with serving(q, tokens=tokens, monitor_tokens="m", metrics=True) as info:
        assert info.token == ""
        for token, status in (("a", 200), ("b", 200), ("m", 403), ("c", 401)):
            answer = await ask(info, "Stats", {"queue": "q"}, token=token)
            assert answer.status == status
        assert (await ask(info, "AdminService/Observe", token="m")).status == 200
        async with await connect(reached(info)) as client:
            scraped = raw("/metrics", method="GET", fields=("Authorization: Bearer m",))
            assert (await client.ask(scraped)).status == 200


async def test_the_card_says_what_it_was_told(q: Embedded) -> None:
    said = {"version": "9.9", "docs_url": "https://docs.example", "cors": "https://a.example"}
    async with serving(q, tokens="off", **said) as info, await connect(reached(info)) as client:
        answer = await client.ask(raw("/", method="GET", fields=()))
        card = json.loads(answer.body)
        assert (card["version"], card["auth"]) == ("9.9", "none")
        assert card["docs"] == "https://docs.example"
        assert answer.headers["access-control-allow-origin"] == "https://a.example"
        status = await client.ask(raw(path("AdminService/Status"), b"{}", fields=()))
        assert json.loads(status.body)["version"] == "9.9"


BAD: dict[str, tuple[dict[str, object], str]] = {
    "no address": ({"addr": "nowhere"}, "addr"),
    "no port": ({"addr": "127.0.0.1:x"}, "addr"),
    "open to the network": ({"addr": ":0", "tokens": "off"}, "loopback"),
    "no token in the list": ({"tokens": []}, "tokens"),
    "blank tokens": ({"tokens": " "}, "tokens"),
    "a token that nobody can send": ({"tokens": ["a secret"]}, "tokens"),
    "a token with a comma": ({"tokens": ["a,secret"]}, "tokens"),
    "monitors without administrators": (
        {"tokens": "off", "monitor_tokens": "secret"},
        "monitor_tokens",
    ),
    "one token for both": ({"tokens": "secret", "monitor_tokens": ["secret"]}, "monitor_tokens"),
    "metrics for anybody": ({"tokens": "off", "metrics": True}, "metrics"),
    "no origin": ({"cors": "a\r\nb"}, "cors"),
    "no connection": ({"connections_max": 0}, "connections_max"),
    "no certificate": ({"tls": ("none.pem", "none.pem")}, "none.pem"),
}


@pytest.mark.parametrize(("options", "word"), BAD.values(), ids=BAD.keys())
async def test_what_serve_refuses_is_refused_and_the_engine_goes_on(
    q: Embedded, options: dict[str, object], word: str
) -> None:
    serve = {"addr": ANYWHERE, **options}
    with pytest.raises(InvalidArgument) as caught:
        await q.serve(**serve)  # type: ignore[arg-type]  # by the table above
    assert word in caught.value.message
    assert "secret" not in caught.value.message
    await q.send_one("q", b"x")


async def test_an_origin_that_no_browser_names_is_told_of(
    q: Embedded, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(q, cors="https://a.example/"):
        pass
    assert [each for each in caplog.messages if each.startswith("cors='https://a.example/' is not")]
    async with serving(q, cors="https://a.example/mqk_misplaced"):
        pass
    assert "cors='https://a.example/mqk_***' is not" in caplog.text
    assert "misplaced" not in caplog.text


async def test_a_busy_address_is_an_error_of_opening(q: Embedded) -> None:
    async with serving(q) as info:
        with pytest.raises(OpenError, match="in use"):
            await q.serve(info.address)
        assert (await ask(info, "Stats", {"queue": "q"})).status == 200


async def test_its_end_answers_its_polls_and_leaves_the_programs_own_waiting(
    q: Embedded, nursery: trio.Nursery
) -> None:
    mine: list[bytes] = []

    async def receive() -> None:
        mine.extend([each.body for each in await q.receive("q", wait=20)])

    async def poll(client: Client, answers: list[Answer], token: str) -> None:
        body = b'{"queue":"q","wait_time_ms":20000}'
        fields = (f"Authorization: Bearer {token}",)
        async with client:
            answers.append(await client.ask(raw(path("Receive"), body, fields=fields)))

    def waiting() -> int:
        waiters: dict[str, int] = q.engine.statistics()["waiters"]
        return waiters.get("q", 0)

    nursery.start_soon(receive)
    await eventually(lambda: waiting() == 1)
    answers: list[Answer] = []
    async with trio.open_nursery() as polls:
        async with serving(q) as info:
            for _ in range(20):
                client = await connect(reached(info))
                polls.start_soon(poll, client, answers, info.token)
            await eventually(lambda: waiting() == 21)
        with trio.fail_after(PATIENCE), pytest.raises(OSError, match=r"."):
            await trio.open_tcp_stream(*reached(info))
    assert [(each.status, each.body) for each in answers] == [(200, b'{"messages":[]}\n')] * 20
    assert {each.headers["connection"] for each in answers} == {"close"}
    assert (waiting(), mine) == (1, [])
    await q.send_one("q", b"for the program")
    await eventually(lambda: bool(mine))
    assert mine == [b"for the program"]
    assert q.engine.unready == ""


async def test_a_request_that_never_ends_is_cut_within_three_seconds(
    q: Embedded, mock_clock: trio.testing.MockClock
) -> None:
    async with trio.open_nursery() as nursery:
        info = await nursery.start(lambda task_status: q.serve(ANYWHERE, task_status=task_status))
        async with await connect(reached(info)) as client:
            fields = (f"Authorization: Bearer {info.token}", "Content-Length: 10")
            whole = raw(path("Stats"), fields=fields, method="POST").replace(
                b"Content-Length: 0\r\n", b""
            )
            await client.send(whole + b"half")
            await trio.testing.wait_all_tasks_blocked()
            began = trio.current_time()
            nursery.cancel_scope.cancel()
            mock_clock.rate = 0
            with trio.CancelScope(shield=True):
                await trio.testing.wait_all_tasks_blocked()
                mock_clock.jump(2.5)
                assert await client.ended() == b""
        assert trio.current_time() - began <= 3
    await q.send_one("q", b"x")


async def test_it_can_be_served_again_and_twice_at_once(q: Embedded) -> None:
    for _ in range(2):
        async with serving(q) as one, serving(q) as two:
            assert one.address != two.address
            assert (await ask(one, "Stats", {"queue": "q"}, token=two.token)).status == 401
            assert (await ask(two, "Stats", {"queue": "q"})).status == 200


async def test_keys_of_the_engine_work_at_its_broker(q: Embedded) -> None:
    async with serving(q) as info:
        request = {"id": "0" * 32, "name": "n", "permissions": ["send"], "expires_at_ms": 0}
        reply = json.loads((await ask(info, "AuthService/CreateKey", request)).body)
        sent = {"queue": "q", "messages": [{}]}
        assert (await ask(info, "Send", sent, token=reply["token"])).status == 200
        assert (await ask(info, "Peek", {"queue": "q"}, token=reply["token"])).status == 403
    async with serving(q) as info:
        assert (await ask(info, "Send", sent, token=reply["token"])).status == 200


async def test_its_clients_back_up_into_one_folder_and_its_program_anywhere(
    q: Embedded,
    store: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    away, kept = tmp_path_factory.mktemp("away"), tmp_path_factory.mktemp("kept")
    monkeypatch.setenv("HOME", str(away))
    for backup_dir, own in (("", store.parent), (str(kept), kept)):
        (own / "out").symlink_to(away)
        async with serving(q, backup_dir=backup_dir) as info:
            made = await ask(info, "AdminService/Backup", {"path": "mine.db"})
            assert json.loads(made.body)["path"] == str(own / "mine.db")
            for elsewhere in (f"{away}/x.html", f"../{away.name}/x", "out/x", f"{own}/out/x"):
                refused = await ask(info, "AdminService/Backup", {"path": elsewhere})
                assert (refused.status, str(own) in message(refused)) == (400, True)
            assert (await ask(info, "AdminService/Backup", {"path": "~/x"})).status == 400
    assert list(away.iterdir()) == []
    await q.backup(str(away / "mine.db"))
    assert (away / "mine.db").is_file()


async def test_it_serves_https_with_a_context_or_with_paths(q: Embedded, tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    both = str(tmp_path / "both.pem")
    issued.private_key_and_cert_chain_pem.write_to_path(both)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    issued.configure_cert(context)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    for tls in (context, (both, both)):
        async with serving(q, tls=tls) as info:
            assert info.url == f"https://{info.address}"
            plain = await trio.open_tcp_stream(*reached(info))
            async with trio.SSLStream(plain, trusting, server_hostname="127.0.0.1") as stream:
                await stream.send_all(raw("/healthz", method="GET"))
                assert bytes(await stream.receive_some()).startswith(b"HTTP/1.1 200")


async def test_the_readiness_of_its_broker_is_the_engines(q: Embedded) -> None:
    async with serving(q) as info, await connect(reached(info)) as client:
        assert (await client.ask(raw("/readyz", method="GET", fields=()))).body == b"ready"
        q.engine.stop_waiting()
        answer = await client.ask(raw("/readyz", method="GET", fields=()))
        assert (answer.status, message(answer)) == (503, "not ready: it is closing")


OPTIONS = ServeOptions(
    addr=ANYWHERE, tokens="secret", monitor_tokens=["secret"], metrics=False, cors="", ui=True,
    version="", docs_url="", tls=None, connections_max=None, backup_dir="",
    insecure_allow_remote=False,
)  # fmt: skip


def test_its_options_show_no_token() -> None:
    assert "secret" not in repr(OPTIONS)


def test_its_connections_leave_the_program_its_open_files(monkeypatch: pytest.MonkeyPatch) -> None:
    options = msgspec.structs.replace(OPTIONS, monitor_tokens=())
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = len(list(Path("/dev/fd").iterdir())) - 1
    for soft, wanted, most in (
        (resource.RLIM_INFINITY, 2000, 2000),
        (100_000, 2000, 2000),
        (held + 64 + 200, None, 200),
        (held + 64 + 200, 100, 100),
        (16, None, 1),
    ):
        monkeypatch.setattr(resource, "getrlimit", lambda _, soft=soft: (soft, soft))
        chosen = settings_of(msgspec.structs.replace(options, connections_max=wanted))
        assert most - 2 <= chosen.connections_max <= most, (soft, wanted)
    monkeypatch.undo()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before


def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    """In a program of its own, where the packages of the broker cannot be found."""
    code = f"""
import sys, trio
sys.modules["quart"] = None
from mqlite_actor import MqliteError, open_embedded
async def main():
    async with open_embedded("file:{tmp_path}/mq.db") as q:
        try:
            await q.serve("127.0.0.1:0")
        except MqliteError as error:
            print(type(error).__name__, error)
trio.run(main)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        env=clean_environ({}), timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(
        "Unsupported serving needs packages that are not installed (quart)"
    )
    assert "pip install 'mqlite-actor[broker]'" in done.stdout
