"""Hostile bytes: whatever comes, the answer is a request or InvalidArgument, and both ways of
decoding agree."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import HealthCheck
from hypothesis import strategies as st

from mqlite_actor.contract import wire
from mqlite_actor.contract.calls import BY_REQUEST, CALLS, Call
from mqlite_actor.contract.decode import decode_leniently, decode_request
from mqlite_actor.contract.errors import InvalidArgument
from tests.fuzzing import fuzzed

SENDING = BY_REQUEST[wire.SendRequest]
calls = st.sampled_from([call for call in CALLS if call.reads_body])
SLOW = [HealthCheck.too_slow, HealthCheck.large_base_example]


def outcome(call: Call, body: bytes) -> object:
    """The request, or True for a refusal with a reason; whatever else is raised fails the test."""
    try:
        return decode_request(call, body)
    except InvalidArgument as refusal:
        return bool(refusal.message) or None


@fuzzed("requests", 150, unhealthy=SLOW, call=calls, body=st.binary(max_size=300))
def test_arbitrary_bytes_are_a_request_or_refused(call: Call, body: bytes) -> None:
    assert outcome(call, body)


fragments = st.sampled_from([
    "{", "}", "[", "]", ":", ",", '"queue"', '"messages"', '"body"', '"properties"', '"QUEUE"',
    '"q"', '"QQ=="', "null", "true", "0", "-0", "1e5", "9223372036854775808", '"\\ud800"', '"\\',
    " ", "\n", "\ufeff", '"lock_token"', '"config"', '"filter"', "NaN", '"\\u0000"', "\x00",
])  # fmt: skip


@fuzzed("requests", 150, unhealthy=SLOW, call=calls, parts=st.lists(fragments, max_size=40))
def test_pieces_of_json_are_a_request_or_refused(call: Call, parts: list[str]) -> None:
    assert outcome(call, "".join(parts).encode("utf-8", "surrogatepass"))


KEYS = [
    "queue", "messages", "Messages", "body", "properties", "ttl_ms", "seq_number", "lock_token",
    "name", "config", "kind", "filter", "expr", "message", "seq_numbers", "permissions", "id", "x",
]  # fmt: skip
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["QQ==", "QQ", "q"]),
)
documents = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.one_of(st.sampled_from(KEYS), st.text(max_size=4)), inner, max_size=5)
    ),
    max_leaves=20,
)


@fuzzed("requests", 150, unhealthy=SLOW, call=calls, document=documents)
def test_any_json_document_is_a_request_or_refused(call: Call, document: object) -> None:
    assert outcome(call, json.dumps(document).encode())


texts = st.text(max_size=6)
messages = st.builds(
    wire.Message,
    message_id=texts,
    group_id=texts,
    subject=texts,
    properties=st.dictionaries(texts, texts, max_size=3),
    body=st.binary(max_size=20),
    delivery_count=st.integers(-(2**63), 2**63 - 1),
)
sends = st.builds(
    wire.SendRequest,
    queue=texts,
    messages=st.lists(messages, max_size=3),
    ttl_ms=st.integers(-(2**63), 2**63 - 1),
)


@fuzzed("requests", 150, unhealthy=SLOW, request=sends)
def test_an_encoded_request_is_decoded_to_itself_by_either_way(request: wire.SendRequest) -> None:
    body = msgspec.json.encode(request)
    assert decode_request(SENDING, body) == request
    assert decode_leniently(wire.SendRequest, body) == request


@fuzzed("requests", 150, unhealthy=SLOW, request=sends, data=st.data())
def test_letter_case_and_nulls_change_nothing(
    request: wire.SendRequest, data: st.DataObject
) -> None:
    def written(document: object) -> object:
        if isinstance(document, list):
            return [written(item) for item in document]
        if not isinstance(document, dict):
            return document
        found = {}
        for key, value in document.items():
            spelled = data.draw(st.sampled_from([key, key.upper(), key.title()]))
            found[spelled] = value if key == "properties" else written(value)
        return found

    document = json.loads(msgspec.json.encode(request))
    document.setdefault("scheduled_enqueue_time_ms", None)
    assert decode_request(SENDING, json.dumps(written(document)).encode()) == request


@fuzzed("requests", 150, unhealthy=SLOW, call=calls, document=documents)
def test_both_ways_agree_on_what_the_strict_one_accepts(call: Call, document: object) -> None:
    body = json.dumps(document).encode()
    try:
        strict = call.decoder.decode(body)
    except msgspec.DecodeError:
        return
    assert decode_leniently(call.request, body) == strict


@pytest.mark.parametrize("size", [10, 1000, 100_000])
def test_a_long_refused_request_is_explained_shortly(size: int) -> None:
    body = json.dumps({"x" * size: 1}).encode()
    with pytest.raises(InvalidArgument) as refused:
        decode_request(SENDING, body)
    length = len(refused.value.message)
    assert length < 1000
