"""What a call came to, as the result of a tool: text and the same thing as data.

Called by `session`. Rules: the text of a success is the broker's JSON body with its newline; the
data is that body, with `body_text` beside each body that is UTF-8; a failure says code, status,
reason and what to do next, and is a result with `isError`, never an error of the protocol.
"""

from __future__ import annotations

from typing import Any

import mcp_types as types
import msgspec

from mqlite_actor.contract.errors import MqliteError

Json = dict[str, Any]

MENDS: dict[str, str] = {
    "invalid_argument": "Mend the named argument; the same call fails again.",
    "unauthenticated": "Do not retry. A person must set MQLITE_TOKEN or MQLITE_TOKEN_FILE for "
    "this server.",
    "permission_denied": "Do not retry. The credential of this server lacks the right.",
    "not_found": "Look with list_queues or peek; create what is missing, or mend the name.",
    "unsupported": "This broker does not have the operation. Do not retry.",
    "already_exists": "This message_id has another body; nothing was stored. Use a new id.",
    "group_required": "This queue orders by group: give group_id.",
    "name_conflict": "The name belongs to something of another kind; choose another one.",
    "key_conflict": "A key with this id exists; its token is not shown again. Revoke it, and make"
    " one under a new id.",
    "lock_lost": "The lease is over or was settled otherwise. Do not repeat; receive again.",
    "queue_not_empty": "Handle or purge what the queue holds first.",
    "generation_conflict": "It changed since you looked. Look again before you decide.",
    "message_too_large": "Send less, or a reference to where the content lies.",
    "unavailable": "Nothing was done. Wait some seconds and call again.",
    "outcome_unknown": "It may have happened. Look (peek, stats, list_keys) before you repeat.",
    "storage_full": "Nothing was stored. A person must free disk space.",
}
"""Code → what an agent does next. Other codes speak for themselves."""


def success(response: msgspec.Struct) -> types.CallToolResult:
    """The result that a response of the contract stands for."""
    body = msgspec.json.encode(response)
    return of_json(msgspec.json.decode(body), text=body.decode())


def of_json(value: Json, *, text: str | None = None) -> types.CallToolResult:
    """The result that a JSON object stands for; `text` is its body where it is at hand."""
    shown = msgspec.json.encode(value).decode() if text is None else text
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=shown + "\n")],
        structured_content=with_texts(value),
        is_error=False,
    )


def failure(error: MqliteError) -> types.CallToolResult:
    """The result of a call that was refused, or failed."""
    reason = {"code": error.code, "message": error.message}
    text = f"HTTP {error.http_status} {msgspec.json.encode(reason).decode()}"
    data: Json = {**reason, "http_status": error.http_status}
    mend = MENDS.get(error.code)
    if mend:
        data["mend"] = mend
        text += f"\n{mend}"
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], structured_content=data, is_error=True
    )


def with_texts(value: Json) -> Json:
    """The same object with `body_text` in every message whose body is UTF-8."""
    found = value.get("messages")
    if not isinstance(found, list):
        return value
    return {**value, "messages": [_with_text(each) for each in found]}


def _with_text(entry: Json) -> Json:
    if isinstance(entry.get("message"), dict):  # as Search answers
        return {**entry, "message": _with_text(entry["message"])}
    if not isinstance(entry.get("body"), str):
        return entry
    body = msgspec.convert(entry["body"], bytes)
    try:
        return {**entry, "body_text": body.decode()}
    except UnicodeDecodeError:
        return entry
