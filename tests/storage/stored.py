"""A file of each format that the program ever had, with something of everything in it.

`python -m tests.storage.stored` writes the file of the present format, once, when a format is new;
test_stored.py opens every one of them with the program of today. Beside each file stands what its
own program showed of it: that is what must still be shown.
"""

from __future__ import annotations

import gzip
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import msgspec
import trio

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import wire
from mqlite_actor.contract.keys import CreateKeyRequest, ListKeysRequest
from mqlite_actor.contract.words import State
from mqlite_actor.sdk.embedded import Embedded, open_embedded
from mqlite_actor.storage.schema import FORMAT

FOLDER: Final = Path(__file__).resolve().parents[1] / "data" / "formats"
NOW_MS: Final = 1_800_000_000_000
KEY: Final = "0123456789abcdef" * 2

Seen = dict[str, Any]


def file_of(format_: str) -> Path:
    """Where the file of a format is kept, packed; its neighbour `.json` says what it shows."""
    return FOLDER / f"{format_.replace('/', '-')}.sqlite.gz"


async def fill(q: Embedded) -> Seen:
    """Something of every table, state and kind; what only whoever did it can know."""
    await q.create_queue("work", max_delivery_count=2, dedup_window=600, lock_duration=60)
    await q.create_queue("groups", ordering_mode="group_fifo", dlq_max_count=10)
    await q.create_queue("strict", ordering_mode="strict_fifo", default_ttl=3600)
    await q.subscribe("news", "sport", filter='properties["kind"] == "sport"')
    await q.subscribe("news", "all")
    later = datetime.fromtimestamp(NOW_MS / 1000, UTC) + timedelta(hours=1)
    await q.send_one("work", b"active", message_id="once", properties={"a": "1"}, subject="s")
    await q.send_one("work", bytes(20_000), content_type="application/octet-stream")
    await q.send_one("work", b"scheduled", at=later)
    await q.send("work", [b"done", b"given up", b"put aside", b"in work"])
    held = {message.body: message for message in await q.receive("work", max_messages=9)}
    done = held[b"done"]
    await done.complete()
    await held[b"given up"].reject("broken", "by the test")
    await held[b"put aside"].defer()
    for body in (b"active", bytes(20_000)):
        await held[body].abandon()
    for number in range(3):
        await q.send_one("groups", b"%d" % number, group_id="g")
        await q.send_one("strict", b"%d" % number)
    await q.receive("groups", attempt_id="attempt")
    await q.send_one("news", b"goal", properties={"kind": "sport"})
    await q.create_queue("gone")
    gone = next(row for row in await q.list_queues() if row.name == "gone")
    await q.delete_queue("gone", generation=gone.generation)
    key = await q.call(CreateKeyRequest(id=KEY, name="then", permissions=["listen"]))
    return {
        "key": key.token,
        "receipt": {"seq_number": done.seq_number, "lock_token": done.lock_token},
        "gone": gone.generation,
    }


async def seen(q: Embedded) -> Seen:
    """All that the calls show of a store."""
    queues = [row.name for row in await q.list_queues()]
    found: Seen = {
        "subscriptions": await q.list_subscriptions(),
        "keys": (await q.call(ListKeysRequest())).keys,
        "described": {name: await q.describe_queue(name) for name in queues},
        "stats": {name: await q.stats(name) for name in queues},
        "messages": {
            f"{name} {state}": await q.peek(name, state=state) for name in queues for state in State
        },
    }
    plain: Seen = msgspec.to_builtins(found)
    return plain


async def opened_and_seen(path: Path) -> Seen:
    async with open_embedded(f"file:{path}", clock=ManualClock(NOW_MS), background=False) as q:
        return await seen(q)


async def main() -> None:
    """Write the file of the present format, and what it shows when it is opened again."""
    target = file_of(FORMAT)
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mq.db"
        clock = ManualClock(NOW_MS)
        async with open_embedded(f"file:{path}", clock=clock, background=False) as q:
            known = await fill(q)
        with path.open("rb") as file, gzip.GzipFile(target, "wb", mtime=0) as packed:
            shutil.copyfileobj(file, packed)
        shown = {"known": known, "shown": await opened_and_seen(path)}
    text = msgspec.json.format(msgspec.json.encode(shown), indent=1)
    target.with_suffix("").with_suffix(".json").write_bytes(text + b"\n")


def unpacked(packed: Path, folder: Path) -> Path:
    """The stored file as a file to work on."""
    path = folder / "mq.db"
    with gzip.open(packed) as file, path.open("wb") as target:
        shutil.copyfileobj(file, target)
    return path


def complete(known: Seen) -> wire.CompleteRequest:
    """The settlement that was answered then: its receipt answers it again."""
    return wire.CompleteRequest(queue="work", **known["receipt"])


if __name__ == "__main__":
    trio.run(main)
