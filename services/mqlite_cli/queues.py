"""Commands about queues: create-queue, list, delete-queue, metrics.

Called by `main` through the command table; each reads its arguments, makes one request and prints.
"""

from __future__ import annotations

from mqlite_actor.contract.errors import InvalidArgument, QueueNotFound
from mqlite_actor.contract.wire import (
    CreateQueueRequest,
    DeleteQueueRequest,
    ListQueuesRequest,
    QueueConfig,
    QueueInfo,
    StatsRequest,
)
from mqlite_actor.contract.words import Ordering
from mqlite_actor.sdk.durations import UNBOUNDED_MS, nanoseconds_to_ms
from mqlite_cli.escaping import field, quoted
from mqlite_cli.grammar import Arguments, did_you_mean
from mqlite_cli.invocation import Caller, Invocation
from mqlite_cli.output import key_values
from mqlite_cli.refusals import Refusal

ON_EXPIRE: dict[str, bool] = {"dead-letter": True, "discard": False}
"""`--on-expire` to the wire's `dead_letter_on_expire`."""


def create_queue(run: Invocation) -> int:
    """`create-queue NAME`: create, or replace the whole configuration."""
    (name,) = run.arguments.words
    run.ask(CreateQueueRequest(name=name, config=_config(run.arguments)))
    run.output.done({"action": "create-queue", "queue": name})
    return 0


def list_queues(run: Invocation) -> int:
    """`list`: every queue and subscription queue, by name."""
    queues = run.ask(ListQueuesRequest()).queues
    run.output.rows(queues, [_line(queue) for queue in queues], empty="(no queues)")
    return 0


def delete_queue(run: Invocation) -> int:
    """`delete-queue NAME`: the queue of one generation, so that a repeat never hits a new one."""
    (name,) = run.arguments.words
    generation = run.arguments.text("generation")
    if not generation and not run.arguments.is_on("yes"):
        raise Refusal(
            "name the queue's --generation, which `mqlite list` shows, or give --yes to delete "
            "the one that is there now"
        )

    def work(caller: Caller) -> str:
        chosen = generation or _generation(caller, name)
        if not generation:
            # On record before the request leaves: a repeat needs it.
            run.streams.complain(f"queue={field(name)} generation={field(chosen)}")
        caller.call(DeleteQueueRequest(name=name, generation=chosen))
        return chosen

    deleted = run.session(work)
    run.output.done({"action": "delete-queue", "queue": name, "generation": deleted})
    return 0


def _generation(caller: Caller, name: str) -> str:
    for queue in caller.call(ListQueuesRequest()).queues:
        if queue.name == name:
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


def _config(arguments: Arguments) -> QueueConfig:
    return QueueConfig(
        lock_duration_ms=_milliseconds(arguments, "lock"),
        max_delivery_count=_at_least_zero(arguments, "max-delivery"),
        default_ttl_ms=_milliseconds(arguments, "ttl"),
        dedup_window_ms=_milliseconds(arguments, "dedup"),
        ordering_mode=_one_of(arguments, "ordering", [mode.value for mode in Ordering]),
        dead_letter_on_expire=ON_EXPIRE.get(_one_of(arguments, "on-expire", list(ON_EXPIRE))),
        dlq_max_age_ms=_age_bound(arguments, "dlq-max-age"),
        dlq_max_count=_bound(arguments, "dlq-max-count"),
        dlq_max_bytes=_bound(arguments, "dlq-max-bytes"),
    )


def _milliseconds(arguments: Arguments, name: str) -> int:
    return nanoseconds_to_ms(arguments.number(name), field=f"--{name}", is_zero_allowed=True)


def _at_least_zero(arguments: Arguments, name: str) -> int:
    number = arguments.number(name)
    if number < 0:
        raise InvalidArgument(f"--{name}: must not be negative")
    return number


def _age_bound(arguments: Arguments, name: str) -> int:
    """Any negative age is no bound; `-1ns` must not become 0, which would inherit the broker's."""
    return UNBOUNDED_MS if arguments.number(name) < 0 else _milliseconds(arguments, name)


def _bound(arguments: Arguments, name: str) -> int:
    number = arguments.number(name)
    if number < -1:
        raise InvalidArgument(f"--{name}: must not be negative; `unbounded` switches the bound off")
    return number


def _one_of(arguments: Arguments, name: str, words: list[str]) -> str:
    """The word of a flag, "" when it is not given or empty."""
    word = arguments.text(name)
    if word and word not in words:
        known = ", ".join(words)
        raise InvalidArgument(
            f"--{name}: {field(word)} is none of {known}{did_you_mean(word, words)}"
        )
    return word


def _line(queue: QueueInfo) -> str:
    return (
        f"{field(queue.name):<24} kind={field(queue.kind):<12} lock={queue.lock_duration_ms}ms "
        f"maxdc={queue.max_delivery_count} ttl={queue.default_ttl_ms}ms "
        f"dedup={queue.dedup_window_ms}ms generation={field(queue.generation)}"
    )
