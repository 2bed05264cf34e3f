"""Received messages on standard output, and what becomes of them when it fails.

Called by `receiving` and `removing`; writes through `output`. The last byte is written and checked
before `show` returns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

import msgspec

from mqlite_actor.contract.wire import Message
from mqlite_cli.escaping import field, quoted
from mqlite_cli.invocation import Invocation
from mqlite_cli.streams import OutputFailed


class Fate(Enum):
    """What happens to messages besides being shown, and so what a failed output means."""

    SETTLED = "not completed: locked now, delivered again when the lease ends"
    KEPT = "locked until the lease ends; the lock tokens may be lost"
    FETCHED = "locked until the lease ends, those that were not written deferred again"
    REMOVED = "already removed and perhaps not shown"


def show(
    run: Invocation,
    messages: Sequence[Message],
    one_by_one: Iterable[Message],
    fate: Fate,
    *,
    is_more: bool = False,
) -> None:
    """Print and flush what `one_by_one` yields of `messages`. OutputFailed says their fate.
    `is_more`: something was shown before, so that nothing is no news."""
    try:
        if messages:
            run.output.messages((_shown(message, fate) for message in one_by_one), _line)
        elif not is_more:
            run.output.nothing(text="(no messages)", json="[\n]")
        run.streams.flush()
    except OutputFailed as error:
        if not messages:
            raise
        raise OutputFailed(f"{error}; {len(messages)} message(s) {fate.value}") from error


def _shown(message: Message, fate: Fate) -> Message:
    """What the command may show of a message: a token only to somebody who has to settle it."""
    token = message.lock_token if fate in (Fate.KEPT, Fate.FETCHED) else ""
    until_ms = 0 if fate is Fate.REMOVED else message.locked_until_ms
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
