"""What a command looks for, read from its flags, and the pages in which it is found.

Called by `search` and `peek` (`describing`, `messages`) and by `redrive` (`redriving`). Rules: a
flag that is given and empty is refused, because it would choose everything, and one of these
commands moves what it finds; pages are followed until enough is found or the queue ends; what a
filter failed on is said, since nothing was decided about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from mqlite_actor.contract.ext import FoundMessage, SearchRequest
from mqlite_actor.contract.limits import PEEK_MAX
from mqlite_actor.contract.wire import StatsRequest
from mqlite_cli.grammar import Arguments
from mqlite_cli.invocation import Caller, Invocation
from mqlite_cli.moments import read_past
from mqlite_cli.refusals import Refusal
from mqlite_cli.their_time import Now, earliest

_TEXTS = {
    "message-id": "message_id",
    "group": "group_id",
    "correlation-id": "correlation_id",
    "subject": "subject",
    "body": "body_text",
    "filter": "filter",
    "reason": "dead_letter_reason",
}
"""Flag → the field of a search."""


def is_seeking(arguments: Arguments) -> bool:
    """Whether any flag says what is looked for."""
    return any(arguments.has(name) for name in (*_TEXTS, "prop", "since", "until"))


def sought(run: Invocation, queue: str, *, state: str) -> SearchRequest:
    """The search that the flags describe; nothing is asked yet but the time, for "an hour ago".

    Raises Refusal for an empty text, InvalidArgument for a time that is none.
    """
    arguments, now = run.arguments, earliest(run, StatsRequest(queue))
    for name in _TEXTS:
        if arguments.has(name) and not arguments.text(name).strip():
            raise Refusal(f"--{name} is empty and would choose everything; leave it out for that")
    request = SearchRequest(
        queue=queue,
        state=state,
        properties=arguments.pairs("prop"),
        enqueued_from_ms=_instant(arguments, "since", now),
        enqueued_before_ms=_instant(arguments, "until", now),
    )
    texts = {field: arguments.text(name) for name, field in _TEXTS.items()}
    return msgspec.structs.replace(request, **texts)


def pages(
    caller: Caller, request: SearchRequest, *, maximum: int = 0, warn: Callable[[str], None]
) -> Iterator[Sequence[FoundMessage]]:
    """Pages that are not empty, with `maximum` messages in all (0: whatever there is)."""
    found = failed = 0
    failure = ""
    while True:
        most = min(maximum - found, PEEK_MAX) if maximum else PEEK_MAX
        page = caller.call(msgspec.structs.replace(request, max=most))
        failed += page.failed
        failure = failure or page.failure
        found += len(page.messages)
        if page.messages:
            yield page.messages
        token = page.next_page_token
        if not token or token == request.page_token or 0 < maximum <= found:
            break
        request = msgspec.structs.replace(request, page_token=token)
    if failed:
        warn(f"the filter failed on {failed} message(s), which count as not matching: {failure}")


def _instant(arguments: Arguments, name: str, now: Now) -> int:
    """Milliseconds since 1970, or 0 without the flag."""
    if not arguments.has(name):
        return 0
    return read_past(arguments.text(name), field=f"--{name}", now=now)
