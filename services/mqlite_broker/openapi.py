"""The OpenAPI 3.1 description of a broker, made from CALLS and the structs of the wire.

Called by `mqlite openapi` and by docs/make.py; the broker itself does not need it, and it imports
nothing of the web server. Rules: a path comes from a row of CALLS and a schema from its struct, so
a new call joins by itself; what a struct cannot say (a pattern, a bound, a word list) stands in
FIELDS, and which errors a call can answer in REFUSALS. A call that is missing there is described
with every error of a caller's making.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from mqlite_actor.contract import errors, limits
from mqlite_actor.contract.calls import CALLS, Call
from mqlite_actor.contract.keys import Right
from mqlite_actor.contract.words import Kind, Ordering
from mqlite_actor.version import __version__
from mqlite_broker.pages import READY_PATH, Card

Json = dict[str, Any]

Refusals = tuple[type[errors.MqliteError], ...]

ABOUT: Final = f"""\
Durable message queues in one SQLite file. Every call is a `POST` with one JSON object and answers \
with one; a failure is `{{"code", "message"}}` with the status of its code. Match on codes, never \
on texts.

A request field that is left out, or null, has its zero value. Field names are taken in any letter \
case, and fields that do not exist are refused. Times are milliseconds since 1970 UTC, durations \
are milliseconds, bodies are base64 with padding. The content type of a request is not looked at.

A request has at most {limits.REQUEST_BYTES_MAX} bytes, a decoded message body at most \
{limits.MESSAGE_BYTES_DEFAULT} unless the broker is set up otherwise. Malformed HTTP is answered \
by the HTTP layer in plain text."""

_KEY_ID: Final = {"type": "string", "pattern": "^[0-9a-f]{32}$"}
_NAME: Final = {"type": "string", "minLength": 1}
_AT_LEAST_0: Final = {"type": "integer", "format": "int64", "minimum": 0, "default": 0}


def _words(*words: str) -> Json:
    return {"type": "string", "enum": ["", *words], "default": ""}


FIELDS: Final[dict[str, dict[str, Json]]] = {
    "Message": {
        "ttl_ms": {"type": "integer", "format": "int64", "default": 0, "writeOnly": True},
    },
    "SendRequest": {"scheduled_enqueue_time_ms": _AT_LEAST_0},
    "ScheduleRequest": {"scheduled_enqueue_time_ms": _AT_LEAST_0},
    "RenewBatchRequest": {
        "messages": {
            "type": "array",
            "items": {"$ref": "#/components/schemas/SettleItem"},
            "maxItems": limits.RENEW_BATCH_MAX,
            "default": [],
        },
    },
    "QueueConfig": {
        "kind": _words(*Kind),
        "ordering_mode": _words(*Ordering),
        "default_ttl_ms": _AT_LEAST_0,
        "dedup_window_ms": _AT_LEAST_0,
    },
    "CreateQueueRequest": {"name": _NAME},
    "DeleteQueueRequest": {"name": _NAME, "generation": _NAME},
    "SubscribeRequest": {"topic": _NAME, "name": _NAME},
    "RedriveRequest": dict.fromkeys(("max", "older_than_ms", "rate_per_sec"), _AT_LEAST_0),
    "PurgeRequest": dict.fromkeys(("max", "older_than_ms"), _AT_LEAST_0),
    "CreateKeyRequest": {
        "id": _KEY_ID,
        "name": {"type": "string", "minLength": 1, "maxLength": limits.KEY_NAME_BYTES_MAX},
        "permissions": {
            "type": "array",
            "items": {"type": "string", "enum": [Right.SEND, Right.LISTEN, Right.MANAGE]},
            "minItems": 1,
        },
        "expires_at_ms": _AT_LEAST_0,
    },
    "RevokeKeyRequest": {"id": _KEY_ID},
    "ListKeysRequest": {
        "after_id": {"type": "string", "pattern": "^([0-9a-f]{32})?$", "default": ""},
        "limit": {**_AT_LEAST_0, "maximum": limits.KEYS_PAGE_MAX},
        "sort": _words("id_asc", "created_desc"),
        "token_sha256": {"type": "string", "pattern": "^([0-9a-f]{64})?$", "default": ""},
    },
}
"""By struct and field, where the bare type would let through what the broker refuses. A field
without a default here is required."""

_LOST: Final = (errors.LockLost,)
_NOT_FOUND: Final = (errors.NotFound,)
_SEND: Final = (errors.NotFound, errors.GroupRequired, errors.DedupConflict)

REFUSALS: Final[dict[str, Refusals]] = {
    "QueueService/Send": _SEND,
    "QueueService/Schedule": _SEND,
    "QueueService/Receive": _NOT_FOUND,
    "QueueService/ReceiveDeferred": _NOT_FOUND,
    "QueueService/Complete": _LOST,
    "QueueService/Abandon": _LOST,
    "QueueService/Reject": _LOST,
    "QueueService/Defer": _LOST,
    "QueueService/Renew": (errors.NotFound, errors.LockLost),
    "QueueService/CompleteBatch": (),
    "QueueService/RenewBatch": _NOT_FOUND,
    "QueueService/Cancel": _NOT_FOUND,
    "QueueService/Peek": (),
    "QueueService/Stats": _NOT_FOUND,
    "AdminService/CreateQueue": (errors.NameConflict,),
    "AdminService/Subscribe": (errors.NameConflict,),
    "AdminService/ListQueues": (),
    "AdminService/ListSubscriptions": (),
    "AdminService/TestFilter": (),
    "AdminService/Redrive": (errors.NotFound, errors.GroupRequired),
    "AdminService/Purge": _NOT_FOUND,
    "AdminService/Status": (),
    "AdminService/Observe": (),
    "AdminService/DeleteQueue": (
        errors.NotFound, errors.NameConflict, errors.GenerationConflict, errors.QueueNotEmpty,
    ),
    "AuthService/CreateKey": (errors.KeyConflict,),
    "AuthService/ListKeys": (),
    "AuthService/RevokeKey": _NOT_FOUND,
}  # fmt: skip
"""By call, the errors that are its own; those of EVERYWHERE come on top."""

EVERYWHERE: Final[Refusals] = (
    errors.Unauthenticated, errors.PermissionDenied, errors.Internal, errors.Unavailable,
    errors.OutcomeUnknown, errors.StorageFull,
)  # fmt: skip
"""What every call may answer."""

OF_BODIES: Final[Refusals] = (errors.InvalidArgument, errors.MessageTooLarge)
"""What every call may answer that reads its body; 408 comes on top."""

OF_METRICS: Final[Refusals] = (
    errors.Unauthenticated, errors.PermissionDenied, errors.NotFound, errors.Internal,
    errors.Unavailable,
)  # fmt: skip
"""What /metrics may answer; `not_found` while it is switched off."""

_SEPARATOR: Final = "-"
_ERROR: Final = {"$ref": "#/components/schemas/Error"}

_SOURCE_NOTE: Final = re.compile(r"\s*\((?:spec/|design\.md|rulings? |decision )[^)]*\)")


def text(calls: Iterable[Call] = CALLS) -> str:
    """The description as JSON, indented, with its newline."""
    return msgspec.json.format(msgspec.json.encode(describe(calls)), indent=2).decode() + "\n"


def describe(calls: Iterable[Call] = CALLS) -> Json:
    """The whole description."""
    calls = tuple(calls)
    services = dict.fromkeys(_service(call) for call in calls)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "mqlite-actor",
            "version": __version__,
            "description": ABOUT,
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": "/", "description": "the broker that you talk to"}],
        "security": [{"bearer": []}],
        "tags": [{"name": service} for service in (*services, "pages")],
        "paths": {call.path: {"post": _operation(call)} for call in calls} | _pages(),
        "components": {
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An administrator token, a monitor token or an access key. "
                    "A broker whose card says `auth: none` asks for none.",
                }
            },
            "responses": _refusals(calls),
            "schemas": dict(sorted(_schemas(calls).items())),
        },
    }


# -- paths -----------------------------------------------------------------------------------------


def _service(call: Call) -> str:
    return call.name.partition("/")[0]


def _operation(call: Call) -> Json:
    operation: Json = {
        "operationId": call.name.replace("/", "_"),
        "tags": [_service(call)],
        "summary": call.doc,
        "description": f"{_prose(call.request.__doc__)} Needs the right `{call.right}`.",
        "x-right": str(call.right),
    }
    if call.reads_body:
        operation["requestBody"] = {"required": True, "content": _json(_ref(call.request))}
    answers = {"200": _answer(_prose(call.response.__doc__), _ref(call.response))}
    answers |= {str(status): _failure(codes) for status, codes in _failures(call)}
    operation["responses"] = answers
    return operation


def _failures(call: Call) -> Iterator[tuple[int, list[str]]]:
    """By status, the codes that may come with it."""
    own = REFUSALS.get(call.name, _all_of_callers())
    classes = {*own, *EVERYWHERE, *(OF_BODIES if call.reads_body else ())}
    by_status: dict[int, set[str]] = {}
    for error in classes:
        by_status.setdefault(error.http_status, set()).add(error.code)
    if call.reads_body:
        by_status[408] = {errors.InvalidArgument.code}
    for status, codes in sorted(by_status.items()):
        yield status, sorted(codes)


def _all_of_callers() -> Refusals:
    return tuple(
        error
        for error in errors.BY_CODE.values()
        if issubclass(error, errors.CallerError) and error is not errors.Unimplemented
    )


def _failure(codes: list[str]) -> Json:
    return {"$ref": f"#/components/responses/{_SEPARATOR.join(codes)}"}


def _refusals(calls: Iterable[Call]) -> Json:
    """Every answer that `_failure` refers to."""
    wanted = {tuple(codes) for call in calls for _, codes in _failures(call)}
    wanted |= {(error.code,) for error in OF_METRICS}
    return {_SEPARATOR.join(codes): _refusal(codes) for codes in sorted(wanted)}


def _refusal(codes: tuple[str, ...]) -> Json:
    meanings = [f"`{code}`: {_prose(errors.BY_CODE[code].__doc__)}" for code in codes]
    code = {"properties": {"code": {"enum": codes}}}
    return _answer("\n\n".join(meanings), {"allOf": [_ERROR, code]})


def _answer(description: str, schema: Json) -> Json:
    return {"description": description, "content": _json(schema)}


def _json(schema: Json) -> Json:
    return {"application/json": {"schema": schema}}


def _ref(kind: type) -> Json:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}


def _pages() -> Json:
    """The paths that are no calls."""
    plain = {"text/plain": {"schema": {"type": "string"}}}
    metrics = "The Observe snapshot for Prometheus, if it is switched on (right `monitor`)"
    refused = {str(each.http_status): _failure([each.code]) for each in OF_METRICS}
    ready = "Whether work may be sent here"
    unready = {"503": _failure([errors.Unavailable.code])}
    return {
        "/": {"get": _page("card", "The discovery card", _json(_ref(Card)), is_open=True)},
        "/healthz": {"get": _page("health", "Whether the process serves", plain, is_open=True)},
        READY_PATH: {"get": _page("readiness", ready, plain, unready, is_open=True)},
        "/metrics": {"get": _page("metrics", metrics, plain, refused)},
    }


def _page(
    name: str, summary: str, content: Json, failures: Json | None = None, *, is_open: bool = False
) -> Json:
    page: Json = {
        "operationId": name,
        "tags": ["pages"],
        "summary": summary,
        "responses": {"200": {"description": summary, "content": content}, **(failures or {})},
    }
    return page | ({"security": []} if is_open else {})


# -- schemas ---------------------------------------------------------------------------------------


def _schemas(calls: Iterable[Call]) -> dict[str, Json]:
    structs = [Card, *(each for call in calls for each in _bodies(call))]
    _, found = msgspec.json.schema_components(structs, ref_template="#/components/schemas/{name}")
    schemas = {name: _finished(name, schema) for name, schema in found.items()}
    schemas["Error"] = {
        "type": "object",
        "description": "Why a call failed. The message is for people and never empty.",
        "properties": {
            "code": {"type": "string", "minLength": 1},
            "message": {"type": "string", "minLength": 1},
        },
        "required": ["code", "message"],
    }
    return schemas


def _bodies(call: Call) -> list[type]:
    return [call.request, call.response] if call.reads_body else [call.response]


def _finished(name: str, schema: Json) -> Json:
    """A struct's schema with its prose, the contract's int64 and what FIELDS knows of it; or the
    words of an enumeration."""
    if "enum" in schema:
        about = _prose(schema.get("description", ""))
        return {"type": "string", "description": about, "enum": schema["enum"]}
    rules = FIELDS.get(name, {})
    properties = {
        key: rules.get(key) or _shortened(value) for key, value in schema["properties"].items()
    }
    own = (key for key in rules if _is_required(rules[key]))
    required = list(dict.fromkeys([*schema["required"], *own]))
    about = _prose(schema.get("description", ""))
    finished: Json = {"type": "object", "description": about}
    finished |= {"properties": properties}
    if required:
        finished["required"] = required
    if "additionalProperties" in schema:
        finished["additionalProperties"] = schema["additionalProperties"]
    return finished


def _is_required(rule: Json) -> bool:
    return "default" not in rule


def _shortened(value: Any) -> Any:  # noqa: ANN401  # any part of a schema
    """The two bounds of an int64 as its format, wherever they stand."""
    if isinstance(value, list):
        return [_shortened(each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {key: _shortened(each) for key, each in value.items()}
    if found.get("minimum") == limits.INT64_MIN and found.get("maximum") == limits.INT64_MAX:
        del found["minimum"], found["maximum"]
        found = {"type": found.pop("type"), "format": "int64", **found}
    return found


def _prose(text: str | None) -> str:
    """A docstring as one line for readers who do not have the papers behind it."""
    return re.sub(r"\s+", " ", _SOURCE_NOTE.sub("", text or "")).strip()
