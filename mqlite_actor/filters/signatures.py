"""Every function of the language: what it takes and the type of what it gives.

Read by the parser (which names are builtins, how many arguments a loop has), the checker (argument
types, result) and the docs. What the functions do stands in functions.py and loops.py; a test holds
the two tables together.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mqlite_actor.filters import kinds
from mqlite_actor.filters.kinds import Type

LOOPS: Final[dict[str, tuple[int, int]]] = {
    "all": (2, 2), "any": (2, 2), "none": (2, 2), "one": (2, 2), "filter": (2, 2), "map": (2, 2),
    "find": (2, 2), "findIndex": (2, 2), "findLast": (2, 2), "findLastIndex": (2, 2),
    "count": (1, 2), "sum": (1, 2), "groupBy": (2, 2), "sortBy": (2, 3), "reduce": (2, 3),
}  # fmt: skip
"""Loop → least and most arguments: a list, a predicate, and what else there is."""


MANY: Final = 1000
"""Any number of arguments: more than a filter has nodes."""


class Param(NamedTuple):
    """The static kinds that an argument may have; any always passes, nil only where listed."""

    words: str
    kinds: frozenset[str]


class Signature(NamedTuple):
    """The last parameter stands for all further arguments, up to `most`."""

    params: tuple[Param, ...]
    least: int
    most: int
    result: Type


_ALL: Final = frozenset({
    "bool", "int", "int64", "byte", "float", "string", "bytes", "time", "duration", "weekday",
    "month", "location", "nil", "list", "map", "func",
})  # fmt: skip
_COUNTED: Final = frozenset({"duration", "weekday", "month"})

ANYTHING: Final = Param("any value", _ALL)
TEXT: Final = Param("a string", frozenset({"string"}))
INTEGER: Final = Param("an int", kinds.INTEGERS)
NUMBER: Final = Param("a number", kinds.NUMBERS | _COUNTED)
LISTED: Final = Param("a list", kinds.LISTS)
PLAIN_LIST: Final = Param("a list", frozenset({"list"}))
MAPPED: Final = Param("a map", frozenset({"map"}))
MEASURED: Final = Param("a string, list or map", kinds.LISTS | {"string", "map"})
TO_INT: Final = Param("a number or string", kinds.NUMBERS | _COUNTED | {"string"})
MOMENT: Final = Param("a time", frozenset({"time"}))
SPAN: Final = Param("a duration", frozenset({"duration"}))
ZONE: Final = Param("a location", frozenset({"location"}))


def _takes(*params: Param, gives: Type, least: int = -1, most: int = -1) -> Signature:
    least = len(params) if least < 0 else least
    return Signature(params, least, len(params) if most < 0 else most, gives)


BUILTINS: Final[dict[str, Signature]] = {
    "len": _takes(MEASURED, gives=kinds.INT),
    "type": _takes(ANYTHING, gives=kinds.STRING),
    "abs": _takes(NUMBER, gives=kinds.UNKNOWN),
    "ceil": _takes(NUMBER, gives=kinds.FLOAT),
    "floor": _takes(NUMBER, gives=kinds.FLOAT),
    "round": _takes(NUMBER, gives=kinds.FLOAT),
    "int": _takes(TO_INT, gives=kinds.INT),
    "float": _takes(TO_INT, gives=kinds.FLOAT),
    "string": _takes(ANYTHING, gives=kinds.STRING),
    "upper": _takes(TEXT, gives=kinds.STRING),
    "lower": _takes(TEXT, gives=kinds.STRING),
    "trim": _takes(TEXT, TEXT, gives=kinds.STRING, least=1),
    "trimPrefix": _takes(TEXT, TEXT, gives=kinds.STRING, least=1),
    "trimSuffix": _takes(TEXT, TEXT, gives=kinds.STRING, least=1),
    "split": _takes(TEXT, TEXT, INTEGER, gives=kinds.STRINGS, least=2),
    "splitAfter": _takes(TEXT, TEXT, INTEGER, gives=kinds.STRINGS, least=2),
    "replace": _takes(TEXT, TEXT, TEXT, INTEGER, gives=kinds.STRING, least=3),
    "repeat": _takes(TEXT, INTEGER, gives=kinds.STRING),
    "join": _takes(PLAIN_LIST, TEXT, gives=kinds.STRING, least=1),
    "indexOf": _takes(TEXT, TEXT, gives=kinds.INT),
    "lastIndexOf": _takes(TEXT, TEXT, gives=kinds.INT),
    "hasPrefix": _takes(TEXT, TEXT, gives=kinds.BOOL),
    "hasSuffix": _takes(TEXT, TEXT, gives=kinds.BOOL),
    "toBase64": _takes(TEXT, gives=kinds.STRING),
    "fromBase64": _takes(TEXT, gives=kinds.STRING),
    "toJSON": _takes(ANYTHING, gives=kinds.STRING),
    "fromJSON": _takes(TEXT, gives=kinds.OPEN),
    "bitand": _takes(INTEGER, INTEGER, gives=kinds.INT),
    "bitor": _takes(INTEGER, INTEGER, gives=kinds.INT),
    "bitxor": _takes(INTEGER, INTEGER, gives=kinds.INT),
    "bitnand": _takes(INTEGER, INTEGER, gives=kinds.INT),
    "bitnot": _takes(INTEGER, gives=kinds.INT),
    "bitshl": _takes(INTEGER, INTEGER, gives=kinds.INT),
    "bitshr": _takes(INTEGER, INTEGER, gives=kinds.INT),
    "bitushr": _takes(INTEGER, INTEGER, gives=kinds.INT),
    "max": _takes(NUMBER, gives=kinds.OPEN, most=MANY),
    "min": _takes(NUMBER, gives=kinds.OPEN, most=MANY),
    "mean": _takes(NUMBER, gives=kinds.OPEN, most=MANY),
    "median": _takes(NUMBER, gives=kinds.OPEN, most=MANY),
    "now": _takes(ZONE, gives=kinds.TIME, least=0),
    "timezone": _takes(TEXT, gives=kinds.LOCATION),
    "date": _takes(ANYTHING, ANYTHING, ANYTHING, gives=kinds.TIME, least=1),
    "first": _takes(LISTED, gives=kinds.OPEN),
    "last": _takes(LISTED, gives=kinds.OPEN),
    "get": _takes(ANYTHING, ANYTHING, gives=kinds.UNKNOWN),
    "take": _takes(LISTED, INTEGER, gives=kinds.LIST),
    "keys": _takes(MAPPED, gives=kinds.LIST),
    "values": _takes(MAPPED, gives=kinds.LIST),
    "toPairs": _takes(MAPPED, gives=kinds.LIST),
    "fromPairs": _takes(LISTED, gives=kinds.ANY_MAP),
    "reverse": _takes(LISTED, gives=kinds.LIST),
    "concat": _takes(LISTED, gives=kinds.LIST, most=MANY),
    "flatten": _takes(LISTED, gives=kinds.LIST),
    "uniq": _takes(LISTED, gives=kinds.LIST),
    "sort": _takes(PLAIN_LIST, TEXT, gives=kinds.LIST, least=1),
}
"""Builtins that are no loops. Those whose result depends on the argument: check_calls.py."""

FUNCTIONS: Final[dict[str, Signature]] = {
    "seconds": _takes(INTEGER, gives=kinds.DURATION),
    "minutes": _takes(INTEGER, gives=kinds.DURATION),
    "hours": _takes(INTEGER, gives=kinds.DURATION),
    "days": _takes(INTEGER, gives=kinds.DURATION),
    "weeks": _takes(INTEGER, gives=kinds.DURATION),
    "duration": _takes(TEXT, gives=kinds.DURATION),
}
"""Functions of our environment."""

VARIABLES: Final[dict[str, Type]] = {
    "subject": kinds.STRING,
    "group_id": kinds.STRING,
    "correlation_id": kinds.STRING,
    "reply_to": kinds.STRING,
    "message_id": kinds.STRING,
    "content_type": kinds.STRING,
    "properties": kinds.STRING_MAP,
    "subject_parts": kinds.STRINGS,
    "property_keys": kinds.STRINGS,
    "body_size": kinds.INT,
    "body_text": kinds.STRING,
    "body_json": kinds.OBJECT,
    "enqueued_at": kinds.TIME,
    "visible_at": kinds.TIME,
}
"""What a filter sees of a message (spec/filters.md 2)."""

KNOWN: Final = frozenset({*LOOPS, *BUILTINS, *FUNCTIONS, *VARIABLES, "$env"})
"""Names that a `let` may not reuse."""


def _methods(
    result: Type, names: str, *params: Param, least: int | None = None
) -> dict[str, Signature]:
    needed = len(params) if least is None else least
    return {name: Signature(params, needed, len(params), result) for name in names.split()}


METHODS: Final[dict[str, dict[str, Signature]]] = {
    "time": {
        **_methods(kinds.INT, "Year Day Hour Minute Second Nanosecond YearDay ISOWeek"),
        **_methods(kinds.MONTH, "Month"),
        **_methods(kinds.WEEKDAY, "Weekday"),
        **_methods(kinds.INT64, "Unix UnixMilli UnixMicro UnixNano"),
        **_methods(kinds.BOOL, "IsZero IsDST"),
        **_methods(kinds.BOOL, "Before After Equal", MOMENT),
        **_methods(kinds.INT, "Compare", MOMENT),
        **_methods(kinds.TIME, "Add Truncate Round", SPAN),
        **_methods(kinds.TIME, "AddDate", INTEGER, INTEGER, INTEGER),
        **_methods(kinds.TIME, "UTC"),
        **_methods(kinds.TIME, "In", ZONE),
        **_methods(kinds.DURATION, "Sub", MOMENT),
        **_methods(kinds.STRING, "Format", TEXT),
        **_methods(kinds.STRING, "String Zone"),
        **_methods(kinds.LOCATION, "Location"),
    },
    "duration": {
        **_methods(kinds.FLOAT, "Hours Minutes Seconds"),
        **_methods(kinds.INT64, "Milliseconds Microseconds Nanoseconds"),
        **_methods(kinds.DURATION, "Truncate Round", SPAN),
        **_methods(kinds.DURATION, "Abs"),
        **_methods(kinds.STRING, "String"),
    },
    "weekday": _methods(kinds.STRING, "String"),
    "month": _methods(kinds.STRING, "String"),
    "location": _methods(kinds.STRING, "String"),
}
"""Static kind → method → signature."""
