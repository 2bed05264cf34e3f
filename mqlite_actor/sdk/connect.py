"""One string, the right handle: a store opens an engine in this process, an address dials a broker.

`connect` for programs on trio or asyncio, `connect_sync` for those without a loop; both check the
string and every option before they open anything. Called by programs; calls `address`, and the
module of the handle when it is needed, so that a blocking HTTP client does not load an engine.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypedDict, Unpack, cast

from mqlite_actor.contract.errors import InvalidArgument
from mqlite_actor.sdk.address import Destination, classify, dial, link_path, parse_endpoint
from mqlite_actor.sdk.blocking import SyncHandle, client_of_loops, open_http_sync

if TYPE_CHECKING:
    from mqlite_actor.clock import Clock
    from mqlite_actor.sdk.handle import Handle


class ConnectOptions(TypedDict, total=False):
    """What goes with a string: the first four with an address, the others with a store."""

    token: str
    """The credential; it wins over one inside the address. "" sends none."""
    ca_file: str | Path
    """A PEM file with the authorities that the broker's certificate is checked against, instead of
    the system's."""
    client_certificate: str | Path | tuple[str | Path, str | Path]
    """A PEM file with certificate and key, or one file for each."""
    network: Any
    """An httpcore network backend to dial through, for tests and tunnels (`connect` only)."""
    synchronous: str
    message_bytes_max: int
    clock: Clock | None
    background: bool
    auth_token: str


OF_BROKERS = frozenset({"token", "ca_file", "client_certificate", "network"})
OF_STORES = frozenset({"synchronous", "message_bytes_max", "clock", "background", "auth_token"})
FITTING: Final = {
    Destination.STORE: OF_STORES,
    Destination.LINK: frozenset[str](),
    Destination.BROKER: OF_BROKERS,
}


@asynccontextmanager
async def connect(dsn: str, **options: Unpack[ConnectOptions]) -> AsyncIterator[Handle]:
    """The handle for a connection string, for the length of a block, under trio or asyncio.

    `mqlite(s)://[TOKEN@]HOST[:PORT]` and `http(s)://…` reach a broker (nothing is dialled before
    the first call; `wait_ready` tries at once); `file:PATH`, `:memory:` and `libsql://HOST` open an
    engine in this process, as `open_embedded` does; `unix:PATH` the link of a broker on this
    machine. Raises InvalidArgument, with the mend, for any other string and for an option that
    does not belong to this kind.
    """
    kind = _kind(dsn, dict(options))
    if kind is Destination.STORE:
        embedded = import_module("mqlite_actor.sdk.embedded")
        async with embedded.open_embedded(dsn, **options) as handle:
            yield cast("Handle", handle)
        return
    if kind is Destination.LINK:
        linked = import_module("mqlite_actor.sdk.linked_elsewhere")
        async with linked.open_link_here(link_path(dsn)) as handle:
            yield cast("Handle", handle)
        return
    http_async = client_of_loops()
    endpoint = parse_endpoint(dsn)
    opening = http_async.open_http(
        endpoint,
        token=options.get("token"),
        tls=tls_of(options, is_tls=dial(endpoint).is_tls),
        network=options.get("network"),
    )
    async with opening as handle:
        yield cast("Handle", handle)


@contextmanager
def connect_sync(dsn: str, **options: Unpack[ConnectOptions]) -> Iterator[SyncHandle]:
    """The same for a program without a loop; safe to share between threads."""
    kind = _kind(dsn, dict(options))
    if kind is Destination.STORE:
        embedded = import_module("mqlite_actor.sdk.blocking_embedded")
        with embedded.open_embedded_sync(dsn, **options) as handle:
            yield cast("SyncHandle", handle)
        return
    if kind is Destination.LINK:
        linked = import_module("mqlite_actor.sdk.linked_elsewhere")
        with linked.open_link_sync(link_path(dsn)) as handle:
            yield cast("SyncHandle", handle)
        return
    if "network" in options:
        raise InvalidArgument("network: only connect() dials through httpcore")
    endpoint = parse_endpoint(dsn)
    tls = tls_of(options, is_tls=dial(endpoint).is_tls)
    with open_http_sync(endpoint, token=options.get("token"), tls=tls) as blocking_handle:
        yield blocking_handle


def tls_of(options: ConnectOptions, *, is_tls: bool) -> ssl.SSLContext | None:
    """What a TLS connection is checked against; None for a plain one, or for the system's own."""
    ca_file, pair = options.get("ca_file"), options.get("client_certificate")
    if ca_file is None and pair is None:
        return None
    if not is_tls:
        raise InvalidArgument(
            "ca_file, client_certificate: the address is not TLS; write mqlites:// or https://"
        )
    certificate, key = pair if isinstance(pair, tuple) else (pair, None)
    try:
        context = ssl.create_default_context(cafile=ca_file)
        if certificate is not None:
            context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise InvalidArgument(f"ca_file, client_certificate: {error}") from error
    return context


def _kind(dsn: str, options: dict[str, object]) -> Destination:
    """What the string names, once every option is known to belong to it."""
    if not isinstance(dsn, str):
        raise InvalidArgument(f"the address is a text, not {type(dsn).__name__}")
    kind = classify(dsn)
    fitting = FITTING[kind]
    for name in options:
        if name not in OF_STORES | OF_BROKERS:
            known = ", ".join(sorted(fitting))
            raise InvalidArgument(f"{name}: unknown option; there are {known}")
        if name not in fitting:
            other = "a broker's address" if name in OF_BROKERS else "a store"
            raise InvalidArgument(f"{name}: an option for {other}, and {kind} is none")
    return kind
