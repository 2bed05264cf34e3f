"""Which requests the lane takes: one narrow grammar for a header block, and nothing beside it.

Called by `lane_connection.py` with the bytes up to the first empty line. Pure. What matches means
the same to h11, field by field; whatever does not match goes to the door with its bytes, so this
page never refuses and never repairs anything. It is deliberately no second HTTP parser: no folded
lines, no bare line feeds, no lists of lengths, nothing that two readers could read in two ways.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from mqlite_actor.contract.limits import KIB, REQUEST_BYTES_MAX
from mqlite_broker.rpc import Question

HEAD_END: Final = b"\r\n\r\n"

HEAD_BYTES_MAX: Final = 8 * KIB
"""A longer block is somebody's cookies; the door takes up to 1 MiB."""

PREFIXES: Final = (b"/mqlite.v1.", b"/mqlite.ext.v1.")
"""Paths of calls."""

_BEGINNING: Final = b"POST /mqlite."

_LINE: Final = re.compile(rb"POST (/mqlite\.(?:ext\.)?v1\.[A-Za-z0-9._/-]*) HTTP/1\.1")
_FIELD: Final = re.compile(
    # h11's own, but for control characters, which it lets through inside a value.
    rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*"
    rb"([\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?[ \t]*"
)
_LENGTH: Final = re.compile(rb"[0-9]{1,9}")

_SPLIT: Final = re.compile(rb"(\r\n[Cc]ontent-[Ll]ength: ?)([0-9]{1,8})(?=\r\n)")
"""The length in its two usual spellings; the only part of a client's block that changes."""

PLANS_MAX: Final = 512
"""Blocks whose meaning is remembered."""

PLAN_BYTES_MAX: Final = 1024
"""Longer blocks are read each time, so all that are remembered hold about a mebibyte in all."""

_ODD: Final = frozenset({b"transfer-encoding", b"expect", b"upgrade", b"trailer", b"te"})
"""Fields that ask for more than an answer."""

_ONCE: Final = frozenset({b"host", b"content-length", b"connection", b"origin", b"idempotency-key"})

_CONNECTION: Final = {b"": False, b"keep-alive": False, b"close": True}


class Plan(msgspec.Struct, frozen=True):
    """A request of the lane. `length`: of its body; `is_last`: the client wants no other."""

    question: Question
    length: int
    is_last: bool


class Plans:
    """`plan` with a memory: clients repeat their blocks, but for the length.

    What is remembered is what `plan` found, under the block without the digits of its length; a
    block whose length is not where it was found is read anew.
    """

    __slots__ = ("_known", "_same")

    def __init__(self) -> None:
        self._known: dict[bytes, Plan] = {}
        self._same: dict[bytes, Plan] = {}  # by whole blocks: many clients repeat even the length

    def of(self, head: bytes) -> Plan | None:
        """What a block asks; None if the door has to read it."""
        same = self._same.get(head)
        if same is not None:
            return same
        found = _SPLIT.search(head)
        if found is None or len(head) > PLAN_BYTES_MAX:
            return plan(head)
        key = head[: found.end(1)] + head[found.end() :]
        length = int(found[2])
        known = self._known.get(key)
        if known is None:
            known = plan(head)
            if known is None or known.question.idempotency_key:  # no two blocks alike
                return known
            if len(self._known) >= PLANS_MAX:
                self._known.clear()
            self._known[key] = known
        if length > REQUEST_BYTES_MAX:
            return None
        if len(self._same) >= PLANS_MAX:
            self._same.clear()
        made = self._same[head] = Plan(known.question, length, known.is_last)
        return made


def may_become_ours(beginning: bytes) -> bool:
    """Whether a block that has begun like this could still be one of the lane's."""
    if len(beginning) > HEAD_BYTES_MAX:
        return False
    if beginning.count(b"\n") != beginning.count(b"\r\n"):
        return False  # to h11 a bare line feed ends a line, and perhaps the block
    return beginning.startswith(_BEGINNING) or _BEGINNING.startswith(beginning)


def plan(head: bytes) -> Plan | None:
    """What `head`, a block with its empty line, asks; None if the door has to read it."""
    if len(head) > HEAD_BYTES_MAX:
        return None
    first, *lines = head[: -len(HEAD_END)].split(b"\r\n")
    line = _LINE.fullmatch(first)
    if line is None:
        return None
    once: dict[bytes, bytes] = {}
    credentials: list[str] = []
    for each in lines:
        field = _FIELD.fullmatch(each)
        if field is None:
            return None
        name, value = field[1].lower(), field[2] or b""
        if name in _ODD or name in once:
            return None
        if name in _ONCE:
            once[name] = value
        elif name == b"authorization":
            credentials.append(value.decode("latin-1"))
    return _planned(line[1], once, tuple(credentials))


def _planned(path: bytes, once: dict[bytes, bytes], credentials: tuple[str, ...]) -> Plan | None:
    host = once.get(b"host", b"")
    length = once.get(b"content-length", b"")
    is_last = _CONNECTION.get(once.get(b"connection", b"").lower())
    if not host or is_last is None or not _LENGTH.fullmatch(length):
        return None
    if int(length) > REQUEST_BYTES_MAX:
        return None
    question = Question(
        method="POST",
        path=path.decode("ascii"),
        credentials=credentials,
        host=host.decode("latin-1"),
        origin=once.get(b"origin", b"").decode("latin-1"),
        idempotency_key=once.get(b"idempotency-key", b"").decode("latin-1"),
    )
    return Plan(question, int(length), is_last)
