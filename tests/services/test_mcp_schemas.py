"""Guards against drift between tools, schemas and the contract (spec/tools.md 3.5)."""

from __future__ import annotations

from typing import Any

import pytest

from mqlite_actor.contract import ext, keys, observe, wire
from mqlite_actor.contract.calls import BY_REQUEST, CONTRACT
from mqlite_actor.contract.errors import BY_CODE, InvalidArgument
from mqlite_mcp.answers import MENDS
from mqlite_mcp.tools import TOOLS, Tool
from mqlite_mcp.tools_extended import EXTENDED

ALL = TOOLS + EXTENDED
BY_NAME = {tool.name: tool for tool in ALL}

FIELDS: dict[type[wire.Request[Any]], str] = {
    wire.ListQueuesRequest: "",
    wire.CreateQueueRequest: "name config",
    wire.SendRequest: "queue messages scheduled_enqueue_time_ms ttl_ms",
    wire.ReceiveRequest: "queue max_messages wait_time_ms receive_mode receive_attempt_id",
    wire.ReceiveDeferredRequest: "queue seq_numbers",
    wire.PeekRequest: "queue from_seq state max",
    wire.StatsRequest: "queue",
    wire.RedriveRequest: "queue target max older_than_ms rate_per_sec",
    wire.PurgeRequest: "queue max older_than_ms",
    observe.ObserveRequest: "",
    keys.CreateKeyRequest: "id name permissions expires_at_ms",
    keys.ListKeysRequest: "after_id limit sort token_sha256",
    keys.RevokeKeyRequest: "id",
    wire.CancelRequest: "queue seq_number",
    wire.SubscribeRequest: "topic name filter",
    wire.TestFilterRequest: "expr message",
    wire.StatusRequest: "",
    wire.ListSubscriptionsRequest: "",
    wire.DeleteQueueRequest: "name generation",
    ext.ReleaseRequest: "queue messages receive_attempt_id",
    ext.ExplainRequest: "queue seq_number",
    ext.SearchRequest: "queue state message_id group_id correlation_id subject properties body_text"
    " from_seq to_seq enqueued_from_ms enqueued_before_ms include_bodies max page_token"
    " dead_letter_reason filter newest_first",
    ext.DescribeQueueRequest: "name",
    ext.UpdateQueueRequest: "name config generation create",
    ext.RedriveSelectedRequest: "queue seq_numbers target",
}
"""Request → its fields when the tools were written; the settling ones share SETTLE."""

SETTLE = "queue seq_number lock_token dead_letter_reason dead_letter_description delay_ms"

SPECIFIED = {
    "list_queues": ("", ""),
    "create_queue": ("name", ""),
    "send": ("queue body", "message_id group_id"),
    "receive": ("queue", "max_messages wait_time_ms"),
    "complete": ("queue seq_number lock_token", ""),
    "abandon": ("queue seq_number lock_token", "delay_ms"),
    "renew": ("queue seq_number lock_token", ""),
    "defer": ("queue seq_number lock_token", ""),
    "receive_deferred": ("queue seq_numbers", ""),
    "reject": ("queue seq_number lock_token", "reason"),
    "peek": ("queue", "state max"),
    "stats": ("queue", ""),
    "redrive": ("queue", "max"),
    "purge": ("queue", "max"),
    "observe": ("", "queues sections"),
    "create_key": ("id name permissions", "expires_at_ms"),
    "list_keys": ("", "after_id limit"),
    "revoke_key": ("id", ""),
}
"""Tool → required and optional arguments, as specified (with the wire's words, ruling R18)."""


def example(schema: dict[str, Any], turn: int) -> Any:  # noqa: ANN401 - any JSON
    """A value that fits a schema; another one for another turn."""
    if "enum" in schema:
        return schema["enum"][turn]
    if "pattern" in schema:
        return f"{turn + 1:032x}"
    kind = schema["type"]
    if kind == "array":
        return [example(schema["items"], turn)]
    if kind == "object":
        if "properties" in schema:
            (name, part), *_ = schema["properties"].items()
            return {name: example(part, turn)}
        return {"key": f"value {turn}"}
    return {"string": f"text {turn}", "integer": turn + 2, "boolean": turn == 1}[kind]


def examples(tool: Tool) -> dict[str, Any]:
    return {name: example(part, 0) for name, part in tool.arguments.schema["properties"].items()}


def test_arguments_are_those_of_the_specification() -> None:
    found = {
        tool.name: (
            set(tool.arguments.required),
            set(tool.arguments.schema["properties"]) - set(tool.arguments.required),
        )
        for tool in TOOLS
    }
    assert found == {
        name: (set(required.split()), set(optional.split()))
        for name, (required, optional) in SPECIFIED.items()
    }


@pytest.mark.parametrize("name", BY_NAME)
def test_required_names_are_properties_and_are_listed_only_when_there_are_any(name: str) -> None:
    schema = BY_NAME[name].arguments.schema
    assert schema["type"] == "object"
    assert "'required': []" not in str(schema)
    assert set(schema.get("required", [])) <= set(schema["properties"])
    assert all(part["description"] for part in schema["properties"].values())
    assert "$ref" not in str(schema)


@pytest.mark.promise("T81")
@pytest.mark.parametrize("name", [name for name in BY_NAME if name != "observe"])
def test_every_argument_changes_the_request_that_is_made(name: str) -> None:
    tool = BY_NAME[name]
    given = examples(tool)
    usual = tool.request_of(tool.check(given))
    for argument, part in tool.arguments.schema["properties"].items():
        other = {**given, argument: example(part, 1)}
        assert tool.request_of(tool.check(other)) != usual, argument


def test_every_tool_makes_the_request_of_a_served_call() -> None:
    for tool in ALL:
        request = tool.request_of(tool.check(examples(tool)))
        assert type(request) is tool.request
        assert tool.request in BY_REQUEST
    assert {BY_REQUEST[tool.request] for tool in TOOLS} <= set(CONTRACT)


def test_the_fields_of_every_forwarded_request_are_known() -> None:
    for tool in ALL:
        known = SETTLE if issubclass(tool.request, wire.SettleRequest) else None
        fields = known or FIELDS.get(tool.request, FIELDS.get(tool.request.__bases__[0], "?"))
        assert " ".join(tool.request.__struct_fields__) == fields, tool.name


def test_hints_say_what_reads_what_destroys_and_what_may_be_repeated() -> None:
    hints = {tool.name: tool.hints for tool in TOOLS}
    assert {name for name, hint in hints.items() if hint.read_only_hint} == {
        "list_queues", "peek", "stats", "observe", "list_keys"
    }  # fmt: skip
    assert {name for name, hint in hints.items() if hint.destructive_hint} == {
        "create_queue", "purge", "reject", "revoke_key"
    }  # fmt: skip
    assert {name for name, hint in hints.items() if hint.idempotent_hint} == {
        "complete", "renew", "create_queue", "revoke_key"
    }  # fmt: skip


def test_mends_belong_to_codes_of_the_contract() -> None:
    assert set(MENDS) <= set(BY_CODE)


@pytest.mark.promise("T83")
@pytest.mark.parametrize("name", BY_NAME)
def test_wrong_missing_and_unknown_arguments_are_refused_by_name(name: str) -> None:
    tool = BY_NAME[name]
    given = examples(tool)
    wrong: dict[str, Any] = {"string": 1, "integer": "1", "array": "x", "object": [], "boolean": 1}
    for argument, part in tool.arguments.schema["properties"].items():
        value = wrong[part.get("type", "string")]
        for bad in (value, None):
            with pytest.raises(InvalidArgument, match=f"^{argument}"):
                tool.check({**given, argument: bad})
    for argument in tool.arguments.required:
        with pytest.raises(InvalidArgument, match=rf"{argument}.*: missing"):
            tool.check({key: value for key, value in given.items() if key != argument})
    with pytest.raises(InvalidArgument, match="unknown argument"):
        tool.check({**given, "surplus": 1})


@pytest.mark.parametrize("number", [True, 1.5, 2**63, -(2**63) - 1, "1", 1.0])
def test_only_integers_of_the_wire_are_numbers(number: object) -> None:
    with pytest.raises(InvalidArgument, match=r"^seq_number: "):
        BY_NAME["complete"].check({"queue": "q", "seq_number": number, "lock_token": "x"})
