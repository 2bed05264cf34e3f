"""The names of the model: queues, subscriptions and topics in one name space.

Used by tests/model/model.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mqlite_actor.contract import errors, wire
from mqlite_actor.contract.wire import QueueConfig


@dataclass
class Names:
    """Queues with their settings, and the topic that each subscription listens to."""

    queues: dict[str, QueueConfig] = field(default_factory=dict)
    topics: dict[str, str] = field(default_factory=dict)

    def queue(self, name: str) -> QueueConfig:
        if name not in self.queues:
            raise errors.QueueNotFound(name)
        return self.queues[name]

    def targets(self, name: str) -> list[str]:
        """The queues that a send to this name reaches, in the order of their names."""
        found = sorted(queue for queue, topic in self.topics.items() if topic == name)
        if not found:
            self.queue(name)
        return found or [name]

    def create(self, request: wire.CreateQueueRequest, *_: object) -> wire.Response:
        config = filled(request.config)
        known = self.queues.get(request.name)
        is_topic = request.name in self.topics.values()
        if is_topic or (known is not None and known.kind != config.kind):
            raise errors.NameConflict(request.name)
        self.queues[request.name] = config
        return wire.EmptyResponse()

    def subscribe(self, request: wire.SubscribeRequest, *_: object) -> wire.Response:
        topic, name = request.topic, request.name
        known = self.queues.get(name)
        if known is not None:
            is_taken = known.kind != "subscription" or self.topics.get(name, topic) != topic
        else:
            is_taken = name in self.topics.values()
        if topic == name or topic in self.queues or is_taken:
            raise errors.NameConflict(name)
        self.queues.setdefault(name, filled(QueueConfig(kind="subscription")))
        self.topics[name] = topic
        return wire.EmptyResponse()


def filled(config: QueueConfig) -> QueueConfig:
    """A configuration with its defaults written out."""
    fields = {name: getattr(config, name) for name in config.__struct_fields__}
    fields["kind"] = config.kind or "queue"
    fields["lock_duration_ms"] = config.lock_duration_ms or 30_000
    fields["max_delivery_count"] = config.max_delivery_count or 10
    return QueueConfig(**fields)
