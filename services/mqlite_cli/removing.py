"""`receive --delete`: messages that are gone from the broker before anybody has seen them.

Called by `receiving`. At most once, but not less for an interrupt: after a signal the command stops
waiting, shows what was removed nevertheless, and ends then; only a second signal stops the output.
Each claim has an id, so that one whose answer was lost can be asked for again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence

import msgspec

from mqlite_actor.contract.errors import Closed, MqliteError, OutcomeUnknown
from mqlite_actor.contract.wire import Message, ReceiveRequest
from mqlite_actor.sdk import exchange
from mqlite_cli.invocation import Caller, Invocation
from mqlite_cli.showing import Fate, show
from mqlite_cli.streams import OutputFailed


def part_of(request: ReceiveRequest, left: int) -> ReceiveRequest:
    """The claim of the next batch when `left` messages are wanted; 0 or less leaves it."""
    most = min(request.max_messages, left) if left > 0 else request.max_messages
    return msgspec.structs.replace(request, max_messages=most)


def remove(run: Invocation, request: ReceiveRequest, *, count: int) -> int:
    """Take and show one batch, or batches up to `count` messages; how many there were."""
    removal = _Removal(run, request, count)
    return run.held_session(removal.work, leave=removal.leave)


class _Removal:
    """The claims and their messages, between the worker and the main thread."""

    __slots__ = ("_caller", "_count", "_ended", "_failure", "_is_leaving", "_request", "_run")

    def __init__(self, run: Invocation, request: ReceiveRequest, count: int) -> None:
        self._count = count
        self._run = run
        self._request = request
        self._caller: Caller | None = None
        self._is_leaving = False
        self._failure = ""
        self._ended = threading.Event()

    def work(self, caller: Caller) -> int:
        """In the worker: claim, show; how many were shown."""
        self._caller = caller
        taken = 0
        try:
            while not self._is_leaving:
                messages = self._claim(caller, self._count - taken)
                if messages or not self._is_leaving:
                    show(self._run, messages, messages, Fate.REMOVED, is_more=taken > 0)
                taken += len(messages)
                if not messages or taken >= self._count:
                    break
            return taken
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

    def _claim(self, caller: Caller, left: int) -> Sequence[Message]:
        # A lost reply would lose deleted messages; by its id the claim can be asked for again.
        request = msgspec.structs.replace(
            part_of(self._request, left), receive_attempt_id=os.urandom(16).hex()
        )
        try:
            return caller.call(request).messages
        except OutcomeUnknown:
            wait_ms = 0 if self._is_leaving else request.wait_time_ms
            again = msgspec.structs.replace(request, wait_time_ms=wait_ms)
            return _repeated(caller.twin(), again)
        except Closed:
            # We hung up before the request was on its way.
            if self._is_leaving:
                return ()
            raise


def _repeated(twin: Caller, request: ReceiveRequest) -> Sequence[Message]:
    """The answer of another caller, which is ended; in doubt, if it failed, as the first was."""
    try:
        return twin.call(request).messages
    except MqliteError as error:
        unknown = exchange.unknown_since(request, error)
        if unknown is None:
            raise
        raise unknown from error
    finally:
        twin.hang_up()
