"""The lane on real sockets: what it serves, what it hands over, and how its connections end."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence

import pytest
import trio

from mqlite_actor.engine.engine import Engine
from mqlite_broker.door import DoorLimits
from mqlite_broker.door_connection import Connection
from mqlite_broker.door_state import Phase
from mqlite_broker.lane_connection import LaneConnection
from tests.services.broker_scene import BEARER, LOOPBACK, Scene, path, raw, served
from tests.services.door_client import (
    NEVER,
    PATIENCE,
    Client,
    connect,
    open_files,
    request,
    until,
)
from tests.services.lane_scene import LIST, POLL, SEND, SHORT, STATS, UNKNOWN, create, served_by

# -- what it serves, and what it hands over --------------------------------------------------------


async def test_plain_calls_stay_in_the_lane(engine: Engine) -> None:
    async with served(engine) as scene, await scene.connect() as client:
        for _ in range(3):
            answer = await client.ask(LIST)
            assert (answer.status, answer.body) == (200, b'{"queues":[]}\n')
            assert set(answer.headers) == {
                "content-type", "content-length", "date", "access-control-allow-origin",
            }  # fmt: skip
            assert served_by(scene) == [LaneConnection]


async def test_without_the_lane_hypercorn_serves_calls_and_keeps_the_connection(
    engine: Engine,
) -> None:
    async with served(engine, MQLITE_LANE="off") as scene, await scene.connect() as client:
        for _ in range(3):
            answer = await client.ask(LIST)
            assert (answer.status, "connection" in answer.headers) == (200, False)
            assert served_by(scene) == [Connection]


async def test_a_page_moves_its_connection_and_the_next_call_ends_it(engine: Engine) -> None:
    """Ruling R47: a proxy's pool must not stay on the slow door."""
    async with served(engine) as scene, await scene.connect() as client:
        assert (await client.ask(LIST)).status == 200
        for _ in range(2):
            page = await client.ask(request("/healthz"))
            assert (page.status, page.body, "connection" in page.headers) == (200, b"ok", False)
            assert served_by(scene) == [Connection]
        answer = await client.ask(LIST)
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert await client.ended() == b""


@pytest.mark.parametrize("odd", [b"?a=b", b"%2f"])
async def test_a_call_that_is_not_plain_is_answered_and_ends_its_connection(
    engine: Engine, odd: bytes
) -> None:
    async with served(engine) as scene, await scene.connect() as client:
        answer = await client.ask(LIST.replace(b" HTTP", odd + b" HTTP"))
        assert answer.status == (200 if odd.startswith(b"?") else 404)
        assert answer.headers["connection"] == "close"
        assert await client.ended() == b""


async def test_a_request_may_come_in_any_pieces(engine: Engine) -> None:
    async with served(engine) as scene, await scene.connect() as client:
        await create(scene)
        for byte in SEND:
            await client.send(bytes([byte]))
            await trio.lowlevel.checkpoint()
        assert (await client.answer("POST")).body == b'{"seq_numbers":[1]}\n'
        for cut in range(1, len(SEND), 7):
            await client.send(SEND[:cut])
            await trio.lowlevel.checkpoint()
            await client.send(SEND[cut:] + STATS)
            assert (await client.answer("POST")).status == 200
            assert json.loads((await client.answer("POST")).body)["total"] > 1
        assert LaneConnection in served_by(scene)


async def test_a_client_that_wants_no_other_is_let_go(engine: Engine) -> None:
    async with served(engine) as scene, await scene.connect() as client:
        answer = await client.ask(LIST.replace(b"Host", b"Connection: close\r\nHost"))
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert await client.ended() == b""
        await until(lambda: not served_by(scene))


async def test_a_last_answer_is_not_lost_to_what_the_client_still_sends(engine: Engine) -> None:
    last = LIST.replace(b"Host", b"Connection: close\r\nHost")
    async with served(engine) as scene:
        for behind in (LIST, LIST * 2000, b"\0" * 100_000):
            async with await scene.connect() as client:
                await client.send(last + behind)
                assert (await client.answer("POST")).status == 200
                await client.stream.send_eof()
                assert await client.ended() == b""


async def test_a_connection_that_is_dismissed_between_two_requests_just_ends(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever its task is about to do: its descriptor may be another connection's by then."""
    async with served(engine) as scene:
        for turns in range(12):
            async with await scene.connect() as client:
                await client.send(UNKNOWN * 40 + UNKNOWN[:30])
                for _ in range(turns):
                    await trio.lowlevel.checkpoint()
                for guest in list(scene.door.door._connections.values()):
                    guest.dismiss()
        await until(lambda: not served_by(scene))
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


# -- pipelines -------------------------------------------------------------------------------------


async def test_ten_thousand_pipelined_requests_are_answered_in_order(engine: Engine) -> None:
    """Most of them wait for nobody; every hundredth is committed first. What waits, waits in the
    kernel."""
    number = 10_000
    held: list[int] = []

    def asked(n: int) -> bytes:
        return SEND if n % 100 == 0 else UNKNOWN.replace(b"Nope", b"Nope%05d" % n)

    async with (
        served(engine) as scene,
        await scene.connect() as client,
        trio.open_nursery() as nursery,
    ):
        await create(scene)
        everything = b"".join(map(asked, range(number)))
        nursery.start_soon(client.send, everything)
        for n in range(number):
            answer = await client.answer("POST")
            if n % 100:
                assert f"Nope{n:05d}".encode() in answer.body
            else:
                assert json.loads(answer.body) == {"seq_numbers": [n // 100 + 1]}
                guests = scene.door.door._connections.values()
                held += [len(g._rest) for g in guests if isinstance(g, LaneConnection)]
        assert max(held) <= 2 * 64 * 1024 + 256 * 1024


async def test_a_pipeline_of_refused_requests_lets_others_in_between(engine: Engine) -> None:
    async with served(engine) as scene, await scene.connect() as client:
        await client.send(UNKNOWN * 300)
        other = await scene.ask("/healthz", method="GET")
        assert other.status == 200
        for _ in range(300):
            assert (await client.answer("POST")).status == 404


async def test_pipelining_without_end_behind_a_poll_ends_the_connection(engine: Engine) -> None:
    """Unread bytes would keep back the news that the client has left (faults B64)."""
    async with served(engine) as scene, await scene.connect() as client:
        await create(scene)
        with trio.fail_after(PATIENCE):
            with pytest.raises(trio.BrokenResourceError):
                await client.stream.send_all(POLL + LIST * 50_000)
            await until(lambda: not served_by(scene))
        assert engine.statistics()["waiters"] == {}


async def test_a_leaving_is_seen_behind_a_full_window_of_pipelined_requests(
    engine: Engine,
) -> None:
    async with served(engine) as scene:
        await create(scene)
        client = await scene.connect()
        await client.send(POLL + LIST * 500)
        await until(lambda: bool(engine.statistics()["waiters"]))
        await client.close()
        await until(lambda: not served_by(scene))
        assert engine.statistics()["waiters"] == {}


# -- deadlines, stalled readers, the cap, the stop -------------------------------------------------


@pytest.mark.parametrize("sent", [b"", b"P", SEND[:60], LIST + SEND[:60], LIST])
async def test_a_client_that_says_no_more_is_closed_without_a_word(
    engine: Engine, sent: bytes
) -> None:
    async with served(engine, LOOPBACK, SHORT) as scene, await scene.connect() as client:
        await client.send(sent)
        if sent.startswith(LIST):
            assert (await client.answer("POST")).status == 200
        assert await client.ended() == b""
        await until(lambda: not served_by(scene))


async def stored(scene: Scene, number: int) -> int:
    """Store messages of a mebibyte; their bytes on the wire."""
    await create(scene)
    body = "A" * (1024 * 1024 // 3 * 4)
    for _ in range(number):
        await scene.ok("Send", {"queue": "q", "messages": [{"body": body}]})
    return number * len(body)


async def test_a_client_that_stops_reading_is_cut_and_what_it_had_begun_counts(
    engine: Engine,
) -> None:
    limits = DoorLimits(write_stall_seconds=0.2)
    take = raw(path("Receive"), b'{"queue":"q","max_messages":20}')
    async with served(engine, LOOPBACK, limits) as scene:
        await stored(scene, 20)
        client = await connect(scene.door.address, receive_buffer=4096)
        await client.send(take)
        await until(lambda: scene.door.phases() == [Phase.ANSWER])
        await until(lambda: not served_by(scene))
        await client.close()
        found = (await scene.ok("Peek", {"queue": "q", "max": 1}))["messages"]
        assert [(each["state"], each["delivery_count"]) for each in found] == [("active", 1)]


async def test_a_large_answer_arrives_whole_at_a_slow_reader(engine: Engine) -> None:
    async with served(engine) as scene:
        size = await stored(scene, 8)
        async with await connect(scene.door.address, receive_buffer=4096) as client:
            await client.send(raw(path("Peek"), b'{"queue":"q","max":8}'))
            answer = await client.answer("POST")
            assert len(answer.body) > size
            assert len(json.loads(answer.body)["messages"]) == 8
            assert (await client.ask(LIST)).status == 200


async def test_the_cap_counts_the_connections_of_both_doors(engine: Engine) -> None:
    async with (
        served(engine, LOOPBACK, DoorLimits(connections_max=2)) as scene,
        await scene.connect() as lane,
        await scene.connect() as door,
    ):
        assert (await lane.ask(LIST)).status == 200
        assert (await door.ask(request("/healthz"))).status == 200
        assert set(served_by(scene)) == {Connection, LaneConnection}
        async with await scene.connect() as third:
            assert (await third.ask(LIST)).status == 200
            assert await lane.ended() == b"", "the idlest one makes room"
            assert (await door.ask(request("/healthz"))).status == 200


async def test_at_the_stop_polls_get_an_empty_list_and_idle_connections_end(
    engine: Engine,
) -> None:
    limits = DoorLimits(grace_seconds=NEVER)
    async with served(engine, LOOPBACK, limits) as scene:
        await create(scene)
        async with await scene.connect() as idle, await scene.connect() as poll:
            assert (await idle.ask(LIST)).status == 200
            await poll.send(POLL)
            await until(lambda: bool(engine.statistics()["waiters"]))
            scene.door.stopping.set()
            assert await idle.ended() == b""
            engine.stop_waiting()
            answer = await poll.answer("POST")
            assert (answer.status, answer.body) == (200, b'{"messages":[]}\n')
            assert answer.headers["connection"] == "close"
            assert await poll.ended() == b""
        assert await scene.door.result() == 0


async def test_what_outlasts_the_grace_is_cut_and_counted(engine: Engine) -> None:
    async with served(engine, LOOPBACK, DoorLimits(grace_seconds=0.1)) as scene:
        await create(scene)
        async with await scene.connect() as poll:
            await poll.send(POLL)
            await until(lambda: bool(engine.statistics()["waiters"]))
            assert await scene.door.stop() == 1
            assert await poll.ended() == b""
        assert engine.statistics()["waiters"] == {}


async def test_every_end_gives_its_descriptor_back(engine: Engine) -> None:
    async def ends(client: Client, sent: Sequence[bytes]) -> None:
        for each in sent:
            await client.send(each)
        await trio.lowlevel.checkpoint()
        await client.close()

    async with served(engine) as scene:
        await create(scene)
        found = []
        for _ in range(4):  # at first the engine opens, as it needs them, what it keeps
            for sent in ([], [b"POST"], [LIST], [POLL], [request("/")], [SEND[:-3]], [POLL, LIST]):
                for _ in range(5):
                    await ends(await scene.connect(), sent)
            await until(lambda: not served_by(scene))
            found.append(open_files())
        *earlier, last = found
        new = last.items() - earlier[-1].items()
        assert len(last) <= max(len(each) for each in earlier), new


async def test_a_fault_of_ours_ends_its_own_connection_only(
    engine: Engine, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(engine) as scene, await scene.connect() as other:
        assert (await other.ask(LIST)).status == 200
        async with await scene.connect() as client:
            with monkeypatch.context() as broken:
                broken.setattr(LaneConnection, "_reply", None)
                await client.send(LIST)
                assert await client.ended() == b""
        assert (await other.ask(LIST)).status == 200
    errors = [r for r in caplog.records if r.levelno >= logging.ERROR]
    assert [(r.name, r.getMessage()) for r in errors] == [
        ("mqlite.door", "an error ended a connection")
    ]


async def test_the_same_fields_stand_in_the_answers_of_both_doors(engine: Engine) -> None:
    async with served(engine, MQLITE_CORS="https://a.example") as scene:
        for call in ("AdminService/Observe", "AdminService/ListQueues", "QueueService/Nope"):
            lane = await scene.ask(path(call), b"{}", fields=(BEARER,))
            door = await scene.ask(path(call) + "?", b"{}", fields=(BEARER, "Connection: close"))
            assert set(lane.headers) | {"connection"} == set(door.headers)
            ours = {**lane.headers, "date": "", "content-length": ""}
            assert ours.items() <= {**door.headers, "date": "", "content-length": ""}.items()
