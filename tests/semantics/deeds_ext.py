"""The deeds of our own routes, for the stage: each does one thing to the stage's message.

Rows of DEEDS in stage.py.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from mqlite_actor.contract import ext, limits, wire
from mqlite_actor.engine import commands
from tests.conformance import asking

if TYPE_CHECKING:
    from tests.semantics.stage import Stage

QUEUE: Final = "q"
"""As in stage.py."""


def said(*, is_done: bool) -> str:
    return "ok" if is_done else "not ok"


async def release(stage: Stage) -> str:
    items = [wire.SettleItem(stage.seq, stage.token)]
    (result,) = (await stage.engine.call(ext.ReleaseRequest(QUEUE, items))).results
    return said(is_done=result.ok)


async def _redrive(stage: Stage, target: str) -> str:
    request = ext.RedriveSelectedRequest(queue=QUEUE, seq_numbers=[stage.seq], target=target)
    (result,) = (await stage.engine.call(request)).results
    return said(is_done=result.outcome is ext.RedriveOutcome.MOVED)


async def redrive_selected(stage: Stage) -> str:
    return await _redrive(stage, "")


async def redrive_selected_elsewhere(stage: Stage) -> str:
    await asking.make(stage.engine, "other")
    return await _redrive(stage, "other")


async def resubmit(stage: Stage) -> str:
    request = ext.ResubmitRequest(queue=QUEUE, seq_number=stage.seq)
    return await asking.refusal(stage.engine, request)


async def resubmit_elsewhere(stage: Stage) -> str:
    await asking.make(stage.engine, "other")
    request = ext.ResubmitRequest(queue=QUEUE, seq_number=stage.seq, target="other")
    return await asking.refusal(stage.engine, request)


async def purge_active(stage: Stage) -> str:
    generation = (await asking.info(stage.engine, QUEUE)).generation
    request = ext.PurgeActiveRequest(queue=QUEUE, generation=generation)
    return await asking.refusal(stage.engine, request)


async def discard(stage: Stage) -> str:
    generation = (await asking.info(stage.engine, QUEUE)).generation
    await stage.engine._submit(commands.DiscardChunk(QUEUE, generation, limits.CHORE_ROWS))
    return "done"


async def look(stage: Stage) -> str:
    await stage.engine.call(ext.ExplainRequest(queue=QUEUE, seq_number=stage.seq))
    await stage.engine.call(ext.ExplainRequest(queue=QUEUE))
    await stage.engine.call(ext.SearchRequest(queue=QUEUE, body_text="x"))
    await stage.engine.call(ext.DescribeQueueRequest(name=QUEUE))
    return "done"


DEEDS: Final[dict[str, Callable[[Stage], Awaitable[str]]]] = {
    "release": release,
    "redrive selected": redrive_selected,
    "redrive selected elsewhere": redrive_selected_elsewhere,
    "resubmit": resubmit,
    "resubmit elsewhere": resubmit_elsewhere,
    "purge active": purge_active,
    "discard": discard,
    "look closely": look,
}
