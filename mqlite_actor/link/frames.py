"""What travels on a link: items in frames, without any I/O.

Called by both ends (`server.py`, `client.py`); calls only the contract. A frame is four bytes of
length, big-endian, and a msgpack array of items; an item is an array whose first element is its
kind. A request is the struct of its CALLS row as it stands, and only rows of CALLS are ever decoded
(ruling R37). Whatever is wrong with a frame is `BadFrame`, and ends the link that it came on; what
is wrong with one request inside a good frame is that request's own refusal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from typing import Any, Final, TypeAlias, cast

import msgspec

from mqlite_actor.contract import limits, wire
from mqlite_actor.contract.calls import BY_REQUEST, CALLS, Call
from mqlite_actor.contract.errors import InvalidArgument, MessageTooLarge, Unsupported
from mqlite_actor.version import __version__

FORMAT: Final = 1
"""Counts up when an item changes its shape."""

LENGTH_BYTES: Final = 4

RECEIVE_AND_DELETE: Final = 1
"""The receive mode whose messages are gone once they are delivered (spec/wire.md 2.3)."""


class BadFrame(Exception):
    """The peer broke the rules of the link; the text says how, and holds nothing of its data."""


class Item(msgspec.Struct, frozen=True, array_like=True):
    """The common root; only its kinds travel."""


class Hello(Item, frozen=True, tag=0):
    """First item of both sides."""

    version: str
    revision: str


class Ask(Item, frozen=True, tag=1):
    """To the engine: run a request. `call` is the name of a CALLS row, `body` its struct."""

    id: int
    call: str
    body: msgspec.Raw


class Cancel(Item, frozen=True, tag=2):
    """To the engine: the caller left. Answered like every ask: `canceled`, or the outcome."""

    id: int


class Begun(Item, frozen=True, tag=3):
    """To the engine: the messages of this receive are about to reach their reader, so that from now
    on only their leases decide (ruling R42)."""

    id: int


class GiveBack(Item, frozen=True, tag=4):
    """To the engine: nobody got these messages, or (`is_counted`) nobody got them whole.

    `claim` is the ask that took them. Answered by an empty reply.
    """

    id: int
    claim: int
    queue: str
    leases: list[wire.SettleItem]
    is_counted: bool


class Check(Item, frozen=True, tag=5):
    """From a front-end process: what a managed key's token may do."""

    id: int
    token: str


class Probe(Item, frozen=True, tag=9):
    """From a front-end process: is there a reason to send no work?"""

    id: int


class Note(Item, frozen=True, tag=6):
    """From a front-end process: something for the process that started it, in their own words."""

    topic: str
    content: msgspec.Raw


class Reply(Item, frozen=True, tag=7):
    """From the engine: the response struct of an ask."""

    id: int
    body: msgspec.Raw


class Refusal(Item, frozen=True, tag=8):
    """From the engine: the error of an ask, in the wire's words."""

    id: int
    code: str
    message: str


Upward: TypeAlias = Hello | Ask | Cancel | Begun | GiveBack | Check | Note | Probe
Downward: TypeAlias = Hello | Reply | Refusal

BY_NAME: Final[dict[str, Call]] = {call.name: call for call in CALLS}

_encoder: Final = msgspec.msgpack.Encoder()
_upward: Final = msgspec.msgpack.Decoder(list[Upward])
_downward: Final = msgspec.msgpack.Decoder(list[Downward])


# -- items -----------------------------------------------------------------------------------------


def encoded(item: Item) -> bytes:
    """An item as bytes."""
    return _encoder.encode(item)


def encoded_ask(number: int, request: wire.Request[Any]) -> bytes:
    """An `Ask`, written in one pass. InvalidArgument for what no struct of the contract can hold,
    MessageTooLarge for what no frame can, Unsupported for a request without a CALLS row."""
    call = BY_REQUEST.get(type(request))
    if call is None:
        raise Unsupported(f"{type(request).__name__} is no request of the contract")
    try:
        item = _encoder.encode((1, number, call.name, request))
    except (UnicodeEncodeError, OverflowError, TypeError, ValueError) as error:
        raise InvalidArgument(f"the request cannot be encoded: {error}") from error
    if len(item) > limits.LINK_ASK_BYTES_MAX - _OVERHEAD:
        raise MessageTooLarge(f"the request is over {limits.REQUEST_BYTES_MAX} bytes; split it")
    return item


def encoded_reply(number: int, reply: object) -> bytes:
    """A `Reply`, written in one pass. MessageTooLarge for what no frame can hold."""
    item = _encoder.encode((7, number, reply))
    if len(item) > limits.LINK_REPLY_BYTES_MAX - _OVERHEAD:
        raise MessageTooLarge(
            f"the reply would have {len(item)} bytes, over the {limits.LINK_REPLY_BYTES_MAX} of a"
            " link; ask for less, or in the process that has the store open"
        )
    return item


def decoded_request(ask: Ask) -> wire.Request[Any]:
    """The request that an ask holds. Unsupported for an unknown name, InvalidArgument for a body
    that is not that call's."""
    call = BY_NAME.get(ask.call)
    if call is None:
        raise Unsupported("no such path: the engine of this link does not know this call")
    try:
        return cast("wire.Request[Any]", _request_decoder(ask.call).decode(ask.body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidArgument(f"{ask.call}: {error}") from error


def decoded_reply(request: wire.Request[Any], body: msgspec.Raw) -> object:
    """The response that a reply holds; BadFrame if it is not that call's."""
    try:
        return _response_decoder(BY_REQUEST[type(request)].name).decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadFrame(f"a reply that is not the call's: {error}") from error


@cache
def _request_decoder(name: str) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(BY_NAME[name].request)


@cache
def _response_decoder(name: str) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(BY_NAME[name].response)


def leases_of(request: object, reply: object) -> list[wire.SettleItem]:
    """What of a reply has to be confirmed, and goes back otherwise: the leases of a plain receive.

    A claim under an attempt id belongs to whoever repeats the id, and removed messages are gone.
    """
    if not isinstance(request, wire.ReceiveRequest) or not isinstance(reply, wire.MessagesResponse):
        return []
    if request.receive_attempt_id or request.receive_mode == RECEIVE_AND_DELETE:
        return []
    return [
        wire.SettleItem(seq_number=message.seq_number, lock_token=message.lock_token)
        for message in reply.messages
    ]


# -- frames ----------------------------------------------------------------------------------------

_OVERHEAD: Final = 3
"""Array header of a frame, at its longest."""


def frame(items: list[bytes]) -> bytes:
    """One frame of encoded items."""
    number = len(items)
    assert 0 < number <= limits.LINK_ITEMS_MAX
    head = bytes((0x90 | number,)) if number < 16 else b"\xdc" + number.to_bytes(2, "big")
    size = len(head) + sum(map(len, items))
    return b"".join((size.to_bytes(LENGTH_BYTES, "big"), head, *items))


class Frames:
    """Received bytes to items. `is_upward`: the bytes come from a caller, not from an engine.

    Keeps at most one incomplete frame of `bytes_max`. After a BadFrame it must not be fed again.
    """

    __slots__ = ("_buffer", "_bytes_max", "_decoder")

    def __init__(self, *, is_upward: bool) -> None:
        self._decoder: msgspec.msgpack.Decoder[Any] = _upward if is_upward else _downward
        self._bytes_max = limits.LINK_ASK_BYTES_MAX if is_upward else limits.LINK_REPLY_BYTES_MAX
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Item]:
        """The items that are complete now, in order. BadFrame as soon as a length is over the bound
        or a frame is not what it should be; items in front of it were given out."""
        buffer = self._buffer
        buffer += data
        start = 0
        try:
            while len(buffer) - start >= LENGTH_BYTES:
                size = int.from_bytes(buffer[start : start + LENGTH_BYTES], "big")
                if size > self._bytes_max:
                    raise BadFrame(f"a frame of {size} bytes; the bound is {self._bytes_max}")
                end = start + LENGTH_BYTES + size
                if len(buffer) < end:
                    return
                payload = bytes(memoryview(buffer)[start + LENGTH_BYTES : end])
                start = end
                yield from self._items(payload)
        finally:
            del buffer[:start]

    @property
    def is_amid(self) -> bool:
        """Whether a frame has begun and not ended."""
        return bool(self._buffer)

    def _items(self, payload: bytes) -> list[Item]:
        try:
            items = self._decoder.decode(payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadFrame(f"a frame that is not a list of items: {error}") from error
        if not items:
            raise BadFrame("an empty frame")
        return cast("list[Item]", items)


# -- the hello -------------------------------------------------------------------------------------


@cache
def revision() -> str:
    """A digest of every call and struct of the contract, and of the items' own format: two sides
    that agree in it read each other's structs alike."""
    kinds = [kind for call in CALLS for kind in (call.request, call.response)]
    _, components = msgspec.json.schema_components(kinds)
    shape = {name: _without_prose(schema) for name, schema in components.items()}
    names = [call.name for call in CALLS]
    text = msgspec.json.encode((FORMAT, names, shape), order="sorted")
    return hashlib.sha256(text).hexdigest()[:16]


def _without_prose(schema: Any) -> Any:  # noqa: ANN401  # a JSON schema: anything
    if isinstance(schema, dict):
        return {k: _without_prose(v) for k, v in schema.items() if k != "description"}
    return [_without_prose(each) for each in schema] if isinstance(schema, list) else schema


def hello() -> bytes:
    """This side's first item."""
    return encoded(Hello(__version__, revision()))


def check_hello(item: Item) -> None:
    """BadFrame, in words for a person, unless the other side speaks the same contract."""
    if not isinstance(item, Hello):
        raise BadFrame("no hello; is this the link socket of an mqlite broker?")
    if item.revision != revision():
        raise BadFrame(
            f"the other side is mqlite-actor {item.version[:40]!r} with another contract, this side"
            f" {__version__!r}; use one version on both"
        )
