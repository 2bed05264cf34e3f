"""Opening, closing, crashing: an engine ends in order, and says truly why."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
import trio

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import (
    Closed,
    DatabaseLocked,
    Internal,
    InvalidArgument,
    MqliteError,
    SchemaVersionMismatch,
    Unsupported,
)
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine, run_engine
from mqlite_actor.sdk.embedded import Embedded, open_embedded, run_embedded
from mqlite_actor.storage.sqlite import open_store
from tests.engine.gate import (
    Call,
    Custom,
    Gate,
    bodies,
    bounded,
    create,
    parked,
    sending,
    settled,
    take,
    taking,
    teach,
)
from tests.storage.foreign import TOKEN_5, execute

Face = Callable[[str], AbstractAsyncContextManager[object]]

FACES: tuple[Face, ...] = (open_engine, open_embedded)


@pytest.fixture
def options(clock: ManualClock) -> EngineOptions:
    return EngineOptions(clock=clock, background=False)


def is_free(store: Path) -> bool:
    """Whether nobody has the file open."""
    try:
        open_store(str(store)).close()
    except DatabaseLocked:
        return False
    return True


# -- closing ---------------------------------------------------------------------------------------


@pytest.mark.promise("E145")
async def test_closing_lets_what_is_inside_end_then_frees_the_file(
    store: Path, options: EngineOptions, nursery: trio.Nursery
) -> None:
    engine = await nursery.start(run_engine, str(store), options)
    await create(engine, "q")
    stop = await Gate(engine, nursery).stop()
    queued = [Call(engine, sending("q", b"%d" % number)) for number in range(3)]
    for call in queued:
        nursery.start_soon(call.run)
        await settled()
    engine.close()
    with pytest.raises(Closed):
        await engine.call(sending("q", b"late"))
    with pytest.raises(Closed):
        await engine.call(wire.StatusRequest())
    await settled()
    assert not is_free(store), "a command is still running"
    stop.release()
    with bounded():
        for call in queued:
            await call.ended.wait()
        while not is_free(store):
            await settled()
    assert [call.error for call in queued] == [None] * 3
    async with open_engine(str(store), options) as again:
        assert await bodies(again, "q") == [b"0", b"1", b"2"]


@pytest.mark.promise("E145")
async def test_a_closed_engine_refuses_everything_at_once_and_for_good(
    store: Path, options: EngineOptions
) -> None:
    async with open_engine(str(store), options) as engine:
        await create(engine, "q")
        for _ in range(2):
            engine.close()
        errors = []
        requests: tuple[wire.Request[Any], ...] = (
            sending("q", b"x"),
            taking("q", wait_ms=20_000),
            wire.StatusRequest(),
        )
        for request in requests:
            with pytest.raises(Closed) as refusal:
                await engine.call(request)
            errors.append(refusal.value)
    assert is_free(store)
    with pytest.raises(Closed) as refusal:
        await engine.call(sending("q", b"x"))
    assert refusal.value not in errors, "each caller gets its own exception"
    with pytest.raises(Closed):
        await engine.run_maintenance_once()


async def test_leaving_the_block_lets_calls_of_other_tasks_end(
    store: Path, options: EngineOptions, nursery: trio.Nursery
) -> None:
    async with open_engine(str(store), options) as engine:
        await create(engine, "q")
        gate = Gate(engine, nursery)
        stop = await gate.stop()
        call = Call(engine, sending("q", b"x"))
        nursery.start_soon(call.run)
        await settled()
        stop.release()
    assert call.reply == wire.SendResponse(seq_numbers=[1])


# -- errors of the block ---------------------------------------------------------------------------


class Boom(Exception):
    """An application's own error."""


def boom_with_cause() -> Boom:
    error = Boom("application")
    error.__cause__ = KeyError("cause")
    return error


ERRORS: list[BaseException] = [
    boom_with_cause(),
    ExceptionGroup("mine", [Boom("one")]),
    ExceptionGroup("mine", [Boom("one"), ExceptionGroup("inner", [Boom("two")])]),
    SystemExit(3),
    KeyboardInterrupt(),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("face", FACES)
async def test_an_error_of_the_block_comes_out_as_it_is(error: BaseException, face: Face) -> None:
    cause = error.__cause__
    with pytest.raises(type(error)) as raised:
        async with face(":memory:"):
            raise error
    assert raised.value is error
    assert raised.value.__cause__ is cause


async def test_a_refused_call_comes_out_of_the_block_as_it_is() -> None:
    with pytest.raises(InvalidArgument, match="name is empty"):
        async with open_engine(":memory:") as engine:
            await create(engine, "")


async def test_cancelling_the_block_closes_in_order(store: Path, options: EngineOptions) -> None:
    with trio.CancelScope() as scope:
        async with open_engine(str(store), options) as engine:
            await create(engine, "q")
            await engine.call(sending("q", b"x"))
            scope.cancel()
            with trio.CancelScope(shield=True):
                await settled()
                with pytest.raises(Closed):
                    await engine.call(sending("q", b"too late"))
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert engine.crash is None
    assert is_free(store)
    async with open_engine(str(store), options) as engine:
        assert await bodies(engine, "q") == [b"x"]


# -- opening that fails ----------------------------------------------------------------------------


@pytest.mark.parametrize("face", FACES)
async def test_a_refused_opening_raises_its_own_class(store: Path, face: Face) -> None:
    execute(store, *TOKEN_5)
    with pytest.raises(SchemaVersionMismatch):
        async with face(f"file:{store}"):
            pytest.fail("opened")


async def test_a_locked_file_is_refused_to_every_face(store: Path, options: EngineOptions) -> None:
    async with open_engine(str(store), options), trio.open_nursery() as nursery:
        for face in FACES:
            with pytest.raises(DatabaseLocked):
                async with face(f"file:{store}"):
                    pytest.fail("opened")
        for start in (run_engine, run_embedded):
            with pytest.raises(DatabaseLocked):
                await nursery.start(start, f"file:{store}")


async def test_an_opening_that_is_cancelled_leaves_the_file_free(
    store: Path, options: EngineOptions
) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        async with open_engine(str(store), options):
            await trio.lowlevel.checkpoint()
    assert is_free(store)


# -- a nursery of one's own ------------------------------------------------------------------------


async def test_run_embedded_hands_out_a_handle_and_closes_with_its_nursery(
    store: Path, clock: ManualClock
) -> None:
    async with trio.open_nursery() as nursery:
        handle: Embedded = await nursery.start(run_embedded, f"file:{store}")
        await handle.create_queue("q")
        await handle.send_one("q", b"x")
        nursery.cancel_scope.cancel()
    assert is_free(store)
    async with open_embedded(f"file:{store}", clock=clock) as handle:
        assert [message.body for message in await handle.receive("q")] == [b"x"]


async def test_cancelling_a_nursery_runs_what_was_let_in(
    store: Path, options: EngineOptions
) -> None:
    calls: list[Call] = []
    async with trio.open_nursery() as callers, trio.open_nursery() as nursery:
        engine = await nursery.start(run_engine, str(store), options)
        await create(engine, "q")
        stop = await Gate(engine, callers).stop()
        calls = [Call(engine, sending("q", b"%d" % number)) for number in range(3)]
        for call in calls:
            callers.start_soon(call.run)
            await settled()
        nursery.cancel_scope.cancel()
        stop.release()
    assert [call.reply.seq_numbers for call in calls] == [[1], [2], [3]]
    assert is_free(store)


async def test_two_engines_of_one_program_are_apart(tmp_path: Path) -> None:
    async with trio.open_nursery() as nursery:
        first: Embedded = await nursery.start(run_embedded, f"file:{tmp_path}/a.db")
        second: Embedded = await nursery.start(run_embedded, f"file:{tmp_path}/b.db")
        for handle in (first, second):
            await handle.create_queue("q")
        await first.send_one("q", b"a")
        assert await second.receive("q") == []
        nursery.cancel_scope.cancel()


# -- a writer that breaks --------------------------------------------------------------------------

CRASHES: list[BaseException] = [SystemExit(7), KeyboardInterrupt(), GeneratorExit()]


def make_fragile(engine: Engine, crash: BaseException) -> None:
    """From now on a Custom command ends the writer."""

    def explode(_tx: object, _request: object, _now_ms: int) -> wire.EmptyResponse:
        raise crash

    teach(engine, Custom, explode)


@pytest.mark.parametrize("crash", CRASHES, ids=lambda crash: type(crash).__name__)
async def test_a_crash_of_the_writer_ends_the_block_with_its_cause(
    store: Path, options: EngineOptions, crash: BaseException
) -> None:
    async def use() -> None:
        async with open_engine(str(store), options) as engine:
            make_fragile(engine, crash)
            await engine.call(Custom())

    with pytest.raises(type(crash)) as raised:
        await use()
    assert raised.value is crash
    assert is_free(store)


async def test_a_crash_cancels_a_block_that_waits_for_something_else(
    store: Path, options: EngineOptions, nursery: trio.Nursery
) -> None:
    calls: list[Call] = []

    async def use() -> None:
        async with open_engine(str(store), options) as engine:
            make_fragile(engine, SystemExit(7))
            calls.append(Call(engine, Custom()))
            nursery.start_soon(calls[0].run)
            await trio.sleep_forever()

    with bounded(), pytest.raises(SystemExit):
        await use()
    assert isinstance(calls[0].error, Internal)
    assert "SystemExit" in calls[0].error.message


async def test_a_crash_answers_everybody_and_keeps_what_was_acknowledged(
    store: Path, options: EngineOptions, nursery: trio.Nursery
) -> None:
    calls: list[Call] = []

    async def use() -> None:
        async with open_engine(str(store), options) as engine:
            await create(engine, "q", "empty")
            await engine.call(sending("q", b"acknowledged", b"held"))
            await take(engine, "q")
            make_fragile(engine, SystemExit(7))
            calls.append(Call(engine, taking("empty", wait_ms=20_000)))
            nursery.start_soon(calls[0].run)
            await parked(engine, "empty", 1)
            stop = await Gate(engine, nursery).stop()
            for request in (sending("q", b"lost"), Custom(), sending("q", b"lost")):
                calls.append(Call(engine, request))
                nursery.start_soon(calls[-1].run)
                await settled()
            stop.release()
            await trio.sleep_forever()

    with bounded(), pytest.raises(SystemExit):
        await use()
    assert [type(call.error) for call in calls] == [Internal] * 4
    async with open_engine(str(store), options) as engine:
        assert await bodies(engine, "q", "active") == [b"acknowledged", b"held"]


async def test_a_crash_ends_the_nursery_of_run_embedded_with_its_cause(store: Path) -> None:
    async def use() -> None:
        async with trio.open_nursery() as nursery:
            handle: Embedded = await nursery.start(run_embedded, f"file:{store}")
            make_fragile(handle.engine, SystemExit(7))
            call = Call(handle.engine, Custom())
            await call.run()
            assert isinstance(call.error, Internal)
            await trio.sleep_forever()

    with bounded(), pytest.raises(BaseExceptionGroup) as raised:
        await use()
    assert raised.group_contains(SystemExit)
    assert not raised.group_contains(MqliteError)
    assert is_free(store)


# -- the wrong way in ------------------------------------------------------------------------------


async def test_a_call_from_a_foreign_thread_is_refused_at_once(engine: Engine) -> None:
    await create(engine, "q")
    refusals: list[BaseException] = []

    def call_directly() -> None:
        coroutine = engine.call(sending("q", b"x"))
        try:
            coroutine.send(None)
        except Unsupported as error:
            refusals.append(error)
        finally:
            coroutine.close()

    thread = threading.Thread(target=call_directly)
    thread.start()
    thread.join(15)
    assert "trio.from_thread.run" in str(refusals[0])
    assert await bodies(engine, "q") == []


async def test_a_thread_may_call_through_trio(engine: Engine) -> None:
    await create(engine, "q")

    def call_properly() -> wire.SendResponse:
        return trio.from_thread.run(engine.call, sending("q", b"x"))

    assert await trio.to_thread.run_sync(call_properly) == wire.SendResponse(seq_numbers=[1])


async def test_a_call_without_an_operation_is_unsupported(engine: Engine) -> None:
    with pytest.raises(Unsupported, match="Custom"):
        await engine.call(Custom())
