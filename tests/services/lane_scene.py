"""Requests and questions that the suites of the lane share."""

from __future__ import annotations

from mqlite_broker.door import DoorLimits
from tests.services.broker_scene import Scene, path, raw

SEND = raw(path("Send"), b'{"queue":"q","messages":[{"body":"eA=="}]}')
LIST = raw(path("AdminService/ListQueues"), b"{}")
STATS = raw(path("Stats"), b'{"queue":"q"}')
UNKNOWN = raw(path("Nope"), b"")
POLL = raw(path("Receive"), b'{"queue":"q","wait_time_ms":20000}')
SHORT = DoorLimits(header_seconds=0.1, body_seconds=0.1, idle_seconds=0.1, linger_seconds=0.1)


def served_by(scene: Scene) -> list[type]:
    """Who has each open connection, oldest first."""
    return [type(guest) for guest in scene.door.door._connections.values()]


async def create(scene: Scene) -> None:
    await scene.ok("AdminService/CreateQueue", {"name": "q"})
