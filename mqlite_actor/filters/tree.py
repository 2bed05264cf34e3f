"""The nodes of a parsed filter.

Made by the parser, given types by check.py, rewritten in place by fold.py and rewrite.py, read by
code.py. `at` is the offset of the text that an error should point to. `type` is None where the
checker never looked (arguments of an unknown callee). Nodes are mutable on purpose: the operand
that two comparisons of a chain share is one node, and what is rewritten in it shows in both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar

from mqlite_actor.filters.kinds import Type
from mqlite_actor.filters.values import Value


class Node:
    """One node. `CHILDREN` names the attributes that hold nodes or lists of nodes."""

    __slots__ = ("at", "type")
    CHILDREN: ClassVar[tuple[str, ...]] = ()

    def __init__(self, at: int) -> None:
        self.at = at
        self.type: Type | None = None


class Literal(Node):
    """A number, string, byte string, true, false or nil as written or folded."""

    __slots__ = ("value",)

    def __init__(self, at: int, value: Value) -> None:
        super().__init__(at)
        self.value = value


class Constant(Node):
    """A list of literals that folding built once; costs no memory budget."""

    __slots__ = ("value",)

    def __init__(self, at: int, value: Value) -> None:
        super().__init__(at)
        self.value = value


class Choices(Node):
    """The right side of `in`: only string literals, or only int literals (rewrite R2)."""

    __slots__ = ("members", "of")

    def __init__(self, at: int, members: frozenset[Value], of: type) -> None:
        super().__init__(at)
        self.members = members
        self.of = of


class Name(Node):
    """A variable, a `let`, or the name of a function."""

    __slots__ = ("name",)

    def __init__(self, at: int, name: str) -> None:
        super().__init__(at)
        self.name = name


class Pointer(Node):
    """`#`, `#index` or `#acc`; `name` is what stands after the sign."""

    __slots__ = ("name",)

    def __init__(self, at: int, name: str) -> None:
        super().__init__(at)
        self.name = name


class Unary(Node):
    """`not`, `-` or `+`."""

    __slots__ = ("op", "operand")
    CHILDREN = ("operand",)

    def __init__(self, at: int, op: str, operand: Node) -> None:
        super().__init__(at)
        self.op = op
        self.operand = operand


class Binary(Node):
    """Any operator between two operands; `&&` and `||` are spelled `and` and `or`, `^` `**`."""

    __slots__ = ("left", "op", "right")
    CHILDREN = ("left", "right")

    def __init__(self, at: int, op: str, left: Node, right: Node) -> None:
        super().__init__(at)
        self.op = op
        self.left = left
        self.right = right


class Conditional(Node):
    """`test ? then : other`, and `if`."""

    __slots__ = ("other", "test", "then")
    CHILDREN = ("test", "then", "other")

    def __init__(self, at: int, test: Node, then: Node, other: Node) -> None:
        super().__init__(at)
        self.test = test
        self.then = then
        self.other = other


class Let(Node):
    """One `let name = value;` of a block; its value is the block's business."""

    __slots__ = ("name", "value")
    CHILDREN = ("value",)

    def __init__(self, at: int, name: str, value: Node) -> None:
        super().__init__(at)
        self.name = name
        self.value = value


class Block(Node):
    """Steps one after another, the last of which is the result. A Let holds to the end."""

    __slots__ = ("steps",)
    CHILDREN = ("steps",)

    def __init__(self, at: int, steps: list[Node]) -> None:
        super().__init__(at)
        self.steps = steps


class ListOf(Node):
    """`[a, b]`."""

    __slots__ = ("items",)
    CHILDREN = ("items",)

    def __init__(self, at: int, items: list[Node]) -> None:
        super().__init__(at)
        self.items = items


class MapOf(Node):
    """`{k: v}`: keys and values side by side."""

    __slots__ = ("items", "keys")
    CHILDREN = ("keys", "items")

    def __init__(self, at: int, keys: list[Node], items: list[Node]) -> None:
        super().__init__(at)
        self.keys = keys
        self.items = items


class Member(Node):
    """`owner.name` and `owner[key]`; `maybe` with `?.`."""

    __slots__ = ("key", "maybe", "owner")
    CHILDREN = ("owner", "key")

    def __init__(self, at: int, owner: Node, key: Node, *, maybe: bool = False) -> None:
        super().__init__(at)
        self.owner = owner
        self.key = key
        self.maybe = maybe


class Chain(Node):
    """The reach of a `?.`: where its value ends up as nil."""

    __slots__ = ("body",)
    CHILDREN = ("body",)

    def __init__(self, at: int, body: Node) -> None:
        super().__init__(at)
        self.body = body


class Slice(Node):
    """`owner[low:high]`."""

    __slots__ = ("high", "low", "owner")
    CHILDREN = ("owner", "low", "high")

    def __init__(self, at: int, owner: Node, low: Node | None, high: Node | None) -> None:
        super().__init__(at)
        self.owner = owner
        self.low = low
        self.high = high


class Call(Node):
    """A call of a variable, a method, or a function of our environment."""

    __slots__ = ("args", "callee")
    CHILDREN = ("callee", "args")

    def __init__(self, at: int, callee: Node, args: list[Node]) -> None:
        super().__init__(at)
        self.callee = callee
        self.args = args


class Predicate(Node):
    """What a loop evaluates for each item."""

    __slots__ = ("body",)
    CHILDREN = ("body",)

    def __init__(self, at: int, body: Node) -> None:
        super().__init__(at)
        self.body = body


class Builtin(Node):
    """A call of a builtin. The last three are set by rewrites only.

    `mapping` is applied to what the loop yields (R4). It is no child: later rewrites, and the
    question which variables the program names, pass it by, as in the original.
    `strict` makes an empty find an error, `enough` is where a count may stop (R9).
    """

    __slots__ = ("args", "enough", "mapping", "name", "strict")
    CHILDREN = ("args",)

    def __init__(self, at: int, name: str, args: list[Node]) -> None:
        super().__init__(at)
        self.name = name
        self.args = args
        self.mapping: Node | None = None
        self.strict = False
        self.enough = 0


def children(node: Node) -> Iterator[Node]:
    """The nodes directly below, in order of evaluation."""
    for name in node.CHILDREN:
        held = getattr(node, name)
        if isinstance(held, list):
            yield from held
        elif held is not None:
            yield held


def replace_children(node: Node, change: Callable[[Node], Node]) -> None:
    """Put `change(child)` in the place of every child."""
    for name in node.CHILDREN:
        held = getattr(node, name)
        if isinstance(held, list):
            held[:] = [change(each) for each in held]
        elif held is not None:
            setattr(node, name, change(held))


def walk(root: Node) -> Iterator[Node]:
    """Every node from the root down, a shared one once, mappings of R4 not at all."""
    pending = [root]
    seen: set[int] = set()
    while pending:
        node = pending.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            pending.extend(children(node))


def rewritten(root: Node, visit: Callable[[Node], Node]) -> Node:
    """The tree after `visit` replaced each node, children before parents, a shared one once."""
    holder = Block(root.at, [root])
    done: dict[int, tuple[Node, Node]] = {}

    def once(node: Node) -> Node:
        if id(node) not in done:  # the old node is kept too, so that no new one gets its id
            done[id(node)] = node, visit(node)
        return done[id(node)][1]

    for node in _bottom_up(holder):
        replace_children(node, once)
    return holder.steps[0]


def _bottom_up(root: Node) -> list[Node]:
    """Every node once, none before a node below it."""
    ready: list[Node] = []
    seen: set[int] = set()
    pending: list[tuple[Node, bool]] = [(root, False)]
    while pending:
        node, is_done = pending.pop()
        if is_done:
            ready.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            pending.append((node, True))
            pending.extend((each, False) for each in reversed(list(children(node))))
    return ready


def same(one: Node, other: Node) -> bool:
    """Whether two trees would be written alike, places aside."""
    pending = [(one, other)]
    seen: set[tuple[int, int]] = set()
    while pending:
        left, right = pending.pop()
        if left is right or (id(left), id(right)) in seen:
            continue
        seen.add((id(left), id(right)))
        if type(left) is not type(right):
            return False
        for name in type(left).__slots__:
            if name not in left.CHILDREN and not _alike(getattr(left, name), getattr(right, name)):
                return False
        below = list(children(left)), list(children(right))
        if len(below[0]) != len(below[1]):
            return False
        pending.extend(zip(*below, strict=True))
    return True


def _alike(left: Value, right: Value) -> bool:
    if isinstance(left, Node) and isinstance(right, Node):
        return same(left, right)
    return type(left) is type(right) and bool(left == right)


class Added(Node):
    """`e1 + (e2 + … en)`: what the sum of a list literal becomes (rewrite R7)."""

    __slots__ = ("items",)
    CHILDREN = ("items",)

    def __init__(self, at: int, items: list[Node]) -> None:
        super().__init__(at)
        self.items = items
