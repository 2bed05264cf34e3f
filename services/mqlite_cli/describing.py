"""Commands that look closer at one queue: describe, explain, search; and peek, when it searches.

Called by `dispatch` through the command table; they change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from mqlite_actor.contract.ext import (
    DescribeQueueRequest,
    DescribeQueueResponse,
    ExplainRequest,
    ExplainResponse,
    Finding,
)
from mqlite_actor.contract.limits import PEEK_DEFAULT as LOOK_DEFAULT
from mqlite_actor.contract.limits import PEEK_MAX
from mqlite_actor.contract.wire import Message
from mqlite_cli.escaping import field, quoted, visible
from mqlite_cli.invocation import Caller, Invocation
from mqlite_cli.messages import PEEK_DEFAULT, read_state
from mqlite_cli.moments import shown_moment
from mqlite_cli.numbers import read_seq
from mqlite_cli.output import key_values
from mqlite_cli.refusals import Refusal
from mqlite_cli.seeking import pages, sought
from mqlite_cli.viewing import read_view, show


def describe(run: Invocation) -> int:
    """`describe QUEUE`"""
    (name,) = run.arguments.words
    found = run.ask(DescribeQueueRequest(name))
    run.output.document(found, line="\n".join(_description(found)))
    return 0


def explain(run: Invocation) -> int:
    """`explain QUEUE [SEQ]`: of a queue, what is next and which lines stand still."""
    queue, *words = run.arguments.words
    if len(words) > 1:
        raise Refusal(f"usage: {run.command.usage}")
    seq = read_seq(words[0], name="SEQ") if words else 0
    found = run.ask(ExplainRequest(queue, seq))
    run.output.document(found, line="\n".join(_explanation(found)))
    return 0


def search(run: Invocation) -> int:
    """`search QUEUE`: pages are followed until enough is found or the queue ends."""
    (queue,) = run.arguments.words
    return look_for(run, queue, line=_found_line, nothing="(none)")


def look_for(run: Invocation, queue: str, *, line: Callable[[Message], str], nothing: str) -> int:
    """Show the messages that the flags describe, each page as it comes; always 0."""
    arguments = run.arguments
    view = read_view(run)
    request = msgspec.structs.replace(
        sought(run, queue, state=read_state(arguments.text("state"))),
        from_seq=arguments.number("from"),
        to_seq=arguments.number("to") if "to" in run.command.flags else 0,
        newest_first=arguments.is_on("newest-first"),
        include_bodies=True,
    )
    maximum = min(arguments.number("max", PEEK_DEFAULT), PEEK_MAX)
    if maximum <= 0:
        maximum = LOOK_DEFAULT

    def work(caller: Caller) -> None:
        found = pages(caller, request, maximum=maximum, warn=run.warn)
        messages = (each.message for page in found for each in page)
        show(run, messages, view, line=line, nothing=nothing)

    run.session(work)
    return 0


def _description(found: DescribeQueueResponse) -> Iterator[str]:
    rows: list[tuple[str, str]] = [
        ("name", field(found.name)),
        ("kind", field(found.kind)),
        ("generation", field(found.generation)),
        ("created", shown_moment(found.created_at_ms)),
        ("updated", shown_moment(found.updated_at_ms)),
        *(
            (name, visible(str(value)))
            for name, value in msgspec.structs.asdict(found.config).items()
        ),
        ("active", str(found.active)),
        ("locked", str(found.locked)),
        ("deferred", str(found.deferred)),
        ("scheduled", str(found.scheduled)),
        ("dead_lettered", f"{found.dead_lettered} ({found.dead_letter_bytes} bytes)"),
        ("oldest", f"{found.oldest_message_age_ms}ms"),
        *(
            ("topic", f"{field(each.topic)} filter={visible(each.expr) or '(match all)'}")
            for each in found.subscriptions
        ),
    ]
    for name, value in rows:
        yield f"{name + ':':<22} {value}"


def _explanation(found: ExplainResponse) -> Iterator[str]:
    yield key_values({
        "queue": found.queue, "reason": str(found.reason), "explanation": found.explanation,
    })  # fmt: skip
    if found.message is not msgspec.UNSET:
        yield f"message {_finding(found.message)}"
    if found.blocker is not msgspec.UNSET:
        yield f"blocker {_finding(found.blocker)}"
    for lane in found.blocked:
        group = {"group": lane.group_id} if lane.group_id else {}
        head = key_values({**group, "waiting": lane.waiting})
        yield f"blocked {head} head {_finding(lane.head)}"
    if found.has_more:
        yield "more messages wait than were looked at"


def _finding(finding: Finding) -> str:
    pairs: dict[str, str | int] = {
        "seq": finding.seq_number,
        "state": finding.state,
        "reason": str(finding.reason),
        "group": finding.group_id,
        "deliveries": f"{finding.delivery_count}/{finding.max_delivery_count}",
        "locked-until": shown_moment(finding.locked_until_ms) if finding.locked_until_ms else "",
        "visible-at": shown_moment(finding.visible_at_ms) if finding.visible_at_ms else "",
        "explanation": finding.explanation,
    }
    return key_values({key: value for key, value in pairs.items() if value != ""})


def _found_line(message: Message) -> str:
    pairs: dict[str, str | int] = {
        "seq": message.seq_number,
        "state": message.state,
        "deliveries": message.delivery_count,
        "message-id": message.message_id,
        "group": message.group_id,
        "subject": message.subject,
        "reason": message.dead_letter_reason,
    }
    shown = key_values({key: value for key, value in pairs.items() if value != ""})
    return f"{shown} body={quoted(message.body)}"
