"""Every integer of every request: int64 and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import inspect

from mqlite_actor.contract import limits
from mqlite_actor.contract.calls import CALLS, Call
from mqlite_actor.contract.decode import decode_request
from mqlite_actor.contract.errors import InvalidArgument

Path = tuple[str | int, ...]
"""Keys and indexes from the request down to a field."""


def integers(kind: inspect.Type, path: Path = ()) -> Iterator[Path]:
    """The way to each integer inside a type."""
    if isinstance(kind, inspect.IntType):
        yield path
    elif isinstance(kind, inspect.StructType):
        for field in kind.fields:
            yield from integers(field.type, (*path, field.encode_name))
    elif isinstance(kind, inspect.ListType):
        yield from integers(kind.item_type, (*path, 0))
    elif isinstance(kind, inspect.UnionType):
        for each in kind.types:
            yield from integers(each, path)


FIELDS = [
    (call, path)
    for call in CALLS
    if call.reads_body
    for path in integers(inspect.type_info(call.request))
]
each_field = pytest.mark.parametrize(
    ("call", "path"),
    FIELDS,
    ids=[f"{call.name.partition('/')[2]}.{'.'.join(map(str, path))}" for call, path in FIELDS],
)


def request_text(path: Path, number: str) -> bytes:
    """A request in which the field at `path` is written as `number`."""
    text = number
    for step in reversed(path):
        text = f"[{text}]" if isinstance(step, int) else f"{{{json.dumps(step)}:{text}}}"
    return text.encode()


def value_at(found: Any, path: Path) -> object:  # noqa: ANN401 - whatever a request holds
    for step in path:
        found = found[step] if isinstance(step, int) else getattr(found, step)
    return found


def refusal(call: Call, text: bytes) -> str:
    """Why a request is refused; "" if it is taken."""
    try:
        decode_request(call, text)
    except InvalidArgument as error:
        return str(error)
    return ""


def test_the_integers_of_all_calls_are_found() -> None:
    names = {path[-1] for _, path in FIELDS}
    assert {"seq_number", "delay_ms", "ttl_ms", "max", "wait_time_ms", "limit", 0} <= names
    assert len(FIELDS) > 50


@pytest.mark.promise("W23")
@each_field
def test_int64_is_accepted_to_its_ends_and_nothing_beyond(call: Call, path: Path) -> None:
    accepted = {
        str(limits.INT64_MAX): limits.INT64_MAX,
        str(limits.INT64_MIN): limits.INT64_MIN,
        "0": 0,
        "-0": 0,
        "-1": -1,
        "null": 0,
    }
    for number, value in accepted.items():
        request = decode_request(call, request_text(path, number))
        if number != "null" or path[-1] == 0:
            assert value_at(request, path) == value, number
    beyond = (str(limits.INT64_MAX + 1), str(limits.INT64_MIN - 1), str(2**64), "9" * 400)
    for number in beyond:
        with pytest.raises(InvalidArgument, match="int64"):
            decode_request(call, request_text(path, number))


NOT_WHOLE = ("1.0", "1e3", "1.5", "1E2", "-0.0", "1e400", '"1"', '""', "true", "[]", "[1]", "{}")


@pytest.mark.promise("W23")
@each_field
def test_what_is_no_whole_number_is_refused_by_the_name_of_the_field(
    call: Call, path: Path
) -> None:
    name = next(step for step in reversed(path) if isinstance(step, str))
    answers = {number: refusal(call, request_text(path, number)) for number in NOT_WHOLE}
    assert {number: text for number, text in answers.items() if name not in text} == {}


@pytest.mark.parametrize("number", ["01", "+1", "0x1", ".5", "1.", "1_0", "-", "--1", "1e", "٣"])
def test_what_is_no_number_is_no_json(number: str) -> None:
    call, path = FIELDS[0]
    with pytest.raises(InvalidArgument):
        decode_request(call, request_text(path, number))
