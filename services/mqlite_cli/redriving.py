"""`redrive`: dead letters become active again, all of them or those that are chosen.

Called by `dispatch` through the command table. Without a choice it is one call of the contract.
With one, the dead letters are searched and moved page by page, each for itself, up to the last one
that there was at the beginning: one that dies again meanwhile is not moved twice. What was moved
stays moved whatever happens afterwards, and is said. An age is counted back from the broker's time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import msgspec

from mqlite_actor.contract.errors import MqliteError, NotFound, QueueNotFound
from mqlite_actor.contract.ext import (
    FoundMessage,
    RedriveOutcome,
    RedriveResult,
    RedriveSelectedRequest,
    ResubmitRequest,
    SearchRequest,
)
from mqlite_actor.contract.limits import SELECTED_MAX
from mqlite_actor.contract.wire import RedriveRequest, StatsRequest
from mqlite_actor.contract.words import State
from mqlite_actor.sdk.durations import nanoseconds_to_ms
from mqlite_cli.foretelling import foretell, look_at_target, tell
from mqlite_cli.invocation import Caller, Invocation
from mqlite_cli.mending import Edit, read_edit
from mqlite_cli.numbers import read_bound, read_seqs
from mqlite_cli.refusals import Refusal
from mqlite_cli.seeking import is_seeking, pages, sought
from mqlite_cli.stopping import stops_interrupt
from mqlite_cli.their_time import earliest

PACE_SECONDS = 1.0
"""A paced redrive moves its rate, then waits this long."""

_NAMED_MAX = 16
"""Numbers in one line, of those that would be or were not moved."""


def redrive(run: Invocation) -> int:
    """`redrive QUEUE`: in place, or to another queue."""
    (queue,) = run.arguments.words
    edit = read_edit(run)
    if edit or is_seeking(run.arguments) or run.arguments.has("seq"):
        return _redrive_chosen(run, queue, edit)
    request = RedriveRequest(
        queue=queue,
        target=run.arguments.text("to"),
        max=read_bound(run.arguments, "max"),
        older_than_ms=_older_than_ms(run),
        rate_per_sec=read_bound(run.arguments, "rate"),
    )
    if run.arguments.is_on("dry-run"):
        return foretell(run, request, State.DEAD_LETTERED, "would_move")
    moved = run.ask(request).moved
    run.output.done({"action": "redrive", "moved": moved})
    return 0


def _redrive_chosen(run: Invocation, queue: str, edit: Edit | None) -> int:
    """Those that the flags choose: 1 if one of them could not be moved."""
    arguments = run.arguments
    if arguments.has("seq") and (arguments.has("max") or arguments.has("rate")):
        raise Refusal("--seq names the messages, --max and --rate bound them; give one")
    choice = _Choice(run, queue)
    if arguments.is_on("dry-run"):
        return _foretell_chosen(run, choice)
    mover = _Mover(queue, arguments.text("to"), edit, read_bound(arguments, "rate"))
    with stops_interrupt():
        try:
            run.session(lambda caller: _move(caller, choice, mover))
        except KeyboardInterrupt:
            run.warn(f"{mover.moved} message(s) are moved and stay so")
            raise
    return _report(run, choice, mover)


def _move(caller: Caller, choice: _Choice, mover: _Mover) -> None:
    try:
        if choice.is_bare and not mover.edits:  # no look is needed: the answer tells all
            for at in range(0, len(choice.numbers), SELECTED_MAX):
                mover.move_numbers(caller, choice.numbers[at : at + SELECTED_MAX])
            return
        for page in choice.pages(caller):
            mover.move(caller, page)
    except MqliteError as error:
        if mover.moved:
            error.add_note(f"{mover.moved} before it are moved and stay so")
        raise


def _foretell_chosen(run: Invocation, choice: _Choice) -> int:
    """How many would be moved, and which come first."""

    def work(caller: Caller) -> tuple[int, list[int]]:
        look_at_target(caller, choice.queue, run.arguments.text("to"))
        count, first = 0, list[int]()
        for page in choice.pages(caller):
            count += len(page)
            first += [each.message.seq_number for each in page[: _NAMED_MAX - len(first)]]
        return count, first

    count, first = run.session(work)
    named = ",".join(map(str, first)) + (",..." if count > len(first) else "")
    found = {"seq": named} if first else {}
    return tell(run, {"queue": choice.queue, "would_move": count, **found})


def _report(run: Invocation, choice: _Choice, mover: _Mover) -> int:
    result: dict[str, object] = {"action": "redrive", "moved": mover.moved}
    if choice.numbers:
        result["results"] = [msgspec.to_builtins(each) for each in mover.results]
    run.output.took_effect(result, line=f"ok: action=redrive moved={mover.moved}")
    left = [
        (each.seq_number, each.outcome.value)
        for each in mover.results
        if each.outcome is not RedriveOutcome.MOVED
    ]
    if choice.is_bare:
        answered = {each.seq_number for each in mover.results}
        gone = RedriveOutcome.NOT_DEAD_LETTERED.value
        left += [(seq, gone) for seq in choice.numbers if seq not in answered]
    if not left:
        return 0
    why = ", ".join(f"{seq} ({outcome})" for seq, outcome in left[:_NAMED_MAX])
    more = ", ..." if len(left) > _NAMED_MAX else ""
    total = mover.moved + len(left)
    raise Refusal(f"{len(left)} of {total} message(s) were not moved: seq {why}{more}")


class _Choice:
    """Which dead letters: by number, by what they are, or both. `is_bare`: by number alone."""

    __slots__ = ("_maximum", "_request", "_run", "is_bare", "numbers", "queue")

    def __init__(self, run: Invocation, queue: str) -> None:
        arguments = run.arguments
        has_numbers = arguments.has("seq")
        self.queue = queue
        self.numbers = read_seqs(arguments.text("seq"), name="--seq") if has_numbers else []
        request = sought(run, queue, state=State.DEAD_LETTERED)
        before_ms = request.enqueued_before_ms
        if older_than_ms := _older_than_ms(run):
            now = earliest(run, StatsRequest(queue))
            bound_ms = max(1, now() - older_than_ms)
            before_ms = min(before_ms or bound_ms, bound_ms)
        self._request = msgspec.structs.replace(
            request,
            enqueued_before_ms=before_ms,
            from_seq=min(self.numbers, default=0),
            to_seq=max(self.numbers, default=0),
        )
        self._maximum = read_bound(arguments, "max")
        self._run = run
        self.is_bare = has_numbers and not is_seeking(arguments) and not older_than_ms

    def pages(self, caller: Caller) -> Iterator[Sequence[FoundMessage]]:
        """The chosen, as far as they are dead letters now."""
        request = self._request
        if not self.numbers:
            newest = SearchRequest(self.queue, request.state, newest_first=True, max=1)
            last = caller.call(newest).messages
            if not last:
                return
            request = msgspec.structs.replace(request, to_seq=last[0].message.seq_number)
        wanted = frozenset(self.numbers)
        for page in pages(caller, request, maximum=self._maximum, warn=self._run.warn):
            chosen = [each for each in page if not wanted or each.message.seq_number in wanted]
            if chosen:
                yield chosen


class _Mover:
    """Moves what it is given. `results` are those of a choice by number, and all failures."""

    __slots__ = ("_is_begun", "_queue", "_rate", "_target", "edits", "moved", "results")

    def __init__(self, queue: str, target: str, edit: Edit | None, rate: int) -> None:
        self._queue = queue
        self._target = target
        self._rate = rate
        self._is_begun = False
        self.edits = edit
        self.moved = 0
        self.results: list[RedriveResult] = []

    def move(self, caller: Caller, page: Sequence[FoundMessage]) -> None:
        """One page, at the rate; what somebody else has moved or deleted by now is a result."""
        size = self._rate or SELECTED_MAX
        for at in range(0, len(page), size):
            if self._rate and self._is_begun:
                threading.Event().wait(PACE_SECONDS)
            self._is_begun = True
            part = page[at : at + size]
            if self.edits is None:
                self.move_numbers(caller, [each.message.seq_number for each in part])
            else:
                for each in part:
                    self._mend(caller, each, self.edits)

    def move_numbers(self, caller: Caller, numbers: Sequence[int]) -> None:
        """Dead letters as they are, at most SELECTED_MAX."""
        answer = caller.call(RedriveSelectedRequest(self._queue, list(numbers), self._target))
        self.moved += answer.moved
        self.results += answer.results

    def _mend(self, caller: Caller, found: FoundMessage, edit: Edit) -> None:
        seq = found.message.seq_number
        request = ResubmitRequest(self._queue, seq, edit.patch(found.message), self._target)
        try:
            put = caller.call(request)
        except QueueNotFound:
            raise
        except NotFound:
            self.results.append(RedriveResult(seq, RedriveOutcome.NOT_DEAD_LETTERED))
            return
        self.moved += 1
        self.results.append(RedriveResult(seq, RedriveOutcome.MOVED, put.seq_number))


def _older_than_ms(run: Invocation) -> int:
    age = run.arguments.number("older-than")
    return nanoseconds_to_ms(age, field="--older-than", is_zero_allowed=True)
