"""`apply`, `diff` and `export-topology`: what a broker has, what a file wants, and the way there.

Called by `dispatch` through the command table; `topology` owns the file. Rules: an apply asks first
and changes only what differs, so that a second one does nothing; what is not in the file stays
unless somebody says how many things may go; nothing that holds a message is deleted; what somebody
else made since the look is left alone, as far as the calls can say; every change is told when it is
made, and one that fails ends the run with what was done before it.
"""

from __future__ import annotations

import msgspec

from mqlite_actor.contract.errors import GenerationConflict, MqliteError, NotFound
from mqlite_actor.contract.ext import (
    DeleteSubscriptionRequest,
    DescribeQueueRequest,
    DescribeQueueResponse,
    QueuePatch,
    QueueSettings,
    UpdateQueueRequest,
)
from mqlite_actor.contract.limits import MIB
from mqlite_actor.contract.wire import (
    DeleteQueueRequest,
    Filter,
    ListQueuesRequest,
    ListSubscriptionsRequest,
    QueueConfig,
    SubscribeRequest,
)
from mqlite_cli.bodies import read_file
from mqlite_cli.escaping import field, quoted
from mqlite_cli.foretelling import tell
from mqlite_cli.invocation import Caller, Invocation
from mqlite_cli.output import Form
from mqlite_cli.refusals import Refusal
from mqlite_cli.topology import (
    DEFAULTS,
    Change,
    Settings,
    Subscription,
    Topology,
    compare,
    read,
    write,
)

_FILE_BYTES_MAX = 16 * MIB
"""A hundred thousand queues."""

_SIGNS = {"create": "+", "update": "~", "delete": "-"}
_COLOURS = {"create": "good", "update": "warn", "delete": "bad"}


def apply(run: Invocation) -> int:
    """`apply FILE`: 0 when everything in the file is so."""
    wanted = _wanted(run)
    expected = run.arguments.number("prune") if run.arguments.has("prune") else None

    def work(caller: Caller) -> list[Change]:
        there, generations = _there(caller)
        changes = compare(there, wanted)
        doomed = [each for each in changes if each.change == "delete"]
        if expected is None:
            changes = [each for each in changes if each.change != "delete"]
        elif expected != len(doomed):
            names = ", ".join(field(each.name) for each in doomed) or "nothing"
            raise Refusal(f"not in the file: {names}; --prune {len(doomed)} deletes so many")
        if not run.arguments.is_on("dry-run"):
            _make(run, caller, changes, wanted, there, generations)
        return changes

    changes = run.session(work)
    counts: dict[str, str | int] = {
        f"{verb}d": sum(1 for each in changes if each.change == verb) for verb in _SIGNS
    }
    if run.arguments.is_on("dry-run"):
        _show(run, changes)
        return tell(run, counts) if run.output.form is Form.TEXT else 0
    run.output.done({"action": "apply", **counts})
    return 0


def diff(run: Invocation) -> int:
    """`diff FILE`: 0 when there is no difference, else 1 and what `apply --prune` would do."""
    wanted = _wanted(run)
    changes = compare(run.session(_there)[0], wanted)
    if run.arguments.is_on("ignore-extra"):
        changes = [each for each in changes if each.change != "delete"]
    _show(run, changes)
    return 1 if changes else 0


def export_topology(run: Invocation) -> int:
    """`export-topology`: the file that changes nothing when it is applied."""
    run.streams.write(write(run.session(_there)[0]))
    return 0


def _wanted(run: Invocation) -> Topology:
    (path,) = run.arguments.words
    try:
        text = read_file(path, bytes_max=_FILE_BYTES_MAX).decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refusal(f"{path} is not UTF-8") from error
    return read(text, source=path)


def _there(caller: Caller) -> tuple[Topology, dict[str, str]]:
    """What there is now, and the generation of each queue, which guards every change."""
    topology, generations = Topology({}, {}), {}
    for queue in caller.call(ListQueuesRequest()).queues:
        found = caller.call(DescribeQueueRequest(queue.name))
        topology.queues[queue.name] = _settings(found.config)
        generations[queue.name] = found.generation
    for each in caller.call(ListSubscriptionsRequest()).subscriptions:
        topology.subscriptions[each.name] = Subscription(each.topic, each.expr)
    return topology, generations


def _settings(found: QueueSettings) -> Settings:
    """What a queue has, as a file says it."""
    config = msgspec.to_builtins(found)
    settings: Settings = {name: config[name] for name in DEFAULTS}
    for bound in ("dlq_max_age_ms", "dlq_max_count", "dlq_max_bytes"):
        settings[bound] = max(config[bound], -1)
    return settings


def _show(run: Invocation, changes: list[Change]) -> None:
    run.output.rows(changes, [_shown(run, each) for each in changes], empty="(no differences)",
                    is_tabular=False)  # fmt: skip
    run.streams.flush()


def _shown(run: Invocation, change: Change) -> str:
    return run.output.terminal.styled(_line(change), _COLOURS[change.change])


def _line(change: Change) -> str:
    settings = " ".join(
        f"{name}={field(after)}" if change.change == "create" else
        f"{name}={field(before)}->{field(after)}"
        for name, (before, after) in change.settings.items()
    )  # fmt: skip
    return f"{_SIGNS[change.change]} {change.kind} {field(change.name)} {settings}".rstrip()


def _make(
    run: Invocation,
    caller: Caller,
    changes: list[Change],
    wanted: Topology,
    there: Topology,
    generations: dict[str, str],
) -> None:
    for number, change in enumerate(changes):
        try:
            if change.change == "delete":
                _delete(caller, change.name, there, generations)
            else:
                _put(caller, change, wanted, generations)
        except MqliteError as error:
            error.add_note(f"at {_line(change)}")
            error.add_note(
                f"{number} of {len(changes)} changes were made; apply again for the rest"
            )
            raise
        if run.output.form is Form.TEXT:
            run.streams.write(f"{_shown(run, change)}\n")


def _put(caller: Caller, change: Change, wanted: Topology, generations: dict[str, str]) -> None:
    name, settings = change.name, wanted.queues[change.name]
    subscription = wanted.subscriptions.get(name)
    if change.change == "create":
        if subscription:
            _subscribe(caller, name, settings, subscription)
            return
        config = msgspec.convert(settings, QueueConfig)
        reply = caller.call(UpdateQueueRequest(name, create=config))
        if not reply.created and _settings(reply.config) != settings:
            raise _made_meanwhile(name)
        return
    if subscription and "filter" in change.settings:
        caller.call(SubscribeRequest(subscription.topic, name, Filter(subscription.expr)))
    if set(change.settings) - {"topic", "filter"}:
        patch = msgspec.convert(settings, QueuePatch)
        caller.call(UpdateQueueRequest(name, patch, generations.get(name, "")))


def _subscribe(caller: Caller, name: str, settings: Settings, wanted: Subscription) -> None:
    """Make it, if it is not there by now; raises if it is there otherwise: no call makes a
    subscription only where there is none. Its settings take a second call, so one without any may
    be that of somebody who applies the same file and has come half the way."""
    found = _found(caller, name)
    generation = found.generation if found else ""
    if found is None:
        caller.call(SubscribeRequest(wanted.topic, name, Filter(wanted.expr)))
    elif _is_so(found, settings, wanted):
        return
    elif not _is_so(found, DEFAULTS, wanted):
        raise _made_meanwhile(name)
    if settings == DEFAULTS:
        return
    patch = msgspec.convert(settings, QueuePatch)
    try:
        caller.call(UpdateQueueRequest(name, patch, generation))
    except GenerationConflict as error:
        found = _found(caller, name)
        if found is None or not _is_so(found, settings, wanted):
            raise _made_meanwhile(name) from error


def _found(caller: Caller, name: str) -> DescribeQueueResponse | None:
    try:
        return caller.call(DescribeQueueRequest(name))
    except NotFound:
        return None


def _is_so(found: DescribeQueueResponse, settings: Settings, wanted: Subscription) -> bool:
    theirs = [Subscription(each.topic, each.expr) for each in found.subscriptions]
    return theirs == [wanted] and _settings(found.config) == settings


def _made_meanwhile(name: str) -> GenerationConflict:
    return GenerationConflict(
        f"{quoted(name)} was made by somebody else meanwhile and is left so; diff says what differs"
    )


def _delete(caller: Caller, name: str, there: Topology, generations: dict[str, str]) -> None:
    subscription = there.subscriptions.get(name)
    if subscription:
        topic, generation = subscription.topic, generations[name]
        caller.call(DeleteSubscriptionRequest(topic, name, generation))
    else:
        caller.call(DeleteQueueRequest(name=name, generation=generations[name]))
