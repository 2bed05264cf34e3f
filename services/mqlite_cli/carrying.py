"""`export QUEUE` and `import QUEUE`: messages of any state as lines of JSON, and back.

Called by `dispatch` through the command table. Rules: an export changes nothing and is no snapshot:
what moves to another state while it runs may be missing or be there in its old one; an import sends
new messages with what the lines say, so numbers, deliveries and dead-letter reasons stay evidence
in the file; every line is on standard output, and checked, before the count is told.
"""

from __future__ import annotations

from collections.abc import Iterator

from mqlite_actor.contract.limits import PEEK_MAX
from mqlite_actor.contract.wire import Message, PeekRequest, StatsRequest
from mqlite_cli.escaping import json_text
from mqlite_cli.feeding import feed
from mqlite_cli.invocation import Caller, Invocation
from mqlite_cli.lines import encoded, restored
from mqlite_cli.messages import read_state
from mqlite_cli.refusals import Refusal
from mqlite_cli.streams import STDOUT, OutputFailed
from mqlite_cli.terminal import Tick

_TOLD_EVERY = 100
"""Messages between two words on progress."""


def export(run: Invocation) -> int:
    """`export QUEUE`: every message on a line of its own; how many is told on standard error."""
    arguments = run.arguments
    (queue,) = arguments.words
    first, last = arguments.number("from"), arguments.number("to")
    request = PeekRequest(queue, first, read_state(arguments.text("state")), PEEK_MAX)

    def work(caller: Caller, tick: Tick) -> int:
        caller.call(StatsRequest(queue))  # the wire answers an unknown queue with nothing
        count = 0
        for message in _all(caller, request):
            if last and message.seq_number > last:
                break
            run.streams.write(json_text(encoded(message)) + "\n")
            count += 1
            if count % _TOLD_EVERY == 0:
                tick(f"{count} messages")
        run.streams.flush()
        return count

    try:
        with run.output.terminal.progress(f"exporting {queue}", beside=STDOUT) as tick:
            count = run.session(lambda caller: work(caller, tick))
    except OutputFailed as error:
        raise OutputFailed(f"{error}; the export is not whole") from error
    run.streams.complain(f"exported={count}")
    return 0


def import_(run: Invocation) -> int:
    """`import QUEUE`: send what was exported."""
    if run.arguments.words[1:] not in ([], ["-"]):
        raise Refusal(f"usage: {run.command.usage}")
    return feed(run, run.arguments.words[0], restored, tells_expired=True)


def _all(caller: Caller, request: PeekRequest) -> Iterator[Message]:
    """Page after page, by number."""
    at = request.from_seq
    while page := caller.call(PeekRequest(request.queue, at, request.state, request.max)).messages:
        yield from page
        at = page[-1].seq_number + 1
