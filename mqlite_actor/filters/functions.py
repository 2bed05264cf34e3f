"""The table of all functions that are no loops: name → what runs.

Read by code_calls.py. Every entry takes the run and the arguments, of any type. Their static side
is signatures.py, and a test holds that both have the same names.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from mqlite_actor.filters import (
    date_reading,
    instants,
    json_text,
    list_functions,
    number_functions,
    spans,
    text_functions,
    text_of,
)
from mqlite_actor.filters.faults import FilterFailed
from mqlite_actor.filters.instants import Instant, Location
from mqlite_actor.filters.run import Run
from mqlite_actor.filters.utf8 import points
from mqlite_actor.filters.values import Value, word

Function = Callable[..., Value]

_TEXT_MAX: Final = 4096
"""Longest text and layout of a date."""


_DATE_STEPS: Final = 200
"""What reading a date costs: some 40 µs without a layout, when all seven are tried."""

_CHARACTER_STEPS: Final = 4
"""What a character of a text or layout costs where it is read one by one."""


def _free(work: Callable[..., Value]) -> Function:
    """A function that costs nothing worth counting."""
    return lambda run, *args: work(*args)


def _now(run: Run, location: Value = None) -> Instant:
    moment = run.facts.now
    if location is None:
        return moment
    if type(location) is not Location:
        raise FilterFailed("type", f"now takes a location, not {word(location)}")
    return moment.at(location)


def _string(name: str, value: Value) -> str:
    if type(value) is not bytes:
        raise FilterFailed("type", f"{name} takes strings, not {word(value)}")
    if len(value) > _TEXT_MAX:
        raise FilterFailed("value", f"{name}: the text is too long")
    return points(value)


def _timezone(run: Run, name: Value) -> Location:
    run.spend(_DATE_STEPS)
    return instants.timezone(_string("timezone", name))


def _date(run: Run, *args: Value) -> Instant:
    """date([location,] text [, layout [, zone]])."""
    location = instants.UTC
    if args and type(args[0]) is Location:
        location, args = args[0], args[1:]
    if not args:
        raise FilterFailed("type", "date needs a text")
    words = [_string("date", arg) for arg in args]
    run.spend(_DATE_STEPS + _CHARACTER_STEPS * sum(map(len, words)))
    if len(words) == 1:
        return date_reading.read_default(words[0], location)
    if len(words) > 2:
        location = instants.timezone(words[2])
    return date_reading.read(words[0], words[1], location)


def _duration(run: Run, value: Value) -> Value:
    if type(value) is not bytes:
        raise FilterFailed("type", f"duration takes a string, not {word(value)}")
    if len(value) > _TEXT_MAX:
        raise FilterFailed("value", "duration: the text is too long")
    run.spend(_CHARACTER_STEPS * len(value))
    return spans.parse(value)


def _type(value: Value) -> bytes:
    return word(value).encode()


def _trim(run: Run, value: Value, *cutset: Value) -> Value:
    work = text_functions.trimmed if cutset else text_functions.trim
    return work(run, value, *cutset)


FUNCTIONS: Final[dict[str, Function]] = {
    "len": list_functions.len_of,
    "type": _free(_type),
    "abs": _free(number_functions.absolute),
    **{name: _free(work) for name, work in number_functions.ROUNDINGS.items()},
    "int": _free(number_functions.to_int),
    "float": _free(number_functions.to_float),
    "string": text_of.string,
    "upper": text_functions.upper,
    "lower": text_functions.lower,
    "trim": _trim,
    "trimPrefix": text_functions.trim_prefix,
    "trimSuffix": text_functions.trim_suffix,
    "split": text_functions.split,
    "splitAfter": text_functions.split_after,
    "replace": text_functions.replace,
    "repeat": text_functions.repeat,
    "join": text_functions.join,
    "indexOf": text_functions.index,
    "lastIndexOf": text_functions.last_index,
    "hasPrefix": text_functions.has_prefix,
    "hasSuffix": text_functions.has_suffix,
    "toBase64": text_functions.to_base64,
    "fromBase64": text_functions.from_base64,
    "toJSON": text_of.to_json,
    "fromJSON": json_text.from_json,
    **{
        name: _free(number_functions.bits(name))
        for name in ("bitand", "bitor", "bitxor", "bitnand", "bitshl", "bitshr", "bitushr")
    },
    "bitnot": _free(number_functions.inverted),
    "max": partial(number_functions.extreme, "max"),
    "min": partial(number_functions.extreme, "min"),
    "mean": number_functions.mean,
    "median": number_functions.median,
    "now": _now,
    "timezone": _timezone,
    "date": _date,
    "first": _free(list_functions.first),
    "last": _free(list_functions.last),
    "get": _free(list_functions.get),
    "take": list_functions.take,
    "keys": list_functions.keys,
    "values": list_functions.values,
    "toPairs": list_functions.to_pairs,
    "fromPairs": list_functions.from_pairs,
    "reverse": list_functions.reverse,
    "concat": list_functions.concat,
    "flatten": list_functions.flatten,
    "uniq": list_functions.uniq,
    "sort": list_functions.sort,
    **{name: _free(spans.counted(unit)) for name, unit in spans.COUNTED.items()},
    "duration": _duration,
}
"""Name → function of a run and the arguments."""

HEAVY: Final = frozenset({
    "repeat", "uniq", "flatten", "sort", "concat", "reverse", "toJSON", "fromJSON", "replace",
})  # fmt: skip
"""Functions whose work can outgrow the message: a filter that calls one is not run inline."""
