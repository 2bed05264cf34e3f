"""`--dry-run`: what a command that deletes or moves would do now, and nothing done.

Called by the handlers of such commands once their arguments are read, so that a dry run refuses
what the real one would. Rule: it only asks; what it says is true for the moment of the answer.
"""

from __future__ import annotations

import msgspec

from mqlite_actor.contract.ext import PurgeActiveRequest, SearchRequest
from mqlite_actor.contract.limits import PEEK_MAX
from mqlite_actor.contract.wire import PurgeRequest, RedriveRequest, StatsRequest
from mqlite_actor.contract.words import State
from mqlite_cli.invocation import Caller, Invocation
from mqlite_cli.output import Pairs, key_values
from mqlite_cli.their_time import likely_ms


def count_chosen(
    caller: Caller, queue: str, state: State, *, older_than_ms: int, maximum: int
) -> int:
    """How many messages of a state the bounds of a command choose; 0 is no bound."""
    if older_than_ms:
        count = _count_older(caller, queue, state, older_than_ms, maximum)
    else:
        stats = caller.call(StatsRequest(queue))
        count = stats.dead_lettered if state is State.DEAD_LETTERED else stats.active
    return min(count, maximum) if maximum else count


def foretell(
    run: Invocation,
    request: RedriveRequest | PurgeRequest | PurgeActiveRequest,
    state: State,
    verb: str,
) -> int:
    """Print how many messages the bounds of a request choose."""

    def work(caller: Caller) -> int:
        count = count_chosen(
            caller,
            request.queue,
            state,
            older_than_ms=request.older_than_ms,
            maximum=request.max,
        )
        if isinstance(request, RedriveRequest):
            look_at_target(caller, request.queue, request.target)
        return count

    return tell(run, {"queue": request.queue, verb: run.session(work)})


def look_at_target(caller: Caller, queue: str, target: str) -> None:
    """QueueNotFound if messages of the queue cannot go there because it does not exist."""
    if target not in ("", queue):
        caller.call(StatsRequest(target))


def tell(run: Invocation, pairs: Pairs) -> int:
    """Print what would happen, and return 0."""
    action = run.command.name.replace(" ", "-")
    line = f"dry-run: {key_values({'action': action, **pairs})}"
    run.output.record({"action": action, "dry_run": True, **pairs}, line=line)
    run.streams.flush()
    return 0


def _count_older(caller: Caller, queue: str, state: State, older_than_ms: int, maximum: int) -> int:
    before_ms = max(1, likely_ms(caller, StatsRequest(queue)) - older_than_ms)
    request = SearchRequest(queue, state, enqueued_before_ms=before_ms, max=PEEK_MAX)
    count = 0
    while True:
        page = caller.call(request)
        count += len(page.messages)
        token = page.next_page_token
        if not token or token == request.page_token or 0 < maximum <= count:
            return count
        request = msgspec.structs.replace(request, page_token=token)
