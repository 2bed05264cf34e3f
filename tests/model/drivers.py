"""Two ways to run a list of requests for the model tests: one by one through an open engine, or all
of them in one transaction.

Hypothesis steps are plain functions, so the engine lives in a trio loop in a thread of its own, and
each step goes there and back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import trio

from mqlite_actor.clock import Clock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import MqliteError
from mqlite_actor.engine import commands
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.group import run_group
from mqlite_actor.engine.opening import open_engine
from mqlite_actor.engine.sweeper import Retention, passes
from mqlite_actor.storage.sqlite import open_store

BOUND_SECONDS = 15.0

R = TypeVar("R")

Answer = wire.Response | str
"""A response, or the wire code of a refusal."""


class EngineDriver:
    """An engine on a file, in a thread of its own; requests run one after another."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._ready = threading.Event()
        self._options = EngineOptions(clock=clock, background=False)
        self._thread = threading.Thread(
            target=trio.run, args=(self._live, f"file:{path}"), name="model engine"
        )
        self._thread.start()
        assert self._ready.wait(BOUND_SECONDS)

    async def _live(self, store: str) -> None:
        async with open_engine(store, self._options) as engine:
            self._engine: Engine = engine
            self._token = trio.lowlevel.current_trio_token()
            self._stop = trio.Event()
            self._ready.set()
            await self._stop.wait()

    def ask(self, requests: list[wire.Request[Any]]) -> list[Answer]:
        return [self._run(partial(self._one, each)) for each in requests]

    def give_up(self, request: wire.Request[Any], steps: int) -> Answer | None:
        """Ask, and cancel the call so many steps of the loop later; its answer if it came first."""
        return self._run(partial(self._give_up, request, steps))

    async def _give_up(self, request: wire.Request[Any], steps: int) -> Answer | None:
        answers: list[Answer] = []

        async def ask() -> None:
            answers.append(await self._one(request))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            for _ in range(steps):
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        return answers[0] if answers else None

    def maintain(self) -> None:
        self._run(self._engine.run_maintenance_once)

    def close(self) -> None:
        self._token.run_sync_soon(self._stop.set)
        self._thread.join(BOUND_SECONDS)
        assert not self._thread.is_alive()

    async def _one(self, request: wire.Request[Any]) -> Answer:
        try:
            response: wire.Response = await self._engine.call(request)
        except MqliteError as error:
            return error.code
        return response

    def _run(self, call: Callable[[], Coroutine[Any, Any, R]]) -> R:
        return trio.from_thread.run(call, trio_token=self._token)


class GroupDriver:
    """A store without an engine; all requests of a call are one group and one transaction."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._clock = clock
        self._store = open_store(f"file:{path}")
        self._table = commands.table(message_bytes_max=limits.MESSAGE_BYTES_DEFAULT)
        self._group([commands.Recover()])

    def ask(self, requests: list[wire.Request[Any]]) -> list[Answer]:
        return self._group(requests)

    def maintain(self) -> None:
        self._group([each.command for each in passes(Retention())])

    def close(self) -> None:
        self._store.close()

    def _group(self, requests: list[Any]) -> list[Any]:
        result = run_group(self._store, self._table, requests, self._clock)
        answers: list[Any] = []
        for each in result.outcomes:
            try:
                answers.append(each.unwrap())
            except MqliteError as error:
                answers.append(error.code)
        return answers
