"""Commands about single messages that take no lease: send, schedule, cancel and peek.

Called by `main` through the command table. Everything that can be refused here is refused before a
connection exists.
"""

from __future__ import annotations

from mqlite_actor.clock import SystemClock
from mqlite_actor.contract.errors import InvalidArgument, NotFound
from mqlite_actor.contract.errors import quoted as named
from mqlite_actor.contract.wire import (
    CancelRequest,
    Message,
    MessagesResponse,
    PeekRequest,
    ScheduleRequest,
    SendRequest,
    StatsRequest,
)
from mqlite_actor.contract.words import State
from mqlite_actor.sdk.durations import nanoseconds_to_ms
from mqlite_cli.bodies import read_body
from mqlite_cli.escaping import field, quoted
from mqlite_cli.foretelling import tell
from mqlite_cli.grammar import did_you_mean
from mqlite_cli.invocation import Caller, Invocation
from mqlite_cli.moments import read_moment, shown_moment
from mqlite_cli.numbers import read_seq
from mqlite_cli.refusals import Refusal
from mqlite_cli.seeking import is_seeking
from mqlite_cli.their_time import latest
from mqlite_cli.viewing import read_view, show

PEEK_DEFAULT = 16
"""The contract's number for the command; a screenful."""


def send(run: Invocation) -> int:
    """`send QUEUE BODY…`: store one message; seq 0 means that no subscription of a topic took
    it."""
    queue = run.arguments.words[0]
    ttl_ms = nanoseconds_to_ms(run.arguments.number("ttl"), field="--ttl", is_zero_allowed=True)
    if run.arguments.is_on("ndjson") or run.arguments.is_on("lines"):
        return _send_many(run, queue, ttl_ms)
    if run.arguments.has("count"):
        from mqlite_cli.copying import send_copies  # noqa: PLC0415 - one message needs it not

        return send_copies(run, queue, _message(run), ttl_ms=ttl_ms)
    response = run.ask(SendRequest(queue=queue, messages=[_message(run)], ttl_ms=ttl_ms))
    (seq,) = response.seq_numbers or (0,)
    run.output.done({"queue": queue, "seq": seq})
    return 0


def _send_many(run: Invocation, queue: str, ttl_ms: int) -> int:
    """`send QUEUE --ndjson` or `--lines`: a message for each line of a stream."""
    from mqlite_cli import feeding, lines  # noqa: PLC0415 - one message must not pay for it

    arguments = run.arguments
    if arguments.is_on("ndjson") and arguments.is_on("lines"):
        raise Refusal("--ndjson reads objects and --lines reads bodies; give one")
    if arguments.has("count"):
        raise Refusal("--count sends one message many times, and these are many already; give one")
    if arguments.has("message-id"):
        raise Refusal("--message-id would make all lines one message; put it into the lines")
    base = _described(run, b"")
    read = lines.sent(base) if arguments.is_on("ndjson") else lines.bodies(base)
    return feeding.feed(run, queue, read, ttl_ms=ttl_ms)


def schedule(run: Invocation) -> int:
    """`schedule QUEUE BODY… --at WHEN`: nobody gets it before that instant."""
    queue = run.arguments.words[0]
    if not run.arguments.text("at"):
        raise Refusal(f"--at is needed; usage: {run.command.usage}")
    now = latest(run, StatsRequest(queue))  # nobody gets it too soon
    here_ms = SystemClock().now_ms()
    at_ms = read_moment(run.arguments.text("at"), field="--at", now=now, here_ms=here_ms)
    response = run.ask(
        ScheduleRequest(queue=queue, messages=[_message(run)], scheduled_enqueue_time_ms=at_ms)
    )
    (seq,) = response.seq_numbers or (0,)
    run.output.done({"queue": queue, "seq": seq, "at": shown_moment(at_ms)})
    return 0


def cancel(run: Invocation) -> int:
    """`cancel QUEUE SEQ`: only what is scheduled and was never delivered."""
    queue, word = run.arguments.words
    seq = read_seq(word, name="SEQ")
    if run.arguments.is_on("dry-run"):
        return _foretell_cancel(run, queue, seq)
    run.ask(CancelRequest(queue=queue, seq_number=seq))
    run.output.done({"action": "cancel", "queue": queue, "seq": seq})
    return 0


def _foretell_cancel(run: Invocation, queue: str, seq: int) -> int:
    """What `cancel` would do; NotFound as it would answer."""
    there = run.session(
        lambda caller: _peek(caller, PeekRequest(queue, seq, State.SCHEDULED, 1)).messages
    )
    if not there or there[0].seq_number != seq or there[0].delivery_count:
        raise NotFound(f"message {seq} is not scheduled in {named(queue)}, or was delivered before")
    return tell(run, {"queue": queue, "seq": seq})


def _message(run: Invocation) -> Message:
    """The message that body and flags describe; Refusal before any connection exists."""
    words, file = run.arguments.words[1:], run.arguments.text("file")
    return _described(run, read_body(words, file=file, streams=run.streams))


def _described(run: Invocation, body: bytes) -> Message:
    arguments = run.arguments
    return Message(
        message_id=arguments.text("message-id"),
        correlation_id=arguments.text("correlation-id"),
        reply_to=arguments.text("reply-to"),
        group_id=arguments.text("group"),
        content_type=arguments.text("content-type"),
        subject=arguments.text("subject"),
        properties=arguments.pairs("prop"),
        body=body,
    )


def peek(run: Invocation) -> int:
    """`peek QUEUE`: messages of any or one state, by sequence number."""
    arguments = run.arguments
    (queue,) = arguments.words
    if is_seeking(arguments) or arguments.is_on("newest-first"):
        from mqlite_cli.describing import look_for  # noqa: PLC0415 - a usual peek needs none

        return look_for(run, queue, line=_peek_line, nothing="(empty)")
    view = read_view(run)
    request = PeekRequest(
        queue=queue,
        from_seq=arguments.number("from"),
        state=read_state(arguments.text("state")),
        max=arguments.number("max", PEEK_DEFAULT),
    )
    messages = run.session(lambda caller: _peek(caller, request)).messages
    show(run, messages, view, line=_peek_line, nothing="(empty)")
    return 0


def _peek(caller: Caller, request: PeekRequest) -> MessagesResponse:
    """The wire answers an unknown queue with nothing; Stats tells it from an empty one."""
    response = caller.call(request)
    if not response.messages:
        caller.call(StatsRequest(queue=request.queue))
    return response


def read_state(word: str) -> str:
    """A state of messages, or "" for any. InvalidArgument with the words there are."""
    states = [state.value for state in State]
    if word and word not in states:
        known = ", ".join(states)
        raise InvalidArgument(
            f"--state: {field(word)} is none of {known}{did_you_mean(word, states)}"
        )
    return word


def _peek_line(message: Message) -> str:
    return (
        f"seq={message.seq_number} state={field(message.state)} "
        f"deliveries={message.delivery_count} body={quoted(message.body)}"
    )
