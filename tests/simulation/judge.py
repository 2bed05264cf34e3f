"""Holds the ledger against what an engine shows when its clients have ended.

Every acknowledged message is there exactly if its removal was not acknowledged; nobody's lock is
left; what is kept as counts equals what is there; an acknowledged settlement asked for again is
acknowledged again and changes nothing; and in the end everything can be taken and completed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

import trio
from msgspec.structs import replace

from mqlite_actor.clock import Clock
from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.errors import MqliteError
from mqlite_actor.engine.engine import Engine
from tests.simulation.client import EVERYWHERE
from tests.simulation.ledger import Ledger, Told
from tests.simulation.world import SLOW_SECONDS

AFTERLIFE_SECONDS: Final = 30.0
"""Every lease and every delay of a life is over after this."""

MOMENTS_MAX: Final = 1_000

Seen = dict[str, list[wire.Message]]


async def judge(engine: Engine, clock: Clock, ledger: Ledger) -> list[str]:
    """Every way in which the engine and its clients disagree."""
    found = list(ledger.faults)
    seen = await look(engine)
    for queue, messages in seen.items():
        found += _presence(queue, messages, ledger)
        found += _locks(queue, messages, ledger, clock.now_ms())
        found += await _counts(engine, queue)
    found += await _receipts(engine, ledger, seen)
    found += await _afterlife(engine, ledger)
    return found + await _leftovers(engine)


async def _leftovers(engine: Engine) -> list[str]:
    """What waits although no client is there any more; commands of the passes come and go."""
    moments = 0
    while engine.statistics()["mailbox_commands"] and moments < MOMENTS_MAX:
        moments += 1
        await trio.sleep(0.01)
    statistics = engine.statistics()
    left = {name: statistics[name] for name in ("waiters", "mailbox_commands", "mailbox_bytes")}
    return [f"{name} after the end: {value}" for name, value in left.items() if value]


async def look(engine: Engine) -> Seen:
    """Everything that is there."""
    return {
        queue: (await engine.call(wire.PeekRequest(queue=queue, max=limits.PEEK_MAX))).messages
        for queue in EVERYWHERE
    }


def _presence(queue: str, messages: list[wire.Message], ledger: Ledger) -> Iterator[str]:
    times = Counter(message.body for message in messages)
    yield from (
        f"{queue} has {body!r} {number} times" for body, number in times.items() if number > 1
    )
    purgeable = 0
    for told in ledger.messages.values():
        if told.place[0] != queue:
            continue
        is_there = told.place[1] in times
        if is_there and not told.is_sent:
            yield f"{told.place} is there, and its send raised"
        if is_there and told.is_over:
            yield f"{told.place} is there after its removal was acknowledged"
        if told.deliveries and not told.is_sent:
            yield f"{told.place} was delivered, and its send raised"
        if told.is_sent and not told.is_over and not is_there:
            if not told.may_be_dead:
                yield f"{told.place} was acknowledged and is lost"
            purgeable += 1
    said, may_be_more = ledger.purged[queue], queue in ledger.half_purged
    if purgeable != said and not (may_be_more and purgeable > said):
        yield f"{queue}: purges said {said}, and {purgeable} are gone"


SWEEP_MS: Final = 1000 * (limits.SWEEP_SECONDS + 2 * max(SLOW_SECONDS))
"""How long a lock may show after its end: the sweep comes at its time, behind a group that is slow,
and may be slow itself."""


def _locks(queue: str, messages: list[wire.Message], ledger: Ledger, now_ms: int) -> Iterator[str]:
    lost = {request.queue for request in ledger.lost_attempts}
    by_number = {message.seq_number: message for message in messages}
    for message in messages:
        seq = message.seq_number
        # Whoever was told that his lease is over holds it no more, and the sweep comes at its time.
        is_over = message.locked_until_ms <= now_ms < message.locked_until_ms + SWEEP_MS
        is_held = seq in ledger.held or queue in lost or is_over
        if message.state == "locked" and not is_held:
            yield f"{queue} {seq} is locked, and nobody holds it"
        told = ledger.messages.get((queue, message.body))
        if told and ledger.knows_count(told) and message.delivery_count != told.deliveries:
            counts = f"{message.delivery_count}, was delivered {told.deliveries} times"
            yield f"{queue} {seq} counts {counts}"
    for seq, lease in ledger.held.items():
        if lease.told.place[0] == queue and lease.ends_ms > now_ms:
            held = by_number.get(seq)
            if held is None or held.state != "locked":
                yield f"{queue} {seq} is held until {lease.ends_ms}, and is {held and held.state}"


async def _counts(engine: Engine, queue: str) -> list[str]:
    stats = await engine.call(wire.StatsRequest(queue=queue))
    while True:  # until nothing fell due between two looks at the counts
        before, messages = stats, (await look(engine))[queue]
        stats = await engine.call(wire.StatsRequest(queue=queue))
        if replace(before, oldest_message_age_ms=0) == replace(stats, oldest_message_age_ms=0):
            break
    states = Counter(message.state for message in messages)
    kept = {
        "active": stats.active, "locked": stats.locked, "deferred": stats.deferred,
        "scheduled": stats.scheduled, "dead_lettered": stats.dead_lettered,
    }  # fmt: skip
    true = {state: states[state] for state in kept}
    return [f"{queue} keeps {kept}, and has {true}"] if kept != true else []


async def _receipts(engine: Engine, ledger: Ledger, before: Seen) -> list[str]:
    found = []
    for request in ledger.settled:
        try:
            await engine.call(request)
        except MqliteError as error:
            found.append(f"acknowledged, then repeated: {request} got {error}")
    after = await look(engine)
    for queue, messages in before.items():
        was = {message.seq_number: message.state for message in messages}
        now = {message.seq_number: message.state for message in after[queue]}
        # Time passes meanwhile, so delays and leases may end; nothing else may happen.
        changed = [
            f"repeating settlements made {queue} {seq} {now.get(seq)} from {was.get(seq)}"
            for seq in was | now
            if was.get(seq) != now.get(seq)
            and (was.get(seq), now.get(seq)) not in (("scheduled", "active"), ("locked", "active"))
            and (queue, was.get(seq), now.get(seq)) != ("poison", "locked", "dead_lettered")
        ]
        found += changed
    return found


async def _afterlife(engine: Engine, ledger: Ledger) -> list[str]:
    """When all leases and delays are over, everything alive can be taken, once, and completed."""
    found = []
    for request in ledger.lost_attempts:
        await engine.call(request)  # whatever the claim was, it can be asked for
    await trio.sleep(AFTERLIFE_SECONDS)
    await engine.run_maintenance_once()
    for queue, messages in (await look(engine)).items():
        aside = [m.seq_number for m in messages if m.state == "deferred"]  # they block their lines
        taken = (await engine.call(wire.ReceiveDeferredRequest(queue, aside))).messages
        alive = {m.seq_number for m in messages if m.state != "dead_lettered"}
        alive -= await _complete(engine, queue, taken)
        receive = wire.ReceiveRequest(queue=queue, max_messages=50)
        while taken := (await engine.call(receive)).messages:
            alive -= await _complete(engine, queue, taken)
        found += [f"{queue} {seq} can never be taken" for seq in sorted(alive)]
    return found


async def _complete(engine: Engine, queue: str, taken: list[wire.Message]) -> set[int]:
    items = [wire.SettleItem(message.seq_number, message.lock_token) for message in taken]
    reply = await engine.call(wire.CompleteBatchRequest(queue=queue, messages=items))
    return {result.seq_number for result in reply.results if result.ok}


def sent(ledger: Ledger) -> list[Told]:
    """Acknowledged messages."""
    return [told for told in ledger.messages.values() if told.is_sent]
