"""Dead letters that move to another queue take their bodies along: how much one chunk may write."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.ext import RedriveOutcome, RedriveResult, RedriveSelectedRequest
from mqlite_actor.engine import commands
from mqlite_actor.engine.engine import Engine
from mqlite_actor.semantics import dead_letters
from mqlite_actor.semantics.dead_letters import Chunk
from tests.conformance import asking
from tests.engine.gate import create, sending
from tests.remote.afar import afar
from tests.storage.writer import Writer, writing

MIB = limits.MIB
BODY = b"x" * 1000
PER_CHUNK = 3


@pytest.fixture(params=["near", "far"])
def writer(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Writer]:
    """One with the queues `q` and `other`, whose groups have room for three bodies."""
    folder = tmp_path_factory.mktemp(request.param)
    monkeypatch.setattr(limits, "INLINE_BYTES_MAX", len(BODY) - 1)
    monkeypatch.setattr(limits, "GROUP_BYTES_MAX", PER_CHUNK * len(BODY))
    if request.param == "far":
        with afar(folder) as place:
            yield made(place.writer)
    else:
        with writing(folder / "q.db", clock=ManualClock()) as opened:
            yield made(opened)
            opened.check()


def made(writer: Writer) -> Writer:
    for name in ("q", "other"):
        writer.create(name)
    return writer


def buried(writer: Writer, *bodies: bytes) -> list[int]:
    """Dead letters in `q`."""
    sent = writer.send("q", *bodies)
    for message in writer.take("q", len(bodies)):
        writer.ask(wire.RejectRequest(**asking.lease("q", message)))
    return sent


def chunk(writer: Writer, target: str, *, after: int = 0, limit: int = limits.CHORE_ROWS) -> Chunk:
    command = commands.RedriveChunk("q", target, after, limits.INT64_MAX, limits.INT64_MAX, limit)
    found: Chunk = writer.group(command)[0].unwrap()
    return found


def test_a_chunk_ends_with_the_body_that_reaches_the_bytes_of_a_group(writer: Writer) -> None:
    numbers = buried(writer, *[BODY] * 7)
    assert chunk(writer, "other") == (PER_CHUNK, numbers[2])
    assert chunk(writer, "other", after=numbers[2], limit=2) == (2, numbers[4])
    assert chunk(writer, "other", after=numbers[4]) == (2, numbers[6])
    assert chunk(writer, "other", after=numbers[6]) == (0, limits.INT64_MAX)
    assert writer.bodies("other") == [BODY] * 7
    assert writer.bodies("q") == []


def test_one_that_is_larger_than_a_group_moves_alone(writer: Writer) -> None:
    numbers = buried(writer, BODY * 4, b"", BODY)
    assert chunk(writer, "other") == (1, numbers[0])
    assert chunk(writer, "other", after=numbers[0]) == (2, numbers[2])


@pytest.mark.parametrize("target", ["", "q"])
def test_in_place_no_body_moves_and_none_counts(writer: Writer, target: str) -> None:
    numbers = buried(writer, *[BODY] * 7)
    assert chunk(writer, target) == (7, numbers[6])


@pytest.mark.parametrize("target", ["q", "other"])
def test_so_does_a_chunk_of_those_that_were_picked(writer: Writer, target: str) -> None:
    """Those that do not move cost nothing, and what is left is asked again."""
    numbers = buried(writer, *[BODY] * 5)
    asked = (1_000_000, *numbers[:2], numbers[0], *numbers[2:])

    def answers(*picked: int) -> list[int]:
        command = commands.RedriveSelectedChunk("q", target, picked)
        found: list[RedriveResult] = writer.group(command)[0].unwrap()
        assert [each.outcome for each in found].count(RedriveOutcome.MOVED) == len(
            set(numbers) & {each.seq_number for each in found}
        )
        return [each.seq_number for each in found]

    if target == "q":
        assert answers(*asked) == list(asked)
        return
    assert answers(*asked) == [1_000_000, *numbers[:2], numbers[0], numbers[2]]
    assert answers(*numbers[3:]) == numbers[3:]
    assert writer.bodies("other") == [BODY] * 5


async def test_a_redrive_of_large_messages_lets_others_in_between(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("q", "other"):
        await create(engine, name)
    bodies = [bytes([each]) * MIB for each in range(20)]
    for each in bodies:
        await engine.call(sending("q", each))
    for message in await asking.take(engine, "q", len(bodies)):
        await asking.reject(engine, "q", message)
    chunks: list[int] = []
    run = dead_letters.redrive_chunk

    def noted(*args: object, **bounds: object) -> Chunk:
        chunks.append(len(chunks))
        return run(*args, **bounds)  # type: ignore[arg-type]  # as they came

    monkeypatch.setattr(dead_letters, "redrive_chunk", noted)
    assert (await engine.call(wire.RedriveRequest(queue="q", target="other", max=19))).moved == 19
    assert len(chunks) == 3
    assert (await engine.call(wire.RedriveRequest(queue="q", target="other"))).moved == 1
    assert [m.body for m in await asking.take(engine, "other", len(bodies))] == bodies


async def test_large_messages_that_were_picked_are_all_answered(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "GROUP_BYTES_MAX", PER_CHUNK * len(BODY))
    for name in ("q", "other"):
        await create(engine, name)
    for _ in range(10):
        await engine.call(sending("q", BODY))
    numbers = []
    for message in await asking.take(engine, "q", 10):
        await asking.reject(engine, "q", message)
        numbers.append(message.seq_number)
    request = RedriveSelectedRequest(queue="q", seq_numbers=[*numbers, numbers[0]], target="other")
    reply = await engine.call(request)
    assert [each.seq_number for each in reply.results] == request.seq_numbers
    assert [each.outcome for each in reply.results] == [
        *[RedriveOutcome.MOVED] * 10, RedriveOutcome.NOT_FOUND,
    ]  # fmt: skip
    assert reply.moved == 10
