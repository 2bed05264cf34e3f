"""What a command looks at and decides by, so that commands that do not meet can ask together.

Called by `waves.py`. Commands of one group are all unanswered, so any order of them is a true one;
but two that read the same rows and write by what they read have to come one after the other. A key
names such rows; commands whose keys differ read side by side. What a statement decides by itself
when it runs (which of a lane is next, a count that moves) needs no key, and a claim and a
settlement of one queue do not meet: neither reads what the other writes. None: keeps to itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any, Final

from mqlite_actor.contract import ext, wire
from mqlite_actor.engine import commands
from mqlite_actor.semantics.send import Sending
from mqlite_actor.storage.database import Ledger

Key = tuple[str, object]
Keys = frozenset[Key]

NOTHING: Final[Keys] = frozenset()


def keys_of(command: Any, ledger: Ledger) -> Keys | None:  # noqa: ANN401  # any command
    """The rows that it decides by; None if it is to have the store to itself."""
    find = _FOOTPRINTS.get(type(command))
    return None if find is None else frozenset(find(command, ledger))


def _one(command: Any, _: Ledger) -> Iterable[Key]:  # noqa: ANN401  # any with a number
    return (("message", command.seq_number),)


def _pairs(command: Any, _: Ledger) -> Iterable[Key]:  # noqa: ANN401  # any with pairs
    return [("message", each.seq_number) for each in command.messages]


def _numbers(command: wire.ReceiveDeferredRequest, _: Ledger) -> Iterable[Key]:
    return [("message", seq) for seq in command.seq_numbers]


def _released(command: ext.ReleaseRequest, ledger: Ledger) -> Iterable[Key]:
    return [*_pairs(command, ledger), *_attempt(command)]


def _attempt(command: wire.ReceiveRequest | ext.ReleaseRequest) -> list[Key]:
    attempt_id = command.receive_attempt_id
    return [("attempt", (command.queue, attempt_id))] if attempt_id else []


def _leases(command: commands.Release, _: Ledger) -> Iterable[Key]:
    return [("message", seq) for seq, _ in command.leases]


def _front(command: wire.ReceiveRequest, _: Ledger) -> Iterable[Key]:
    return [("front", command.queue), *_attempt(command)]


def _sent(command: Sending, ledger: Ledger) -> Iterable[Key]:
    """Where duplicates are looked for: a message's key, whatever the target, since those of a topic
    are not known yet."""
    queue = ledger.queues.get(command.queue)
    found: list[Key] = []
    if isinstance(command, ext.SendResultRequest) and command.request_id:
        found.append(("request", (command.queue, command.request_id)))
    if queue is not None and queue.dedup_window_ms <= 0:
        return found
    found += [
        ("sent", message.message_id or hashlib.sha256(message.body).hexdigest())
        for message in command.messages
    ]
    return found


_FOOTPRINTS: Final[dict[type[Any], Callable[[Any, Ledger], Iterable[Key]]]] = {
    wire.SendRequest: _sent,
    wire.ScheduleRequest: _sent,
    ext.SendResultRequest: _sent,
    commands.JudgedSend: lambda command, ledger: _sent(command.request, ledger),
    wire.ReceiveRequest: _front,
    wire.ReceiveDeferredRequest: _numbers,
    wire.CancelRequest: _one,
    wire.CompleteRequest: _one,
    wire.AbandonRequest: _one,
    wire.RejectRequest: _one,
    wire.DeferRequest: _one,
    wire.RenewRequest: _one,
    wire.CompleteBatchRequest: _pairs,
    wire.RenewBatchRequest: _pairs,
    ext.ReleaseRequest: _released,
    commands.Release: _leases,
}
"""Everything else keeps to itself. Looks are not here: `waves.py` lets them go first."""
