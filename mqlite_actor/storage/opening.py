"""Opening a store by its connection string, whichever kind it names.

Called by the engine and by tests. `file:PATH` and `:memory:` are local (`sqlite.py`), an address
with `http://` or `https://` is a database behind Hrana (`hrana.py`), whose module and HTTP client
are loaded only then.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import cast

from mqlite_actor.storage import sqlite
from mqlite_actor.storage.connection import synchronous_level
from mqlite_actor.storage.store import Store


def is_remote(dsn: str) -> bool:
    """Whether a connection string of the engine names a database behind a network."""
    return dsn.startswith(("http://", "https://"))


def open_any(
    dsn: str,
    *,
    synchronous: str = "NORMAL",
    create: bool = True,
    auth_token: str = "",
    on_dial: Callable[[Callable[[], None]], None] | None = None,
) -> Store:
    """Open a store. `create` False refuses a file that does not exist; `auth_token` is for a remote
    one, where `synchronous` is checked and has no effect. `on_dial` is given, for a remote one,
    what ends the opening from another thread when the database is silent: it fails then.

    Raises InvalidArgument for a wrong word, DatabaseLocked, SchemaVersionMismatch or OpenError;
    what is refused stays as it was.
    """
    if not is_remote(dsn):
        return sqlite.open_store(dsn, synchronous=synchronous, create=create)
    synchronous_level(synchronous)
    hrana = import_module("mqlite_actor.storage.hrana_opening")
    store = hrana.open_remote(dsn, auth_token=auth_token, create=create, on_dial=on_dial)
    return cast("Store", store)
