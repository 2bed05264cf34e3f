"""Contexts: brokers that have a name, with the credential of each, in one private file.

Imported by `target` where a context may decide, and written by `contexting`. Rules: the file is its
owner's alone, and one that others may open is refused rather than read, for it holds credentials;
it is replaced as a whole, so that a killed command leaves the old one; a context's credential goes
to that context's broker and to no other.
"""

from __future__ import annotations

import os

import msgspec

from mqlite_cli.bodies import read_file
from mqlite_cli.escaping import field
from mqlite_cli.grammar import did_you_mean
from mqlite_cli.refusals import Refusal

_BYTES_MAX = 1024 * 1024


class Context(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One broker. Paths are absolute; at most one of `token` and `token_file` is set."""

    endpoint: str
    token: str = ""
    token_file: str = ""
    ca_file: str = ""
    client_cert: str = ""
    client_key: str = ""

    def __repr__(self) -> str:
        return "Context(…)"  # its endpoint may hold a credential, too


class Contexts(msgspec.Struct, forbid_unknown_fields=True):
    """The file. `current` is the name of the one that is used unasked, or ""."""

    current: str = ""
    contexts: dict[str, Context] = {}

    def named(self, name: str) -> Context:
        """The context of this name; Refusal with the nearest one."""
        found = self.contexts.get(name)
        if found is None:
            hint = did_you_mean(name, list(self.contexts))
            raise Refusal(f"there is no context {field(name)}{hint}; `mqlite context list`")
        return found


def load(path: str) -> Contexts:
    """What the file holds; nothing if there is none. Refusal for one that is not private, or not
    understood."""
    try:
        found = os.stat(path)  # noqa: PTH116 - pathlib would cost every start-up
    except (OSError, ValueError):
        return Contexts()
    if os.name == "posix" and found.st_mode & 0o077:
        raise Refusal(f"{path} holds credentials, and others may open it; chmod 600 {path}")
    if os.name == "posix" and found.st_uid != os.geteuid():
        raise Refusal(f"{path} belongs to somebody else; contexts are read from one's own file")
    try:
        return msgspec.json.decode(read_file(path, bytes_max=_BYTES_MAX), type=Contexts)
    except msgspec.MsgspecError as error:
        # msgspec names a place and a type, never a value.
        raise Refusal(f"{path} is no file of contexts: {error}; mend or remove it") from None
