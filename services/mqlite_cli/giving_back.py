"""Putting messages back: what becomes of leases whose holder has to go.

Called through `holding`, with a caller that is not busy. A lease that is over meanwhile is nobody's
fault and no error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from mqlite_actor.contract.errors import LockLost
from mqlite_actor.contract.wire import AbandonRequest, DeferRequest, Message, SettleRequest
from mqlite_cli.invocation import Caller

GiveBack = Callable[[Caller, Sequence[Message]], None]
"""Puts messages back. May raise the contract's errors, and then has not done all."""


def abandoning(queue: str) -> GiveBack:
    """Active again at once; the delivery counts."""
    return partial(_each, AbandonRequest, queue)


def deferring(queue: str) -> GiveBack:
    """Set aside again, for messages that were fetched by number."""
    return partial(_each, DeferRequest, queue)


def _each(
    verb: type[SettleRequest], queue: str, caller: Caller, messages: Sequence[Message]
) -> None:
    for message in messages:
        try:
            caller.call(verb(queue, message.seq_number, message.lock_token))
        except LockLost:
            continue
