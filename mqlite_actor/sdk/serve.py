"""`q.serve`: an embedded engine becomes a broker in one call.

Called by `sdk/embedded.py`. The broker stands above this floor and is looked up when it is asked
for (design.md R4), because its packages are an extra; when they are missing, the answer is the pip
line. What is to be served is checked there, by the rules of `mqlite serve`.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence

import msgspec
import trio

from mqlite_actor.contract.errors import Unsupported
from mqlite_actor.engine.engine import Engine

_OURS = ("mqlite_broker", "mqlite_actor")


class ServeInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Where a broker is reached. `token` is the generated one, or "" when there is none."""

    address: str
    url: str
    token: str

    def __repr__(self) -> str:
        """Without the token."""
        return f"ServeInfo({self.url})"


class ServeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What `q.serve` was told. `tokens` None: generate one; "off": no authentication."""

    addr: str
    tokens: str | Sequence[str] | None
    monitor_tokens: str | Sequence[str]
    metrics: bool
    cors: str
    ui: bool
    version: str
    docs_url: str
    tls: ssl.SSLContext | tuple[str, str] | None
    connections_max: int | None
    backup_dir: str
    insecure_allow_remote: bool

    def __repr__(self) -> str:
        """Without the tokens."""
        return f"ServeOptions({self.addr})"


async def serve(
    engine: Engine, options: ServeOptions, *, task_status: trio.TaskStatus[ServeInfo]
) -> None:
    """Serve an open engine until cancelled; see `Embedded.serve`."""
    try:
        from mqlite_broker.embedding import serve_engine  # noqa: PLC0415  # an extra, see above
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", *_OURS) and error.name != "mqlite_broker":
            raise  # a fault of ours, not a missing extra
        raise Unsupported(
            f"serving needs packages that are not installed ({package}); install"
            " mqlite-actor[broker]: pip install 'mqlite-actor[broker]'"
        ) from error
    await serve_engine(engine, options, task_status=task_status)
