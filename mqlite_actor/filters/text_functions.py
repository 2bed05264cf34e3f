"""String functions.

Called through functions.py with any values: one that is no string is a type error here, whatever
the checker knew. Positions and slices count bytes, lengths and splitting by "" count code points.
What writes a string pays for its length before it is made.
"""

from __future__ import annotations

import base64
import re
from functools import cache
from typing import Final

from mqlite_actor.filters.faults import FilterFailed
from mqlite_actor.filters.lexer import WHITE
from mqlite_actor.filters.run import ELEMENTS_MAX, Run
from mqlite_actor.filters.utf8 import octets, pieces, points, repaired
from mqlite_actor.filters.values import (
    NIL_STRINGS,
    NilStrings,
    Strings,
    Value,
    index_of,
    word,
)

_BASE64: Final = re.compile(rb"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")


def _strings(name: str, *values: Value) -> None:
    for value in values:
        if type(value) is not bytes:
            raise FilterFailed("type", f"{name} takes strings, not {word(value)}")


@cache
def _growing() -> re.Pattern[str]:
    """The code points that Python changes into several; all lie in the first plane."""
    points = map(chr, range(0x80, 0x10000))
    return re.compile(f"([{''.join(p for p in points if len(p.upper() + p.lower()) > 2)}])")


def _upper_point(point: str) -> str:
    """A growing code point in upper case: the one of titles, or itself where there is none."""
    return point.title() if len(point.title()) == 1 else point


def upper(run: Run, text: Value) -> bytes:
    """Code point by code point."""
    _strings("upper", text)
    run.write(len(text))
    if text.isascii():
        return bytes(text.upper())
    run.write(len(text))
    parts = _growing().split(repaired(text).decode())
    parts[::2] = [part.upper() for part in parts[::2]]
    parts[1::2] = map(_upper_point, parts[1::2])
    return "".join(parts).encode()


def lower(run: Run, text: Value) -> bytes:
    """Code point by code point, so that a sigma is never final."""
    _strings("lower", text)
    run.write(len(text))
    if text.isascii():
        return bytes(text.lower())
    run.write(len(text))
    parts = _growing().split(repaired(text).decode().replace("Σ", "σ"))
    parts[::2] = [part.lower() for part in parts[::2]]
    parts[1::2] = [point.lower()[0] for point in parts[1::2]]
    return "".join(parts).encode()


def trim(run: Run, text: Value, cutset: Value = None) -> bytes:
    """Without white space, or any of the cutset's code points, at both ends."""
    _strings("trim", text)
    run.write(len(text))
    if cutset is None:
        return octets(points(text).strip(WHITE))
    return octets(points(text).strip(points(cutset))) if cutset else bytes(text)


def trimmed(run: Run, text: Value, cutset: Value) -> bytes:
    """trim with a cutset, which must be a string."""
    _strings("trim", cutset)
    return trim(run, text, cutset)


def trim_prefix(run: Run, text: Value, prefix: Value = b" ") -> bytes:
    """Once."""
    _strings("trimPrefix", text, prefix)
    run.scan(len(text))
    return bytes(text.removeprefix(prefix))


def trim_suffix(run: Run, text: Value, suffix: Value = b" ") -> bytes:
    """Once."""
    _strings("trimSuffix", text, suffix)
    run.scan(len(text))
    return bytes(text.removesuffix(suffix))


def split(run: Run, text: Value, separator: Value, most: Value = -1) -> Strings:
    """At most `most` parts, none at all for 0, all for less."""
    return _split(run, "split", text, separator, most)


def split_after(run: Run, text: Value, separator: Value, most: Value = -1) -> Strings:
    """The same with the separator left at the end of each part."""
    parts = _split(run, "splitAfter", text, separator, most)
    if type(parts) is NilStrings:
        return parts
    return Strings([*(part + separator for part in parts[:-1]), *parts[-1:]])


def _split(run: Run, name: str, text: Value, separator: Value, most: Value) -> Strings:
    _strings(name, text, separator)
    limit = index_of(most, f"the limit of {name}")
    if limit == 0:
        return NIL_STRINGS
    if separator:
        cuts = text.count(separator) if limit < 0 else min(limit - 1, text.count(separator))
        run.spend(cuts + (len(text) >> 6) + 1)
        return Strings(text.split(separator, cuts))
    run.spend(len(text) + 1)
    parts = pieces(text)
    if 0 < limit < len(parts):
        parts[limit - 1 :] = [b"".join(parts[limit - 1 :])]
    return Strings(parts)


def replace(run: Run, text: Value, old: Value, new: Value, most: Value = -1) -> bytes:
    """All, or the first `most`; an empty `old` is found before each code point and at the end."""
    _strings("replace", text, old, new)
    limit = index_of(most, "the limit of replace")
    if limit == 0 or old == new:
        return bytes(text)
    if old:
        found = text.count(old)
        count = found if limit < 0 else min(limit, found)
        run.write(len(text) + count * len(new))
        return bytes(text.replace(old, new, count)) if count else bytes(text)
    run.spend(len(text) + 1)
    parts = [*pieces(text), b""]
    count = len(parts) if limit < 0 else min(limit, len(parts))
    run.write(len(text) + count * len(new))
    return b"".join(new + part if at < count else part for at, part in enumerate(parts))


def repeat(run: Run, text: Value, times: Value) -> bytes:
    """`text` so many times; the bytes count as memory."""
    _strings("repeat", text)
    count = index_of(times, "the count of repeat")
    if count < 0:
        raise FilterFailed("value", "repeat: the count is negative")
    if count > ELEMENTS_MAX:
        raise FilterFailed("budget", f"repeat: more than {ELEMENTS_MAX:,} times")
    run.make(count * len(text))
    return bytes(text * count)


def join(run: Run, parts: Value, separator: Value = b"") -> bytes:
    """A list of strings as one."""
    if type(parts) not in (list, Strings, NilStrings):
        raise FilterFailed("type", f"join takes a list of strings, not {word(parts)}")
    _strings("join", separator)
    run.spend(len(parts))
    _strings("join", *parts)
    run.write(sum(map(len, parts)) + len(separator) * len(parts))
    return bytes(separator.join(parts))


def index(run: Run, text: Value, part: Value) -> int:
    """The byte where the part first begins, -1 if nowhere."""
    _strings("indexOf", text, part)
    run.scan(2 * len(text))
    return int(text.find(part))


def last_index(run: Run, text: Value, part: Value) -> int:
    """The byte where it last begins.

    Searches the reversed text forward: CPython's search from the end takes the product of both
    lengths at worst, the one from the start their sum.
    """
    _strings("lastIndexOf", text, part)
    run.scan(4 * len(text))
    found = text[::-1].find(part[::-1])
    return int(found if found < 0 else len(text) - found - len(part))


def has_prefix(run: Run, text: Value, prefix: Value) -> bool:
    """hasPrefix: unlike the operator it refuses nil."""
    _strings("hasPrefix", text, prefix)
    run.scan(len(prefix))
    return bool(text.startswith(prefix))


def has_suffix(run: Run, text: Value, suffix: Value) -> bool:
    """hasSuffix."""
    _strings("hasSuffix", text, suffix)
    run.scan(len(suffix))
    return bool(text.endswith(suffix))


def to_base64(run: Run, text: Value) -> bytes:
    """Standard alphabet, padded."""
    _strings("toBase64", text)
    run.write(2 * len(text))
    return base64.b64encode(text)


def from_base64(run: Run, text: Value) -> bytes:
    """Line ends are skipped; anything else that is not exact is an error."""
    _strings("fromBase64", text)
    run.spend(len(text) >> 3)
    plain = text.replace(b"\r", b"").replace(b"\n", b"")
    if not _BASE64.fullmatch(plain):
        raise FilterFailed("value", "fromBase64: the text is not base64")
    return base64.b64decode(plain)
