"""Tokens to a tree: the grammar of spec/filters.md 4, with the bounds on nodes and nesting.

Called by compile.py. A recursive descent written as routines (routine.py), so that nesting costs no
Python stack; loops of operators and of postfixes cost no level at all. Counts nodes as the language
does while it parses: the first fault wins, whichever it is. Builds no types; check.py does.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from mqlite_actor.filters import hints, tree
from mqlite_actor.filters.cursor import Cursor
from mqlite_actor.filters.faults import Refused
from mqlite_actor.filters.lexer import Token
from mqlite_actor.filters.routine import Routine, complete
from mqlite_actor.filters.signatures import BUILTINS, LOOPS
from mqlite_actor.filters.tree import Node

LEVELS: Final = {
    "|": 0, "or": 10, "||": 10, "and": 15, "&&": 15,
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), 20),
    **dict.fromkeys(("in", "contains", "startsWith", "endsWith", "matches"), 20),
    "..": 25, "+": 30, "-": 30, "*": 60, "/": 60, "%": 60, "**": 100, "^": 100, "??": 500,
}  # fmt: skip
PREFIXES: Final = {"not": 50, "!": 50, "-": 90, "+": 90}
ORDERINGS: Final = frozenset({"<", "<=", ">", ">="})
NEGATABLE: Final = frozenset({"in", "contains", "startsWith", "endsWith", "matches"})
SPELLINGS: Final = {"&&": "and", "||": "or", "^": "**", "!": "not"}
CONSTANTS: Final = {"true": True, "false": False, "nil": None}

Step = Routine[Node]
Arguments = Generator[Step, Node, list[Node]]


class Parser(Cursor):
    """One parse. `shared` holds the nodes that stand in two places of the tree."""

    __slots__ = ("_predicates", "shared")

    def __init__(self, tokens: list[Token]) -> None:
        super().__init__(tokens)
        self._predicates = 0
        self.shared: list[Node] = []

    def parse(self) -> Node:
        """The tree of the whole text. Raises Refused at the first fault."""
        root = complete(self._sequence())
        if self._here.sort != "end":
            raise self._unexpected()
        return root

    # -- sequences, let, if ------------------------------------------------------------------------

    def _sequence(self) -> Step:
        """Steps joined by `;`. What follows a `let` belongs to it, so one loop reads all."""
        start = self._here.at
        steps: list[Node] = []
        fresh = 0
        while True:
            fresh += 1
            if self._is("let"):
                steps.append((yield self._let()))
                self._count(2 if fresh > 1 else 1)
                fresh = 0
                continue
            steps.append((yield self._expression()))
            if not self._is(";"):
                break
            self._take()
            if self._here.sort == "end":
                break
        if fresh > 1:
            self._count()
        return steps[0] if len(steps) == 1 else tree.Block(start, steps)

    def _let(self) -> Step:
        self._take()
        name = self._name()
        self._expect("=")
        value = yield self._expression()
        self._expect(";")
        return tree.Let(name.at, name.text, value)

    def _expression(self) -> Step:
        self._deeper()
        if self._is("let"):
            node = yield self._sequence()
        elif self._is("if"):
            node = yield self._if()
        else:
            node = yield self._binary(0)
            while self._is("?"):
                node = yield self._ternary(node)
        self._depth -= 1
        return node

    def _if(self) -> Step:
        at = self._take().at
        test = yield self._expression()
        then = yield self._braced()
        self._expect("else")
        if self._is("if"):
            self._deeper()
            other = yield self._if()
            self._depth -= 1
        else:
            other = yield self._braced()
        return tree.Conditional(at, test, then, other)

    def _braced(self) -> Step:
        self._expect("{")
        node = yield self._sequence()
        self._expect("}")
        return node

    def _ternary(self, test: Node) -> Step:
        at = self._take().at
        if self._is(":"):
            self._take()
            self.shared.append(test)
            then = test
        else:
            then = yield self._expression()
            self._expect(":")
        other = yield self._expression()
        self._count()
        return tree.Conditional(at, test, then, other)

    # -- operators ---------------------------------------------------------------------------------

    def _binary(self, level: int) -> Step:
        """Precedence climbing. After `??` only `??` and `|` may follow in the same climb."""
        left = yield self._unary()
        before = ""
        while self._here.sort == "op":
            token = self._here
            is_negated = token.text == "not"
            if is_negated:
                token = self._tokens[self._at + 1]
                if token.sort != "op" or token.text not in NEGATABLE:
                    raise self._unexpected()
            if LEVELS.get(token.text, -1) < level:
                break
            self._at += 2 if is_negated else 1
            if token.text == "|":
                left = yield self._call(self._name(), [left])
            elif before == "??" and token.text != "??":
                raise Refused(token.at, hints.after_coalesce(token.text))
            elif token.text in ORDERINGS:
                left = yield self._comparison(left, token)
            else:
                left = yield self._operation(left, token)
            if is_negated:
                self._count()
                left = tree.Unary(token.at, "not", left)
            before = token.text
        return left

    def _operation(self, left: Node, token: Token) -> Step:
        op = SPELLINGS.get(token.text, token.text)
        if op == "**":
            self._deeper()
            right = yield self._binary(LEVELS[op])
            self._depth -= 1
        else:
            right = yield self._binary(LEVELS[op] + 1)
        self._count()
        return tree.Binary(token.at, op, left, right)

    def _comparison(self, left: Node, token: Token) -> Step:
        """`a < b <= c` is `a < b and b <= c`; b is one node in both."""
        result: Node | None = None
        while True:
            right = yield self._binary(LEVELS["<"] + 1)
            self._count(1 if result is None else 2)
            compared = tree.Binary(token.at, token.text, left, right)
            result = compared if result is None else tree.Binary(token.at, "and", result, compared)
            if not self._is(*ORDERINGS):
                return result
            self.shared.append(right)
            left, token = right, self._take()

    def _unary(self) -> Step:
        token = self._here
        if token.sort == "op" and token.text in PREFIXES:
            self._deeper()
            self._take()
            operand = yield self._binary(PREFIXES[token.text])
            self._count()
            self._depth -= 1
            node: Node = tree.Unary(token.at, SPELLINGS.get(token.text, token.text), operand)
            return (yield self._postfixes(node))
        return (yield self._primary())

    # -- operands ----------------------------------------------------------------------------------

    def _primary(self) -> Step:
        token = self._here
        if token.sort == "number" or (token.sort == "name" and token.text in CONSTANTS):
            self._take()
            self._count()
            is_number = token.sort == "number"
            return tree.Literal(token.at, token.value if is_number else CONSTANTS[token.text])
        if self._is("("):
            self._take()
            node = yield self._sequence()
            self._expect(")")
        elif self._predicates and self._is("#", "."):
            node = self._pointer()
        elif self._is("::"):
            self._take()
            node = yield self._call(self._name(), [])
        elif token.sort == "name":
            self._take()
            if self._is("("):
                node = yield self._call(token, [])
            else:
                self._count()
                node = tree.Name(token.at, token.text)
        elif token.sort in ("string", "bytes"):
            self._take()
            self._count()
            node = tree.Literal(token.at, token.value)
        elif self._is("["):
            node = yield self._list()
        elif self._is("{"):
            node = yield self._map()
        else:
            raise self._unexpected("a value")
        return (yield self._postfixes(node))

    def _pointer(self) -> Node:
        token = self._here
        name = ""
        if token.text == "#":
            self._take()
            if self._here.sort == "name":
                name = self._take().text
        self._count()
        return tree.Pointer(token.at, name)

    def _list(self) -> Step:
        at = self._take().at
        items: list[Node] = []
        while not self._is("]"):
            if items:
                self._expect(",")
                if self._is("]"):
                    break
            items.append((yield self._expression()))
        self._expect("]")
        self._count()
        return tree.ListOf(at, items)

    def _map(self) -> Step:
        at = self._take().at
        keys: list[Node] = []
        items: list[Node] = []
        while not self._is("}"):
            if items:
                self._expect(",")
                if self._is("}"):
                    break
            if self._here.sort in ("number", "string", "name"):
                token = self._take()
                keys.append(tree.Literal(token.at, token.text.encode()))
                self._count()
            elif self._is("("):
                keys.append((yield self._expression()))
            else:
                raise self._unexpected("a key")
            self._expect(":")
            items.append((yield self._expression()))
            self._count()
        self._expect("}")
        self._count()
        return tree.MapOf(at, keys, items)

    # -- postfixes ---------------------------------------------------------------------------------

    def _postfixes(self, node: Node) -> Step:
        while self._is(".", "?.", "["):
            token = self._take()
            maybe = token.text == "?."
            if token.text == "[" or (maybe and self._is("[")):
                if maybe:
                    self._take()
                node = yield self._bracketed(token.at, node, maybe=maybe)
            else:
                node = yield self._member(token.at, node, maybe=maybe)
        return node

    def _member(self, at: int, owner: Node, *, maybe: bool) -> Step:
        """`.name` or `.name(…)`; goes on with the `?.` chain that it continues."""
        word = self._here
        if word.sort != "name" and not (word.sort == "op" and word.text[0].isalpha()):
            raise self._unexpected("a member's name")
        self._take()
        in_chain = isinstance(owner, tree.Chain)
        if isinstance(owner, tree.Chain):
            owner = owner.body
        node: Node = tree.Member(at, owner, tree.Literal(word.at, word.text.encode()), maybe=maybe)
        self._count(2)
        if self._is("("):
            self._take()
            args = yield from self._arguments([])
            self._count()
            node = tree.Call(word.at, node, args)
        if in_chain or maybe:
            self._count()
            node = tree.Chain(at, node)
        return node

    def _bracketed(self, at: int, owner: Node, *, maybe: bool) -> Step:
        """`[key]` or `[low:high]`, the opening bracket taken."""
        low: Node | None = None
        high: Node | None = None
        if maybe or not self._is(":"):
            low = yield self._expression()
        if not maybe and self._is(":"):
            self._take()
            if not self._is("]"):
                high = yield self._expression()
            self._expect("]")
            self._count()
            return tree.Slice(at, owner, low, high)
        self._expect("]")
        self._count()
        assert low is not None, "an index has an expression"
        member = tree.Member(at, owner, low, maybe=maybe)
        if not maybe:
            return member
        self._count()
        return tree.Chain(at, member)

    # -- calls -------------------------------------------------------------------------------------

    def _call(self, name: Token, args: list[Node]) -> Step:
        """A call by name; `args` holds what a pipe brings."""
        self._expect("(")
        if name.text in LOOPS:
            args = yield from self._loop_arguments(name, args)
        else:
            args = yield from self._arguments(args)
        if name.text in BUILTINS or name.text in LOOPS:
            self._count()
            return tree.Builtin(name.at, name.text, args)
        self._count(2)
        return tree.Call(name.at, tree.Name(name.at, name.text), args)

    def _arguments(self, args: list[Node]) -> Arguments:
        """Arguments after the opening bracket, and the closing one."""
        first = len(args)
        while not self._is(")"):
            if len(args) > first:
                self._expect(",")
                if self._is(")"):
                    break
            args.append((yield self._expression()))
        self._expect(")")
        return args

    def _loop_arguments(self, name: Token, args: list[Node]) -> Arguments:
        """A loop's arguments: their number is fixed, and the second is a predicate."""
        least, most = LOOPS[name.text]
        piped = len(args)
        for position in range(piped, most):
            if position >= least and self._is(")"):
                break
            if self._is(")"):
                raise Refused(self._here.at, f"{name.text} takes at least {least} arguments")
            if position > piped:
                self._expect(",")
            args.append((yield self._predicate() if position == 1 else self._expression()))
        if self._is(","):
            self._take()
        self._expect(")")
        return args

    def _predicate(self) -> Step:
        at = self._here.at
        self._predicates += 1
        if self._is("{"):
            body = yield self._braced()
        else:
            body = yield self._expression()
            if self._is(";"):
                raise Refused(self._here.at, "put a predicate with several steps in { }")
        self._predicates -= 1
        self._count()
        return tree.Predicate(at, body)
