"""The blocking face of `requesting`: questions from any number of threads, answers by number.

Made by `requester_sync`; the answers are read in the trio thread that the handle lends (`blocking`,
`blocking_embedded`), by the async requester. Rule: leaving the block ends the reading before the
thread is given back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from mqlite_actor.sdk.background import Background
from mqlite_actor.sdk.blocking import SyncHandle, SyncReceivedMessage
from mqlite_actor.sdk.durations import Duration
from mqlite_actor.sdk.message import ReceivedMessage
from mqlite_actor.sdk.requesting import Requester
from mqlite_actor.sdk.requests import Body


class SyncRequester:
    """Asks questions, from any thread. Made by `requester_sync`."""

    __slots__ = ("_background", "_handle", "_requester")

    def __init__(
        self, handle: SyncHandle, background: Background[Any], requester: Requester
    ) -> None:
        self._handle = handle
        self._background = background
        self._requester = requester

    def ask(
        self, body: Body = b"", *, seconds: Duration = 30, **fields: str
    ) -> SyncReceivedMessage:
        """Send a question and wait for its answer, which is completed already.

        As `Requester.ask`. After KeyboardInterrupt the question stays sent, and its answer is
        forgotten.
        """
        asking = partial(self._requester.ask, body, seconds=seconds, **fields)
        answer = self._background.call(asking)
        twin = self._handle._twin  # noqa: SLF001  # this is the handle's other half
        return SyncReceivedMessage(ReceivedMessage(twin, answer.queue, answer.raw))


@contextmanager
def requester_sync(handle: SyncHandle, queue: str, *, reply_to: str) -> Iterator[SyncRequester]:
    """Ask questions of whoever serves `queue`, for the length of a block, without a loop.

    As `requester`: `reply_to` is a queue that exists and that nobody else reads. Over HTTP it keeps
    a trio thread of its own for the length of the block.
    """
    with handle._lend() as background:  # noqa: SLF001  # this is the handle's other half
        asking = Requester(background.inner, queue, reply_to)
        stop = background.start_job(asking.read)
        try:
            yield SyncRequester(handle, background, asking)
        finally:
            stop()
