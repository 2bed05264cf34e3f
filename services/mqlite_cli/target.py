"""Where a command goes, a broker or the local store, and with which credential (spec/tools.md 1.2).

Called by `invocation`; calls `sdk.address` for what the strings mean and reads a token file; opens
nothing else. Rules: a credential of the environment goes to the broker that the environment names
and to no other, to the letter of its address, and in doubt to none; a credential is never part of
an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from mqlite_actor.contract.errors import InvalidArgument
from mqlite_actor.sdk.address import Endpoint, Store, parse_endpoint, parse_store
from mqlite_cli.bodies import read_file
from mqlite_cli.grammar import Arguments
from mqlite_cli.refusals import Refusal

STORE_DEFAULT = "file:./mq.db"

TOKEN_FILE_BYTES_MAX = 64 * 1024
"""Far more than any token; a wrong path should not be read to its end."""


class BrokerTarget(msgspec.Struct, frozen=True):
    """Call this broker, with this token or, if it is "", with none."""

    endpoint: Endpoint
    token: str

    def __repr__(self) -> str:
        return f"BrokerTarget({self.endpoint!r})"


class StoreTarget(msgspec.Struct, frozen=True):
    """Open this store in this process. `dsn` is the string as it was given."""

    dsn: str
    store: Store


def choose_target(
    arguments: Arguments, environ: Mapping[str, str], *, warn: Callable[[str], None]
) -> BrokerTarget | StoreTarget:
    """Decide by flags, then environment. InvalidArgument or Refusal if a string makes no sense."""
    text = arguments.text("endpoint", environ.get("MQLITE_ENDPOINT", ""))
    if not text:
        dsn = environ.get("MQLITE_DB") or STORE_DEFAULT
        return StoreTarget(dsn, parse_store(dsn, bare_paths=True))
    try:
        endpoint = parse_endpoint(text)
    except InvalidArgument as error:
        source = "--endpoint" if arguments.has("endpoint") else "MQLITE_ENDPOINT"
        raise InvalidArgument(f"{source}: {error.message}") from error
    return BrokerTarget(endpoint, _choose_token(endpoint, arguments, environ, warn=warn))


def _choose_token(
    endpoint: Endpoint,
    arguments: Arguments,
    environ: Mapping[str, str],
    *,
    warn: Callable[[str], None],
) -> str:
    if arguments.has("token") and arguments.has("token-file"):
        raise Refusal("--token and --token-file name two credentials; give one")
    if arguments.has("token"):
        return arguments.text("token")
    if arguments.has("token-file"):
        return _read_token(arguments.text("token-file"), source="--token-file")
    value, path = environ.get("MQLITE_TOKEN", ""), environ.get("MQLITE_TOKEN_FILE", "")
    if arguments.has("endpoint") and not _is_ambient(endpoint, environ):
        if value or path:
            name = "MQLITE_TOKEN" if value else "MQLITE_TOKEN_FILE"
            warn(f"{name} is not sent to {endpoint.shown}, another broker than MQLITE_ENDPOINT's; "
                 "name a credential for it with --token")  # fmt: skip
        return endpoint.token
    if value and path:
        raise Refusal("MQLITE_TOKEN and MQLITE_TOKEN_FILE name two credentials; set one")
    if path:
        return _read_token(path, source="MQLITE_TOKEN_FILE")
    return value or endpoint.token


def _is_ambient(endpoint: Endpoint, environ: Mapping[str, str]) -> bool:
    """Whether this is the broker that the environment's credential belongs to."""
    try:
        return parse_endpoint(environ.get("MQLITE_ENDPOINT", "")).identity() == endpoint.identity()
    except InvalidArgument:
        # An address that names nothing owns no credential.
        return False


def _read_token(path: str, *, source: str) -> str:
    try:
        content = read_file(path, bytes_max=TOKEN_FILE_BYTES_MAX)
    except Refusal as error:
        raise Refusal(f"{source}: {error}") from error
    try:
        token = content.decode("utf-8").strip()
    except UnicodeDecodeError:
        # The cause would carry the file's bytes into a traceback.
        raise Refusal(f"{source}: {path} holds no text") from None
    if not token:
        raise Refusal(f"{source}: {path} is empty; it must hold one token and nothing else")
    return token
