"""The verbs that act on one lease: complete, abandon, reject, defer, renew.

Called by `dispatch` through the command table. The same words again have the effect of saying them
once, because a broker keeps a receipt; anything else about a settled lease is `lock_lost`.
"""

from __future__ import annotations

from typing import TypeVar

from mqlite_actor.contract.errors import LockLost
from mqlite_actor.contract.wire import (
    AbandonRequest,
    CompleteRequest,
    DeferRequest,
    RejectRequest,
    RenewRequest,
    SettleRequest,
)
from mqlite_actor.sdk.durations import nanoseconds_to_ms
from mqlite_cli.invocation import Invocation
from mqlite_cli.numbers import read_seq
from mqlite_cli.refusals import Refusal

V = TypeVar("V", bound=SettleRequest)


def complete(run: Invocation) -> int:
    """`complete QUEUE SEQ LOCK_TOKEN`"""
    return _settle(run, CompleteRequest)


def abandon(run: Invocation) -> int:
    """`abandon QUEUE SEQ LOCK_TOKEN`: at the delivery limit it becomes a dead letter."""
    delay = run.arguments.number("delay")
    delay_ms = nanoseconds_to_ms(delay, field="--delay", is_zero_allowed=True)
    return _settle(run, AbandonRequest, delay_ms=delay_ms)


def reject(run: Invocation) -> int:
    """`reject QUEUE SEQ LOCK_TOKEN`"""
    return _settle(
        run,
        RejectRequest,
        reason=run.arguments.text("reason"),
        description=run.arguments.text("detail"),
    )


def defer(run: Invocation) -> int:
    """`defer QUEUE SEQ LOCK_TOKEN`"""
    return _settle(run, DeferRequest)


def renew(run: Invocation) -> int:
    """`renew QUEUE SEQ LOCK_TOKEN`"""
    return _settle(run, RenewRequest)


def _settle(
    run: Invocation, verb: type[V], *, delay_ms: int = 0, reason: str = "", description: str = ""
) -> int:
    queue, number, token = run.arguments.words
    seq = read_seq(number, name="SEQ")
    if not token:
        raise Refusal("LOCK_TOKEN is empty; `receive --no-ack` prints it")
    request = verb(
        queue=queue,
        seq_number=seq,
        lock_token=token,
        dead_letter_reason=reason,
        dead_letter_description=description,
        delay_ms=delay_ms,
    )
    try:
        run.ask(request)
    except LockLost as error:
        if run.is_local:
            error.add_note(
                "opening a local store ends all leases, so only a broker can settle one later"
            )
        raise
    run.output.done({"action": run.command.name, "queue": queue, "seq": seq})
    return 0
