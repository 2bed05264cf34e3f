"""A remote store on the reference server, and what runs groups on it, for the tests beside it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

from mqlite_actor.clock import ManualClock
from mqlite_actor.contract import wire
from mqlite_actor.storage.hrana import HranaStore
from mqlite_actor.storage.hrana_opening import open_remote
from mqlite_actor.storage.sqlite import SqliteStore
from tests.hrana.faults import Request
from tests.hrana.server import HranaServer, running_hrana
from tests.storage.writer import Writer

TXN_SECONDS: Final = 0.2
"""How long the server leaves the lock to a stream that was lost; sqld: 5 s."""


class Afar:
    """The server, a writer on it, and the queue `q`."""

    def __init__(self, server: HranaServer, store: HranaStore) -> None:
        self.server = server
        self.store = store
        self.writer = Writer(cast("SqliteStore", store), ManualClock())

    def sending(self, *bodies: bytes, queue: str = "q") -> wire.SendRequest:
        """A send of these, each under its own id."""
        batch = [wire.Message(body=body, message_id=body.decode()) for body in bodies]
        return wire.SendRequest(queue=queue, messages=batch)

    def trips(self, *requests: object) -> int:
        """Run a group; how many requests it took."""
        before = self.server.round_trips
        for outcome in self.writer.group(*requests):
            outcome.unwrap()
        return self.server.round_trips - before

    def stored(self) -> list[str]:
        """The bodies that are there, asked past the product."""
        return [
            row[0].decode() for row in self.server.look("SELECT body FROM messages ORDER BY id")
        ]


@contextmanager
def afar(folder: Path, **settings: Any) -> Iterator[Afar]:  # noqa: ANN401  # the server's own
    """An open remote store with a queue; closed afterwards."""
    with running_hrana(folder, txn_seconds=TXN_SECONDS, **settings) as server:
        store = open_remote(server.url, auth_token=settings.get("token", ""))
        try:
            found = Afar(server, store)
            found.writer.create("q")
            yield found
        finally:
            store.close()


def commits(request: Request) -> bool:
    """Whether a request would commit something of a group: it moves the owner's row on."""
    return "COMMIT" in request.statements


def sends(request: Request) -> bool:
    """Whether a request stores messages."""
    return any("INTO messages" in text for text in request.statements)
