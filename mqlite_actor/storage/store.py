"""What the engine asks of a store, whatever is below it: a file, memory, or a far-away database.

The engine knows no store but through this protocol. `sqlite.SqliteStore` and `hrana.HranaStore`
have its shape; `opening.open_any` picks one by the connection string. Everything here is called
in the storage thread, one caller at a time, unless it says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar

import apsw

from mqlite_actor.contract import limits
from mqlite_actor.storage.database import Ledger, Row, Statement, Transaction, Value
from mqlite_actor.storage.patience import Patience
from mqlite_actor.storage.reading import Look, Readers, Step
from mqlite_actor.storage.room import AnyRoom

T = TypeVar("T")


class Backend(NamedTuple):
    """How a store is called: by Status, and by Observe (spec/wire.md 2.18, 2.19)."""

    status: str
    observe: str
    is_remote: bool = False


MEMORY = Backend("memory", "memory")
FILE = Backend("local file", "local")
REMOTE = Backend("remote libSQL/Turso", "remote", is_remote=True)


class Again(Exception):
    """The transaction did not commit and never will; the same may be run anew. `pause_seconds`: how
    long the server wants to be left alone, 0 if it did not say. The cause is attached."""

    def __init__(self, pause_seconds: float = 0.0) -> None:
        super().__init__()
        self.pause_seconds = pause_seconds


class UserStatements(Protocol):
    """A caller's own statements inside a transaction."""

    def run(
        self, sql: str, arguments: Sequence[Value], is_over: Callable[[], bool]
    ) -> list[Row]: ...


class Store(Protocol):
    """An open store. `healthy` is False after a failure that leaves its state in doubt; `reopen`
    mends it or raises. `complaint` is the failure that was logged last and still lasts."""

    ledger: Ledger
    healthy: bool
    complaint: str
    log_pages: int
    room: AnyRoom
    leaves_log: bool

    @property
    def backend(self) -> Backend: ...

    @property
    def location(self) -> str:
        """Where it is, fit for everybody's eyes."""
        ...

    @property
    def is_memory(self) -> bool:
        """A private database that ends with its connection, so that it is never in doubt."""
        ...

    @property
    def has_file(self) -> bool:
        """Whether there is a file here to be looked after: checkpoints, free pages, its size."""
        ...

    @property
    def readers(self) -> Readers | None:
        """Connections that look beside the writer; None: the writer is asked."""
        ...

    @property
    def upkeep_refusal(self) -> str:
        """Why it can be neither compacted nor copied; "" where it can."""
        ...

    @property
    def may_flush(self) -> bool: ...

    @property
    def in_transaction(self) -> bool: ...

    @property
    def changes(self) -> int: ...

    @property
    def user_sql(self) -> UserStatements: ...

    @property
    def copy_source(self) -> apsw.Connection | str:
        """What a backup reads."""
        ...

    def begin(self, *, is_patient: bool = True) -> Transaction: ...

    def commit(self) -> None: ...

    def rollback(self) -> None: ...

    def doubt(self) -> None:
        """Nobody knows what it holds until `reopen`."""
        ...

    def reopen(self) -> None: ...

    def look(self, step: Step[T], look: Look, *, busy_ms: int = limits.READ_BUSY_MS) -> T: ...

    def check_files(self) -> None: ...

    def checkpoint_passive(self) -> None: ...

    def truncate_log(self, *, keeps_room: bool = False, waits: bool = False) -> bool: ...

    def trim_log(self) -> None: ...

    def reclaim(self, pages: int) -> int: ...

    def free_pages(self) -> int: ...

    def vacuum(self) -> None: ...

    def size_bytes(self) -> int: ...

    def log_bytes(self) -> int | None: ...

    def disk_free_bytes(self) -> int | None: ...

    def stay(self) -> None:
        """Say that its owner is still there, where others could think otherwise."""
        ...

    def close(self) -> None: ...


class DistantStore(Store, Protocol):
    """A store behind a network: what counts there is how often one asks. Its transaction begins by
    itself with the first of these and ends with `finish`, `once` or `rollback`.

    All raise Again where running the transaction anew is right, OutcomeUnknown when nobody can tell
    whether it committed, and the contract's errors when it is rolled back for good.
    """

    def patience(self) -> Patience:
        """For tries that end when the store is cut off."""
        ...

    def cut(self) -> None:
        """End the request that is under way, and refuse every later one as never run. From any
        thread; for good."""
        ...

    def ask(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Each one's rows, in one request; the transaction stays open."""
        ...

    def finish(self, statements: Sequence[Statement]) -> list[list[Row]] | None:
        """Run these and commit, in one request. None: committed, but what the statements returned
        is lost."""
        ...
