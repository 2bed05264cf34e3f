"""How much one group gives out: a page or so, whoever asks; then its callers have their turn."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import ext, limits, wire
from mqlite_actor.contract.errors import Internal, OutcomeUnknown
from mqlite_actor.contract.wire import Message, MessagesResponse
from mqlite_actor.engine import given
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.group import run_group
from mqlite_actor.engine.opening import open_engine
from mqlite_actor.engine.outcomes import NOT_RUN, GroupResult
from tests.engine.gate import (
    Call,
    Custom,
    Gate,
    bounded,
    completing,
    create,
    sending,
    settled,
    take,
    taking,
)
from tests.remote.afar import afar
from tests.storage.fault_vfs import Fault, faulty
from tests.storage.writer import Writer, writing

PAGE = 4000
BODY = bytes(1000)
EACH = 4
"""So many of these fill a page."""

CALLERS = 40


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PAGE_BYTES_MAX", PAGE)
    monkeypatch.setattr(limits, "ENVELOPE_BYTES", 0)


@pytest.fixture(params=["in the thread", "at once", "in memory"])
async def engine(request: pytest.FixtureRequest, store: Path) -> AsyncIterator[Engine]:
    """An engine of each way to run a group; a look is a command of the one in memory."""
    dsn = ":memory:" if request.param == "in memory" else f"file:{store}"
    options = EngineOptions(
        clock=ManualClock(), background=False, inline=request.param == "at once"
    )
    async with open_engine(dsn, options) as engine:
        yield engine


def groups_of(engine: Engine) -> list[int]:
    """What each group gives out from now on, in bytes of bodies."""
    seen: list[int] = []
    ran = engine._actor._ran

    def note(result: GroupResult) -> None:
        values = [getattr(each, "value", None) for each in result.outcomes]
        shown = [message for value in values for message in getattr(value, "messages", [])]
        seen.append(sum(len(getattr(each, "message", each).body) for each in shown))
        ran(result)

    engine._actor._ran = note
    return seen


async def at_once(engine: Engine, requests: list[wire.Request[Any]]) -> list[Call]:
    """Calls that reach the writer together, when all have ended."""
    calls = [Call(engine, each) for each in requests]
    with bounded():
        async with trio.open_nursery() as nursery:
            stop = await Gate(engine, nursery).stop()
            for call in calls:
                nursery.start_soon(call.run)
                await settled()
            stop.release()
    return calls


# -- whoever asks ----------------------------------------------------------------------------------


async def claims(_: Engine) -> list[wire.Request[Any]]:
    return [taking("q", EACH)] * CALLERS


async def single_claims(_: Engine) -> list[wire.Request[Any]]:
    return [taking("q")] * (EACH * CALLERS)


async def removals(_: Engine) -> list[wire.Request[Any]]:
    return [wire.ReceiveRequest(queue="q", max_messages=EACH, receive_mode=1)] * CALLERS


async def attempts(_: Engine) -> list[wire.Request[Any]]:
    return [
        wire.ReceiveRequest(queue="q", max_messages=EACH, receive_attempt_id=f"{n}")
        for n in range(CALLERS)
    ]


async def repeated_attempts(engine: Engine) -> list[wire.Request[Any]]:
    asked = await attempts(engine)
    for request in asked:
        await engine.call(request)
    return asked


async def set_aside(engine: Engine) -> list[wire.Request[Any]]:
    asked: list[wire.Request[Any]] = []
    for _ in range(CALLERS):
        found = await take(engine, "q", EACH)
        for each in found:
            await engine.call(
                wire.DeferRequest(queue="q", seq_number=each.seq_number, lock_token=each.lock_token)
            )
        numbers = [each.seq_number for each in found]
        asked.append(wire.ReceiveDeferredRequest(queue="q", seq_numbers=numbers))
    return asked


TAKERS = [claims, single_claims, removals, attempts, repeated_attempts, set_aside]


@pytest.mark.parametrize("asks", TAKERS)
async def test_no_group_gives_out_more_than_two_pages_and_everybody_is_served(
    engine: Engine, asks: Callable[..., Any]
) -> None:
    await create(engine, "q")
    for _ in range(CALLERS):
        await engine.call(sending("q", *[BODY] * EACH))
    requests = await asks(engine)
    seen = groups_of(engine)
    calls = await at_once(engine, requests)
    each = EACH * CALLERS // len(requests)
    taken = [[message.seq_number for message in call.reply.messages] for call in calls]
    expected = iter(range(1, EACH * CALLERS + 1))
    assert taken == [[next(expected) for _ in range(each)] for _ in requests], "in their order"
    assert max(seen) <= 2 * PAGE
    assert sum(seen) == EACH * CALLERS * len(BODY)


async def test_who_is_answered_has_his_turn_before_much_more_is_read(engine: Engine) -> None:
    await create(engine, "q")
    for _ in range(CALLERS):
        await engine.call(sending("q", *[BODY] * EACH))
    calls = [Call(engine, taking("q", EACH)) for _ in range(CALLERS)]
    held: list[int] = []
    ran = engine._actor._ran

    def note(result: GroupResult) -> None:
        taken = sum(call.ended.is_set() for call in calls)
        held.append(len(held) - taken)
        ran(result)

    with bounded():
        async with trio.open_nursery() as nursery:
            stop = await Gate(engine, nursery).stop()
            engine._actor._ran = note
            for call in calls:
                nursery.start_soon(call.run)
                await settled()
            stop.release()
    assert len(held) == 1 + CALLERS
    assert max(held) <= 2, "pages that nobody has yet"


@pytest.mark.parametrize(
    "look",
    [
        wire.PeekRequest(queue="q", max=EACH),
        ext.SearchRequest(queue="q", max=EACH, include_bodies=True),
    ],
    ids=["peek", "search"],
)
async def test_looks_that_the_writer_answers_are_bounded_alike(
    engine: Engine, look: wire.Request[Any]
) -> None:
    await create(engine, "q")
    await engine.call(sending("q", *[BODY] * EACH))
    seen = groups_of(engine)
    calls = await at_once(engine, [look] * CALLERS)
    assert all(len(call.reply.messages) == EACH for call in calls)
    assert max(seen) <= 2 * PAGE


async def test_what_gives_out_nothing_is_one_group_still(engine: Engine) -> None:
    await create(engine, "q")
    seen = groups_of(engine)
    await at_once(engine, [sending("q", BODY)] * CALLERS + [taking("other")] * CALLERS)
    assert len(seen) == 2, "the stop, and all of these"


@pytest.mark.parametrize(
    "message",
    [
        Message(body=b"x" * 700),
        Message(subject="x" * 100, reply_to="y" * 17),
        Message(dead_letter_reason="x", dead_letter_description="y" * 116),
        Message(properties={"a" * 300: "b" * 400}),
    ],
)
def test_a_message_weighs_what_it_holds(message: Message) -> None:
    weight = given.weigh([MessagesResponse(messages=[message, message])])
    assert 1400 <= weight <= 1408
    found = ext.FoundMessage(message=message, body_bytes=0)
    assert given.weigh([ext.SearchResponse(messages=[found])]) * 2 == weight
    assert given.weigh([wire.EmptyResponse(), Internal("x")]) == 0


def test_an_envelope_weighs_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ENVELOPE_BYTES", 7)
    assert given.weigh([MessagesResponse(messages=[Message()] * 3)] * 2) == 42


# -- a group by itself -----------------------------------------------------------------------------


@pytest.fixture(params=["near", "far"])
def writer(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Writer]:
    if request.param == "far":
        with afar(tmp_path) as place:
            yield place.writer
    else:
        with writing(tmp_path / "q.db", clock=ManualClock()) as writer:
            writer.create("q")
            yield writer


def run(writer: Writer, *requests: object) -> GroupResult:
    return run_group(writer.store, writer.table, requests, writer.clock)


def kinds(result: GroupResult) -> list[type | None]:
    return [
        None if each is NOT_RUN else type(getattr(each, "value", getattr(each, "error", None)))
        for each in result.outcomes
    ]


def test_a_group_ends_with_who_fills_the_page(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer.store.ledger, "_page_bytes", PAGE)
    writer.send("q", *[BODY] * (3 * EACH))
    result = run(writer, *[taking("q", EACH)] * 3)
    assert kinds(result) == [MessagesResponse, None, None]
    assert result.given == PAGE
    assert result.commits == 1
    assert len(writer.take("q", 9 * EACH)) == EACH, "nothing was claimed for who is left"


def test_a_group_that_is_run_one_by_one_ends_alike(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer.store.ledger, "_page_bytes", PAGE)
    writer.send("q", *[BODY] * (3 * EACH))
    held = writer.take("q")[0]

    def fail(_tx: object, _request: object, _now_ms: int) -> object:
        raise LookupError

    writer.table[Custom] = fail
    claims = [taking("q", EACH)] * 2
    result = run(writer, Custom(), *claims, sending("q", b"x"), completing("q", held))
    assert kinds(result) == [Internal, MessagesResponse, None, None, wire.OkResponse]
    claimed, sent = writer.group(claims[0], sending("q", b"x"))
    assert len(claimed.unwrap().messages) == EACH
    assert sent.unwrap().seq_numbers == [3 * EACH + 1], "once"


@pytest.mark.parametrize("head", ["a look", "a settlement"])
def test_whoever_heads_a_group_is_answered_in_it(
    writer: Writer, monkeypatch: pytest.MonkeyPatch, head: str
) -> None:
    monkeypatch.setattr(writer.store.ledger, "_page_bytes", PAGE)
    writer.send("q", *[BODY] * (2 * EACH))
    (message,) = writer.take("q")
    pair: list[object] = [completing("q", message), wire.PeekRequest(queue="q", max=EACH)]
    if head == "a look":
        pair.reverse()
    result = run(writer, *pair)
    assert result.outcomes[0] is not NOT_RUN
    while NOT_RUN in result.outcomes:  # a look that has just come does not pass it
        (left,) = (
            each for each, done in zip(pair, result.outcomes, strict=True) if done is NOT_RUN
        )
        pair = [left, wire.PeekRequest(queue="q", max=EACH)]
        result = run(writer, *pair)
        assert result.outcomes[0] is not NOT_RUN
    assert writer.ask(wire.StatsRequest(queue="q")).locked == 0


def test_a_lost_commit_is_told_to_those_who_were_in_it_and_to_nobody_else(tmp_path: Path) -> None:
    with faulty() as vfs, writing(tmp_path / "q.db", synchronous="FULL") as writer:
        writer.create("q")
        writer.send("q", *[BODY] * EACH)
        vfs.arm(Fault("sync", 1))
        result = run(writer, taking("q", EACH), sending("q", b"x"))
        vfs.disarm()
        assert kinds(result) == [OutcomeUnknown, None]
        assert kinds(run(writer, sending("q", b"x"))) == [wire.SendResponse]
        looked = writer.ask(wire.PeekRequest(queue="q", from_seq=EACH + 1)).messages
        assert [message.body for message in looked] == [b"x"]
