"""Cut at every single moment of what a store does seldom: its creation, its migration, its
compaction, its closing, the cutting of its log.

Each scene is recorded once and cut after every event, with MQLITE_POWER_EACH fates per event.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import wire
from mqlite_actor.engine import commands
from mqlite_actor.storage import schema
from mqlite_actor.storage.schema import MIGRATIONS, Migration
from mqlite_actor.storage.sqlite import open_store
from tests import figures
from tests.power.disk import Begun, Disk
from tests.power.fates import FATES
from tests.power.judge import STORE, Known, Record, Violation, examine, laid_out
from tests.power.life import Life
from tests.power.recording_vfs import Journal, recording
from tests.storage.foreign import BUSINESS, as_rollback_journal, execute
from tests.storage.writer import Writer, writing

EACH = int(os.environ.get("MQLITE_POWER_EACH", "1"))
SEED = int(os.environ.get("MQLITE_POWER_SEED") or random.SystemRandom().randrange(2**32))

OLDER = "mqlite-actor/0"
BODY = bytes(3000)

Scene = Callable[[Life], None]


def send(life: Life, *, number: int = 3, body: bytes = BODY) -> list[wire.Message]:
    """Some messages, and a claim of them."""
    batch = [wire.Message(body=body, group_id=f"{life.number} {each}") for each in range(number)]
    life.group(wire.SendRequest(queue="q", messages=batch))
    (reply,) = life.group(wire.ReceiveRequest(queue="q", max_messages=number))
    assert len(reply.messages) == number
    return list(reply.messages)


def complete(life: Life, messages: list[wire.Message]) -> None:
    items = [wire.SettleItem(seq_number=m.seq_number, lock_token=m.lock_token) for m in messages]
    life.group(wire.CompleteBatchRequest(queue="q", messages=items))


def first_use(life: Life) -> None:
    send(life)


def publish(life: Life) -> None:
    for name in ("a", "b", "c"):
        life.group(wire.SubscribeRequest(topic="t", name=name))
    batch = [wire.Message(body=BODY), wire.Message(body=b"small")]
    life.group(wire.SendRequest(queue="t", messages=batch))


def compact(life: Life) -> None:
    complete(life, send(life, number=40))
    life.vacuum()
    send(life)


def give_pages_back(life: Life) -> None:
    messages = send(life, number=60)
    send(life)
    complete(life, messages)
    life.truncate()
    while life.writer.store.reclaim(15):
        pass
    send(life)


def cut_the_log(life: Life) -> None:
    for _ in range(3):
        messages = send(life)
        life.checkpoint()
        life.checkpoint_beside()
        complete(life, messages)
        life.truncate()


def close_and_open(life: Life) -> None:
    send(life)
    for _ in range(2):
        life.restart()
        send(life)
        life.checkpoint()


SCENES: dict[str, Scene] = {
    scene.__name__: scene
    for scene in (first_use, publish, compact, give_pages_back, cut_the_log, close_and_open)
}


def record_scene(path: Path, record: Record, scene: Scene) -> Journal:
    """Play it from opening to closing."""
    journal = Journal(path.parent)
    journal.begin(path)
    journal.events.append(Begun(0))
    with recording(journal):
        store = open_store(str(path), synchronous=record.synchronous)
        dice = random.Random(SEED)
        life = Life(Writer(store, ManualClock()), journal, record, dice, number=0)
        life.acknowledge(is_safe=True)
        life.group(commands.Recover())
        life.group(wire.CreateQueueRequest(name="q"))
        scene(life)
        life.close()
    return journal


def cut_everywhere(folder: Path, journal: Journal, record: Record) -> int:
    """Cut after each event; how often."""
    dice = random.Random(SEED)
    disk, cuts = Disk(), 0
    known: Known = {}
    for place, event in enumerate(journal.events):
        disk.happens(event)
        if place < journal.first:
            continue
        for name in dice.sample(tuple(FATES), EACH):
            files = disk.remains(FATES[name](dice, disk.unsynced()))
            try:
                examine(folder / "cut", files, disk, record, known)
            except (Violation, AssertionError) as error:
                error.add_note(f"after event {place} ({event!r:.80}), fate {name!r}")
                error.add_note(f"MQLITE_POWER_SEED={SEED} MQLITE_POWER_EACH={EACH}")
                raise
            cuts += 1
    return cuts


def told(cuts: int) -> None:
    """How much was tried, when all of it has held."""
    print(f"MQLITE_POWER_SEED={SEED} MQLITE_POWER_EACH={EACH}: {cuts} cuts")
    figures.record("power loss", seed=SEED, cuts=cuts)


@pytest.mark.promise("E19", "E22", "E88", "E146", "E158")
@pytest.mark.parametrize("synchronous", ["FULL", "NORMAL"])
@pytest.mark.parametrize("scene", SCENES)
def test_every_moment_may_be_the_last(folder: Path, scene: str, synchronous: str) -> None:
    path = laid_out(folder / "live", {})
    record = Record(synchronous)
    journal = record_scene(path, record, SCENES[scene])
    cuts = cut_everywhere(folder, journal, record)
    told(cuts)


@pytest.mark.promise("E136", "E141")
@pytest.mark.parametrize("synchronous", ["FULL", "NORMAL"])
def test_a_migration_is_done_or_not_begun_wherever_it_is_cut(
    folder: Path, synchronous: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = laid_out(folder / "live", {})
    with writing(path) as writer:
        writer.create("q")
        writer.send("q", *[BODY] * 5)
        writer.take("q")
    renamed = f"UPDATE meta SET value = '{OLDER}' WHERE key = 'schema_version'"
    execute(path, "DROP TABLE tombstones", renamed)
    as_rollback_journal(path)
    tombstones = schema.layout()["tombstones"]
    monkeypatch.setitem(MIGRATIONS, OLDER, Migration(schema.FORMAT, (tombstones,)))
    record = Record(synchronous)
    journal = record_scene(path, record, first_use)
    cuts = cut_everywhere(folder, journal, record)
    told(cuts)


@pytest.mark.promise("E137")
@pytest.mark.parametrize("synchronous", ["FULL", "NORMAL"])
def test_a_file_of_another_program_keeps_its_rows_wherever_its_first_opening_is_cut(
    folder: Path, synchronous: str
) -> None:
    path = laid_out(folder / "live", {})
    execute(path, *BUSINESS)
    record = Record(synchronous)
    journal = record_scene(path, record, first_use)
    cuts = cut_everywhere(folder, journal, record)
    assert cuts > 100
    execute(folder / "cut" / STORE, "SELECT item FROM orders WHERE item = 'tea'")
    told(cuts)
