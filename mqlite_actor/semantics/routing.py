"""Where a send goes: one queue, or the subscriptions of a topic that want the message.

Called by send; the engine evaluates here what must not hold up the writer. Queues and topics share
one name space, so a name is either. A subscription's filter decides for each message; one that does
not compile or fails at run time routes nothing to its own subscription, is counted, and never fails
the publish (spec/engine.md 3.15). A filter that may take long is never evaluated in a transaction
of the engine's: send answers Undecided, and comes again with the verdicts (ruling R12). Which
filters are asked is so decided by the roster at the commit, whatever changed meanwhile.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, TypeAlias, cast

from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import InvalidFilter, QueueNotFound, quoted
from mqlite_actor.contract.wire import Message
from mqlite_actor.filters import Facts, Filter, FilterFailed, compile_filter
from mqlite_actor.logs import logger
from mqlite_actor.storage import queues, subscriptions
from mqlite_actor.storage.database import Transaction
from mqlite_actor.storage.queues import Queue

_log = logger("mqlite.filters")

MATCH_ALL: Final = compile_filter("")

Verdict: TypeAlias = bool | FilterFailed
Verdicts: TypeAlias = dict[tuple[str, int], Verdict]
"""What filters said, by their source and the message's place in the call."""


class Route:
    """One possible target: a queue, and the filter that a message has to pass."""

    __slots__ = ("filter", "queue")

    def __init__(self, queue: Queue, filter_: Filter | None) -> None:
        self.queue = queue
        self.filter = filter_  # None: it does not compile, so nothing passes


class Undecided:
    """The answer of a send that changed nothing: these filters are to be asked first."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: list[tuple[Filter, int]]) -> None:
        self.pairs = pairs  # with the message's place in the call


@lru_cache(maxsize=limits.COMPILED_FILTERS_MAX)
def compiled(source: str) -> Filter | InvalidFilter:
    """The filter of this text, or why it is none. Thread-safe; a text is compiled once."""
    try:
        return compile_filter(source)
    except InvalidFilter as error:
        return error


def checked(source: str) -> Filter:
    """The filter of this text; InvalidFilter says where and why not."""
    found = compiled(source)
    if isinstance(found, InvalidFilter):
        raise InvalidFilter(found.message)
    return found


def routes(tx: Transaction, name: str) -> list[Route]:
    """The targets behind a name, in the order of fan-out; QueueNotFound if it is nothing."""
    queue = queues.lookup(tx, name)
    if queue is not None:
        return [Route(queue, MATCH_ALL)]
    roster = subscriptions.roster(tx, name)
    if not roster:
        raise QueueNotFound(f"no queue or topic is called {quoted(name)}")
    return [
        Route(queues.by_id(tx, queue_id), _filter_of(tx, queue_id, subscription, source))
        for queue_id, subscription, source in roster
    ]


def undecided(routes: list[Route], batch: list[Message], known: Verdicts) -> Undecided | None:
    """What has to be asked outside of the transaction, and is not yet known."""
    if routes[0].filter is MATCH_ALL and len(routes) == 1:
        return None
    filters = {route.filter.source: route.filter for route in routes if route.filter is not None}
    suspects = [each for each in filters.values() if each.has_loops or each.reads_body]
    longest = max(map(len, filters), default=0)
    pairs: list[tuple[Filter, int]] = []
    for index, message in enumerate(batch):
        work = limits.FILTER_CALL_BYTES + _text_length(message)
        is_much = longest * work > limits.FILTER_WIDE_WORK_MAX
        most = _work_max(message) if is_much else limits.FILTER_WORK_MAX
        pairs += [
            (each, index)
            for each in (filters.values() if is_much else suspects)
            if _takes_long(each, message, work, most) and (each.source, index) not in known
        ]
    return Undecided(pairs) if pairs else None


def judge(filter_: Filter, facts: Facts) -> Verdict:
    """Ask one filter about one message."""
    try:
        return filter_.decide(facts)
    except FilterFailed as error:
        return error


def wants(tx: Transaction, route: Route, index: int, facts: Facts, known: Verdicts) -> bool:
    """Whether the message goes to this target; a filter that fails is counted and says no."""
    if route.filter is MATCH_ALL:
        return True
    if route.filter is None:
        return False
    verdict = known.get((route.filter.source, index))
    if verdict is None:
        verdict = judge(route.filter, facts)
    if isinstance(verdict, FilterFailed):
        tx.filter_failed(route.queue.name, "evaluate")
        _log.error("filter of subscription %s failed: %s", quoted(route.queue.name), verdict)
        return False
    return verdict


def _takes_long(filter_: Filter, message: Message, work: int, most: int) -> bool:
    source = filter_.source
    return (
        filter_.has_loops
        or (filter_.reads_body and len(message.body) > limits.FILTERED_BODY_BYTES)
        or len(source) * work > (most if source.isascii() else limits.FILTER_WIDE_WORK_MAX)
    )


def _work_max(message: Message) -> int:
    texts = "".join((
        message.message_id, message.correlation_id, message.reply_to, message.group_id,
        message.content_type, message.subject,
        *message.properties, *message.properties.values(),
    ))  # fmt: skip
    return limits.FILTER_WORK_MAX if texts.isascii() else limits.FILTER_WIDE_WORK_MAX


def _text_length(message: Message) -> int:
    """Of all texts that a filter can look at."""
    length = (
        len(message.message_id)
        + len(message.correlation_id)
        + len(message.reply_to)
        + len(message.group_id)
        + len(message.content_type)
        + len(message.subject)
    )
    properties = message.properties
    return length + sum(map(len, properties)) + sum(map(len, properties.values()))


def _filter_of(tx: Transaction, queue_id: int, subscription: str, source: str) -> Filter | None:
    if not source:
        return MATCH_ALL
    known, filter_ = tx.ledger.filters.get(queue_id, ("", None))
    if known != source:
        found = compiled(source)
        if isinstance(found, InvalidFilter):
            tx.filter_failed(subscription, "compile")
            _log.error(
                "filter of subscription %s does not compile: %s",
                quoted(subscription),
                found.message,
            )
        filter_ = found if isinstance(found, Filter) else None
        tx.ledger.filters[queue_id] = source, filter_
    return cast("Filter | None", filter_)  # storage knows nothing of filters
