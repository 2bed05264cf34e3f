"""The OpenAPI description says what the broker does: every call, every code, nothing dangling."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mqlite_actor.contract import errors
from mqlite_actor.contract.calls import BY_REQUEST, CALLS, PREFIX, Call
from mqlite_actor.contract.wire import StatsRequest
from mqlite_broker import openapi
from tests.services.cli_process import ROOT, Shell

Json = dict[str, Any]


@pytest.fixture(scope="module")
def described() -> Json:
    return openapi.describe()


def references(value: object) -> Iterator[str]:
    """Every `$ref` in a part of the description."""
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for each in value.values():
            yield from references(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from references(each)


def codes(described: Json, call: Call) -> dict[int, set[str]]:
    """By status, the codes that the description of a call lists."""
    found = {}
    for status, answer in described["paths"][call.path]["post"]["responses"].items():
        if "$ref" in answer:
            name = answer["$ref"].removeprefix("#/components/responses/")
            content = described["components"]["responses"][name]["content"]["application/json"]
            found[int(status)] = set(content["schema"]["allOf"][1]["properties"]["code"]["enum"])
    return found


def test_every_call_is_described_and_refers_only_to_what_is_there(described: Json) -> None:
    assert list(described["paths"])[: len(CALLS)] == [call.path for call in CALLS]
    for reference in references(described):
        part = described
        for step in reference.removeprefix("#/").split("/"):
            part = part[step]
        assert part


def test_every_schema_and_answer_is_used(described: Json) -> None:
    used = set(references(described))
    for kind in ("schemas", "responses"):
        names = {f"#/components/{kind}/{name}" for name in described["components"][kind]}
        assert names <= used, names - used


def test_every_code_stands_under_its_status(described: Json) -> None:
    for call in CALLS:
        for status, words in codes(described, call).items():
            statuses = {errors.BY_CODE[word].http_status for word in words}
            assert statuses == {status} or (status, words) == (408, {"invalid_argument"})


def test_operations_have_names_of_their_own(described: Json) -> None:
    names = [each["operationId"] for path in described["paths"].values() for each in path.values()]
    assert len(set(names)) == len(names)


def test_every_call_of_the_contract_has_its_refusals_and_no_row_is_left_over() -> None:
    contract = {call.name for call in CALLS if call.path.startswith(PREFIX)}
    assert contract <= set(openapi.REFUSALS) <= {call.name for call in CALLS}


def test_fields_names_fields_that_exist(described: Json) -> None:
    schemas = described["components"]["schemas"]
    for name, fields in openapi.FIELDS.items():
        assert set(fields) <= set(schemas[name]["properties"]), name


def test_a_new_call_joins_by_itself_with_every_error_of_a_caller() -> None:
    stats = BY_REQUEST[StatsRequest]
    new = Call("QueueService/Imagine", stats.request, stats.response, stats.right, stats.doc)
    described = openapi.describe([*CALLS, new])
    assert described["paths"][new.path]["post"]["x-right"] == "listen"
    wanted = {
        error.code
        for error in errors.BY_CODE.values()
        if issubclass(error, errors.CallerError) and error is not errors.Unimplemented
    }
    assert wanted <= {code for words in codes(described, new).values() for code in words}


def test_texts_are_prose_for_users_on_one_line(described: Json) -> None:
    for schema in described["components"]["schemas"].values():
        assert schema["description"]
        assert not re.search(r"\n|spec/|ruling|design\.md", schema["description"])


def test_the_command_prints_what_the_reference_holds(tmp_path: Path) -> None:
    printed = Shell(tmp_path).ok("openapi")
    assert printed == (ROOT / "docs/reference/openapi.json").read_text("utf-8")
    assert msgspec.json.decode(printed)["openapi"] == "3.1.0"
    assert list(tmp_path.iterdir()) == []
