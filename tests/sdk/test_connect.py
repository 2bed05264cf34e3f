"""One string, the right handle: what `connect` takes, and what it refuses before it opens."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, cast

import pytest

import mqlite_actor as mq
from mqlite_actor.contract.errors import OpenError
from tests.sdk.loops import both_loops, run

REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "a bare path": ("shop.db", {}, "file:shop.db"),
    "nothing": ("", {}, "empty"),
    "another scheme": ("ftp://host", {}, "no store"),
    "a token for a store": (":memory:", {"token": "t"}, "token: an option for a broker"),
    "an engine's option for a broker": (
        "http://h", {"synchronous": "FULL"}, "synchronous: an option for a store"
    ),
    "an unknown option": ("http://h", {"retries": 3}, "retries: unknown option; there are"),
    "a CA without TLS": ("http://h", {"ca_file": "x"}, "not TLS"),
    "a CA that is not there": ("https://h", {"ca_file": "nowhere.pem"}, "ca_file"),
    "no text": (cast("str", 7), {}, "not int"),
}  # fmt: skip


async def enter(dsn: str, options: dict[str, Any]) -> None:
    async with mq.connect(dsn, **options):
        raise AssertionError("it was opened")


@pytest.mark.parametrize("name", REFUSED)
def test_a_string_or_option_that_does_not_fit_is_refused_with_the_mend(name: str) -> None:
    dsn, options, reason = REFUSED[name]
    run("trio", lambda: _refuse(dsn, options, reason))
    with pytest.raises(mq.InvalidArgument, match=reason), mq.connect_sync(dsn, **options):
        raise AssertionError("it was opened")


async def _refuse(dsn: str, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(mq.InvalidArgument, match=reason):
        await enter(dsn, options)


def test_a_remote_store_that_is_not_there_is_an_error_of_opening() -> None:
    dsn = "libsql://127.0.0.1:1?tls=0"

    async def main() -> None:
        with pytest.raises(OpenError, match="cannot be reached"):
            await enter(dsn, {})

    run("trio", main)
    run("asyncio", main)
    with pytest.raises(OpenError), mq.connect_sync(dsn):
        raise AssertionError("it was opened")


@both_loops
def test_a_store_gives_a_handle_with_transactions(backend: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with mq.connect(f"file:{tmp_path}/mq.db") as q:
            assert isinstance(q, mq.Embedded)
            await q.create_queue("q")
            assert await q.run_tx(lambda tx: tx.send_one("q", b"1")) == 1

    run(backend, main)


@both_loops
def test_a_broker_that_is_not_there_is_unavailable_and_wait_ready_gives_up(backend: str) -> None:
    async def main() -> None:
        async with mq.connect("http://127.0.0.1:1") as q:
            with pytest.raises(mq.Unavailable, match="cannot connect to"):
                await q.status()
            with pytest.raises(mq.Unavailable):
                await q.wait_ready(seconds=0.01)

    run(backend, main)
    with mq.connect_sync("http://127.0.0.1:1") as q, pytest.raises(mq.Unavailable):
        q.wait_ready(seconds=0.01)


@both_loops
def test_a_name_that_is_no_host_is_unavailable(backend: str) -> None:
    async def main() -> None:
        async with mq.connect("http://no-such-host.invalid:6754") as q:
            with pytest.raises(mq.Unavailable):
                await q.status()

    run(backend, main)


def test_the_url_of_a_store_that_holds_a_credential_is_not_shown() -> None:
    with pytest.raises(mq.MqliteError) as caught, mq.connect_sync("libsql://h?authToken=hidden"):
        raise AssertionError("it was opened")
    assert "hidden" not in str(caught.value)


def test_without_its_package_every_way_to_a_broker_from_a_loop_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "httpcore", None)
    monkeypatch.delitem(sys.modules, "mqlite_actor.sdk.http_async", raising=False)
    lacking = pytest.raises(mq.Unsupported, match=r"install mqlite-actor\[client\]")
    dsn = "mqlite://token@127.0.0.1:1"

    async def main() -> None:
        with lacking:
            await enter(dsn, {})

    run("trio", main)
    run("asyncio", main)
    with mq.connect_sync(dsn) as q:
        with lacking:
            q.receiver("q").run(print)
        with lacking:
            q.queue("q", int).receiver().run(print)
        with lacking, mq.requester_sync(q, "q", reply_to="answers"):
            raise AssertionError("it was opened")
