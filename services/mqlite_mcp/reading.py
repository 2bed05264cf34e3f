"""What an agent can read and be told: resources (queues, messages, pages) and two prompts.

Called by `session`; calls the handle for what lives and the contract's tables for the pages. Rules:
reading changes nothing in a queue; an address is refused with the mend when it is none of ours; and
a queue's name stands in an address percent-encoded, whatever characters it holds.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib.resources import files
from typing import Final
from urllib.parse import quote, unquote

import mcp_types as types
import msgspec

from mqlite_actor.contract import wire
from mqlite_actor.contract.calls import CALLS
from mqlite_actor.contract.errors import BY_CODE, InvalidArgument, NotFound
from mqlite_actor.sdk.handle import Handle
from mqlite_mcp.answers import MENDS, with_texts

ROOT: Final = "mqlite://"
QUEUES: Final = f"{ROOT}queues"
JSON: Final = "application/json"
MARKDOWN: Final = "text/markdown"


def guide() -> str:
    """How to work with queues."""
    return (files("mqlite_mcp") / "guide.md").read_text("utf-8")


def errors_page() -> str:
    """Every error code, what it means and what to do."""
    rows = []
    for code, cls in sorted(BY_CODE.items()):
        meaning = " ".join((inspect.getdoc(cls) or "").split())
        mend = f" {MENDS[code]}" if code in MENDS else ""
        rows.append(f"- `{code}` ({cls.http_status}): {meaning}{mend}")
    return "# Error codes\n\n" + "\n".join(rows) + "\n"


def calls_page() -> str:
    """Every call of the broker, for an agent that also speaks HTTP."""
    rows = [f"- `POST {call.path}` ({call.right}): {call.doc}" for call in CALLS]
    return "# Calls\n\n" + "\n".join(rows) + "\n"


PAGES: Final[dict[str, tuple[str, Callable[[], str]]]] = {
    f"{ROOT}docs/guide": ("How to work with queues", guide),
    f"{ROOT}docs/errors": ("Error codes and what to do", errors_page),
    f"{ROOT}docs/calls": ("The broker's calls", calls_page),
}

RESOURCES: Final = (
    types.Resource(
        uri=QUEUES, name="queues", title="Queues and their main settings", mime_type=JSON
    ),
    *(
        types.Resource(uri=uri, name=uri.removeprefix(ROOT), title=title, mime_type=MARKDOWN)
        for uri, (title, _) in PAGES.items()
    ),
)

TEMPLATES: Final = (
    types.ResourceTemplate(
        uri_template=f"{QUEUES}/{{queue}}/messages",
        name="messages",
        title="The first messages of a queue, untouched",
        mime_type=JSON,
    ),
    types.ResourceTemplate(
        uri_template=f"{QUEUES}/{{queue}}/messages/{{seq_number}}",
        name="message",
        title="One message, untouched",
        mime_type=JSON,
    ),
)


def messages_uri(queue: str) -> str:
    """The address of a queue's first messages."""
    return f"{QUEUES}/{quote(queue, safe='')}/messages"


async def read(handle: Handle, uri: str) -> types.ReadResourceResult:
    """What stands at an address; InvalidArgument for none of ours, and the errors of the calls."""
    if uri in PAGES:
        return _contents(uri, MARKDOWN, PAGES[uri][1]())
    if uri == QUEUES:
        reply = await handle.call(wire.ListQueuesRequest())
        return _contents(uri, JSON, msgspec.json.encode(reply).decode())
    return _contents(uri, JSON, await _peeked(handle, uri))


async def _peeked(handle: Handle, uri: str) -> str:
    parts = uri.removeprefix(f"{QUEUES}/").split("/")
    if not uri.startswith(f"{QUEUES}/") or len(parts) not in (2, 3) or parts[1] != "messages":
        raise InvalidArgument(f"{uri[:200]}: no such resource; there are {', '.join(_known())}")
    queue = unquote(parts[0])
    if len(parts) == 2:
        found = await handle.peek(queue)
    else:
        if not (parts[2].isascii() and parts[2].isdigit() and len(parts[2]) < 20):
            raise InvalidArgument("seq_number: not a message's number")
        number = int(parts[2])
        page = await handle.peek(queue, from_seq=number, max_messages=1)
        found = [each for each in page if each.seq_number == number]
        if not found:
            raise NotFound(f"{queue} holds no message {number}")
    shown = msgspec.json.decode(msgspec.json.encode(wire.MessagesResponse(messages=found)))
    return msgspec.json.encode(with_texts(shown)).decode()


def _known() -> list[str]:
    return [each.uri for each in RESOURCES] + [each.uri_template for each in TEMPLATES]


def _contents(uri: str, mime_type: str, text: str) -> types.ReadResourceResult:
    return types.ReadResourceResult(
        contents=[types.TextResourceContents(uri=uri, mime_type=mime_type, text=text)]
    )
