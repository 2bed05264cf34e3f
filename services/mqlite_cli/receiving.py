"""`receive`: take messages, show them, and only then complete them (spec/tools.md 1.5).

Called by `main` through the command table. The order is the point:
1. standard output that nobody can read is refused before anything is claimed;
2. every message is written and flushed, and the write checked, before anything is settled;
3. all are settled by exactly one CompleteBatch, or none.
So a message is never acknowledged that nobody saw. `--no-ack` settles nothing, `--delete` has
settled before it shows, which is why both are spared rule 1.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

from mqlite_actor.contract.errors import MqliteError, OutcomeUnknown
from mqlite_actor.contract.limits import RECEIVE_MESSAGES_MAX, RECEIVE_WAIT_MS_MAX
from mqlite_actor.contract.wire import (
    CompleteBatchRequest,
    Message,
    ReceiveRequest,
    SettleItem,
)
from mqlite_actor.sdk.durations import wait_nanoseconds_to_ms
from mqlite_cli.escaping import field, quoted
from mqlite_cli.grammar import Arguments
from mqlite_cli.invocation import Caller, Invocation
from mqlite_cli.refusals import Refusal
from mqlite_cli.streams import OutputFailed

_RECEIVE_AND_DELETE = 1
"""The wire's receive_mode."""


def receive(run: Invocation) -> int:
    """`receive QUEUE`: 0 also when there was nothing."""
    arguments = run.arguments
    keeps, deletes = arguments.is_on("no-ack"), arguments.is_on("delete")
    if keeps and deletes:
        raise Refusal("--no-ack keeps messages locked and --delete removes them; give one")
    if run.streams.undeliverable and not keeps and not deletes:
        raise Refusal(
            f"nobody can read standard output ({run.streams.undeliverable}), so nothing was taken; "
            "--delete takes messages unseen"
        )
    request = _request(arguments, deletes=deletes)
    settles = not keeps and not deletes

    def work(caller: Caller) -> None:
        messages = _claim(caller, request)
        _show(run, messages, settles=settles)
        if messages and settles:
            _complete(caller, request.queue, messages)

    run.session(work)
    return 0


def _request(arguments: Arguments, *, deletes: bool) -> ReceiveRequest:
    (queue,) = arguments.words
    wait_ms = wait_nanoseconds_to_ms(arguments.number("wait"))
    return ReceiveRequest(
        queue=queue,
        max_messages=max(1, min(arguments.number("max", 1), RECEIVE_MESSAGES_MAX)),
        wait_time_ms=min(wait_ms, RECEIVE_WAIT_MS_MAX),
        receive_mode=_RECEIVE_AND_DELETE if deletes else 0,
        # A lost reply would lose deleted messages; by its id the claim can be asked for again. A
        # claim under a lease goes without: the broker takes it back when we are gone (ruling R42).
        receive_attempt_id=os.urandom(16).hex() if deletes else "",
    )


def _claim(caller: Caller, request: ReceiveRequest) -> Sequence[Message]:
    try:
        return caller.call(request).messages
    except OutcomeUnknown:
        if not request.receive_attempt_id:
            raise
        return caller.call(request).messages


def _show(run: Invocation, messages: Sequence[Message], *, settles: bool) -> None:
    """Print and flush. OutputFailed says what becomes of messages that could not be shown."""
    keeps = run.arguments.is_on("no-ack")
    deletes = run.arguments.is_on("delete")
    try:
        if messages:
            shown = [_shown(message, keeps=keeps, deletes=deletes) for message in messages]
            run.output.messages(shown, _line)
        else:
            run.output.nothing(text="(no messages)", json="[\n]")
        run.streams.flush()
    except OutputFailed as error:
        count = f"{len(messages)} message(s)"
        if settles:
            fate = f"{count} not completed: locked now, delivered again when the lease ends"
        elif deletes:
            fate = f"{count} already removed and perhaps not shown"
        else:
            fate = f"{count} locked until the lease ends; the lock tokens may be lost"
        raise OutputFailed(f"{error}; {fate}" if messages else str(error)) from error


def _complete(caller: Caller, queue: str, messages: Sequence[Message]) -> None:
    items = [SettleItem(message.seq_number, message.lock_token) for message in messages]
    try:
        results = caller.call(CompleteBatchRequest(queue=queue, messages=items)).results
    except MqliteError as error:
        error.add_note(
            f"{len(items)} message(s) were shown; whether they are completed is not known, "
            "they may be delivered again"
        )
        raise
    failed = [str(result.seq_number) for result in results if not result.ok]
    if failed:
        raise Refusal(
            f"{len(failed)} of {len(items)} message(s) could not be completed, their lease was "
            f"over; they will be delivered again: seq {', '.join(failed)}"
        )


def _shown(message: Message, *, keeps: bool, deletes: bool) -> Message:
    """What the command may show of a message: a token only to somebody who has to settle it."""
    token = message.lock_token if keeps else ""
    until_ms = 0 if deletes else message.locked_until_ms
    return msgspec.structs.replace(message, lock_token=token, locked_until_ms=until_ms)


def _line(message: Message) -> str:
    optional = {
        "message-id": message.message_id,
        "group": message.group_id,
        "reply-to": message.reply_to,
        "lock-token": message.lock_token,
    }
    pairs = "".join(f" {key}={field(value)}" for key, value in optional.items() if value)
    head = f"seq={message.seq_number} deliveries={message.delivery_count}"
    return f"{head}{pairs} body={quoted(message.body)}"
