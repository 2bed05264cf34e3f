"""Commands about queues: create-queue, update-queue, list, delete-queue, metrics.

Called by `main` through the command table; each reads its arguments, makes one request and prints.
"""

from __future__ import annotations

import msgspec

from mqlite_actor.contract.errors import (
    GenerationConflict,
    QueueNotEmpty,
    QueueNotFound,
    Unsupported,
)
from mqlite_actor.contract.ext import QueuePatch, UpdateQueueRequest
from mqlite_actor.contract.wire import (
    CreateQueueRequest,
    DeleteQueueRequest,
    ListQueuesRequest,
    QueueConfig,
    QueueInfo,
    StatsRequest,
)
from mqlite_cli.escaping import field, quoted
from mqlite_cli.foretelling import tell
from mqlite_cli.invocation import Caller, Invocation
from mqlite_cli.output import key_values
from mqlite_cli.queue_settings import read_settings
from mqlite_cli.refusals import Refusal


def create_queue(run: Invocation) -> int:
    """`create-queue NAME`: create, or replace the whole configuration."""
    (name,) = run.arguments.words
    settings = read_settings(run.arguments)
    config = msgspec.convert(settings, QueueConfig)
    if not run.arguments.is_on("if-not-exists"):
        run.ask(CreateQueueRequest(name, config))
        run.output.done({"action": "create-queue", "queue": name})
        return 0

    def work(caller: Caller) -> str:
        try:
            made = caller.call(UpdateQueueRequest(name, create=config))
        except Unsupported:
            # Of another make, which can only be asked before.
            if any(queue.name == name for queue in caller.call(ListQueuesRequest()).queues):
                return "exists"
            caller.call(CreateQueueRequest(name, config))
            return "created"
        return "created" if made.created else "exists"

    run.output.done({"action": "create-queue", "queue": name, "outcome": run.session(work)})
    return 0


def update_queue(run: Invocation) -> int:
    """`update-queue NAME`: the settings that are named, and no others."""
    (name,) = run.arguments.words
    settings = read_settings(run.arguments)
    if not settings:
        raise Refusal(f"name a setting to change; usage: {run.command.usage}")
    patch = msgspec.convert(settings, QueuePatch)
    changed = run.ask(UpdateQueueRequest(name, patch, run.arguments.text("generation")))
    run.output.done({"action": "update-queue", "queue": name, "generation": changed.generation})
    return 0


def list_queues(run: Invocation) -> int:
    """`list`: every queue and subscription queue, by name or by its counts."""
    arguments = run.arguments
    if arguments.is_on("stats") or arguments.has("sort") or arguments.has("format"):
        from mqlite_cli.listing import list_as_asked  # noqa: PLC0415 - a plain list needs less

        return list_as_asked(run)
    queues = run.ask(ListQueuesRequest()).queues
    run.output.rows(queues, [_line(queue) for queue in queues], empty="(no queues)")
    return 0


def delete_queue(run: Invocation) -> int:
    """`delete-queue NAME`: the queue of one generation, so that a repeat never hits a new one."""
    (name,) = run.arguments.words
    generation = run.arguments.text("generation")
    is_dry = run.arguments.is_on("dry-run")
    if not generation and not run.arguments.is_on("yes") and not is_dry:
        raise Refusal(
            "name the queue's --generation, which `mqlite list` shows, or give --yes to delete "
            "the one that is there now"
        )

    def work(caller: Caller) -> str:
        chosen = generation or look_up_generation(run, caller, name)
        if is_dry:
            _check_deletion(run, caller, name, chosen)
            return chosen
        caller.call(DeleteQueueRequest(name=name, generation=chosen))
        return chosen

    deleted = run.session(work)
    if is_dry:
        return tell(run, {"queue": name, "generation": deleted})
    run.output.done({"action": "delete-queue", "queue": name, "generation": deleted})
    return 0


def _check_deletion(run: Invocation, caller: Caller, name: str, generation: str) -> None:
    """Raise what the deletion would."""
    if look_up_generation(run, caller, name) != generation:
        raise GenerationConflict(f"queue {quoted(name)} has another generation by now")
    total = caller.call(StatsRequest(name)).total
    if total:
        raise QueueNotEmpty(f"queue {quoted(name)} holds {total} message(s)")


def look_up_generation(run: Invocation, caller: Caller, name: str) -> str:
    """The generation that a queue has now, shown on standard error: a repeat needs the same one."""
    for queue in caller.call(ListQueuesRequest()).queues:
        if queue.name == name:
            run.streams.complain(f"queue={field(name)} generation={field(queue.generation)}")
            return queue.generation
    raise QueueNotFound(f"queue {quoted(name)} does not exist")


def metrics(run: Invocation) -> int:
    """`metrics QUEUE`: counts by state and the age of the oldest message."""
    (queue,) = run.arguments.words
    stats = run.ask(StatsRequest(queue=queue))
    counts: dict[str, str | int] = {
        "queue": stats.queue,
        "active": stats.active,
        "locked": stats.locked,
        "deferred": stats.deferred,
        "scheduled": stats.scheduled,
    }
    line = key_values({**counts, "dead": stats.dead_lettered, "total": stats.total})
    run.output.record(
        {
            **counts,
            "dead_lettered": stats.dead_lettered,
            "total": stats.total,
            "oldest_message_age_ms": stats.oldest_message_age_ms,
        },
        line=f"{line} oldest={stats.oldest_message_age_ms}ms",
    )
    return 0


def _line(queue: QueueInfo) -> str:
    return (
        f"{field(queue.name):<24} kind={field(queue.kind):<12} lock={queue.lock_duration_ms}ms "
        f"maxdc={queue.max_delivery_count} ttl={queue.default_ttl_ms}ms "
        f"dedup={queue.dedup_window_ms}ms generation={field(queue.generation)}"
    )
