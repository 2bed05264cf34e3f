"""What a receiver can be told: options, hooks, and their checks.

Written by programs as keyword arguments of `Handle.receiver`; read by `receiver` and `claiming`.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import InvalidArgument, MqliteError
from mqlite_actor.logs import logger
from mqlite_actor.sdk.durations import Duration, duration_to_ms, wait_to_ms
from mqlite_actor.sdk.message import Received
from mqlite_actor.sdk.policies import Policy, Verdict, checked, retry

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
"""What platforms and people send to end a program; for `receiver(stop_signals=…)`."""

CONCURRENCY_MAX = 1000
"""Handlers at once. Each is a task and a message; more is better spread over processes."""

_log = logger("mqlite.receiver")


class ReceiverHooks:
    """What a receiver tells while it runs, for metrics and logs. Override what you want to hear.

    Called on the receiver's loop, one after the other; so count, and do not wait. One that raises
    is logged, and the receiver goes on.
    """

    __slots__ = ()

    def claimed(self, messages: int) -> None:
        """So many messages were claimed; 0 for a poll that found none."""

    def handled(self, message: Received, seconds: float, error: Exception | None) -> None:
        """A handler ended; with None it returned or was cancelled."""

    def settled(self, message: Received, verdict: Verdict | None) -> None:
        """The receiver settled a message; None is complete."""

    def lease_lost(self, message: Received) -> None:
        """The lease of a message in work is over: it is, or soon will be, with somebody else."""

    def trouble(self, error: MqliteError) -> None:
        """A claim, a renewal or a settlement failed. A permanent error is also raised by `run`."""


class _Guarded(ReceiverHooks):
    """A program's hooks. One that raises is logged and does no harm to the message in work: that is
    settled all the same, and what was claimed gets to its handler."""

    __slots__ = ("_hooks",)

    def __init__(self, hooks: ReceiverHooks) -> None:
        self._hooks = hooks

    def claimed(self, messages: int) -> None:
        self._tell("claimed", messages)

    def handled(self, message: Received, seconds: float, error: Exception | None) -> None:
        self._tell("handled", message, seconds, error)

    def settled(self, message: Received, verdict: Verdict | None) -> None:
        self._tell("settled", message, verdict)

    def lease_lost(self, message: Received) -> None:
        self._tell("lease_lost", message)

    def trouble(self, error: MqliteError) -> None:
        self._tell("trouble", error)

    def _tell(self, name: str, *told: object) -> None:
        try:
            getattr(self._hooks, name)(*told)
        except Exception:  # noqa: BLE001  # a hook is the program's own
            _log.exception("the hook %r failed", name)


class ReceiverOptions(TypedDict, total=False):
    """How to receive; each with its default if left out."""

    concurrency: int
    """Handlers at once; 1. No more messages are ever claimed than there are idle workers."""
    prefetch: int
    """Messages of one claim at most; as many as there are idle workers."""
    auto_renew: bool
    """Keep the leases of messages in work; off. Without it a handler has the queue's lock
    duration."""
    cancel_on_lost_lease: bool
    """Cancel a handler whose lease is known to be lost; off. Needs `auto_renew`."""
    on_failure: Policy
    """What becomes of a message whose handler raised; `retry()`: it comes again at once."""
    wait: Duration
    """How long one poll waits; 20 s, which is also the most."""
    stop_signals: Sequence[signal.Signals]
    """Signals that stop the run in order, such as STOP_SIGNALS; none. A second one, half a second
    later or more, cancels the handlers. Only in the main thread."""
    stop_seconds: Duration
    """How long handlers may go on after a stop; 10 s."""
    hooks: ReceiverHooks
    """Where to tell what happens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The same, checked."""

    concurrency: int = 1
    prefetch: int = 1
    auto_renew: bool = False
    cancel_on_lost_lease: bool = False
    on_failure: Policy = field(default_factory=retry)
    wait_ms: int = limits.RECEIVE_WAIT_MS_MAX
    stop_signals: tuple[signal.Signals, ...] = ()
    stop_seconds: float = 10.0
    hooks: ReceiverHooks = field(default_factory=ReceiverHooks)


def settings_of(options: ReceiverOptions) -> Settings:
    """InvalidArgument names the option and the mend."""
    given: dict[str, Any] = dict(options)  # typed for a checker; whoever has none is checked here
    unknown = set(given) - set(ReceiverOptions.__annotations__)
    if unknown:
        known = ", ".join(sorted(ReceiverOptions.__annotations__))
        raise InvalidArgument(f"{min(unknown)}: unknown option; there are {known}")
    concurrency = given.get("concurrency", 1)
    if not isinstance(concurrency, int) or not 1 <= concurrency <= CONCURRENCY_MAX:
        raise InvalidArgument(f"concurrency: 1 to {CONCURRENCY_MAX} handlers at once")
    prefetch = given.get("prefetch", concurrency)
    if not isinstance(prefetch, int) or prefetch < 1:
        raise InvalidArgument("prefetch: at least one message a claim")
    auto_renew = given.get("auto_renew", False)
    cancel_on_lost_lease = given.get("cancel_on_lost_lease", False)
    if cancel_on_lost_lease and not auto_renew:
        raise InvalidArgument("cancel_on_lost_lease: only a renewal notices a loss; set auto_renew")
    wait_ms = wait_to_ms(given.get("wait", limits.RECEIVE_WAIT_MS_MAX / 1000))
    stop_ms = duration_to_ms(
        given.get("stop_seconds", 10), field="stop_seconds", is_zero_allowed=True
    )
    on_failure = checked(given.get("on_failure") or retry(), "on_failure")
    return Settings(
        concurrency=concurrency,
        prefetch=min(prefetch, concurrency, limits.RECEIVE_MESSAGES_MAX),
        auto_renew=auto_renew,
        cancel_on_lost_lease=cancel_on_lost_lease,
        on_failure=on_failure,
        wait_ms=min(wait_ms, limits.RECEIVE_WAIT_MS_MAX),
        stop_signals=tuple(given.get("stop_signals", ())),
        stop_seconds=stop_ms / 1000,
        hooks=_Guarded(given.get("hooks") or ReceiverHooks()),
    )
