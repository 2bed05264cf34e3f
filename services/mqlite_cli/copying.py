"""`send --count N`: one message many times, for trials and loads.

Called by `messages`. `{{n}}` in the body, in a property or in another text of the message is the
copy's number, from 1; the lines that `feeding` names when one fails are those numbers.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mqlite_actor.contract.wire import Message
from mqlite_cli.feeding import Entry, feed_lines
from mqlite_cli.invocation import Invocation
from mqlite_cli.refusals import Refusal

_MARK = "{{n}}"


def send_copies(run: Invocation, queue: str, message: Message, *, ttl_ms: int) -> int:
    """Send `--count` copies; 0, or the error that names the copy. Refusal for a number below 1."""
    count = run.arguments.number("count")
    if count < 1:
        raise Refusal("--count must be at least 1")
    if message.message_id and _MARK not in message.message_id:
        raise Refusal(f"--message-id would make all copies one message; put {_MARK} into it")
    numbers = iter(range(1, count + 1))

    def lines() -> Iterator[tuple[int, bytes]]:
        for number in range(1, count + 1):
            yield number, message.body.replace(_MARK.encode(), b"%d" % number)

    return feed_lines(
        run,
        queue,
        lines(),
        lambda body, _: Entry(_copy(message, body, next(numbers))),
        ttl_ms=ttl_ms,
    )


def _copy(message: Message, body: bytes, number: int) -> Message:
    filled = {
        name: value.replace(_MARK, str(number))
        for name, value in msgspec.structs.asdict(message).items()
        if isinstance(value, str) and _MARK in value
    }
    properties = {
        key: value.replace(_MARK, str(number)) for key, value in message.properties.items()
    }
    return msgspec.structs.replace(message, body=body, properties=properties, **filled)
