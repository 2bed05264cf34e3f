"""The checker: every name known, every operand fitting, before there is a message.

Called by compile.py between parser and rewrites; gives each node that it looks at its static type.
What it does not look at (arguments of an unknown callee, bounds of an unknown list) keeps type
None, and goes wrong only when it is evaluated, as in the original. The first fault wins.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import ClassVar, Final, NamedTuple

from mqlite_actor.filters import check_calls, check_operators, hints, kinds
from mqlite_actor.filters.faults import FilterFailed, Refused
from mqlite_actor.filters.kinds import UNKNOWN, Type
from mqlite_actor.filters.patterns import Patterns
from mqlite_actor.filters.routine import Routine, complete
from mqlite_actor.filters.signatures import (
    BUILTINS,
    FUNCTIONS,
    KNOWN,
    LOOPS,
    METHODS,
    VARIABLES,
    Signature,
)
from mqlite_actor.filters.tree import (
    Binary,
    Block,
    Builtin,
    Call,
    Chain,
    Conditional,
    Let,
    ListOf,
    Literal,
    MapOf,
    Member,
    Name,
    Node,
    Pointer,
    Predicate,
    Slice,
    Unary,
)
from mqlite_actor.filters.values import Byte, Octets

Step = Routine[Type]

LITERALS: Final[dict[type, Type]] = {
    int: kinds.INT,
    float: kinds.FLOAT,
    bytes: kinds.STRING,
    bool: kinds.BOOL,
    type(None): kinds.NIL,
    Octets: kinds.BYTES,
    Byte: kinds.BYTE,
}


class Loop(NamedTuple):
    """What the pointers mean inside a predicate."""

    item: Type
    name: str


def as_function(signature: Signature) -> Type:
    """The type of a function that is named and not called."""
    params = tuple(Type("|".join(sorted(param.kinds))) for param in signature.params)
    return Type("func", item=signature.result, params=params)


class Checker:
    """One check. `patterns` compiles literal regular expressions."""

    __slots__ = ("_lets", "_loops", "_patterns")

    def __init__(self, patterns: Patterns) -> None:
        self._patterns = patterns
        self._lets: dict[str, Type] = {}
        self._loops: list[Loop] = []

    def check(self, root: Node) -> Type:
        """Type the whole tree. Raises Refused for the first fault, or if it is no bool or any."""
        kind = complete(self._visit(root))
        if kind.kind not in ("bool", "any"):
            raise Refused(root.at, f"a filter must be true or false, this is {kind}")
        return kind

    def _visit(self, node: Node) -> Step:
        if node.type is None:
            node.type = yield self._VISITS[type(node)](self, node)
        return node.type

    # -- leaves ------------------------------------------------------------------------------------

    def _literal(self, node: Literal) -> Step:
        yield from ()
        return LITERALS[type(node.value)]

    def _name(self, node: Name) -> Step:
        yield from ()
        return self._named(node.name, node.at)

    def _named(self, name: str, at: int) -> Type:
        if name in self._lets:
            return self._lets[name]
        if name in VARIABLES:
            return VARIABLES[name]
        if name == "$env" or name in LOOPS:
            return UNKNOWN
        if name in FUNCTIONS or name in BUILTINS:
            return as_function(FUNCTIONS.get(name) or BUILTINS[name])
        raise Refused(at, hints.unknown(name, {*KNOWN, *self._lets}))

    def _pointer(self, node: Pointer) -> Step:
        yield from ()
        if not self._loops:
            raise Refused(node.at, "`#` stands only inside the predicate of a loop")
        loop = self._loops[-1]
        if not node.name:
            return loop.item
        if node.name == "index" and loop.name in ("map", "reduce"):
            return kinds.INT
        if node.name == "acc" and loop.name == "reduce":
            return UNKNOWN
        raise Refused(node.at, f"`#{node.name[:40]}` is unknown in {loop.name}")

    # -- operators ---------------------------------------------------------------------------------

    def _unary(self, node: Unary) -> Step:
        operand = yield self._visit(node.operand)
        kind = check_operators.unary(node.op, operand)
        if kind is None:
            raise Refused(node.at, hints.operand(node.op, operand))
        return kind

    def _binary(self, node: Binary) -> Step:
        left = yield self._visit(node.left)
        right = yield self._visit(node.right)
        kind = check_operators.RULES[node.op](left, right)
        if kind is None:
            raise Refused(node.at, hints.operands(node.op, left, right))
        if node.op == "matches" and isinstance(node.right, Literal):
            self._pattern(node.right)
        return kind

    def _pattern(self, literal: Literal) -> None:
        try:
            self._patterns.literal(literal.value)
        except FilterFailed as failed:
            raise Refused(literal.at, failed.text) from None

    def _conditional(self, node: Conditional) -> Step:
        test = yield self._visit(node.test)
        if test.kind not in ("bool", "any"):
            raise Refused(node.test.at, f"a condition must be true or false, this is {test}")
        then = yield self._visit(node.then)
        other = yield self._visit(node.other)
        return kinds.joined(then, other)

    # -- blocks and collections --------------------------------------------------------------------

    def _block(self, node: Block) -> Step:
        before = dict(self._lets)
        kind = kinds.NIL
        for step in node.steps:
            kind = yield self._visit(step)
            if isinstance(step, Let):
                self._lets[step.name] = kind
        self._lets = before
        return kind

    def _let(self, node: Let) -> Step:
        if node.name in KNOWN or node.name in self._lets:
            raise Refused(node.at, f"`{node.name[:40]}` is taken; a let needs a name of its own")
        return (yield self._visit(node.value))

    def _list(self, node: ListOf) -> Step:
        items: list[Type] = []
        for each in node.items:
            items.append((yield self._visit(each)))  # noqa: PERF401 - a yield has no comprehension
        if not items or len({kinds.coarse(item) for item in items}) > 1:
            return kinds.LIST
        return kinds.list_of(items[-1])

    def _map(self, node: MapOf) -> Step:
        for key, value in zip(node.keys, node.items, strict=True):
            yield self._visit(key)
            yield self._visit(value)
        return kinds.OBJECT

    # -- access ------------------------------------------------------------------------------------

    def _chain(self, node: Chain) -> Step:
        return (yield self._visit(node.body))

    def _member(self, node: Member) -> Step:
        owner = yield self._visit(node.owner)
        key = yield self._visit(node.key)
        name = ""
        if isinstance(node.key, Literal) and isinstance(node.key.value, bytes):
            name = node.key.value.decode()
        if isinstance(node.owner, Name) and node.owner.name == "$env":
            return self._of_record(node, name)
        if owner.kind == "any":
            return UNKNOWN
        if owner.kind == "map" and owner.key is not None and owner.item is not None:
            if not check_operators.fits_key(key, owner.key):
                raise Refused(node.key.at, f"a key of {owner} is a {owner.key}, not {key}")
            return owner.item
        if owner.kind in kinds.LISTS and owner.item is not None:
            if key.kind not in kinds.INTEGERS | {"any"}:
                raise Refused(node.key.at, f"an index of {owner} is an int, not {key}")
            return owner.item
        methods = METHODS.get(owner.kind, {})
        if name in methods:
            return as_function(methods[name])
        if name:
            raise Refused(node.key.at, hints.member(str(owner), name, methods))
        raise Refused(node.at, f"{owner} has neither members nor an index")

    def _of_record(self, node: Member, name: str) -> Type:
        """`$env.name`: a literal name must be a variable, unless it is asked for with `?.`."""
        if name in VARIABLES:
            return VARIABLES[name]
        if name and not node.maybe:
            raise Refused(node.key.at, hints.unknown(name, VARIABLES))
        return UNKNOWN

    def _slice(self, node: Slice) -> Step:
        owner = yield self._visit(node.owner)
        if owner.kind == "any":
            return UNKNOWN
        if owner.kind not in kinds.LISTS | {"string"}:
            raise Refused(node.at, f"{owner} cannot be sliced")
        for bound in (node.low, node.high):
            if bound is not None:
                kind = yield self._visit(bound)
                if kind.kind not in kinds.INTEGERS | {"any"}:
                    raise Refused(bound.at, f"a bound of a slice is an int, not {kind}")
        return owner

    # -- calls -------------------------------------------------------------------------------------

    def _call(self, node: Call) -> Step:
        callee = node.callee
        if isinstance(callee, Name):
            if callee.name not in self._lets and callee.name in FUNCTIONS:
                types = yield from self._types(node.args)
                return check_calls.check(callee.name, FUNCTIONS[callee.name], node.args, types)
            if callee.name == "$env":
                raise Refused(node.at, "`$env` is not a function")
            known = {*KNOWN, *self._lets}
            if callee.name not in known:
                raise Refused(callee.at, hints.unknown(callee.name, known))
        kind = yield self._visit(callee)
        if kind.kind == "any":
            return UNKNOWN
        if kind.kind != "func":
            raise Refused(node.at, f"{kind} cannot be called")
        types = yield from self._types(node.args)
        return self._checked(node, kind, types)

    def _checked(self, node: Call, kind: Type, types: list[Type]) -> Type:
        """A call of a method, or of a function held by a variable."""
        callee = node.callee
        owner = callee.owner.type if isinstance(callee, Member) else None
        if isinstance(callee, Member) and owner is not None and isinstance(callee.key, Literal):
            name = callee.key.value.decode()
            signature = METHODS.get(owner.kind, {}).get(name)
            if signature is not None:
                return check_calls.check(name, signature, node.args, types)
        return kind.item or UNKNOWN

    def _types(self, nodes: list[Node]) -> Generator[Step, Type, list[Type]]:
        found: list[Type] = []
        for node in nodes:
            found.append((yield self._visit(node)))  # noqa: PERF401 - a yield has no comprehension
        return found

    def _builtin(self, node: Builtin) -> Step:
        if node.name in LOOPS:
            return (yield self._loop(node))
        types = yield from self._types(node.args)
        kind = check_calls.check(node.name, BUILTINS[node.name], node.args, types)
        first = node.args[0] if node.args else None
        if node.name == "get" and isinstance(first, Name) and first.name == "$env":
            key = node.args[1]
            if isinstance(key, Literal) and isinstance(key.value, bytes):
                return VARIABLES.get(key.value.decode(), UNKNOWN)
        return kind

    def _loop(self, node: Builtin) -> Step:
        collection = yield self._visit(node.args[0])
        if collection.kind not in kinds.LISTS | {"any"}:
            raise Refused(node.args[0].at, f"{node.name} loops over a list, not over {collection}")
        body: Type | None = None
        if len(node.args) > 1:
            self._loops.append(Loop(check_calls.item_of(collection), node.name))
            body = yield self._visit(node.args[1])
            self._loops.pop()
            self._condition(node, body)
        if len(node.args) > 2:
            extra = yield self._visit(node.args[2])
            if node.name == "sortBy" and extra.kind not in ("string", "any"):
                raise Refused(node.args[2].at, f'an order is "asc" or "desc", not {extra}')
        return check_calls.LOOP_RESULTS[node.name](collection, body)

    def _condition(self, node: Builtin, body: Type) -> None:
        is_condition = node.name in check_calls.CONDITIONS
        if body.kind == "nil" or (is_condition and body.kind not in ("bool", "any")):
            wanted = "be true or false" if is_condition else "have a value"
            raise Refused(node.args[1].at, f"the predicate of {node.name} must {wanted}, is {body}")

    def _predicate(self, node: Predicate) -> Step:
        return (yield self._visit(node.body))

    _VISITS: ClassVar[dict[type, Callable[..., Step]]] = {
        Literal: _literal,
        Name: _name,
        Pointer: _pointer,
        Unary: _unary,
        Binary: _binary,
        Conditional: _conditional,
        Block: _block,
        Let: _let,
        ListOf: _list,
        MapOf: _map,
        Member: _member,
        Chain: _chain,
        Slice: _slice,
        Call: _call,
        Builtin: _builtin,
        Predicate: _predicate,
    }
    """Node class → the method that types it."""
