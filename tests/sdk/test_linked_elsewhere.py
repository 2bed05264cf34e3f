"""`unix:` for programs that do not run trio: blocking ones and those on asyncio."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator

import pytest

import mqlite_actor as mq
from tests.conformance.broker import running_broker


@pytest.fixture(scope="module")
def link() -> Iterator[str]:
    """The connection string of a broker's link."""
    with tempfile.TemporaryDirectory(prefix="mqlite-") as folder:
        path = f"{folder}/link"
        with running_broker(":memory:", MQLITE_LINK_SOCKET=path):
            yield f"unix:{path}"


def test_a_blocking_program_sends_receives_and_settles(link: str) -> None:
    with mq.connect_sync(link) as q:
        q.create_queue("blocking")
        number = q.send_one("blocking", b"hello")
        (message,) = q.receive("blocking", wait=5)
        assert (message.seq_number, message.body) == (number, b"hello")
        message.complete()
        assert q.stats("blocking").total == 0
        with pytest.raises(mq.NotFound):
            q.send_one("nowhere", b"x")


@pytest.mark.parametrize("where", ["embedded", "link"])
def test_a_claim_that_a_blocking_program_gave_back_is_claimed_anew(where: str, link: str) -> None:
    with mq.open_embedded_sync(":memory:") if where == "embedded" else mq.connect_sync(link) as q:
        q.create_queue("given")
        q.send_one("given", b"x")
        tokens = set()
        for attempt in ("", "an id", "an id"):
            (message,) = q.receive("given", attempt_id=attempt)
            tokens.add(message.lock_token)
            q.give_back("given", [message.raw], attempt_id=attempt)
        (again,) = q.receive("given", attempt_id="an id")
        assert again.delivery_count == 1
        assert again.lock_token not in tokens
        again.complete()


def test_a_blocking_receiver_runs_over_the_link(link: str) -> None:
    seen: list[bytes] = []
    with mq.connect_sync(link) as q:
        q.create_queue("worked")
        q.send("worked", [b"a", b"b"])
        receiver = q.receiver("worked")

        def handle(message: mq.SyncReceivedMessage) -> None:
            seen.append(message.body)
            if len(seen) == 2:
                receiver.stop()

        receiver.run(handle)
        assert sorted(seen) == [b"a", b"b"]
        assert q.stats("worked").total == 0


def test_a_program_on_asyncio_does_the_same(link: str) -> None:
    async def main() -> None:
        async with mq.connect(link) as q:
            await q.create_queue("loop")
            await q.send_one("loop", b"hello")
            (message,) = await q.receive("loop", wait=5)
            await message.complete()
            assert (await q.stats("loop")).total == 0

    asyncio.run(main())


def test_a_cancelled_receive_on_asyncio_claims_nothing(link: str) -> None:
    async def main() -> None:
        async with mq.connect(link) as q:
            await q.create_queue("waited")
            waiting = asyncio.ensure_future(q.receive("waited", wait=20))
            await q.stats("waited")
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await q.send_one("waited", b"x")
            (message,) = await q.receive("waited", wait=5)
            assert message.delivery_count == 1

    asyncio.run(main())


@pytest.mark.parametrize("dsn", ["unix:", "unix://host/path"])
def test_a_path_that_is_none_is_refused_with_the_mend(dsn: str) -> None:
    with pytest.raises(mq.InvalidArgument, match="write unix:/"), mq.connect_sync(dsn):
        raise AssertionError("it was opened")


def test_nobody_behind_the_path_is_unavailable() -> None:
    with pytest.raises(mq.Unavailable), mq.connect_sync("unix:/nonexistent/link"):
        raise AssertionError("it was opened")
