"""From a tree to running code: closures over closures, never Python source.

Called by compile.py with the rewritten tree. Walks each spine in a loop and side branches as
routines (routine.py), lays lets and loop pointers into numbered cells, and makes code for what the
checker did not look at, which fails only when it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from operator import attrgetter
from typing import ClassVar, Final

from mqlite_actor.filters import code_access, code_operators, spine, tree
from mqlite_actor.filters.code import Code, Step, Work, assembled, charged, constant, failing
from mqlite_actor.filters.code_loops import ITEMLESS, WORK, Loop
from mqlite_actor.filters.environment import UNSEEN, Record
from mqlite_actor.filters.faults import FilterFailed, Refused
from mqlite_actor.filters.functions import FUNCTIONS, Function
from mqlite_actor.filters.methods import call_value
from mqlite_actor.filters.operators import add
from mqlite_actor.filters.patterns import Patterns
from mqlite_actor.filters.routine import Routine, complete
from mqlite_actor.filters.run import Run
from mqlite_actor.filters.signatures import LOOPS, VARIABLES
from mqlite_actor.filters.tree import Node
from mqlite_actor.filters.values import Value

LEVELS_MAX: Final = 500
"""Levels that are no spine. A run needs one Python frame for each, and CPython stops at 1000 with
the caller's frames counted in."""

Coding = Routine[Code]
Stepping = Generator[Coding, Code, Step]


class Program:
    """What a filter runs: its code and how many cells that needs."""

    __slots__ = ("cells", "code", "hidden")

    def __init__(self, code: Code, cells: int, hidden: frozenset[str]) -> None:
        self.code = code
        self.cells = cells
        self.hidden = hidden


def generate(root: Node, patterns: Patterns) -> Program:
    """The program of a tree. Raises Refused for nesting, and for a folded pattern that is none."""
    named = {node.name for node in tree.walk(root) if isinstance(node, tree.Name)}
    hidden = frozenset(UNSEEN) - named
    maker = _Maker(root, patterns, hidden)
    code = complete(maker.code(root), levels_max=LEVELS_MAX)
    return Program(code, maker.cells, hidden)


class _Maker:
    """One generation."""

    __slots__ = ("_hidden", "_lets", "_loops", "_made", "_patterns", "_shared", "cells")

    def __init__(self, root: Node, patterns: Patterns, hidden: frozenset[str]) -> None:
        self._patterns = patterns
        self._hidden = hidden
        self._shared = spine.shared_nodes(root)
        self._made: dict[int, Code] = {}
        self._lets: dict[str, int] = {}
        self._loops: list[Loop] = []
        self.cells = 0

    def _cell(self) -> int:
        self.cells += 1
        return self.cells - 1

    # -- spines ------------------------------------------------------------------------------------

    def code(self, node: Node) -> Coding:
        """The code of a node, made once."""
        if id(node) not in self._made:
            made = yield from self._spine(node)
            if id(node) in self._shared:
                made = charged(made, len(spine.all_nodes(node)))
            self._made[id(node)] = made
        return self._made[id(node)]

    def _spine(self, node: Node) -> Generator[Coding, Code, Code]:
        """First children down to a leaf, then the steps back up."""
        upward = [node]
        first = spine.first_child(node)
        while first is not None and id(first) not in self._shared:
            upward.append(first)
            first = spine.first_child(first)
        if first is not None:
            base = yield self.code(first)
        else:
            leaf = upward.pop()
            base = yield from self._LEAVES[type(leaf)](self, leaf)
        steps: list[Step] = []
        waiting: list[int] = []
        for each in reversed(upward):
            if isinstance(each, tree.Chain):
                for place in waiting:
                    steps[place] = steps[place]._replace(jump=len(steps))
                waiting.clear()
                continue
            if isinstance(each, tree.Member) and each.maybe:
                waiting.append(len(steps))
            steps.append((yield from self._STEPS[type(each)](self, each)))
        return assembled(base, steps)

    # -- leaves ------------------------------------------------------------------------------------

    def _literal(self, node: tree.Literal | tree.Constant) -> Coding:
        yield from ()
        return constant(node.value)

    def _name(self, node: tree.Name) -> Coding:
        yield from ()
        cell = self._lets.get(node.name)
        if cell is not None:
            return lambda run: run.cells[cell]
        if node.name == "$env":
            return self._record
        if node.name in VARIABLES:
            return self._variable(node.name)
        return failing(node.at, FilterFailed("missing", f"{node.name[:40]} is no value"))

    def _record(self, run: Run) -> Value:
        return Record(run.facts, self._hidden)

    def _variable(self, name: str) -> Code:
        if name in self._hidden:
            return constant(UNSEEN[name])
        read: Code = attrgetter(f"facts.{name}")
        return read

    def _record_member(self, node: tree.Member) -> Coding:
        """`$env.name` and `$env[…]`."""
        if isinstance(node.key, tree.Literal) and type(node.key.value) is bytes:
            name = node.key.value.decode()
            if name in VARIABLES:
                return self._variable(name)
        key = yield self.code(node.key)
        return assembled(self._record, [Step(node.at, code_access.indexed, (key,))])

    def _pointer(self, node: tree.Pointer) -> Coding:
        yield from ()
        if not self._loops:
            return failing(node.at, FilterFailed("missing", "`#` outside a loop"))
        loop = self._loops[-1]
        cell = {"": loop.cell, "index": loop.index, "acc": loop.acc}.get(node.name)
        if cell is None:
            return failing(node.at, FilterFailed("missing", "unknown pointer"))
        if node.name:
            return lambda run: run.cells[cell]

        def item(run: Run) -> Value:
            value = run.cells[cell]
            if value is ITEMLESS:
                failed = FilterFailed("type", "a map has no items for a loop")
                failed.locate(node.at)
                raise failed
            return value

        return item

    def _block(self, node: tree.Block) -> Coding:
        before = dict(self._lets)
        steps: list[tuple[int, Code]] = []
        for step in node.steps:
            cell = -1
            made = yield self.code(step.value if isinstance(step, tree.Let) else step)
            if isinstance(step, tree.Let):
                cell = self._cell()
                self._lets[step.name] = cell
            steps.append((cell, made))
        self._lets = before
        *earlier, (_, last) = steps

        def code(run: Run) -> Value:
            for cell, work in earlier:
                value = work(run)
                if cell >= 0:
                    run.cells[cell] = value
            return last(run)

        return code

    def _list(self, node: tree.ListOf) -> Coding:
        codes = yield from self._codes(node.items)

        def code(run: Run) -> Value:
            made = []
            for each in codes:  # a comprehension would be a frame of its own
                made.append(each(run))  # noqa: PERF401 - see above
            run.make(len(made))
            return made

        return code

    def _map(self, node: tree.MapOf) -> Coding:
        names = yield from self._codes(node.keys)
        codes = yield from self._codes(node.items)
        pairs = tuple(zip(names, codes, strict=True))

        def code(run: Run) -> Value:
            made: dict[bytes, Value] = {}
            for key, item in pairs:
                name, value = key(run), item(run)
                if type(name) is not bytes:
                    failed = FilterFailed("type", "a key of a map is a string")
                    failed.locate(node.at)
                    raise failed
                made.setdefault(name, value)
            run.make(len(pairs))
            return made

        return code

    def _added(self, node: tree.Added) -> Coding:
        items = yield self._list(tree.ListOf(node.at, node.items))

        def work(run: Run, values: Value) -> Value:
            *firsts, total = values
            for value in reversed(firsts):
                total = add(run, value, total)
            return total

        return assembled(items, [Step(node.at, work)])

    def _call_leaf(self, node: tree.Call | tree.Builtin) -> Coding:
        """A call without arguments, or with a wrong number that nobody checked."""
        yield from ()
        failure = spine.misfit(node)
        if failure is not None or isinstance(node, tree.Call):
            return failing(node.at, failure or FilterFailed("type", "the call needs arguments"))
        function = FUNCTIONS[node.name]
        return partial(_niladic, function)

    # -- steps -------------------------------------------------------------------------------------

    def _chain(self, node: tree.Chain) -> Stepping:
        raise AssertionError(f"a chain at {node.at} is no step; it ends the jumps below it")

    def _unary(self, node: tree.Unary) -> Stepping:
        yield from ()
        return Step(node.at, code_operators.UNARY[node.op])

    def _binary(self, node: tree.Binary) -> Stepping:
        if isinstance(node.right, tree.Choices):
            return Step(node.at, code_operators.chosen(node.right))
        if isinstance(node.right, tree.Literal):
            work = self._with_literal(node, node.right)
            if work is not None:
                return Step(node.at, work)
        right = yield self.code(node.right)
        if node.op in code_operators.LAZY:
            return Step(node.at, code_operators.LAZY[node.op](node.op, right))
        return Step(node.at, code_operators.binary(node), (right,))

    def _with_literal(self, node: tree.Binary, literal: tree.Literal) -> Work | None:
        """A shorter step where the right side is a literal."""
        if node.op != "matches" or type(literal.value) is not bytes:
            return code_operators.with_literal(node, literal.value)
        try:
            return code_operators.matches(self._patterns.literal(literal.value))
        except FilterFailed as failed:
            raise Refused(literal.at, failed.text) from None

    def _conditional(self, node: tree.Conditional) -> Stepping:
        then = yield self.code(node.then)
        other = yield self.code(node.other)
        return Step(node.at, code_operators.chosen_arm(then, other))

    def _member(self, node: tree.Member) -> Stepping:
        if isinstance(node.key, tree.Literal) and type(node.key.value) is bytes:
            return Step(node.at, code_access.named(node.key.value))
        key = yield self.code(node.key)
        return Step(node.at, code_access.indexed, (key,))

    def _slice(self, node: tree.Slice) -> Stepping:
        absent = constant(code_access.ABSENT)
        low = (yield self.code(node.low)) if node.low is not None else absent
        high = (yield self.code(node.high)) if node.high is not None else absent
        return Step(node.at, code_access.sliced, (low, high))

    def _call(self, node: tree.Call) -> Stepping:
        if isinstance(node.callee, tree.Name) and spine.is_function(node):
            codes = yield from self._codes(node.args[1:])
            return Step(node.at, FUNCTIONS[node.callee.name], codes)
        codes = yield from self._codes(node.args)
        return Step(node.at, lambda run, callee, *args: call_value(run, callee, args), codes)

    def _builtin(self, node: tree.Builtin) -> Stepping:
        if node.name in LOOPS:
            return (yield from self._loop(node))
        codes = yield from self._codes(node.args[1:])
        return Step(node.at, FUNCTIONS[node.name], codes)

    def _codes(self, nodes: list[Node]) -> Generator[Coding, Code, tuple[Code, ...]]:
        codes: list[Code] = []
        for node in nodes:
            codes.append((yield self.code(node)))  # noqa: PERF401 - a yield has no comprehension
        return tuple(codes)

    def _loop(self, node: tree.Builtin) -> Stepping:
        loop = Loop(node.name, cell=self._cell(), index=self._cell(), acc=self._cell())
        loop.strict, loop.enough = node.strict, node.enough
        self._loops.append(loop)
        bodies = 0
        if len(node.args) > 1:
            predicate = node.args[1]
            assert isinstance(predicate, tree.Predicate), "the parser makes the second argument one"
            loop.predicate = yield self.code(predicate.body)
            bodies = len(spine.all_nodes(predicate.body))
        if node.mapping is not None:
            loop.mapping = yield self.code(node.mapping)
            bodies += len(spine.all_nodes(node.mapping))
        self._loops.pop()
        loop.cost = max(1, bodies)
        third = yield from self._codes(node.args[2:])
        return Step(node.at, partial(WORK[node.name], loop), third)

    _LEAVES: ClassVar[dict[type, Callable[..., Coding]]] = {
        tree.Literal: _literal,
        tree.Constant: _literal,
        tree.Name: _name,
        tree.Pointer: _pointer,
        tree.Block: _block,
        tree.ListOf: _list,
        tree.MapOf: _map,
        tree.Added: _added,
        tree.Member: _record_member,
        tree.Call: _call_leaf,
        tree.Builtin: _call_leaf,
    }
    """Node class → code that starts a spine."""

    _STEPS: ClassVar[dict[type, Callable[..., Stepping]]] = {
        tree.Unary: _unary,
        tree.Binary: _binary,
        tree.Conditional: _conditional,
        tree.Member: _member,
        tree.Slice: _slice,
        tree.Call: _call,
        tree.Builtin: _builtin,
        tree.Chain: _chain,
    }
    """Node class → the step that carries on from its first child."""


def _niladic(function: Function, run: Run) -> Value:
    return function(run)
