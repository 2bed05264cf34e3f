"""What becomes of a message whose handler failed: policies for `receiver(on_failure=…)`.

Chosen by programs, asked by the receiver. A policy is a function of the message and the exception
that returns a verdict; it runs on the receiver's loop, so it computes and does not wait. The
queue's own limit of deliveries holds behind every policy.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from mqlite_actor.contract.errors import InvalidArgument
from mqlite_actor.contract.mistakes import plain_text
from mqlite_actor.sdk.durations import Duration, duration_to_ms
from mqlite_actor.sdk.message import Received

DELAY_EXPONENT_MAX = 63
"""Doubling more often than this is longer than any bound; it keeps the power a sensible float."""

TEXT_MAX = 65_536
"""Characters of a reason or a description: more than a person reads of an error."""


class Retry(msgspec.Struct, frozen=True):
    """Abandon it: it comes again after `delay_ms`, until the queue's deliveries are used up."""

    delay_ms: int = 0


class DeadLetter(msgspec.Struct, frozen=True):
    """Reject it: it becomes a dead letter at once."""

    reason: str = "handler failed"
    description: str = ""


Verdict = Retry | DeadLetter
Policy = Callable[[Received, Exception], Verdict]


def fault_of(verdict: object) -> str:
    """Why it is none that can be carried out; "" if it is one."""
    if isinstance(verdict, Retry):
        delay: object = verdict.delay_ms
        is_whole = isinstance(delay, int) and delay >= 0
        return "" if is_whole else f"delay_ms {delay!r} is no number of milliseconds"
    if isinstance(verdict, DeadLetter):
        texts: tuple[object, ...] = (verdict.reason, verdict.description)
        return "" if all(isinstance(each, str) for each in texts) else "a text that is none"
    return f"a {type(verdict).__name__} is no verdict (mq.Retry, mq.DeadLetter)"


def storable(text: str) -> str:
    """A text of a verdict as it can be stored: what a message said gets into it, and that may be
    half a surrogate pair, or as long as a body."""
    return plain_text(text)[:TEXT_MAX].encode("utf-8", "backslashreplace").decode()


def checked(policy: Policy, field: str) -> Policy:
    """InvalidArgument for what cannot decide, such as the verdict itself."""
    if callable(policy):
        return policy
    raise InvalidArgument(
        f"{field}: a policy, such as mq.retry(delay=5) or mq.reject(), not {type(policy).__name__}"
    )


def retry(*, delay: Duration = 0) -> Policy:
    """Try again after a fixed pause; at once by default."""
    delay_ms = duration_to_ms(delay, field="delay", is_zero_allowed=True)
    return lambda _message, _error: Retry(delay_ms)


def retry_exponentially(
    *,
    first: Duration = 1,
    factor: float = 2.0,
    longest: Duration = 300,
    jitter: float = 0.5,
) -> Policy:
    """Try again after `first`, then `factor` times as long after each delivery, up to `longest`.

    `jitter` is the part of each pause that is drawn by lot (0 to 1), so that messages which failed
    together do not come back together.
    """
    first_ms = duration_to_ms(first, field="first")
    longest_ms = duration_to_ms(longest, field="longest")
    if factor < 1:
        raise InvalidArgument("factor: at least 1, or pauses would shrink")
    if not 0 <= jitter <= 1:
        raise InvalidArgument("jitter: a part of the pause, 0 to 1")

    def decide(message: Received, _error: Exception) -> Verdict:
        exponent = min(max(message.delivery_count - 1, 0), DELAY_EXPONENT_MAX)
        pause_ms = min(first_ms * factor**exponent, longest_ms)
        drawn = random.random()  # noqa: S311  # spreads load, guards nothing
        return Retry(max(1, round(pause_ms * (1 - jitter * drawn))))

    return decide


def reject(*, reason: str = "") -> Policy:
    """Make it a dead letter; the reason is the exception's class unless one is given."""

    def decide(_message: Received, error: Exception) -> Verdict:
        return DeadLetter(reason or type(error).__name__, str(error))

    return decide


def by_exception(
    table: Mapping[type[Exception], Policy], *, otherwise: Policy | None = None
) -> Policy:
    """The policy of the exception's nearest class in the table, or `otherwise` (retry at once)."""
    rows: dict[Any, Policy] = dict(table)  # whoever has no type checker is checked here
    for kind, policy in rows.items():
        if not isinstance(kind, type):
            raise InvalidArgument(f"table: {kind!r} is no class of exceptions; give each its row")
        checked(policy, f"table[{kind.__name__}]")
    rest = retry() if otherwise is None else checked(otherwise, "otherwise")

    def decide(message: Received, error: Exception) -> Verdict:
        found = next((rows[kind] for kind in type(error).__mro__ if kind in rows), rest)
        return found(message, error)

    return decide
