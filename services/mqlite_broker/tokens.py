"""Where a broker's fixed tokens come from: a variable, a file of secrets, a token file, or chance.

Called by `settings.py` for `serve`, and by `embedding.py` for `q.serve`. Pure but for reading files
of secrets; a token file that does not exist yet is made by `keep`, once the port is bound. Rules: a
value that would open the broker, or that no client could send, is refused by the name of where it
came from and never by its text, nor where it stands for a path (spec/wire.md 4.2, faults B84).
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from mqlite_actor.contract.errors import InvalidArgument, OpenError
from mqlite_actor.sdk.address import without_tokens

TOKEN_PREFIX: Final = "mqk_"  # the public beginning of every token, not a secret

SECRET_FILE_BYTES: Final = 64 * 1024
"""A thousand tokens; whatever is longer is another file."""

OFF: Final = "off"


class Tokens(NamedTuple):
    """Administrator tokens. `values` None: authentication is off. `file`: where the generated one
    is to be kept."""

    values: tuple[str, ...] | None
    is_generated: bool = False
    file: str = ""


def administrators(text: str, *, source: str) -> Tokens:
    """From the text of a variable: a comma list, `off`, or nothing for a generated one."""
    if text.lower() == OFF:
        return Tokens(None)
    return Tokens(split(text, source=source)) if text else generated()


def generated(file: str = "") -> Tokens:
    """One new token."""
    return Tokens((TOKEN_PREFIX + secrets.token_hex(32),), is_generated=True, file=file)


def from_list_file(path: str, *, source: str) -> Tokens:
    """From a file that must exist; a file cannot switch authentication off."""
    text = read_list(path, source=source)
    if text.lower() == OFF:
        raise InvalidArgument(f"{source}: a file cannot switch authentication off")
    return Tokens(split(text, source=source))


def from_token_file(path: str) -> Tokens:
    """From the file of --token-file, or, while there is none, a new token that is to be kept
    there."""
    if not path:
        raise InvalidArgument("--token-file needs a path")
    return from_list_file(path, source="--token-file") if _exists(path) else generated(path)


def monitors(text: str, administrator: Tokens, *, source: str) -> tuple[str, ...]:
    """Monitor tokens, which go with administrator tokens and are none of them."""
    if not text:
        return ()
    if administrator.values is None:
        raise InvalidArgument(f"{source} needs administrator tokens; authentication is off")
    found = tuple(part.strip() for part in text.split(","))
    for number, token in enumerate(found, start=1):
        if not token or re.search(r"\s", token):
            raise InvalidArgument(
                f"{source}: entry {number} is blank or holds a space or line break"
            )
        if token in administrator.values:
            raise InvalidArgument(
                f"{source}: entry {number} is an administrator token too; use another"
            )
    return found


def split(text: str, *, source: str) -> tuple[str, ...]:
    """The entries of a comma list; blank ones are dropped."""
    return checked([part.strip() for part in text.split(",")], source=source)


def checked(entries: Sequence[str], *, source: str) -> tuple[str, ...]:
    """Those entries that are not blank, if there are any and a client can send each of them."""
    tokens = tuple(entry for entry in entries if entry)
    if not tokens:
        raise InvalidArgument(
            f"{source} holds no usable token; give a comma list, leave it empty for a generated"
            " one, or say off"
        )
    for number, token in enumerate(tokens, start=1):
        if re.search(r"[\s,]", token):
            raise InvalidArgument(
                f"{source}: entry {number} holds a space or line break; no client can send it"
            )
    return tokens


def read_list(path: str, *, source: str) -> str:
    """A small text file as a comma list; its lines are entries too. InvalidArgument names the
    source."""
    shown = without_tokens(path)
    try:
        with Path(path).open("rb") as file:
            content = file.read(SECRET_FILE_BYTES + 1)
    except OSError as error:
        raise InvalidArgument(f"{source}: cannot read {shown!r}: {error.strerror}") from error
    if len(content) > SECRET_FILE_BYTES:
        raise InvalidArgument(f"{source}: {shown!r} is longer than any list of tokens")
    try:
        lines = content.decode("utf-8-sig").splitlines()  # some editors begin with a mark
    except UnicodeDecodeError:
        # The cause would carry the file's bytes into a traceback.
        raise InvalidArgument(f"{source}: {shown!r} holds no text") from None
    text = ",".join(line.strip() for line in lines if line.strip())
    if not text:
        raise InvalidArgument(f"{source}: {shown!r} is empty")
    return text


def doubts(tokens: Tokens) -> list[str]:
    """What is probably not meant."""
    text = (
        "one of the administrator tokens is the word off, which everybody can guess; it stands"
        " alone where authentication is to be off"
    )
    return [text] if any(each.lower() == OFF for each in tokens.values or ()) else []


def keep(tokens: Tokens) -> None:
    """Write the generated token into its file, for its owner alone. OpenError if it cannot be.

    Never over a file that has come meanwhile: its token may be in use.
    """
    assert tokens.values is not None, "a generated token is there"
    try:
        descriptor = os.open(
            tokens.file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600
        )
    except OSError as error:
        raise OpenError(
            f"--token-file: cannot make {without_tokens(tokens.file)!r}: {error.strerror}"
        ) from error
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(tokens.values[0] + "\n")
    except OSError as error:
        Path(tokens.file).unlink(missing_ok=True)  # half a token would refuse the next start
        raise OpenError(
            f"--token-file: cannot write {without_tokens(tokens.file)!r}: {error.strerror}"
        ) from error


def _exists(path: str) -> bool:
    """Whether something is there, readable or not: what cannot be looked at is no new file."""
    try:
        Path(path).lstat()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise InvalidArgument(
            f"--token-file: cannot read {without_tokens(path)!r}: {error.strerror}"
        ) from error
    return True
