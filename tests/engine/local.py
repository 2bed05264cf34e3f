"""The local store below an engine, for tests that reach past the engine into its file.

What an engine is typed with is the protocol of every store; these tests opened a file.
"""

from __future__ import annotations

from mqlite_actor.engine.engine import Engine
from mqlite_actor.storage.sqlite import SqliteStore


def local(engine: Engine) -> SqliteStore:
    """Its store, which is a file or memory."""
    store = engine._store
    assert isinstance(store, SqliteStore)
    return store
