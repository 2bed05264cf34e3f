"""Frames: what was said arrives however it is cut, and nothing else gets through."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st

from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.calls import CALLS, Call
from mqlite_actor.contract.errors import InvalidArgument, MessageTooLarge, Unsupported
from mqlite_actor.engine import commands
from mqlite_actor.link import frames
from mqlite_actor.link.frames import (
    Ask,
    BadFrame,
    Begun,
    Cancel,
    Check,
    Frames,
    GiveBack,
    Hello,
    Item,
    Refusal,
    Reply,
)
from tests.fuzzing import fuzzed

LARGE = [wire.Message(body=bytes(500))]

numbers = st.integers(0, 2**63 - 1)
raw = st.binary(max_size=200).map(lambda data: msgspec.Raw(msgspec.msgpack.encode(data)))
leases = st.builds(wire.SettleItem, seq_number=numbers, lock_token=st.text(max_size=20))
upward = st.one_of(
    st.builds(Hello, version=st.text(max_size=10), revision=st.text(max_size=10)),
    st.builds(Ask, id=numbers, call=st.text(max_size=20), body=raw),
    st.builds(Cancel, id=numbers),
    st.builds(Begun, id=numbers),
    st.builds(Check, id=numbers, token=st.text(max_size=70)),
    st.builds(
        GiveBack,
        id=numbers,
        claim=numbers,
        queue=st.text(max_size=10),
        leases=st.lists(leases, max_size=3),
        is_counted=st.booleans(),
    ),
)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    """`data` cut at these places."""
    places = [0, *sorted({cut % (len(data) + 1) for cut in cuts}), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(places)]


def shown(item: Item) -> object:
    return msgspec.msgpack.encode(item)


@fuzzed(
    "link frames",
    200,
    batches=st.lists(st.lists(upward, min_size=1, max_size=20), max_size=5),
    cuts=st.lists(st.integers(0, 100_000), max_size=12),
)
def test_items_arrive_in_order_wherever_the_bytes_are_cut(
    batches: list[list[Item]], cuts: list[int]
) -> None:
    data = b"".join(frames.frame([frames.encoded(item) for item in batch]) for batch in batches)
    reader = Frames(is_upward=True)
    heard = [item for piece in pieces(data, cuts) for item in reader.feed(piece)]
    assert list(map(shown, heard)) == [shown(item) for batch in batches for item in batch]
    assert not reader.is_amid


@fuzzed(
    "link frames",
    200,
    data=st.binary(max_size=400),
    cuts=st.lists(st.integers(0, 400), max_size=5),
    reader=st.builds(Frames, is_upward=st.booleans()),
)
def test_arbitrary_bytes_are_items_or_a_bad_frame(
    data: bytes, cuts: list[int], reader: Frames
) -> None:
    with suppress(BadFrame):
        for piece in pieces(data, cuts):
            for item in reader.feed(piece):
                assert isinstance(item, Item)


@fuzzed(
    "link frames",
    200,
    payload=st.binary(max_size=120),
    reader=st.builds(Frames, is_upward=st.booleans()),
)
def test_a_frame_of_arbitrary_content_is_items_or_bad(payload: bytes, reader: Frames) -> None:
    with suppress(BadFrame):
        list(reader.feed(len(payload).to_bytes(4, "big") + payload))
        assert not reader.is_amid


@fuzzed(
    "link frames",
    200,
    call=st.sampled_from(CALLS),
    body=st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text() | st.binary(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=12,
    ),
)
def test_an_arbitrary_body_is_the_calls_request_or_refused(call: Call, body: object) -> None:
    ask = Ask(1, call.name, msgspec.Raw(msgspec.msgpack.encode(body)))
    with suppress(InvalidArgument):
        assert type(frames.decoded_request(ask)) is call.request


@pytest.mark.parametrize("size", [limits.LINK_ASK_BYTES_MAX + 1, 2**32 - 1])
def test_an_oversized_frame_is_refused_by_its_length_alone(size: int) -> None:
    reader = Frames(is_upward=True)
    with pytest.raises(BadFrame, match="the bound is"):
        list(reader.feed(size.to_bytes(4, "big")))


def test_half_a_frame_gives_nothing() -> None:
    reader = Frames(is_upward=True)
    data = frames.frame([frames.encoded(Cancel(7))])
    assert not list(reader.feed(data[:-1]))
    assert reader.is_amid
    assert list(reader.feed(data[-1:])) == [Cancel(7)]


@pytest.mark.parametrize("payload", [b"", b"\x90", b"\xc0", b"\x91\x91\x63", b"\x91\x92\x07\x01"])
def test_a_frame_without_items_is_bad(payload: bytes) -> None:
    with pytest.raises(BadFrame):
        list(Frames(is_upward=True).feed(len(payload).to_bytes(4, "big") + payload))


@pytest.mark.parametrize("item", [Reply(1, msgspec.Raw(b"\xc0")), Refusal(1, "internal", "x")])
def test_what_only_an_engine_says_is_bad_towards_it(item: Item) -> None:
    with pytest.raises(BadFrame):
        list(Frames(is_upward=True).feed(frames.frame([frames.encoded(item)])))


@pytest.mark.parametrize("item", [Cancel(1), Begun(1), Check(1, "mqk_")])
def test_what_only_a_caller_says_is_bad_towards_it(item: Item) -> None:
    with pytest.raises(BadFrame):
        list(Frames(is_upward=False).feed(frames.frame([frames.encoded(item)])))


@pytest.mark.parametrize("call", CALLS, ids=[call.name for call in CALLS])
def test_every_row_of_calls_crosses_as_its_own_struct(call: Call) -> None:
    request = call.request()
    (item,) = Frames(is_upward=True).feed(frames.frame([frames.encoded_ask(3, request)]))
    assert isinstance(item, Ask)
    assert item.call == call.name
    assert frames.decoded_request(item) == request
    assert type(frames.decoded_request(item)) is call.request


INTERNAL = [
    kind
    for _, kind in inspect.getmembers(commands, inspect.isclass)
    if issubclass(kind, msgspec.Struct) and kind not in {call.request for call in CALLS}
]


@pytest.mark.parametrize("kind", INTERNAL, ids=[kind.__name__ for kind in INTERNAL])
def test_no_command_of_the_engines_own_is_decoded(kind: type) -> None:
    body = msgspec.Raw(msgspec.msgpack.encode({"limit": 1}))
    for name in (kind.__name__, f"QueueService/{kind.__name__}", f"AdminService/{kind.__name__}"):
        if name in frames.BY_NAME:
            continue  # a row of CALLS that has the name of a command; it decodes to its own struct
        with pytest.raises(Unsupported):
            frames.decoded_request(Ask(1, name, body))


def test_no_command_of_the_engines_own_is_encoded() -> None:
    with pytest.raises(Unsupported):
        frames.encoded_ask(1, commands.Reap())  # type: ignore[arg-type]  # that is the point


def test_a_request_that_no_frame_can_hold_is_refused_before_it_is_sent() -> None:
    body = bytes(limits.LINK_ASK_BYTES_MAX // 2)
    request = wire.SendRequest(queue="q", messages=[wire.Message(body=body)] * 2)
    with pytest.raises(MessageTooLarge):
        frames.encoded_ask(1, request)


@pytest.mark.parametrize(
    "request_",
    [
        wire.StatsRequest(queue="\ud800"),
        wire.CancelRequest(queue="q", seq_number=2**70),
        wire.StatsRequest(queue=object()),  # type: ignore[arg-type]  # that is the point
    ],
)
def test_a_request_that_cannot_be_written_is_the_callers_mistake(
    request_: wire.Request[Any],
) -> None:
    with pytest.raises(InvalidArgument):
        frames.encoded_ask(1, request_)


def test_a_hello_of_another_contract_is_refused_with_both_versions() -> None:
    frames.check_hello(Hello("9.9", frames.revision()))
    with pytest.raises(BadFrame, match=r"'9\.9'.*one version on both"):
        frames.check_hello(Hello("9.9", "0123456789abcdef"))
    with pytest.raises(BadFrame, match="no hello"):
        frames.check_hello(Cancel(1))


def test_the_revision_is_of_the_fields_and_not_of_what_is_said_about_them() -> None:
    """Else a corrected sentence would part a program from its broker."""
    field = {"type": "integer", "description": "prose"}
    schema = {"description": "more of it", "required": ["a"], "properties": {"a": field}}
    assert frames._without_prose([schema]) == [
        {"required": ["a"], "properties": {"a": {"type": "integer"}}}
    ]


@pytest.mark.parametrize("number", [1, 15, 16, 17, 300])
def test_a_frame_of_any_number_of_items_is_read_as_it_was_written(number: int) -> None:
    items = [frames.encoded(frames.Begun(each)) for each in range(number)]
    reader = frames.Frames(is_upward=True)
    assert [*reader.feed(frames.frame(items))] == [frames.Begun(each) for each in range(number)]


@pytest.mark.parametrize(
    ("bound", "encoded", "item"),
    [
        ("LINK_ASK_BYTES_MAX", frames.encoded_ask, wire.SendRequest(messages=LARGE)),
        ("LINK_REPLY_BYTES_MAX", frames.encoded_reply, wire.MessagesResponse(messages=LARGE)),
    ],
    ids=["ask", "reply"],
)
def test_the_largest_item_fits_a_frame_and_one_byte_more_is_refused(
    monkeypatch: pytest.MonkeyPatch,
    bound: str,
    encoded: Callable[[int, Any], bytes],
    item: object,
) -> None:
    size = len(encoded(1, item))
    monkeypatch.setattr(limits, bound, size + frames._OVERHEAD)
    data = frames.frame([encoded(1, item)])
    is_upward = isinstance(item, wire.SendRequest)
    assert len([*frames.Frames(is_upward=is_upward).feed(data)]) == 1
    monkeypatch.setattr(limits, bound, size + frames._OVERHEAD - 1)
    with pytest.raises(MessageTooLarge):
        encoded(1, item)


def test_a_frame_of_exactly_the_bound_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    data = frames.frame([frames.encoded(frames.Begun(1))])
    bound = len(data) - frames.LENGTH_BYTES
    monkeypatch.setattr(limits, "LINK_ASK_BYTES_MAX", bound)
    assert len([*frames.Frames(is_upward=True).feed(data)]) == 1
    monkeypatch.setattr(limits, "LINK_ASK_BYTES_MAX", bound - 1)
    with pytest.raises(frames.BadFrame):
        next(frames.Frames(is_upward=True).feed(data))


@pytest.mark.parametrize(("attempt", "mode", "number"), [("", 0, 1), ("a", 0, 0), ("", 1, 0)])
def test_only_what_a_plain_claim_took_goes_back_with_its_link(
    attempt: str, mode: int, number: int
) -> None:
    request = wire.ReceiveRequest(queue="q", receive_attempt_id=attempt, receive_mode=mode)
    reply = wire.MessagesResponse(messages=[wire.Message(seq_number=1, lock_token="t")])
    assert len(frames.leases_of(request, reply)) == number
