"""`--retries N`: a call that did nothing, or that may be made twice, is made again.

Put around a broker's caller by `invocation`. Rules: what was refused as unavailable did nothing, so
it is repeated; a call whose answer was lost is repeated only if the identical request has the
effect of one (`exchange.is_repeatable`), and stays in doubt until an attempt says what became of
it; any other error is an answer. Between two attempts is a pause that doubles, and hanging up ends
it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeVar

from mqlite_actor.contract.errors import MqliteError, OutcomeUnknown, Unavailable
from mqlite_actor.contract.wire import Request
from mqlite_actor.sdk import exchange

if TYPE_CHECKING:
    from mqlite_cli.invocation import Caller

R = TypeVar("R")

RETRIES_MAX = 100
_PAUSE_SECONDS = 0.2
_PAUSE_SECONDS_MAX = 5.0
"""A broker that restarts is back within the first few; one that is overloaded needs the last."""


class RetryingCaller:
    """Another caller, asked again."""

    __slots__ = ("_caller", "_is_over", "_retries")

    def __init__(self, caller: Caller, retries: int) -> None:
        self._caller = caller
        self._retries = retries
        self._is_over = threading.Event()

    def call(self, request: Request[R]) -> R:
        """The response, or the error of the last attempt; OutcomeUnknown if an earlier one may have
        been done and the last does not say so."""
        pause, is_doubtful = _PAUSE_SECONDS, False
        for left in range(self._retries, -1, -1):
            try:
                return self._caller.call(request)
            except MqliteError as error:
                if not left or not _may_pass(request, error) or self._is_over.wait(pause):
                    unknown = exchange.unknown_since(request, error) if is_doubtful else None
                    if unknown is None:
                        raise
                    raise unknown from error
                is_doubtful = is_doubtful or isinstance(error, OutcomeUnknown)
            pause = min(2 * pause, _PAUSE_SECONDS_MAX)
        raise AssertionError("the last attempt returns or raises")

    def twin(self) -> RetryingCaller:
        """Another of the same."""
        return RetryingCaller(self._caller.twin(), self._retries)

    def now_ms(self) -> int | None:
        """As the other caller's."""
        return self._caller.now_ms()

    def reached_ms(self) -> int | None:
        """As the other caller's."""
        return self._caller.reached_ms()

    def hang_up(self) -> None:
        """End the call in flight gently, and make none again."""
        self._is_over.set()
        self._caller.hang_up()

    def cut(self) -> None:
        """End the call in flight at once, and make none again."""
        self._is_over.set()
        self._caller.cut()


def _may_pass(request: Request[R], error: MqliteError) -> bool:
    """Whether another attempt does no harm and may succeed."""
    is_harmless = exchange.is_repeatable(request)
    return isinstance(error, Unavailable) or (isinstance(error, OutcomeUnknown) and is_harmless)
