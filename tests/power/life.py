"""A life of a store under a recording file system: random commands, until the power goes.

`live` opens the store on what it finds, runs groups of commands and all that the keeper does with
the files, and returns the journal with the state after each transaction. What is told to callers is
held against the file on the way: a message that was stored is there, one that was completed is not.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outcome import Error

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import keys, limits, wire
from mqlite_actor.contract.errors import CallerError
from mqlite_actor.engine import commands
from mqlite_actor.engine.outbox import UserTransaction
from mqlite_actor.storage.sqlite import open_store
from tests.power.disk import Acknowledged, Begun
from tests.power.judge import Record, state_of
from tests.power.recording_vfs import Journal, recording
from tests.storage.writer import Writer

QUEUES = {
    "plain": wire.QueueConfig(),
    "groups": wire.QueueConfig(ordering_mode="group_fifo", max_delivery_count=3),
    "strict": wire.QueueConfig(ordering_mode="strict_fifo"),
    "once": wire.QueueConfig(dedup_window_ms=60_000),
    "short": wire.QueueConfig(lock_duration_ms=50, default_ttl_ms=400, max_delivery_count=2),
}
TOPIC = "topic"

SIZES = (0, 10, 300, limits.INLINE_BYTES_MAX - 100, limits.INLINE_BYTES_MAX + 1, 6000, 20_000)
"""Body lengths within the row, beside it, and over several pages."""

IDS = "SELECT id FROM messages"

Request = Any
"""A struct that the table of commands serves."""


@dataclass
class Life:
    """One life. `number` counts the transactions of all lives of a trial."""

    writer: Writer
    journal: Journal
    record: Record
    dice: random.Random
    number: int
    leases: list[tuple[str, wire.Message]] = field(default_factory=list)
    facts: int = 0  # messages of which a caller was told, held against the file

    # -- transactions ------------------------------------------------------------------------------

    def group(self, *requests: Request) -> list[Any]:
        """Run a group, note its beginning and its answer; the responses, None for a refusal."""
        self.number += 1
        self.journal.events.append(Begun(self.number))
        outcomes = self.writer.group(*requests)
        self.acknowledge(is_safe=False)
        replies: list[Any] = []
        for each in outcomes:
            if isinstance(each, Error) and not isinstance(each.error, CallerError):
                raise each.error
            replies.append(None if isinstance(each, Error) else each.unwrap())
        self.hold_against_the_file(requests, replies)
        return replies

    def acknowledge(self, *, is_safe: bool) -> None:
        """Whatever was begun is told to its caller now."""
        self.journal.events.append(Acknowledged(self.number, is_safe))
        self.record.add(self.number, state_of(self.writer.store))

    def hold_against_the_file(self, requests: tuple[Request, ...], replies: list[Any]) -> None:
        stored: set[int] = set()
        gone: set[int] = set()
        for request, reply in zip(requests, replies, strict=True):
            match request, reply:
                case wire.SendRequest(), wire.SendResponse(seq_numbers=list(numbers)):
                    if request.queue not in ("once", TOPIC):  # old numbers, or none
                        stored.update(numbers)
                case wire.ReceiveRequest(receive_mode=1), wire.MessagesResponse():
                    gone.update(message.seq_number for message in reply.messages)
                case wire.CompleteRequest(), wire.OkResponse():
                    gone.add(request.seq_number)
        found = {row[0] for row in self.writer.store.run([(IDS, ())])[0]}
        assert stored - gone <= found, "stored, and not there"
        assert not gone & found, "taken away, and still there"
        self.facts += len(stored) + len(gone)

    # -- commands ----------------------------------------------------------------------------------

    def act(self) -> None:
        """One group, and perhaps something with the files."""
        requests = [self.dice.choice(COMMANDS)(self) for _ in range(self.dice.choice(HOW_MANY))]
        replies = self.group(*requests)
        for request, reply in zip(requests, replies, strict=True):
            if isinstance(reply, wire.MessagesResponse) and hasattr(request, "queue"):
                self.leases += [(request.queue, each) for each in reply.messages if each.lock_token]
        roll = self.dice.random()
        for chance, chore in CHORES:
            if roll < chance:
                chore(self)
                break
            roll -= chance

    def queue(self) -> str:
        return self.dice.choice(tuple(QUEUES))

    def send(self) -> Request:
        queue = self.dice.choice((*QUEUES, TOPIC))
        batch = [
            wire.Message(
                body=self.dice.randbytes(self.dice.choice(SIZES)),
                group_id=f"g{self.dice.randrange(3)}",
                message_id=f"{self.dice.randrange(40)}" if queue == "once" else "",
                subject=self.dice.choice(("a", "b")),
            )
            for _ in range(self.dice.choice((1, 1, 2, 4)))
        ]
        later = self.writer.clock.now_ms() + 100 if self.dice.random() < 0.2 else 0
        return wire.SendRequest(queue=queue, messages=batch, scheduled_enqueue_time_ms=later)

    def claim(self) -> Request:
        attempt = f"{self.dice.getrandbits(64)}" if self.dice.random() < 0.2 else ""
        number = self.dice.randint(1, 3)
        queue = self.queue()
        return wire.ReceiveRequest(queue=queue, max_messages=number, receive_attempt_id=attempt)

    def drain(self) -> Request:
        return wire.ReceiveRequest(queue=self.queue(), max_messages=2, receive_mode=1)

    def lease(self) -> dict[str, Any]:
        """Fields of a lease, perhaps one that ended long ago."""
        if not self.leases:
            return {"queue": "plain", "seq_number": 1, "lock_token": "0" * 32}
        queue, message = self.leases.pop(self.dice.randrange(len(self.leases)))
        if self.dice.random() < 0.1:
            self.leases.append((queue, message))  # to be settled twice
        number, token = message.seq_number, message.lock_token
        return {"queue": queue, "seq_number": number, "lock_token": token}

    def settle(self) -> Request:
        verb, extra = self.dice.choice(SETTLES)
        return verb(**self.lease(), **extra)

    def complete_batch(self) -> Request:
        lease = self.lease()
        item = wire.SettleItem(seq_number=lease["seq_number"], lock_token=lease["lock_token"])
        return wire.CompleteBatchRequest(queue=lease["queue"], messages=[item])

    def fetch(self) -> Request:
        number = self.writer.store.ledger.last_seq or 9
        wanted = [max(1, number - self.dice.randrange(30)) for _ in range(5)]
        return wire.ReceiveDeferredRequest(queue=self.queue(), seq_numbers=wanted)

    def dead(self) -> Request:
        now = limits.INT64_MAX
        if self.dice.random() < 0.5:
            return commands.PurgeChunk(self.queue(), 0, now, now, 2)
        target = self.dice.choice(("", "plain"))
        return commands.RedriveChunk(self.queue(), target, 0, now, now, 2)

    def entity(self) -> Request:
        number = self.dice.randrange(3)
        key = f"{self.dice.randrange(4):032x}"
        return self.dice.choice(
            (
                wire.CreateQueueRequest(name=f"extra {number}"),
                wire.SubscribeRequest(topic=TOPIC, name=f"sub {number}"),
                keys.CreateKeyRequest(id=key, name="k", permissions=["send"]),
                keys.RevokeKeyRequest(id=key),
            )
        )

    def passes(self) -> Request:
        self.writer.clock.advance(self.dice.choice((1, 60, 500, 40_000)))
        return self.dice.choice(PASSES)()

    def transaction(self) -> None:
        """A row of the embedding program's own and a message, together; or neither."""
        self.number += 1
        self.journal.events.append(Begun(self.number))
        tx = UserTransaction(self.writer.store, self.writer.table, self.writer.clock, 5.0)
        tx.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, item TEXT)")
        tx.execute("INSERT INTO orders (item) VALUES (?)", (f"item {self.number}",))
        tx.call(wire.SendRequest(queue="plain", messages=[wire.Message(body=b"ordered")]))
        if self.dice.random() < 0.8:
            tx.commit()
        else:
            tx.roll_back()
        self.acknowledge(is_safe=False)

    # -- files -------------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        self.writer.store.checkpoint_passive()

    def checkpoint_beside(self) -> None:
        """In the middle of the next commit, as from the keeper's thread."""
        left = self.dice.randint(1, 6)

        def at_write(name: str) -> None:
            nonlocal left
            left -= name.endswith("-wal")
            if left == 0:
                self.journal.at_write = None
                self.writer.store.checkpoint_passive()

        self.journal.at_write = at_write

    def truncate(self) -> None:
        self.journal.at_write = None
        assert self.writer.store.truncate_log()
        self.acknowledge(is_safe=True)

    def reclaim(self) -> None:
        self.writer.store.reclaim(20)

    def vacuum(self) -> None:
        self.journal.at_write = None
        self.writer.store.vacuum()

    def reopen(self) -> None:
        """As after a failure of the storage."""
        self.journal.at_write = None
        self.writer.store.reopen()

    def restart(self) -> None:
        """Close in order and open again."""
        self.close()
        level = self.record.synchronous
        self.writer.store = open_store(self.writer.store.path, synchronous=level)
        self.acknowledge(is_safe=True)
        self.group(commands.Recover())

    def close(self) -> None:
        self.journal.at_write = None
        self.writer.store.close()


HOW_MANY = (1, 1, 2, 3, 5)

SETTLES: tuple[tuple[type[Any], dict[str, Any]], ...] = (
    (wire.CompleteRequest, {}),
    (wire.CompleteRequest, {}),
    (wire.AbandonRequest, {}),
    (wire.AbandonRequest, {"delay_ms": 100}),
    (wire.RejectRequest, {"dead_letter_reason": "r"}),
    (wire.DeferRequest, {}),
    (wire.RenewRequest, {}),
)

PASSES = (
    commands.Reap, commands.Activate, commands.Expire, commands.PruneReceipts,
    commands.PruneDuplicates,
)  # fmt: skip

COMMANDS: tuple[Callable[[Life], Request], ...] = (
    *[Life.send] * 7, *[Life.claim] * 5, *[Life.settle] * 5, Life.drain, Life.complete_batch,
    Life.fetch, Life.dead, Life.entity, Life.passes,
)  # fmt: skip

CHORES: tuple[tuple[float, Callable[[Life], None]], ...] = (
    (0.10, Life.checkpoint),
    (0.15, Life.checkpoint_beside),
    (0.04, Life.truncate),
    (0.03, Life.reclaim),
    (0.02, Life.vacuum),
    (0.02, Life.reopen),
    (0.03, Life.restart),
    (0.10, Life.transaction),
)
"""After a group, with which chance."""


def live(
    path: Path,
    record: Record,
    dice: random.Random,
    clock: ManualClock,
    *,
    number: int,
    groups: int,
    synchronous: str | None = None,
) -> Life:
    """One life on the folder of `path`, from opening to a close that the cut may forestall."""
    journal = Journal(path.parent)
    journal.begin(path)
    journal.events.append(Begun(number))
    with recording(journal):
        store = open_store(str(path), synchronous=synchronous or record.synchronous)
        life = Life(Writer(store, clock), journal, record, dice, number)
        life.acknowledge(is_safe=True)
        life.group(commands.Recover())
        life.group(*[wire.CreateQueueRequest(name=n, config=c) for n, c in QUEUES.items()])
        expr = wire.Filter(expr='subject == "a"')
        life.group(
            wire.SubscribeRequest(topic=TOPIC, name="all"),
            wire.SubscribeRequest(topic=TOPIC, name="a", filter=expr),
        )
        for _ in range(groups):
            life.act()
        life.close()
        life.journal.events.append(Acknowledged(life.number, is_safe=True))
    return life
