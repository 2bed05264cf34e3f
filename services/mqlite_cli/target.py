"""Where a command goes, a broker or the local store, and with which credential (spec/tools.md 1.2).

Called by `invocation`; calls `sdk.address` for what the strings mean and `sdk.token_file` for the
credential in a file; opens nothing else. Rules: a credential of the environment goes to the broker
that the environment names and to no other, to the letter of its address, and in doubt to none; the
same holds for that of a context; a credential is never part of an error.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mqlite_actor.contract.errors import InvalidArgument
from mqlite_actor.sdk.address import Endpoint, Store, parse_endpoint, parse_store
from mqlite_actor.sdk.token_file import environ_token, read_token
from mqlite_cli.grammar import Arguments
from mqlite_cli.refusals import Refusal

if TYPE_CHECKING:
    from mqlite_cli.contexts import Context

STORE_DEFAULT = "file:./mq.db"


class BrokerTarget(msgspec.Struct, frozen=True):
    """Call this broker, with this token or, if it is "", with none. `files` are a context's, by the
    name of the flag that they stand in for."""

    endpoint: Endpoint
    token: str
    files: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"BrokerTarget({self.endpoint!r})"


class StoreTarget(msgspec.Struct, frozen=True):
    """Open this store in this process. `dsn` is the string as it was given."""

    dsn: str
    store: Store


def choose_target(
    arguments: Arguments, environ: Mapping[str, str], *, warn: Callable[[str], None]
) -> BrokerTarget | StoreTarget:
    """Decide by flags, then environment, then the context in use. InvalidArgument or Refusal if a
    string makes no sense.

    In this order: --endpoint, --context, MQLITE_ENDPOINT, MQLITE_CONTEXT, MQLITE_DB, the context in
    use, the default store.
    """
    context = _choose_context(arguments, environ)
    if context is not None:
        endpoint = parse_endpoint(context.endpoint)
        return BrokerTarget(
            endpoint, _context_token(context, endpoint, arguments, environ, warn=warn),
            {"ca-file": context.ca_file, "client-cert": context.client_cert,
             "client-key": context.client_key},
        )  # fmt: skip
    text = arguments.text("endpoint", environ.get("MQLITE_ENDPOINT", ""))
    if not text:
        dsn = environ.get("MQLITE_DB") or STORE_DEFAULT
        return StoreTarget(dsn, parse_store(dsn, bare_paths=True))
    try:
        endpoint = parse_endpoint(text)
    except InvalidArgument as error:
        source = "--endpoint" if arguments.has("endpoint") else "MQLITE_ENDPOINT"
        raise InvalidArgument(f"{source}: {error.message}") from error
    is_foreign = arguments.has("endpoint") and not _is_ambient(endpoint, environ)
    return BrokerTarget(
        endpoint, _choose_token(endpoint, arguments, environ, is_foreign=is_foreign, warn=warn)
    )


def _choose_context(arguments: Arguments, environ: Mapping[str, str]) -> Context | None:
    """The context in force, if it is one that decides."""
    if arguments.has("endpoint"):
        if arguments.has("context"):
            raise Refusal("--endpoint and --context name two brokers; give one")
        return None
    name = arguments.text("context")
    if not name and environ.get("MQLITE_ENDPOINT"):
        return None
    name = name or environ.get("MQLITE_CONTEXT", "")
    path = contexts_path(environ)
    is_possible = bool(name) or not environ.get("MQLITE_DB")
    if not is_possible or not (name or os.path.exists(path)):  # noqa: PTH110 - as above
        return None
    from mqlite_cli import contexts  # noqa: PLC0415 - for those who have some

    known = contexts.load(path)
    return known.named(name or known.current) if name or known.current else None


def from_here(path: str) -> str:
    """`path` from the current folder, absolute. Refusal if that folder was deleted."""
    try:
        return str(Path(path).absolute())
    except FileNotFoundError as error:
        raise Refusal("the current folder was deleted; name an absolute path") from error


def contexts_path(environ: Mapping[str, str]) -> str:
    """Where the file of contexts is, or "" where nobody has a home."""
    folder = environ.get("XDG_CONFIG_HOME", "")
    home = environ.get("HOME") or environ.get("USERPROFILE", "")
    if not folder and home:
        folder = f"{home}/.config"  # pathlib would cost every start-up
    return f"{folder}/mqlite/contexts.json" if folder else ""


def _context_token(
    context: Context,
    endpoint: Endpoint,
    arguments: Arguments,
    environ: Mapping[str, str],
    *,
    warn: Callable[[str], None],
) -> str:
    """A flag's, the context's own, or, for the broker that the environment names, its."""
    if not (arguments.has("token") or arguments.has("token-file")):
        if context.token_file:
            return _read_token(context.token_file, source="the context's token file")
        if context.token or endpoint.token:
            return context.token or endpoint.token
    is_foreign = not _is_ambient(endpoint, environ)
    return _choose_token(endpoint, arguments, environ, is_foreign=is_foreign, warn=warn)


def _choose_token(
    endpoint: Endpoint,
    arguments: Arguments,
    environ: Mapping[str, str],
    *,
    is_foreign: bool,
    warn: Callable[[str], None],
) -> str:
    """`is_foreign`: it is not the broker of the environment, whose credential stays away."""
    if arguments.has("token") and arguments.has("token-file"):
        raise Refusal("--token and --token-file name two credentials; give one")
    if arguments.has("token"):
        return arguments.text("token")
    if arguments.has("token-file"):
        return _read_token(arguments.text("token-file"), source="--token-file")
    if is_foreign:
        name = next((n for n in ("MQLITE_TOKEN", "MQLITE_TOKEN_FILE") if environ.get(n)), "")
        if name:
            warn(f"{name} is not sent to {endpoint.shown}, another broker than MQLITE_ENDPOINT's; "
                 "name a credential for it with --token")  # fmt: skip
        return endpoint.token
    try:
        return environ_token(environ) or endpoint.token
    except InvalidArgument as error:
        raise Refusal(error.message) from error


def _is_ambient(endpoint: Endpoint, environ: Mapping[str, str]) -> bool:
    """Whether this is the broker that the environment's credential belongs to."""
    try:
        return parse_endpoint(environ.get("MQLITE_ENDPOINT", "")).identity() == endpoint.identity()
    except InvalidArgument:
        # An address that names nothing owns no credential.
        return False


def _read_token(path: str, *, source: str) -> str:
    try:
        return read_token(path, source=source)
    except InvalidArgument as error:
        raise Refusal(error.message) from error
