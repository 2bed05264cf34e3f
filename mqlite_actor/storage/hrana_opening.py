"""Opening a remote store: what kind of server it is, whose tables there are, and who owns them.

Called by `opening.open_any`. The order is: ask the server what it can (and whether it is one), make
the tables or recognise ours, then own the database, waiting for the rest of a dead owner's lease.
Whatever is refused stays as it was. Settings of a connection are the provider's, so none is made.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import msgspec

from mqlite_actor.clock import Clock, SystemClock
from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import (
    DatabaseLocked,
    MqliteError,
    OpenError,
    SchemaVersionMismatch,
    StorageFailed,
)
from mqlite_actor.logs import logger
from mqlite_actor.storage import hrana_wire, schema
from mqlite_actor.storage.database import Row
from mqlite_actor.storage.hrana import HranaStore, look, take
from mqlite_actor.storage.hrana_http import Link, Lost, NoPipeline, NotRun, Unreached
from mqlite_actor.storage.hrana_owner import Owner
from mqlite_actor.storage.hrana_stream import StepError, Stream
from mqlite_actor.storage.hrana_wire import Step
from mqlite_actor.storage.patience import Patience

T = TypeVar("T")

_log = logger("mqlite.engine")

WAIT_SECONDS: Final = 0.25
"""Between two looks at who owns the database."""

NAMES = "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') ORDER BY name"
COLUMNS = "SELECT name FROM pragma_table_info(?) ORDER BY cid"
TOKEN = "SELECT value FROM meta WHERE key = 'schema_version'"
TRIGGERS = "SELECT name, tbl_name FROM sqlite_schema WHERE type = 'trigger' AND lower(tbl_name) IN"


def open_remote(
    dsn: str,
    *,
    auth_token: str = "",
    create: bool = True,
    clock: Clock | None = None,
    on_dial: Callable[[Callable[[], None]], None] | None = None,
) -> HranaStore:
    """Open the store at an http(s) address. `on_dial`: see `open_any`.

    Raises DatabaseLocked while another engine owns it, SchemaVersionMismatch for tables that are
    not ours, OpenError for everything else that stands in the way; the token is in none of them.
    """
    location = masked(dsn)
    link = Link(dsn, auth_token)
    if on_dial is not None:
        on_dial(link.cut)
    try:
        stream = Stream(link)
        probe(link, stream)
        if not _is_ours(stream, location):
            if not create:
                raise OpenError(f"{location} holds no queue yet")
            _make(stream, location)
        owner = Owner()
        now_ms = _own(stream, owner, location)
        skew = now_ms - (clock or SystemClock()).now_ms()
        if abs(skew) > limits.SKEW_MS_MAX:
            _log.warning(
                "the clocks of this machine and of the remote database are %.1f s apart; leases and"
                " schedules go by this machine's", skew / 1000,
            )  # fmt: skip
        return HranaStore(link, stream, owner, location)
    except NotRun as error:
        link.close()
        raise OpenError(f"{location}: {error.reason}") from error
    except StepError as error:
        link.close()
        raise OpenError(f"{location} cannot be opened: {error.said}") from error
    except OpenError:
        link.close()
        raise
    except MqliteError as error:
        link.close()
        raise OpenError(f"{location}: {error.message}") from error


def masked(dsn: str) -> str:
    """The address without what tells one customer from another: the first label of its host."""
    host = urlsplit(dsn).hostname or ""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        parent = host.partition(".")[2]
        return f"libsql://***.{parent}" if parent else "libsql://***"
    return "libsql://***"


def probe(link: Link, stream: Stream) -> None:
    """Find out whether the server can close a stream; one that cannot has a single connection."""
    for is_shared in (False, True):
        stream.is_shared = is_shared
        try:
            _patiently(lambda: stream.steps([Step("SELECT 1")]), stream)
        except StorageFailed as error:
            if isinstance(error, NoPipeline) and not is_shared and b"close" in error.body:
                continue
            if _is_broker(link):
                raise OpenError(
                    "a broker answers there, not a database; did you mean MQLITE_ENDPOINT?"
                ) from error
            raise
        return


def _is_broker(link: Link) -> bool:
    try:
        card: Any = msgspec.json.decode(link.page())
    except msgspec.DecodeError:
        return False
    return isinstance(card, dict) and card.get("name") == "mqlite"


def _patiently(step: Callable[[], T], stream: Stream) -> T:
    """Run something that may be repeated, until the patience is over or the connection is cut."""
    patience = Patience(limits.REMOTE_PATIENCE_SECONDS / 3, stream.cut)
    while True:
        try:
            return step()
        except NotRun as error:  # nobody there at all: told at once
            if isinstance(error, Unreached) or not patience.rest(error.pause_seconds):
                raise


# -- the tables ------------------------------------------------------------------------------------


def _ask(stream: Stream, *statements: tuple[str, tuple[Any, ...]]) -> list[list[Row]]:
    """Rows outside of any transaction."""
    reply = _patiently(lambda: stream.steps([Step(sql, args) for sql, args in statements]), stream)
    if reply.batch is None:
        raise StepError(reply.failure or hrana_wire.StepFailure("no answer"), 0)
    for place, failure in enumerate(reply.batch.step_errors):
        if failure is not None:
            raise StepError(failure, place)
    return [hrana_wire.rows(result) for result in reply.batch.step_results]


def _is_ours(stream: Stream, location: str) -> bool:
    """True for our tables in our format, False for none; SchemaVersionMismatch otherwise.

    Servers write the text of a table anew, so its columns are compared, and not its text.
    """
    tables = schema.columns()
    (found,) = _ask(stream, (NAMES, ()))
    names = {str(row[0]).lower() for row in found} & tables.keys()
    if not names:
        return False
    if "meta" not in names:
        raise SchemaVersionMismatch(f"{location} has tables of other make with our names")
    try:
        (token,) = _ask(stream, (TOKEN, ()))
    except StepError:
        token = []
    if not token or token[0][0] != schema.FORMAT:
        said = token[0][0] if token else None
        raise SchemaVersionMismatch(
            f"{location} has schema {said!r}, this program reads {schema.FORMAT!r}; it was not"
            " touched"
        )
    shapes = _ask(stream, *((COLUMNS, (name,)) for name in tables))
    for name, rows in zip(tables, shapes, strict=True):
        if tuple(str(row[0]) for row in rows) != tables[name]:
            raise SchemaVersionMismatch(
                f"{location} is {schema.FORMAT} but its {name!r} has another shape"
            )
    listed = ", ".join(f"'{name}'" for name in tables)
    (triggers,) = _ask(stream, (f"{TRIGGERS} ({listed})", ()))
    if triggers:
        raise SchemaVersionMismatch(
            f"{location}: trigger {triggers[0][0]!r} was put on the engine's table"
            f" {triggers[0][1]!r}"
        )
    return True


def _make(stream: Stream, location: str) -> None:
    """All tables, or none. Somebody else may be making them at the same time."""
    script = re.sub(r"--[^\n]*", "", schema.script())
    statements = [(text.strip(), ()) for text in script.split(";") if text.strip()]
    try:
        stream.finish([*statements, *schema.START])
    except (StepError, Lost):
        if not _is_ours(stream, location):
            raise


# -- the owner -------------------------------------------------------------------------------------


def _own(stream: Stream, owner: Owner, location: str) -> int:
    """Own the database; the server's time. Waits for a dead owner's lease, not for a live one."""
    first = found = _patiently(lambda: look(stream), stream)
    patience = Patience(limits.OWNER_LEASE_MS / 1000 + limits.REMOTE_ANSWER_SECONDS, stream.cut)
    while True:
        if found.is_over or owner.is_ours(found):
            try:
                stream.free()  # a shared connection may be in the dead owner's transaction
                take(stream, owner, found)
                return found.now_ms
            except NotRun:
                if patience.is_over:
                    raise
            except StepError as error:
                is_other = error.is_constraint or error.is_busy
                if not is_other or patience.is_over:
                    raise
        elif (found.word, found.number) != (first.word, first.number) or (patience.is_over):
            raise DatabaseLocked(f"{location} belongs to another engine ({found.name})")
        patience.rest(WAIT_SECONDS)
        found = _patiently(lambda: look(stream), stream)
