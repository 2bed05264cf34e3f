"""Clients that a soak must bear: those that send or read slowly, and one that floods the mailbox.

`drip` and `dawdle` live at the broker's port, half of what they begin is never ended. `flood` is a
program at the link that asks for more than the mailbox takes while a foreign lock holds the writer;
whatever it is told goes into the ledger like any producer's answer.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import trio

from mqlite_actor.contract import limits, observe, wire
from mqlite_actor.contract.errors import LockLost, OutcomeUnknown, WorldError
from mqlite_actor.sdk.linked import Linked, open_link
from tests.services.broker_process import BEARER, BrokerProcess
from tests.services.broker_scene import path, raw
from tests.soak.ledger import Ledger
from tests.storage.foreign import start_holder, stop

SMALL_BUFFER = 4_096
"""What the kernel takes for a client that does not read."""

PIPELINE = 8
"""Large answers asked for at once by somebody who reads none of them."""

CUT_OFF = (OSError, EOFError, trio.BrokenResourceError, trio.TooSlowError)
"""Its worker was killed, or the machine is busy; such a client has no answer to be sure of."""

MOMENT_SECONDS = 0.2
SENDS = 1_000
FLOOD = limits.MAILBOX_COMMANDS_MAX + 4_000
"""Sends, and for the rest completions without a lease, which store nothing. Some groups more than
fit: one that waits BUSY_MS for the lock is refused."""

NO_LEASE = wire.CompleteRequest("plain", 1, "0" * 32)

HOLD = (f"PRAGMA busy_timeout={limits.BUSY_MS}", "BEGIN IMMEDIATE")
FULL_SECONDS = 20.0
"""How long the mailbox may take to fill; a second on a quiet machine."""


class Hostile:
    """What they did, in `deeds` of the ledger."""

    def __init__(self, broker: BrokerProcess, ledger: Ledger, seed: int) -> None:
        self._broker = broker
        self._ledger = ledger
        self._dice = Random(seed)

    async def drip(self) -> None:
        """A request that comes a few bytes at a time, and now and then not to its end."""
        request = raw(path("Stats"), json.dumps({"queue": "plain"}).encode(), fields=(BEARER,))
        end = self._dice.choice((len(request), len(request) // 2))
        try:
            async with await self._broker.connect() as client:
                for place in range(0, end, 40):
                    await client.send(request[place : min(place + 40, end)])
                    await trio.sleep(MOMENT_SECONDS)
                if end == len(request):
                    assert (await client.answer()).status in (200, 503)
        except CUT_OFF as error:
            self._ledger.errors[type(error).__name__] += 1

    async def dawdle(self) -> None:
        """Ask for large answers, read next to nothing of them, and leave."""
        body = json.dumps({"queue": "plain", "max": 200}).encode()
        try:
            async with await self._broker.connect(receive_buffer=SMALL_BUFFER) as client:
                for _ in range(PIPELINE):
                    await client.send(raw(path("Peek"), body, fields=(BEARER,)))
                await client.exactly(100)
                await trio.sleep(10 * MOMENT_SECONDS)
                if self._dice.random() < 0.5:
                    client.reset()
        except CUT_OFF as error:
            self._ledger.errors[type(error).__name__] += 1

    async def flood(self, link: str, store: Path, every: float) -> None:
        """Fill the mailbox now and then; for ever."""
        async with open_link(link) as q:
            while True:
                bodies = self._ledger.bodies(SENDS)
                holder = await trio.to_thread.run_sync(start_holder, store, *HOLD)
                try:
                    async with trio.open_nursery() as nursery:
                        for _ in range(FLOOD):
                            nursery.start_soon(self._complete_nothing, q)
                        for body in bodies:
                            nursery.start_soon(self._send, q, body)
                        is_full = await self._is_full(q)
                        stop(holder)
                finally:
                    holder.kill()
                self._ledger.deeds["full mailbox"] += is_full
                await trio.sleep(every)

    async def _send(self, q: Linked, body: str) -> None:
        try:
            await q.send_one("plain", f"{body} ".encode())
        except OutcomeUnknown:
            self._ledger.errors["OutcomeUnknown"] += 1  # the doubt stays
        except WorldError as error:
            self._ledger.errors[type(error).__name__] += 1
            self._ledger.were_refused([body])
        else:
            self._ledger.were_sent([body])

    async def _complete_nothing(self, q: Linked) -> None:
        try:
            await q.call(NO_LEASE)
        except LockLost:
            self._ledger.errors["no lease"] += 1
        except WorldError as error:
            self._ledger.errors[type(error).__name__] += 1
        else:
            self._ledger.faults.append("a lease that nobody had was completed")

    async def _is_full(self, q: Linked) -> bool:
        with trio.move_on_after(FULL_SECONDS):
            while True:
                depth = (await q.call(observe.ObserveRequest())).mailbox_depth or 0
                if depth >= limits.MAILBOX_COMMANDS_MAX:
                    return True
                await trio.sleep(MOMENT_SECONDS / 4)
        return False
