"""One life of an engine in the simulated world: opened, used, interrupted, and judged."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import trio

from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import Closed
from mqlite_actor.engine.engine import Engine, EngineOptions
from mqlite_actor.engine.opening import open_engine
from tests.conformance.audit import audit_file
from tests.simulation.client import QUEUES, SUBSCRIPTIONS, TOPIC, Client
from tests.simulation.judge import judge, sent
from tests.simulation.ledger import Ledger
from tests.simulation.world import Interruption, SimulatedClock, run

CALLS: Final = 14
"""Of each client."""

LIFE_SECONDS: Final = 3_600.0
"""Of simulated time: a life that hangs comes here at once."""


@dataclass(frozen=True)
class Life:
    """What repeats a life: a seed, how it is interrupted, at which place of the first client
    (0: nowhere), and how many turns of anybody later."""

    seed: int
    ends: str
    """`cancel`: the call that stands there; `close`: the engine."""
    at: int
    turns: int = 0
    clients: int = 3


@dataclass
class Outcome:
    """How it was."""

    faults: list[str] = field(default_factory=list)
    was_interrupted: bool = False
    sent: int = 0
    trace: list[list[tuple[float, str, str]]] = field(default_factory=list)


def prepare(path: Path) -> Path:
    """Make a store with the queues of the clients."""

    async def make() -> None:
        async with open_engine(f"file:{path}", EngineOptions(clock=SimulatedClock())) as engine:
            for name, config in QUEUES.items():
                await engine.call(wire.CreateQueueRequest(name=name, config=config))
            for name in SUBSCRIPTIONS:
                await engine.call(wire.SubscribeRequest(topic=TOPIC, name=name))

    run("template", make, Interruption())
    return path


def live(template: Path, path: Path, life: Life) -> Outcome:
    """Live it on a copy of the template."""
    shutil.copyfile(template, path)
    outcome = Outcome()
    interruption = Interruption(life.at, life.turns)
    try:
        # A life begins alike whatever interrupts it, so that all places of one are tried.
        run(f"{life.seed}", lambda: _live(path, life, interruption, outcome), interruption)
        outcome.faults += audit_file(path)
    except BaseException as error:
        error.add_note(f"in {life}")
        raise
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink()
    outcome.was_interrupted = interruption.has_acted
    return outcome


async def _live(path: Path, life: Life, interruption: Interruption, outcome: Outcome) -> None:
    clock, ledger = SimulatedClock(), Ledger()
    options = EngineOptions(clock=clock, inline=life.seed % 2 == 0)
    with trio.fail_after(LIFE_SECONDS):
        async with open_engine(f"file:{path}", options) as engine:
            clients = [
                Client(f"c{number}", engine, clock, ledger, f"{life.seed} {number}")
                for number in range(life.clients)
            ]
            await _use(engine, clients, life, interruption)
            outcome.trace = [client.trace for client in clients]
            was_closed = life.ends == "close" and interruption.has_acted
            if not was_closed:
                outcome.faults += await judge(engine, clock, ledger)
        if was_closed:
            ledger.held.clear()  # an engine that opens a file ends the leases of the one before
            ledger.lost_attempts.clear()
            async with open_engine(f"file:{path}", options) as engine:
                outcome.faults += await judge(engine, clock, ledger)
    outcome.sent = len(sent(ledger))


async def _use(
    engine: Engine, clients: list[Client], life: Life, interruption: Interruption
) -> None:
    async def one(client: Client) -> None:
        if client is clients[0]:
            interruption.watch(engine.close if life.ends == "close" else client.interrupt)
        try:
            await client.live(CALLS)
        except Closed:
            return
        finally:
            if client is clients[0]:
                interruption.stop()

    async with trio.open_nursery() as nursery:
        for client in clients:
            nursery.start_soon(one, client)
