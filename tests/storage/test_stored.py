"""Files of every format that the program ever had open today, with all that is in them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import wire
from mqlite_actor.contract.keys import Right
from mqlite_actor.sdk.embedded import open_embedded
from mqlite_actor.storage import schema
from tests.conformance.audit import audit_file
from tests.storage import stored
from tests.storage.stored import NOW_MS, Seen

FORMATS = sorted(stored.FOLDER.glob("*.sqlite.gz"))


@pytest.fixture(params=FORMATS, ids=lambda packed: packed.name.partition(".")[0])
def packed(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


def told(packed: Path) -> Seen:
    """What the file's own program showed of it."""
    found: Seen = msgspec.json.decode(packed.with_suffix("").with_suffix(".json").read_bytes())
    return found


def test_every_format_with_a_way_to_the_present_one_has_its_file() -> None:
    assert {stored.file_of(each) for each in (*schema.MIGRATIONS, schema.FORMAT)} == set(FORMATS)


async def test_a_stored_file_shows_what_it_showed_then(packed: Path, tmp_path: Path) -> None:
    path = stored.unpacked(packed, tmp_path)
    for _ in range(2):  # the second opening is that of a file of the present format
        assert await stored.opened_and_seen(path) == told(packed)["shown"]
        assert schema.inspect(str(path))
    assert audit_file(path) == []


async def test_a_stored_file_keeps_what_was_promised_then(packed: Path, tmp_path: Path) -> None:
    path, known = stored.unpacked(packed, tmp_path), told(packed)["known"]
    async with open_embedded(f"file:{path}", clock=ManualClock(NOW_MS), background=False) as q:
        assert await q.call(stored.complete(known)) == wire.OkResponse()
        assert await q.send_one("work", b"active", message_id="once") == 1
        assert await q.engine.authenticate(known["key"]) == (
            "success", frozenset({Right.LISTEN}),
        )  # fmt: skip
        await q.delete_queue("gone", generation=known["gone"])
        again = await q.receive("groups", attempt_id="attempt")
        assert [message.body for message in again] == [b"0"]
        assert await q.send_one("news", b"x", properties={"kind": "sport"}) > 0
        assert (await q.stats("sport")).active == 2
        (first,) = await q.receive("strict")
        await first.complete()
    assert audit_file(path) == []
