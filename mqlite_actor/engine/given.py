"""How much one group gives out before its callers have it.

Called by both executors (`group.py`, `waves.py`). A group is bounded by what its commands bring
along (`Mailbox.take`), which says nothing of what they get: each receive may take a page. So a
group ends with the command that brings what it gives out to the weight of a page; what is left of
it waits in front of the mailbox until those who were answered had their turn, in which they write
their answers, or refuse and return them.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Any, Final

from mqlite_actor.contract import limits
from mqlite_actor.contract.ext import SearchResponse
from mqlite_actor.contract.mistakes import TEXTS
from mqlite_actor.contract.wire import Message, MessagesResponse
from mqlite_actor.engine.outcomes import GroupResult
from mqlite_actor.semantics.sifting import Gathered

_texts_of: Final = attrgetter("dead_letter_reason", "dead_letter_description", *TEXTS)


def weigh(answers: Iterable[Any]) -> int:
    """What the messages in these answers weigh, about as a page counts them, and their envelopes:
    texts by their characters."""
    weight = 0
    for answer in answers:
        kind = type(answer)
        if kind is MessagesResponse:
            weight += _weight(answer.messages)
        elif kind is SearchResponse or kind is Gathered:
            weight += _weight(found.message for found in answer.messages)
    return weight


def is_enough(weight: int) -> bool:
    """Whether a group that gives out so much ends here."""
    return weight >= limits.PAGE_BYTES_MAX


def may_go_on(result: GroupResult) -> bool:
    """Whether a group may run more commands than those which have their answer."""
    return not is_enough(result.given)


def _weight(messages: Iterable[Message]) -> int:
    weight = 0
    for message in messages:
        texts = limits.TEXT_FACTOR * len("".join(_texts_of(message)))
        weight += limits.ENVELOPE_BYTES + len(message.body) + texts
        if message.properties:
            weight += sum(map(len, message.properties)) + sum(map(len, message.properties.values()))
    return weight
