"""One tour over every named verb, on every face: what the signatures promise is there.

The conformance suite speaks in requests; here the verbs themselves are called, as programs call
them: on trio, on asyncio and blocking, in this process, over HTTP and over a link. `stops` has to
name every verb of a handle, so that a new one cannot be forgotten.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import signal
import sys
import tempfile
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

import mqlite_actor as mq
from mqlite_actor.contract.wire import StatsRequest
from tests.sdk.loops import run
from tests.sdk.test_faces import verbs
from tests.services.broker_process import TOKEN, started, started_by
from tests.services.cli_process import BOUND_SECONDS

Face = Any
"""A handle of any colour, seen as an async one."""


class Awaited:
    """A blocking thing whose methods are awaitable, each in a thread of its own."""

    def __init__(self, thing: object) -> None:
        self._thing = thing

    def __getattr__(self, name: str) -> object:
        found = getattr(self._thing, name)
        if not callable(found):
            return found

        async def call(*arguments: object, **options: object) -> object:
            plain = [each._thing if isinstance(each, Awaited) else each for each in arguments]
            reply = await anyio.to_thread.run_sync(partial(found, *plain, **options))
            return _awaited(reply)

        return call


def _awaited(reply: object) -> object:
    if isinstance(reply, list):
        return [_awaited(each) for each in reply]
    return Awaited(reply) if isinstance(reply, mq.SyncReceivedMessage) else reply


def plain(messages: list[Any]) -> list[Any]:
    """What a blocking verb can take."""
    return [each._thing if isinstance(each, Awaited) else each for each in messages]


async def settled(found: Any) -> Any:  # noqa: ANN401  # what few verbs give without waiting
    """What a verb gave, which is plain on an async face and awaitable on a blocking one."""
    return await found if inspect.isawaitable(found) else found


async def queues(q: Face, _: Path) -> set[str]:
    """Queues and subscriptions come and go."""
    await q.create_queue("q", max_delivery_count=2, lock_duration=30)
    described = await q.describe_queue("q")
    changed = await q.update_queue("q", generation=described.generation, lock_duration=60)
    assert changed.lock_duration_ms == 60_000
    assert changed.max_delivery_count == 2
    assert [each.name for each in await q.list_queues()] == ["q"]
    await q.subscribe("news", "tea", filter="subject == 'tea'")
    assert [each.name for each in await q.list_subscriptions()] == ["tea"]
    assert (await q.test_filter("1 == 2", mq.Message())).valid
    assert await q.send("news", [b"1"]) == [0]
    gone = await q.delete_subscription("news", "tea")
    assert gone.deleted
    await q.create_queue("other")
    await q.delete_queue("other", generation=(await q.describe_queue("other")).generation)
    assert (await q.status()).subscriptions == 0
    return {
        "create_queue", "describe_queue", "update_queue", "list_queues", "subscribe",
        "list_subscriptions", "test_filter", "delete_subscription", "delete_queue", "status",
    }  # fmt: skip


async def messages(q: Face, _: Path) -> set[str]:
    """Messages come, wait, are handled, and are given back."""
    first = await q.send_one("q", b"one", properties={"n": "1"})
    assert await q.send("q", [b"two", "three"]) == [first + 1, first + 2]
    assert await q.send_all("q", [{"n": 4}]) == [first + 3]
    (slot,) = await q.send_result("q", [b"five"], request_id="an id")
    assert slot.outcome == "inserted"
    later = await q.send_one("q", b"later", at=datetime.now(UTC) + timedelta(hours=1))
    await q.cancel("q", later)
    assert len(await q.peek("q", max_messages=9)) == 5
    assert (await q.stats("q")).active == 5
    taken = await q.receive("q", max_messages=5, wait=1)
    assert (await q.explain("q", first)).reason == "locked"
    assert await q.release(plain([taken[4]])) == [True]
    assert await q.renew_batch(plain(taken[:4])) == [True] * 4
    await (await settled(q.message("q", first, taken[0].lock_token))).renew()
    await taken[0].defer()
    (deferred,) = await q.receive_deferred("q", [first])
    await deferred.complete()
    assert await q.complete_batch(plain(taken[1:3])) == [True, True]
    await taken[3].reject("no number", "it has none")
    await q.give_back("q", [each.raw for each in plain(await q.receive("q"))])
    (found,) = await q.search("q", state="active")
    assert (found.message.seq_number, found.message.delivery_count) == (slot.seq_number, 0)
    return {
        "send_one", "send", "send_all", "send_result", "cancel", "peek", "stats", "receive",
        "explain", "release", "renew_batch", "message", "receive_deferred", "complete_batch",
        "give_back", "search",
    }  # fmt: skip


async def repairs(q: Face, folder: Path) -> set[str]:
    """Dead letters are mended; a snapshot is made; the rest goes."""
    (dead,) = await q.peek("q", state="dead_lettered")
    assert await q.resubmit("q", dead.seq_number, body={"n": 5}) == dead.seq_number
    for message in await q.receive("q", max_messages=2):
        await message.reject("again", "and again")
    (moved, unknown) = await q.redrive_selected("q", [dead.seq_number, 10_000])
    assert (moved.outcome, moved.new_seq_number) == ("moved", dead.seq_number)
    assert unknown.new_seq_number == 0
    assert await q.redrive("q", max_messages=1) == 1
    assert (await q.backup(str(folder / "copy.db"))).done
    assert (folder / "copy.db").exists()
    assert await q.purge_active("q", expected_count=2) == 2
    assert await q.purge("q") == 0
    return {"resubmit", "redrive_selected", "redrive", "backup", "purge_active", "purge"}


async def rest(q: Face, _: Path) -> set[str]:
    """Keys, health, readiness, and the raw call below all verbs."""
    key_id = mq.generate_key_id()
    assert await q.find_key(key_id) is None
    made = await q.create_key(key_id, name="worker", permissions=["send"])
    assert made.token.startswith("mqk_")
    assert await q.find_key(key_id) == made.key
    assert (await q.list_keys()).keys == [made.key]
    await q.revoke_key(key_id)
    assert (await q.find_key(key_id)).revoked_at_ms > 0
    assert [each.queue for each in (await q.observe()).queues] == ["q"]
    assert (await q.wait_ready()).queues == 1
    assert (await q.call(StatsRequest(queue="q"))).total == 0
    await q.pause(0.0)
    assert await settled(q.now_ms()) > 0
    return {
        "create_key", "find_key", "list_keys", "revoke_key", "observe", "wait_ready", "call",
        "pause", "now_ms",
    }  # fmt: skip


STOPS: tuple[Callable[[Face, Path], Awaitable[set[str]]], ...] = (queues, messages, repairs, rest)

ELSEWHERE = {"consume", "queue", "receiver", "reply"}
"""What is built on these verbs, and toured in test_conveniences and test_receiver."""


async def tour(q: Face, folder: Path) -> None:
    """Every stop, which together name every verb."""
    named: set[str] = set()
    for stop in STOPS:
        named |= await stop(q, folder)
    assert named == set(verbs(mq.Handle)) - ELSEWHERE


PLACES = ("embedded", "http", "link")


@contextmanager
def address_of(place: str, folder: Path) -> Iterator[str]:
    """A connection string that leads there."""
    if place == "embedded":
        yield f"file:{folder / 'mq.db'}"
        return
    with tempfile.TemporaryDirectory() as short, ExitStack() as stack:
        link = Path(short) / "link"
        broker = stack.enter_context(started(folder, "--link-socket", str(link)))
        url = broker.url
        yield f"unix:{link}" if place == "link" else url.replace("http://", f"mqlite://{TOKEN}@")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("backend", ["trio", "asyncio"])
def test_the_verbs_of_a_loop(tmp_path: Path, backend: str, place: str) -> None:
    with address_of(place, tmp_path) as address:

        async def main() -> None:
            async with mq.connect(address) as q:
                await tour(q, tmp_path)

        run(backend, main)


@pytest.mark.parametrize("place", PLACES)
def test_the_verbs_of_a_blocking_program(tmp_path: Path, place: str) -> None:
    with address_of(place, tmp_path) as address, mq.connect_sync(address) as q:

        async def main() -> None:
            await tour(Awaited(q), tmp_path)

        run("trio", main)


# -- a broker for a while --------------------------------------------------------------------------


def card_of(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(url, timeout=BOUND_SECONDS) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


class Told:
    """What a loop of asyncio gives to `serve` to be told where it listens."""

    def __init__(self) -> None:
        self.info: mq.ServeInfo | None = None
        self._known = anyio.Event()

    def started(self, value: mq.ServeInfo | None = None) -> None:
        self.info = value
        self._known.set()

    async def wait(self) -> mq.ServeInfo:
        await self._known.wait()
        assert self.info is not None
        return self.info


def test_a_program_on_asyncio_is_a_broker_until_its_task_is_cancelled(tmp_path: Path) -> None:
    async def main() -> None:
        async with mq.open_embedded(f"file:{tmp_path / 'mq.db'}") as q:
            await q.create_queue("q")
            told = Told()
            serving = asyncio.ensure_future(q.serve("127.0.0.1:0", task_status=told))
            info = await told.wait()
            assert (await asyncio.to_thread(card_of, info.url))["name"] == "mqlite"
            async with mq.connect(info.url, token=info.token) as client:
                await client.send_one("q", b"over the wire")
            serving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await serving
            assert (await q.stats("q")).active == 1, "the engine goes on"

    run("asyncio", main)


def test_a_blocking_program_is_a_broker_until_it_is_interrupted(tmp_path: Path) -> None:
    script = """
import mqlite_actor as mq
class Told:
    def started(self, info):
        print(info.url, flush=True)
with mq.open_embedded_sync("file:mq.db") as q:
    q.create_queue("q")
    try:
        q.serve("127.0.0.1:0", tokens="process-token", task_status=Told())
    except KeyboardInterrupt:
        print("active", q.stats("q").active, flush=True)
"""
    with started_by((sys.executable, "-c", script), tmp_path) as program:
        url = program.out.first("http.+")[0]
        with mq.connect_sync(url, token=TOKEN) as client:
            client.send_one("q", b"over the wire")
        program.signal(signal.SIGINT)
        assert program.process.wait(BOUND_SECONDS) == 0
        assert program.out.to_the_end() == [url, "active 1"]
