"""The access log: one line per request, with the fields that its call deserves.

Called by `rpc.py` when an answer is ready. FIELDS names, for each request type, what may be shown
of the request and its reply (spec/wire.md 5.3); bodies, properties, tokens and credentials are in
no row.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final

from mqlite_actor.contract import ext, wire
from mqlite_actor.contract.calls import Call
from mqlite_broker import pages
from mqlite_broker.logs import Names, Values, access, access_line, shown

READ: Final[dict[str, Callable[[Any], str | int]]] = {
    "queue": attrgetter("queue"),
    "name": attrgetter("name"),
    "seq": attrgetter("seq_number"),
    "n": lambda request: len(request.messages),
    "numbers": lambda request: len(request.seq_numbers),
}
"""How to read a field from a request."""

SHOWN_AS: Final = {"name": "queue", "numbers": "n"}
"""Fields that the log calls otherwise than the request does."""

FIELDS: Final[dict[type[Any], tuple[str, ...]]] = {
    wire.SendRequest: ("queue", "n"),
    wire.ScheduleRequest: ("queue", "n"),
    wire.CancelRequest: ("queue", "seq"),
    wire.ReceiveRequest: ("queue",),
    wire.ReceiveDeferredRequest: ("queue",),
    wire.PeekRequest: ("queue",),
    wire.CompleteRequest: ("queue", "seq"),
    wire.AbandonRequest: ("queue", "seq"),
    wire.RejectRequest: ("queue", "seq"),
    wire.DeferRequest: ("queue", "seq"),
    wire.RenewRequest: ("queue", "seq"),
    wire.CompleteBatchRequest: ("queue", "n"),
    wire.RenewBatchRequest: ("queue", "n"),
    wire.StatsRequest: ("queue",),
    wire.CreateQueueRequest: ("name",),
    ext.ReleaseRequest: ("queue", "n"),
    ext.ExplainRequest: ("queue", "seq"),
    ext.SearchRequest: ("queue",),
    ext.SendResultRequest: ("queue", "n"),
    ext.DescribeQueueRequest: ("name",),
    ext.UpdateQueueRequest: ("name",),
    ext.DeleteSubscriptionRequest: ("name",),
    ext.PurgeActiveRequest: ("queue",),
    ext.RedriveSelectedRequest: ("queue", "numbers"),
    ext.ResubmitRequest: ("queue", "seq"),
}


_ROWS: Final = {
    kind: (tuple(SHOWN_AS.get(name, name) for name in names), tuple(READ[name] for name in names))
    for kind, names in FIELDS.items()
}
_NO_ROW: Final[tuple[Names, tuple[Callable[[Any], str | int], ...]]] = ((), ())

PROBES: Final = frozenset({pages.HEALTH_PATH, pages.READY_PATH, pages.METRICS_PATH})
"""What machines ask every few seconds. That all is well would be most lines of a quiet broker."""

SENDS: Final = frozenset({wire.SendRequest, ext.SendResultRequest})


def describe(request: Any, reply: Any) -> tuple[Names, list[str | int]]:  # noqa: ANN401  # any pair
    """The fields of one decoded request and, if there is one, its reply: names and values."""
    kind = type(request)
    names, readers = _ROWS.get(kind, _NO_ROW)
    values = [read(request) for read in readers]
    if kind in SENDS and len(request.messages) == 1:
        message_id = request.messages[0].message_id
        if message_id:
            names, values = (*names, "msg_id"), [*values, message_id]
    if type(reply) is wire.MessagesResponse:
        names, values = (*names, "msgs"), [*values, len(reply.messages)]
    return names, values


class Entry:
    """What one request's line will say; filled while the request is served."""

    __slots__ = ("call", "code", "name", "no_store", "reply", "request", "started")

    def __init__(self, name: str, call: Call | None, started: float) -> None:
        self.name = name
        self.call = call
        self.started = started
        self.request: object = None
        self.reply: object = None
        self.code = ""
        self.no_store = False

    def write(self, status: int, ended: float) -> None:
        """Write the line: errors loud, an empty receive or a probe only for whoever debugs."""
        level = self._level(status)
        if not access.isEnabledFor(level):
            return
        names, found = describe(self.request, self.reply)
        values: Values = [status, *found, ended - self.started]
        if self.code:
            names, values = (*names, "code"), [status, *found, self.code, ended - self.started]
        access_line(level, shown(self.name), ("status", *names, "dur"), values)

    def _level(self, status: int) -> int:
        if status >= 500:  # classes of HTTP status
            return logging.ERROR
        if status >= 400:  # classes of HTTP status
            return logging.WARNING
        if self.call is None:
            return logging.DEBUG if self.name in PROBES else logging.INFO
        is_empty = (
            type(self.request) is wire.ReceiveRequest
            and isinstance(self.reply, wire.MessagesResponse)
            and not self.reply.messages
        )
        return logging.DEBUG if is_empty else logging.INFO
