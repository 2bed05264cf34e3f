"""Commands on a file that fails, and the judge of what they left behind.

`prepare` makes a file with something for every verb to do, and the Steps that do it: each touches
things of its own, so that any of them may be run, in any company and order. `Trial` runs groups of
steps on a copy of the file under a fault and keeps what each command was told. `judge` looks at the
file, through any connection, and holds the rule of group commit: told ok means done, told refused
means not done, told unknown means either, and nothing is ever half done.
"""

from __future__ import annotations

import itertools
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outcome import Error

from mqlite_actor.contract import keys, wire
from mqlite_actor.contract.errors import CallerError, MqliteError, OutcomeUnknown
from mqlite_actor.engine import commands
from mqlite_actor.engine.outcomes import Answer, Done
from mqlite_actor.storage import rows
from tests.storage.fault_vfs import Fault, FaultVfs
from tests.storage.writer import Writer, killed_copy, writing

Sight = frozenset[tuple[str, bytes, str]]
"""What is to be seen of a step's things: (queue, body, state); queues and keys have no body."""

NOTHING: Sight = frozenset()

SMALL, LARGE = 20, 3000
"""Body lengths: within the row, and apart from it over several pages."""

SETTLES = (wire.CompleteRequest, wire.AbandonRequest, wire.RejectRequest, wire.DeferRequest)

EACH = 4
"""Steps of each kind in the pool."""


@dataclass(frozen=True)
class Step:
    """A command, and what is to be seen of its things before and after it."""

    kind: str
    request: Any
    before: Sight
    after: Sight

    @property
    def things(self) -> frozenset[bytes]:
        """Bodies and names that are this step's own."""
        return frozenset(body or queue.encode() for queue, body, _ in self.before | self.after)


@dataclass
class Pool:
    """A prepared file and its steps by kind."""

    path: Path
    steps: dict[str, list[Step]] = field(default_factory=dict)
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    def add(self, kind: str, request: object, before: Sight, after: Sight) -> None:
        self.steps.setdefault(kind, []).append(Step(kind, request, before, after))

    def body(self) -> bytes:
        """A body that nobody else has; every third is large."""
        number = next(self.numbers)
        return b"%d " % number + b"x" * (LARGE if number % 3 == 0 else SMALL)

    def all(self) -> list[Step]:
        """Every step."""
        return [step for kind in self.steps.values() for step in kind]


def seen(queue: str, state: str, *bodies: bytes) -> Sight:
    return frozenset((queue, body, state) for body in bodies)


def prepare(path: Path) -> Pool:
    """Make the file."""
    pool = Pool(path)
    with writing(path) as writer:
        for queue in ("q", "held", "dead", "later", "aside", "target"):
            writer.create(queue)
        writer.create("group", wire.QueueConfig(ordering_mode="group_fifo"))
        writer.create("strict", wire.QueueConfig(ordering_mode="strict_fifo"))
        writer.create("dedup", wire.QueueConfig(dedup_window_ms=60_000))
        for name in ("sub1", "sub2"):
            writer.ask(wire.SubscribeRequest(topic="topic", name=name))
        _sends(pool)
        for _ in range(EACH):
            _settles(pool, writer)
            _chores(pool, writer)
            _receives(pool, writer)
        _entities(pool, writer)
    return pool


def _sends(pool: Pool) -> None:
    for number in range(EACH):
        for queue in ("q", "group", "strict", "dedup"):
            bodies = [pool.body() for _ in range(1 + number % 3)]
            batch = [
                wire.Message(body=body, group_id="g", message_id=body[:4].decode())
                for body in bodies
            ]
            request = wire.SendRequest(queue=queue, messages=batch)
            pool.add(f"send to {queue}", request, NOTHING, seen(queue, "active", *bodies))
        body = pool.body()
        request = wire.SendRequest(queue="topic", messages=[wire.Message(body=body)])
        after = seen("sub1", "active", body) | seen("sub2", "active", body)
        pool.add("publish", request, NOTHING, after)
        request = wire.SendRequest(queue="nowhere", messages=[wire.Message(body=body)])
        pool.add("refused", request, NOTHING, NOTHING)


def _settles(pool: Pool, writer: Writer) -> None:
    def lease() -> tuple[bytes, dict[str, Any]]:
        body = pool.body()
        writer.send("held", body)
        message = writer.take("held")[0]
        return body, {
            "queue": "held",
            "seq_number": message.seq_number,
            "lock_token": message.lock_token,
        }

    for kind, verb, extra, after in (
        ("complete", wire.CompleteRequest, {}, ""),
        ("abandon", wire.AbandonRequest, {}, "active"),
        ("postpone", wire.AbandonRequest, {"delay_ms": 1000}, "scheduled"),
        ("reject", wire.RejectRequest, {"dead_letter_reason": "r"}, "dead_lettered"),
        ("defer", wire.DeferRequest, {}, "deferred"),
    ):
        body, names = lease()
        end = seen("held", after, body) if after else NOTHING
        pool.add(kind, verb(**names, **extra), seen("held", "locked", body), end)
    pair = [lease() for _ in range(2)]
    items = [
        wire.SettleItem(seq_number=names["seq_number"], lock_token=names["lock_token"])
        for _, names in pair
    ]
    batch = wire.CompleteBatchRequest(queue="held", messages=items)
    pool.add("complete batch", batch, seen("held", "locked", *[b for b, _ in pair]), NOTHING)


def _chores(pool: Pool, writer: Writer) -> None:
    for kind, command, end in (
        ("redrive", lambda n: commands.RedriveChunk("dead", "", n - 1, n, 2**62, 1), "dead"),
        ("move", lambda n: commands.RedriveChunk("dead", "target", n - 1, n, 2**62, 1), "target"),
        ("purge", lambda n: commands.PurgeChunk("dead", n - 1, n, 2**62, 1), ""),
    ):
        body = pool.body()
        number = writer.send("dead", body)[0]
        message = writer.take("dead")[0]
        token = message.lock_token
        writer.ask(wire.RejectRequest(queue="dead", seq_number=number, lock_token=token))
        after = seen(end, "active", body) if end else NOTHING
        pool.add(kind, command(number), seen("dead", "dead_lettered", body), after)


def _receives(pool: Pool, writer: Writer) -> None:
    place = next(pool.numbers)
    for kind, mode, end in (("claim", 0, "locked"), ("drain", 1, "")):
        queue = f"{kind} {place}"
        bodies = [pool.body(), pool.body()]
        writer.create(queue)
        writer.send(queue, *bodies)
        request = wire.ReceiveRequest(queue=queue, max_messages=2, receive_mode=mode)
        after = seen(queue, end, *bodies) if end else NOTHING
        pool.add(kind, request, seen(queue, "active", *bodies), after)
    body = pool.body()
    later = wire.ScheduleRequest(
        queue="later",
        messages=[wire.Message(body=body)],
        scheduled_enqueue_time_ms=writer.clock.now_ms() + 1000,
    )
    number = (writer.ask(later).seq_numbers or [0])[0]
    cancel = wire.CancelRequest(queue="later", seq_number=number)
    pool.add("cancel", cancel, seen("later", "scheduled", body), NOTHING)
    body = pool.body()
    number = writer.send("aside", body)[0]
    token = writer.take("aside")[0].lock_token
    writer.ask(wire.DeferRequest(queue="aside", seq_number=number, lock_token=token))
    fetch = wire.ReceiveDeferredRequest(queue="aside", seq_numbers=[number])
    before = seen("aside", "deferred", body)
    pool.add("fetch deferred", fetch, before, seen("aside", "locked", body))


def _entities(pool: Pool, writer: Writer) -> None:
    for number in range(EACH):
        name = f"new {number}"
        request = wire.CreateQueueRequest(name=name)
        pool.add("create queue", request, NOTHING, seen(name, "queue", b""))
        writer.create(f"empty {number}")
        key = keys.CreateKeyRequest(id=f"{number:032x}", name="k", permissions=["send"])
        pool.add("create key", key, NOTHING, seen(key.id, "key", b""))
    for queue in writer.ask(wire.ListQueuesRequest()).queues:
        if queue.name.startswith("empty"):
            delete = wire.DeleteQueueRequest(name=queue.name, generation=queue.generation)
            pool.add("delete queue", delete, seen(queue.name, "queue", b""), NOTHING)


class Trial:
    """One run of groups under one fault."""

    def __init__(self, pool: Pool, groups: list[list[Step]], folder: Path) -> None:
        self.path = folder / "q.db"
        shutil.copyfile(pool.path, self.path)
        self.groups = groups
        self.told: list[tuple[Step, Answer]] = []

    def run(self, vfs: FaultVfs, fault: Fault, *, synchronous: str) -> None:
        """Run the groups under the fault, then judge: through the same store, the files as a kill
        would leave them, and the file after closing."""
        with writing(self.path, synchronous=synchronous) as writer:
            vfs.arm(fault)
            for group in self.groups:
                outcomes = writer.group(*[step.request for step in group])
                self.told += zip(group, outcomes, strict=True)
            vfs.disarm()
            copy = killed_copy(self.path, self.path.with_name("killed"))
            found = self.judge(writer)
            writer.send("q", b"after")
        with writing(copy) as dead:
            self.judge(dead)
        with writing(self.path) as again:
            assert self.judge(again) == found | seen("q", "active", b"after")

    def judge(self, writer: Writer) -> Sight:
        """Hold the rule against what this store sees; all that it sees."""
        found = look(writer)
        writer.check()
        receipts = column(writer, "SELECT seq_number FROM receipts")
        known = column(writer, "SELECT key FROM dedup")
        for step, outcome in self.told:
            things = step.things
            mine = frozenset(each for each in found if (each[1] or each[0].encode()) in things)
            assert mine in (step.before, step.after), f"half done: {step.kind}"
            expected = expectation(step, outcome)
            assert mine in expected, f"{step.kind} was told {outcome!r:.99}: {shown(mine)}"
            is_done = mine == step.after
            if isinstance(step.request, SETTLES):
                assert (step.request.seq_number in receipts) is is_done, "receipt and effect"
            if step.kind == "send to dedup":
                ids = {message.message_id for message in step.request.messages}
                assert ids <= known if is_done else not ids & known, "key and message"
        return found


EVERYTHING = """
SELECT q.name, coalesce(m.body, (SELECT b.body FROM bodies AS b WHERE b.id = m.id)), m.state
FROM messages AS m JOIN queues AS q ON q.id = m.queue_id"""


def look(writer: Writer) -> Sight:
    """Everything that is to be seen in a file."""
    found: set[tuple[str, bytes, str]] = set()
    for queue in writer.ask(wire.ListQueuesRequest()).queues:  # opens a file in doubt anew
        if queue.name.startswith(("new", "empty")):
            found.add((queue.name, b"", "queue"))
    for key in writer.ask(keys.ListKeysRequest()).keys:
        found.add((key.id, b"", "key"))
    everything = writer.store.run([(EVERYTHING, ())])[0]
    for queue_name, body, state in everything:
        found.add((queue_name, body, rows.WIRE_STATE[state]))
    bodies = {row[:2] for row in everything}
    assert len(bodies) == len(everything), "a message is there twice"
    return frozenset(found)


def shown(sight: Sight) -> list[tuple[str, bytes, str]]:
    """As it fits an error message."""
    return [(queue, body[:9], state) for queue, body, state in sight]


def column(writer: Writer, sql: str) -> set[Any]:
    return {row[0] for row in writer.store.run([(sql, ())])[0]}


def expectation(step: Step, outcome: Answer) -> tuple[Sight, ...]:
    """What may be seen after a command was told this."""
    if isinstance(outcome, Done):
        return (step.after,)
    assert isinstance(outcome, Error)
    assert isinstance(outcome.error, MqliteError), "an error of our own, whatever SQLite said"
    if isinstance(outcome.error, OutcomeUnknown):
        return step.before, step.after
    is_refusal = isinstance(outcome.error, CallerError)
    assert not is_refusal or step.kind == "refused", f"{step.kind}: {outcome.error}"
    return (step.before,)
