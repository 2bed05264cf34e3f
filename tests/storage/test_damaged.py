"""A file with flipped bytes is refused unchanged, or served as far as it can be read; nothing dies.

Damage of any kind: random bytes, in the header, in the schema, in a page; zeros over a sector; a
file that ends early; pages that changed places. A page that is whole and stands in another's place
is one that SQLite cannot tell, so what is served then is what stands there. MQLITE_DAMAGES says how
many files are damaged, MQLITE_DAMAGES_SEED repeats a run.
"""

from __future__ import annotations

import hashlib
import logging
import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from mqlite_actor.contract import wire
from mqlite_actor.contract.errors import MqliteError, OpenError, SchemaVersionMismatch
from tests.figures import record
from tests.storage.writer import writing

DAMAGES = int(os.environ.get("MQLITE_DAMAGES", "150"))
SEED = int(os.environ.get("MQLITE_DAMAGES_SEED") or random.SystemRandom().randrange(2**32))

BODIES = [b"%d " % number + b"x" * (20 if number % 3 else 3000) for number in range(60)]
SECTOR = 512
PAGE = 4096

Damage = Callable[[bytearray, random.Random], None]


def bytes_anywhere(data: bytearray, dice: random.Random) -> None:
    for _ in range(dice.choice((1, 3, 30))):
        data[dice.randrange(len(data))] = dice.randrange(256)


def the_header(data: bytearray, dice: random.Random) -> None:
    data[dice.randrange(100)] ^= 1 << dice.randrange(8)


def the_schema(data: bytearray, dice: random.Random) -> None:
    """The first page holds the texts of the tables."""
    for _ in range(dice.choice((1, 2, 8))):
        data[dice.randrange(100, PAGE)] = dice.choice((0, 32, 39, 65, 255, dice.randrange(256)))


def a_page_head(data: bytearray, dice: random.Random) -> None:
    start = PAGE * dice.randrange(len(data) // PAGE)
    data[start + dice.randrange(12)] = dice.randrange(256)


def a_lost_sector(data: bytearray, dice: random.Random) -> None:
    start = SECTOR * dice.randrange(len(data) // SECTOR)
    data[start : start + SECTOR] = bytes(SECTOR)


def an_early_end(data: bytearray, dice: random.Random) -> None:
    del data[dice.randrange(len(data)) :]


def swapped_pages(data: bytearray, dice: random.Random) -> None:
    one, other = (PAGE * dice.randrange(len(data) // PAGE) for _ in range(2))
    data[one : one + PAGE], data[other : other + PAGE] = (
        data[other : other + PAGE],
        data[one : one + PAGE],
    )


KINDS: list[Damage] = [
    bytes_anywhere, the_header, the_schema, a_page_head, a_lost_sector, an_early_end, swapped_pages,
]  # fmt: skip


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a store with something of everything in it."""
    path = tmp_path_factory.mktemp("sound") / "q.db"
    with writing(path) as writer:
        for queue in ("q", "other"):
            writer.create(queue, wire.QueueConfig(dedup_window_ms=60_000))
        writer.ask(wire.SubscribeRequest(topic="t", name="s"))
        for body in BODIES:
            writer.send("q", body)
        for message in writer.take("q", 12):
            kind = (wire.CompleteRequest, wire.RejectRequest)[message.seq_number % 2]
            seq, token = message.seq_number, message.lock_token
            settle: wire.SettleRequest = kind(queue="q", seq_number=seq, lock_token=token)
            writer.ask(settle)
    return path.read_bytes()


def use(path: Path) -> str:
    """Open the file and use it; how far that went. Anything but an error of ours is raised."""
    reached = "open"
    try:
        with writing(path) as writer:
            reached = "look"
            writer.ask(wire.PeekRequest(queue="q", max=1000))
            reached = "send"
            writer.send("q", b"new")
            reached = "receive"
            writer.take("q", 8)
            reached = "served"
    except OpenError:
        return "refused"
    except MqliteError:
        return f"error at {reached}"
    return reached


def folder_of(path: Path) -> dict[str, str]:
    """Name and content of whatever lies there."""
    return {
        each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in path.parent.iterdir()
    }


@pytest.mark.promise("E136")
def test_a_damaged_file_is_refused_unchanged_or_answers_in_our_words(
    tmp_path: Path, sound: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    print(f"MQLITE_DAMAGES={DAMAGES} MQLITE_DAMAGES_SEED={SEED}")
    caplog.set_level(logging.CRITICAL)
    ends: Counter[str] = Counter()
    for number in range(DAMAGES):
        dice = random.Random(f"{SEED} {number}")
        damage = KINDS[number % len(KINDS)]
        data = bytearray(sound)
        damage(data, dice)
        path = tmp_path / f"{number}" / "q.db"
        path.parent.mkdir()
        path.write_bytes(data)
        before = folder_of(path)
        try:
            end = use(path)
            ends[end] += 1
            if end == "refused":
                assert folder_of(path) == before, "it was refused, and changed"
        except BaseException as error:
            error.add_note(f"{damage.__name__}, number {number} of MQLITE_DAMAGES_SEED={SEED}")
            raise
        for each in path.parent.iterdir():
            each.unlink()
    assert ends["refused"], ends
    assert ends["served"], ends
    record("damaged files", seed=SEED, files=DAMAGES, refused=ends["refused"])
    print(dict(ends))


def test_a_schema_that_is_no_text_is_refused_and_nothing_changes(
    tmp_path: Path, sound: bytes
) -> None:
    path = tmp_path / "q.db"
    path.write_bytes(sound.replace(b"delivery_count", b"delivery\xcacount"))  # a name to SQLite
    before = folder_of(path)
    with pytest.raises(SchemaVersionMismatch, match="not UTF-8"), writing(path):
        pass
    assert folder_of(path) == before
