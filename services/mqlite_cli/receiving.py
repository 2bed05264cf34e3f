"""`receive` and `receive-deferred`: take messages, show them, and only then complete them
(spec/tools.md 1.5).

Called by `dispatch` through the command table. The order is the point:
1. standard output that nobody can read is refused before anything is claimed;
2. every message is written and flushed, and the write checked, before anything is settled;
3. all of a batch are settled by exactly one CompleteBatch, or none;
4. from the claim until the settle has returned the leases are renewed.
So a message is never acknowledged that was not written out whole; whether the reader of a pipe
reads it, nobody here can know. `--no-ack` settles nothing, `--delete` has settled before it shows,
which is why both are spared rule 1. A signal gives back what is held (`holding`).
"""

from __future__ import annotations

from collections.abc import Sequence

from mqlite_actor.contract.errors import MqliteError
from mqlite_actor.contract.limits import RECEIVE_MESSAGES_MAX, RECEIVE_WAIT_MS_MAX
from mqlite_actor.contract.wire import (
    CompleteBatchRequest,
    Message,
    ReceiveDeferredRequest,
    ReceiveRequest,
    Request,
    SettleItem,
)
from mqlite_actor.contract.wire import MessagesResponse as Messages
from mqlite_actor.sdk.durations import wait_nanoseconds_to_ms
from mqlite_cli.giving_back import abandoning, deferring, releasing
from mqlite_cli.holding import DOUBTFUL, Holding, Rounds
from mqlite_cli.invocation import Caller, Invocation
from mqlite_cli.numbers import read_seqs
from mqlite_cli.output import Form
from mqlite_cli.refusals import Empty, Refusal
from mqlite_cli.removing import part_of, remove
from mqlite_cli.renewing import Renewer
from mqlite_cli.showing import Fate, show
from mqlite_cli.streams import OutputFailed

_RECEIVE_AND_DELETE = 1
"""The wire's receive_mode."""


def receive(run: Invocation) -> int:
    """`receive QUEUE`: 0 also when there was nothing, but for --fail-empty."""
    arguments = run.arguments
    keeps, deletes = arguments.is_on("no-ack"), arguments.is_on("delete")
    if keeps and deletes:
        raise Refusal("--no-ack keeps messages locked and --delete removes them; give one")
    if not keeps and not deletes:
        _refuse_unseen(run, "--delete takes messages unseen")
    request = _request(run, deletes=deletes)
    count = _count(run)
    if deletes:
        return _ended(run, remove(run, request, count=count))
    rounds = Rounds(
        lambda: Holding(
            run.streams,
            give_back=releasing(request.queue),
            give_up=None if keeps else abandoning(request.queue),
            warn=run.warn,
        )
    )

    def work(caller: Caller) -> int:
        taken = 0
        while True:
            holding = rounds.begin()
            messages = _claim(caller, part_of(request, count - taken), holding)
            _take(run, caller, request.queue, messages, holding, is_more=taken > 0)
            taken += len(messages)
            if not messages or taken >= count:
                return taken

    return _ended(run, run.held_session(work, leave=rounds.leave))


def _ended(run: Invocation, taken: int) -> int:
    """0, or Empty if that many are too few."""
    if not taken and run.arguments.is_on("fail-empty"):
        raise Empty
    return 0


def _take(
    run: Invocation,
    caller: Caller,
    queue: str,
    messages: Sequence[Message],
    holding: Holding,
    *,
    is_more: bool,
) -> None:
    """Show one batch and complete it. `is_more`: others were shown before."""
    if run.arguments.is_on("no-ack") or not messages:
        show(run, messages, holding.shown(), Fate.KEPT, is_more=is_more)
        holding.done()
        return
    with Renewer(caller, queue, messages, warn=run.warn):
        show(run, messages, holding.shown(), Fate.SETTLED)
        holding.settle()
        _complete(caller, queue, messages, holding)


def receive_deferred(run: Invocation) -> int:
    """`receive-deferred QUEUE --seq A,B`: under leases, with tokens; settles nothing."""
    (queue,) = run.arguments.words
    if not run.arguments.text("seq"):
        raise Refusal(f"--seq is needed; usage: {run.command.usage}")
    request = ReceiveDeferredRequest(queue, read_seqs(run.arguments.text("seq"), name="--seq"))
    _refuse_unseen(run, "the lock tokens would be lost")
    holding = Holding(run.streams, give_back=deferring(queue), give_up=None, warn=run.warn)

    def work(caller: Caller) -> int:
        messages = _claim(caller, request, holding)
        try:
            show(run, messages, holding.shown(), Fate.FETCHED)
        except OutputFailed:
            # A lease that ends makes them active: whoever deferred them would not find them again.
            holding.leave()
            raise
        holding.done()
        return len(messages)

    return _ended(run, run.held_session(work, leave=holding.leave))


def _refuse_unseen(run: Invocation, mend: str) -> None:
    if run.streams.undeliverable:
        raise Refusal(
            f"nobody can read standard output ({run.streams.undeliverable}), so nothing was taken; "
            f"{mend}"
        )


def _count(run: Invocation) -> int:
    """How many messages to take in all; 0 is one batch."""
    arguments = run.arguments
    if not arguments.has("count"):
        return 0
    count = arguments.number("count")
    if count < 1:
        raise Refusal("--count must be 1 or more")
    if run.output.form is Form.JSON:
        raise Refusal("--count prints batch by batch, and JSON is one array; give --output ndjson")
    return count


def _request(run: Invocation, *, deletes: bool) -> ReceiveRequest:
    (queue,) = run.arguments.words
    max_default = run.arguments.number("count") or 1
    wait_ms = wait_nanoseconds_to_ms(run.arguments.number("wait"))
    return ReceiveRequest(
        queue=queue,
        max_messages=max(1, min(run.arguments.number("max", max_default), RECEIVE_MESSAGES_MAX)),
        wait_time_ms=min(wait_ms, RECEIVE_WAIT_MS_MAX),
        receive_mode=_RECEIVE_AND_DELETE if deletes else 0,
        # A claim under a lease goes without an id: the broker takes it back when we are gone
        # (ruling R42). `removing` gives its claims one each.
    )


def _claim(caller: Caller, request: Request[Messages], holding: Holding) -> Sequence[Message]:
    holding.opened(caller)
    try:
        messages = caller.call(request).messages
    except BaseException:
        holding.done()
        raise
    holding.hold(messages)
    return messages


def _complete(caller: Caller, queue: str, messages: Sequence[Message], holding: Holding) -> None:
    items = [SettleItem(message.seq_number, message.lock_token) for message in messages]
    try:
        results = caller.call(CompleteBatchRequest(queue=queue, messages=items)).results
    except MqliteError as error:
        error.add_note(f"{len(items)} message(s) {DOUBTFUL}")
        holding.done(f"{error.message}; {len(items)} message(s) {DOUBTFUL}")
        raise
    failed = [str(result.seq_number) for result in results if not result.ok]
    if failed:
        lost = (
            f"{len(failed)} of {len(items)} message(s) could not be completed, their lease was "
            f"over; they will be delivered again: seq {', '.join(failed)}"
        )
        holding.done(lost)
        raise Refusal(lost)
    holding.done()
