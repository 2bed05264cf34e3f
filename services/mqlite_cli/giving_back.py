"""Putting messages back: what becomes of leases whose holder has to go.

Called through `holding`, with a caller that is not busy. A lease that is over meanwhile is nobody's
fault and no error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from mqlite_actor.contract.errors import LockLost, Unsupported
from mqlite_actor.contract.ext import ReleaseRequest
from mqlite_actor.contract.wire import (
    AbandonRequest,
    DeferRequest,
    Message,
    SettleItem,
    SettleRequest,
)
from mqlite_cli.invocation import Caller

GiveBack = Callable[[Caller, Sequence[Message]], None]
"""Puts messages back. May raise the contract's errors, and then has not done all."""


def abandoning(queue: str) -> GiveBack:
    """Active again at once; the delivery counts."""
    return partial(_each, AbandonRequest, queue)


def releasing(queue: str) -> GiveBack:
    """Active again as if they had not been delivered; where the broker cannot, abandoned."""
    return partial(_release, queue)


def deferring(queue: str) -> GiveBack:
    """Set aside again, for messages that were fetched by number."""
    return partial(_each, DeferRequest, queue)


def _release(queue: str, caller: Caller, messages: Sequence[Message]) -> None:
    items = [SettleItem(each.seq_number, each.lock_token) for each in messages]
    try:
        caller.call(ReleaseRequest(queue, items))
    except Unsupported:
        _each(AbandonRequest, queue, caller, messages)


def _each(
    verb: type[SettleRequest], queue: str, caller: Caller, messages: Sequence[Message]
) -> None:
    for message in messages:
        try:
            caller.call(verb(queue, message.seq_number, message.lock_token))
        except LockLost:
            continue
