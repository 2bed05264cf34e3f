"""`receive --delete`: messages that are gone from the broker before anybody has seen them.

Called by `receiving`. At most once, but not less for an interrupt: after a signal the command stops
waiting, shows what was removed nevertheless, and ends then; only a second signal stops the output.
The claim has an id, so that one whose answer was lost can be asked for again.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import msgspec

from mqlite_actor.contract.errors import Closed, MqliteError, OutcomeUnknown
from mqlite_actor.contract.wire import Message, ReceiveRequest
from mqlite_cli.invocation import Caller, Invocation
from mqlite_cli.showing import Fate, show
from mqlite_cli.streams import OutputFailed


def remove(run: Invocation, request: ReceiveRequest) -> int:
    """Take, show, and return 0."""
    removal = _Removal(run, request)
    run.held_session(removal.work, leave=removal.leave)
    return 0


class _Removal:
    """One claim and its messages, between the worker and the main thread."""

    __slots__ = ("_caller", "_ended", "_failure", "_is_leaving", "_request", "_run")

    def __init__(self, run: Invocation, request: ReceiveRequest) -> None:
        self._run = run
        self._request = request
        self._caller: Caller | None = None
        self._is_leaving = False
        self._failure = ""
        self._ended = threading.Event()

    def work(self, caller: Caller) -> None:
        """In the worker: claim, show."""
        self._caller = caller
        try:
            messages = self._claim(caller)
            if messages or not self._is_leaving:
                show(self._run, messages, messages, Fate.REMOVED)
        except (MqliteError, OutputFailed) as error:
            self._failure = str(error)
            raise
        finally:
            self._ended.set()

    def leave(self) -> None:
        """In the main thread: end the wait, not the output; a second signal ends the process."""
        self._is_leaving = True
        if self._caller is not None:
            self._caller.hang_up()
            self._ended.wait()
            if self._failure:
                self._run.warn(f"{self._failure}; messages may be removed and not shown")

    def _claim(self, caller: Caller) -> Sequence[Message]:
        try:
            return caller.call(self._request).messages
        except OutcomeUnknown:
            wait_ms = 0 if self._is_leaving else self._request.wait_time_ms
            again = msgspec.structs.replace(self._request, wait_time_ms=wait_ms)
            return caller.twin().call(again).messages
        except Closed:
            # We hung up before the request was on its way.
            if self._is_leaving:
                return ()
            raise
