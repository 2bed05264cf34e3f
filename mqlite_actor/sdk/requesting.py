"""Questions and answers over two queues: `async with requester(q, "rpc", reply_to="answers")`.

The other side answers with `Handle.reply`. Any number of questions may be open at once; one task
reads the answers and deals them out by `correlation_id`. Rules: the queue of answers belongs to one
requester alone; an answer that nobody waits for any more is completed and forgotten.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from mqlite_actor.contract.errors import MqliteError, Unavailable, WorldError
from mqlite_actor.sdk import requests
from mqlite_actor.sdk.durations import Duration, duration_to_ms
from mqlite_actor.sdk.handle import Handle
from mqlite_actor.sdk.message import ReceivedMessage
from mqlite_actor.sdk.requests import Body

ANSWERS_MAX = 32
"""Answers of one receive."""

PAUSE_SECONDS = 0.5
"""After trouble with the queue of answers."""


class Requester:
    """Asks questions. Made by `requester`."""

    __slots__ = ("_failure", "_handle", "_queue", "_reply_to", "_waiting")

    def __init__(self, handle: Handle, queue: str, reply_to: str) -> None:
        self._handle = handle
        self._queue = queue
        self._reply_to = reply_to
        self._waiting: dict[str, tuple[anyio.Event, list[ReceivedMessage]]] = {}
        self._failure: MqliteError | None = None

    async def ask(
        self, body: Body = b"", *, seconds: Duration = 30, **fields: str
    ) -> ReceivedMessage:
        """Send a question and wait for its answer, which is completed already.

        The question lives no longer than `seconds`; when they are over, Unavailable is raised, and
        an answer that still comes is forgotten. Errors of sending, and permanent ones of the queue
        of answers, are raised as they are; after one of the latter no question is sent any more.
        """
        if self._failure is not None:
            raise self._failure
        wait_ms = duration_to_ms(seconds, field="seconds")
        number = secrets.token_hex(16)
        answered = anyio.Event()
        answers: list[ReceivedMessage] = []
        self._waiting[number] = (answered, answers)
        try:
            question = requests.message(
                body, correlation_id=number, reply_to=self._reply_to, **fields
            )
            await self._handle.send(self._queue, [question], ttl=wait_ms / 1000)
            with anyio.move_on_after(wait_ms / 1000):
                await answered.wait()
        finally:
            del self._waiting[number]
        if answers:
            return answers[0]
        if self._failure is not None:
            raise self._failure
        raise Unavailable(f"no answer from {self._queue} within {wait_ms / 1000:g} s")

    async def read(self) -> None:
        """Deal out answers until cancelled. For `requester`.

        A lost reply is asked for again under the same attempt id, which brings the same answers;
        one whose lease is over by then comes anew.
        """
        attempt = ""
        while self._failure is None:
            attempt = attempt or secrets.token_hex(16)
            try:
                found = await self._handle.receive(
                    self._reply_to, max_messages=ANSWERS_MAX, wait=20, attempt_id=attempt
                )
            except WorldError:
                await anyio.sleep(PAUSE_SECONDS)
            except MqliteError as error:
                self._fail(error)
            else:
                attempt = ""
                await self._deal_out(found)

    async def _deal_out(self, found: list[ReceivedMessage]) -> None:
        """Hand over first: an answer whose completion fails is an answer all the same."""
        asking = [self._waiting.get(message.correlation_id) for message in found]
        for message, asker in zip(found, asking, strict=True):
            if asker is not None:
                asker[1].append(message)
        await self._complete(found)
        for asker in asking:
            if asker is not None:
                asker[0].set()

    async def _complete(self, found: list[ReceivedMessage]) -> None:
        for is_last in (False, True):
            try:
                await self._handle.complete_batch(found)
            except WorldError:
                if is_last:
                    return  # it comes again when its lease ends, and is forgotten then
                await anyio.sleep(PAUSE_SECONDS)
            except MqliteError as error:
                self._fail(error)
                return
            else:
                return

    def _fail(self, error: MqliteError) -> None:
        """No answers will come any more: tell those who wait."""
        self._failure = error
        for answered, _ in self._waiting.values():
            answered.set()


@asynccontextmanager
async def requester(handle: Handle, queue: str, *, reply_to: str) -> AsyncIterator[Requester]:
    """Ask questions of whoever serves `queue`, for the length of a block.

    `reply_to` is a queue that exists and that nobody else reads.
    """
    failure: BaseException | None = None
    async with anyio.create_task_group() as tasks:
        asking = Requester(handle, queue, reply_to)
        tasks.start_soon(asking.read)
        try:
            yield asking
        except Exception as error:  # noqa: BLE001  # raised below, as it is and in no group
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
