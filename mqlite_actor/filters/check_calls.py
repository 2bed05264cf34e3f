"""Calls: argument counts and types, and the results that depend on an argument.

Called by check.py with the types of the arguments. The plain cases stand in signatures.py; here are
the functions whose result follows an argument, and the rule for arguments as such: any passes
everywhere, nil only where any value does, an int64 or byte where an int is wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from mqlite_actor.filters import check_operators, kinds
from mqlite_actor.filters.faults import Refused
from mqlite_actor.filters.kinds import LIST, OPEN, STRING, UNKNOWN, Type
from mqlite_actor.filters.signatures import MANY, Param, Signature
from mqlite_actor.filters.tree import Node

Outcome = Callable[[Sequence[Node], Sequence[Type]], Type]


def check(name: str, signature: Signature, args: Sequence[Node], types: Sequence[Type]) -> Type:
    """The type of a call. Raises Refused for a wrong number or type of arguments."""
    at = args[0].at if args else -1
    if name == "date":
        return _date(args, types)
    counted(name, signature, len(types), at)
    if name in ("max", "min", "mean", "median"):
        return _extreme(name, signature.params[0], args, types)
    for position, (arg, kind) in enumerate(zip(args, types, strict=True)):
        param = signature.params[min(position, len(signature.params) - 1)]
        if kind.kind != "any" and kind.kind not in param.kinds:
            number = f"argument {position + 1} of" if len(types) > 1 else "the argument of"
            raise Refused(arg.at, f"{number} {name} must be {param.words}, is {kind}")
    depends = _RESULTS.get(name)
    return depends(args, types) if depends else signature.result


def counted(name: str, signature: Signature, number: int, at: int) -> None:
    """Refuse a wrong number of arguments."""
    least, most = signature.least, signature.most
    if not least <= number <= most:
        wanted = f"{least}" if least == most else f"{least} to {most}"
        if most == MANY:
            wanted = f"{least} or more"
        raise Refused(at, f"{name} takes {wanted} argument{'s' * (wanted != '1')}, not {number}")


def _date(args: Sequence[Node], types: Sequence[Type]) -> Type:
    """One to three arguments that nobody looks at, and a location before them."""
    number = len(types) - (bool(types) and types[0].kind == "location")
    if len(types) < 1 or number > 3:
        at = args[0].at if args else -1
        raise Refused(at, "date takes a text, a layout and the name of a zone, the last two if any")
    return kinds.TIME


def _extreme(name: str, param: Param, args: Sequence[Node], types: Sequence[Type]) -> Type:
    """The first list or any settles the type; what stands before it must be a number."""
    for arg, kind in zip(args, types, strict=True):
        if kind.kind == "any" or kind.kind in kinds.LISTS:
            return OPEN
        if kind.kind not in param.kinds:
            raise Refused(arg.at, f"{name} takes numbers and lists of numbers, not {kind}")
    return types[0]


def _like_argument(_: Sequence[Node], types: Sequence[Type]) -> Type:
    return types[0]


def _end(_: Sequence[Node], types: Sequence[Type]) -> Type:
    return STRING if types[0].is_native else OPEN


def _taken(_: Sequence[Node], types: Sequence[Type]) -> Type:
    if types[0].kind == "any":
        return OPEN
    return types[0] if types[0].is_native or types[0].kind == "bytes" else LIST


def _got(args: Sequence[Node], types: Sequence[Type]) -> Type:
    """`get(collection, key)`."""
    held, key = types
    if held.kind == "any":
        return UNKNOWN
    if held.kind in kinds.LISTS and held.item is not None:
        if key.kind not in kinds.INTEGERS | {"any"}:
            raise Refused(args[1].at, f"argument 2 of get must be an int, is {key}")
        return held.item
    if held.kind == "map" and held.key is not None and held.item is not None:
        if not check_operators.fits_key(key, held.key):
            raise Refused(args[1].at, f"argument 2 of get must be a {held.key}, is {key}")
        return held.item
    raise Refused(args[0].at, f"argument 1 of get must be a list or map, is {held}")


_RESULTS: Final[dict[str, Outcome]] = {
    "abs": _like_argument,
    "first": _end,
    "last": _end,
    "take": _taken,
    "get": _got,
}


# -- loops -----------------------------------------------------------------------------------------

CONDITIONS: Final = frozenset({
    "all", "any", "none", "one", "filter", "find", "findIndex", "findLast", "findLastIndex",
    "count",
})  # fmt: skip
"""Loops whose predicate must be a bool."""


def item_of(collection: Type) -> Type:
    """What `#` is in a loop over it."""
    if collection.kind == "any" or collection.item is None:
        return UNKNOWN
    return collection.item


def _summed(collection: Type, body: Type | None) -> Type:
    if body is None:
        return item_of(collection)
    return OPEN if body.kind == "any" else body


def _filtered(collection: Type, _: Type | None) -> Type:
    return LIST if collection.kind == "any" else kinds.list_of(item_of(collection))


def _sorted(collection: Type, _: Type | None) -> Type:
    return LIST if collection.kind == "any" else collection


LOOP_RESULTS: Final[dict[str, Callable[[Type, Type | None], Type]]] = {
    **dict.fromkeys(("all", "any", "none", "one"), lambda collection, body: kinds.BOOL),
    **dict.fromkeys(("count", "findIndex", "findLastIndex"), lambda collection, body: kinds.INT),
    **dict.fromkeys(("find", "findLast"), lambda collection, body: item_of(collection)),
    "filter": _filtered,
    "map": lambda collection, body: kinds.list_of(body or UNKNOWN),
    "sum": _summed,
    "groupBy": lambda collection, body: kinds.GROUPS,
    "sortBy": _sorted,
    "reduce": lambda collection, body: body or UNKNOWN,
}
"""Loop → its type, from the types of the collection and of the predicate."""
