"""The credential of a client's environment: a token in a variable, or in a file that one names.

Called by the front ends that call a broker (`mqlite`, `mqlite-mcp`), so that they all read it
alike; calls the file system. Rules: a file is read to its end, never beyond a bound; no error holds
what was in it, nor a token that was put where its path is wanted.
"""

from __future__ import annotations

from collections.abc import Mapping

from mqlite_actor.contract.errors import InvalidArgument
from mqlite_actor.sdk.address import without_tokens

TOKEN_FILE_BYTES_MAX = 64 * 1024
"""Far more than any token; a wrong path should not be read to its end."""


def environ_token(environ: Mapping[str, str]) -> str:
    """The token of MQLITE_TOKEN, or of the file that MQLITE_TOKEN_FILE names, or "".

    InvalidArgument if both are set, or for the file's reasons.
    """
    value, path = environ.get("MQLITE_TOKEN", ""), environ.get("MQLITE_TOKEN_FILE", "")
    if value and path:
        raise InvalidArgument("MQLITE_TOKEN and MQLITE_TOKEN_FILE name two credentials; set one")
    return read_token(path, source="MQLITE_TOKEN_FILE") if path else value


def read_token(path: str, *, source: str) -> str:
    """The one token in this file, without the blanks around it. InvalidArgument names the source.

    A pipe is read until its writer closes it.
    """
    shown = without_tokens(path)
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - pathlib costs the start of a command
            content = file.read(TOKEN_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidArgument(f"{source}: cannot read {shown}: {error.strerror}") from error
    if len(content) > TOKEN_FILE_BYTES_MAX:
        raise InvalidArgument(f"{source}: {shown} holds more than {TOKEN_FILE_BYTES_MAX} bytes")
    try:
        token = content.decode("utf-8-sig").strip()  # some editors begin with a mark
    except UnicodeDecodeError:
        # The cause would carry the file's bytes into a traceback.
        raise InvalidArgument(f"{source}: {shown} holds no text") from None
    if not token:
        raise InvalidArgument(
            f"{source}: {shown} is empty; it must hold one token and nothing else"
        )
    return token
