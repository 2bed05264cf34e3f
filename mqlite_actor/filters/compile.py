"""The door of the filter language: a text becomes a `Filter`, or is refused with the place.

Called by Subscribe and TestFilter through semantics, and by whoever loads a stored subscription.
Stages, the first fault of which wins: blank, length, tokens, grammar, types, folding, code. Nothing
leaves here but InvalidFilter while compiling and FilterFailed while evaluating.
"""

from __future__ import annotations

from typing import Final

from mqlite_actor.contract.errors import InvalidFilter
from mqlite_actor.contract.wire import Message
from mqlite_actor.filters.check import Checker
from mqlite_actor.filters.environment import UNSEEN, Facts
from mqlite_actor.filters.faults import FilterFailed, Refused, around, place
from mqlite_actor.filters.fold import fold
from mqlite_actor.filters.functions import HEAVY
from mqlite_actor.filters.generate import Program, generate
from mqlite_actor.filters.lexer import WHITE, tokens
from mqlite_actor.filters.parser import Parser
from mqlite_actor.filters.patterns import LARGE, Patterns
from mqlite_actor.filters.rewrite import rewrite
from mqlite_actor.filters.run import Run
from mqlite_actor.filters.signatures import LOOPS
from mqlite_actor.filters.spine import all_nodes, shared_nodes
from mqlite_actor.filters.tree import Binary, Builtin, Literal, Node
from mqlite_actor.filters.values import NILS, word

SOURCE_BYTES_MAX: Final = 4096
SHARED_MAX: Final = 8
"""Operands that two comparisons share; more of them, nested, can take the whole step budget."""


class Filter:
    """A compiled filter: immutable, to be kept and used for any number of messages.

    `has_loops` says that an evaluation may take long (a loop, a range, or a function whose work
    outgrows the message): run it in a worker thread. Without it an evaluation takes microseconds,
    at the very most some nanoseconds for each byte of the texts times each of the source, and if
    `reads_body` about 0.1 ms for each KiB of a JSON body.
    """

    __slots__ = ("_program", "has_loops", "reads_body", "source")

    def __init__(self, source: str, program: Program | None, *, has_loops: bool) -> None:
        self.source = source
        self.has_loops = has_loops
        self.reads_body = program is not None and len(program.hidden) < len(UNSEEN)
        self._program = program

    def evaluate(
        self, message: Message, *, enqueued_at_ms: int, visible_at_ms: int, now_ms: int
    ) -> bool:
        """Whether the message matches. Raises FilterFailed; counts as no match then."""
        if self._program is None:
            return True
        return self.decide(
            Facts(
                message, enqueued_at_ms=enqueued_at_ms, visible_at_ms=visible_at_ms, now_ms=now_ms
            )
        )

    def decide(self, facts: Facts) -> bool:
        """The same with facts that serve several filters: a body is then decoded once."""
        program = self._program
        if program is None:
            return True
        run = Run(facts, program.cells)
        try:
            result = program.code(run)
        except FilterFailed as failed:
            raise self._located(failed) from None
        except Exception as error:  # the door's promise: no other error, whatever went wrong inside
            raise FilterFailed("fault", type(error).__name__) from error
        if result is True or result is False:
            return bool(result)
        if type(result) in NILS:
            return False
        raise FilterFailed("result", f"the filter's value must be true or false, is {word(result)}")

    def _located(self, failed: FilterFailed) -> FilterFailed:
        if failed.at >= 0:
            failed.line, failed.column = place(self.source, failed.at)
        return failed


def compile_filter(source: str) -> Filter:
    """Compile a filter. Blank text matches every message.

    Raises InvalidFilter, whose message says what is wrong, where, and often what was meant.
    """
    if not source.strip(WHITE):
        return Filter(source, None, has_loops=False)
    try:
        return _compiled(source)
    except Refused as refused:
        raise InvalidFilter(_worded(source, refused)) from None
    except Exception as error:  # the door's promise: no other error, whatever went wrong inside
        raise InvalidFilter(f"invalid filter: {type(error).__name__}") from error


def _worded(source: str, refused: Refused) -> str:
    if refused.at < 0:
        return f"invalid filter: {refused.text}"
    line, column = place(source, refused.at)
    near = around(source, refused.at)
    return f"invalid filter at line {line}, column {column}: {refused.text} (near {near})"


def _compiled(source: str) -> Filter:
    try:
        size = len(source.encode())
    except UnicodeEncodeError:
        raise Refused(-1, "the text holds a lone surrogate") from None
    if size > SOURCE_BYTES_MAX:
        raise Refused(-1, f"too long: {size} bytes, {SOURCE_BYTES_MAX} are allowed")
    patterns = Patterns()
    root = Parser(tokens(source)).parse()
    Checker(patterns).check(root)
    root = rewrite(fold(root))
    program = generate(root, patterns)
    has_loops = (
        any(map(_takes_long, all_nodes(root)))
        or patterns.instructions > LARGE
        or len(shared_nodes(root)) > SHARED_MAX
    )
    return Filter(source, program, has_loops=has_loops)


def _takes_long(node: Node) -> bool:
    """A loop, a range, a function that can outgrow the message, a pattern made while running."""
    if isinstance(node, Builtin):
        return node.name in LOOPS or node.name in HEAVY
    if isinstance(node, Binary):
        is_dynamic = node.op == "matches" and not isinstance(node.right, Literal)
        return node.op == ".." or is_dynamic
    return False
