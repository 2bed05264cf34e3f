"""How a tree is walked when code is made of it: spines, shared nodes, misfits.

Called by generate.py and by compile.py, which asks whether a filter may take long. The spine of a
node is the chain of children that are evaluated first. A call with a wrong number of arguments that
the checker did not look at has no spine: it fails before it evaluates anything.
"""

from __future__ import annotations

from collections import Counter

from mqlite_actor.filters import tree
from mqlite_actor.filters.check_calls import counted
from mqlite_actor.filters.faults import FilterFailed, Refused
from mqlite_actor.filters.signatures import BUILTINS, FUNCTIONS, LOOPS
from mqlite_actor.filters.tree import Node

_CARRIED = (tree.Unary, tree.Binary, tree.Conditional, tree.Slice, tree.Chain)


def below(node: Node) -> list[Node]:
    """Children, and a mapping."""
    held = list(tree.children(node))
    if isinstance(node, tree.Builtin) and node.mapping is not None:
        held.append(node.mapping)
    return held


def all_nodes(root: Node) -> list[Node]:
    """Every node once, mappings included."""
    found: list[Node] = []
    pending = [root]
    seen: set[int] = set()
    while pending:
        node = pending.pop()
        if id(node) not in seen:
            seen.add(id(node))
            found.append(node)
            pending.extend(below(node))
    return found


def shared_nodes(root: Node) -> set[int]:
    """Ids of the nodes that stand in more than one place."""
    places = Counter(id(child) for node in all_nodes(root) for child in below(node))
    return {each for each, count in places.items() if count > 1}


def is_record(node: Node) -> bool:
    """`$env`."""
    return isinstance(node, tree.Name) and node.name == "$env"


def is_function(node: tree.Call) -> bool:
    """A call of a function of our environment, whose name no let can take."""
    return isinstance(node.callee, tree.Name) and node.callee.name in FUNCTIONS


def misfit(node: tree.Builtin | tree.Call) -> FilterFailed | None:
    """What is wrong with the number of arguments; the checker may not have looked."""
    name = node.name if isinstance(node, tree.Builtin) else getattr(node.callee, "name", "")
    signature = BUILTINS.get(name) or FUNCTIONS.get(name)
    if node.type is not None or name in LOOPS or signature is None:
        return None
    try:
        counted(name, signature, len(node.args), node.at)
    except Refused as refused:
        return FilterFailed("type", refused.text)
    return None


def first_child(node: Node) -> Node | None:
    """The child that is evaluated first and carried on from; None for a leaf."""
    if isinstance(node, tree.Member):
        return None if is_record(node.owner) else node.owner
    if isinstance(node, tree.Call) and not is_function(node):
        return node.callee
    if isinstance(node, tree.Builtin | tree.Call):
        return node.args[0] if node.args and misfit(node) is None else None
    return next(tree.children(node), None) if isinstance(node, _CARRIED) else None
