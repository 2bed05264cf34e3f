"""The one origin whose pages browsers may call from: what an operator or a program has named.

Called by `settings` and `embedding` with the text of `MQLITE_CORS` or of `cors`; the header fields
of answers are `rpc`'s, refusals `auth`'s. Rule: what may stand in a header is taken to the letter,
and told of if no browser would ever say it.
"""

from __future__ import annotations

import re
from typing import Final

from mqlite_actor.contract.errors import InvalidArgument
from mqlite_broker.tokens import Tokens

_AS_SAID: Final = re.compile(r"null|[a-z][a-z0-9+.-]*://(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]+)?")
"""How a browser names a page's origin: lower case, no path, nothing behind the port."""


def allowed(text: str, source: str, tokens: Tokens) -> str:
    """The one origin that browsers may call from, "*" for any, "" for none."""
    if text.lower() == "off":
        return ""
    if re.search(r"[\r\n]", text):
        raise InvalidArgument(f"{source} holds a line break; give one origin, * or off")
    return text or ("*" if tokens.values is not None else "")


def doubts(origin: str, source: str) -> list[str]:
    """What is probably not meant: several origins, or one with a path."""
    if origin in ("", "*") or _AS_SAID.fullmatch(origin):
        return []
    text = (
        f"{source}={origin!r} is not how a browser names an origin, so none may call; give one, as"
        " https://app.example or http://localhost:5173"
    )
    return [text]
