"""The checker's type is the truth: what an expression is typed, its value is.

Expressions are made for a type, so that most of them compile; the quirks of the original, where a
typed value may be nil or another number (spec/filters.md 8), are what the makers leave out.
"""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mqlite_actor.filters import FilterFailed
from mqlite_actor.filters.check import Checker
from mqlite_actor.filters.faults import Refused
from mqlite_actor.filters.fold import fold
from mqlite_actor.filters.generate import generate
from mqlite_actor.filters.instants import Instant
from mqlite_actor.filters.kinds import Type
from mqlite_actor.filters.lexer import tokens
from mqlite_actor.filters.parser import Parser
from mqlite_actor.filters.patterns import Patterns
from mqlite_actor.filters.rewrite import rewrite
from mqlite_actor.filters.routine import complete
from mqlite_actor.filters.run import Run
from mqlite_actor.filters.values import LISTS, Duration, Octets, Strings, Value
from tests.filters.samples import FIXTURES, facts

many = settings(
    max_examples=400,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
Made = st.SearchStrategy[str]

INTS: Final = ["0", "1", "-3", "9223372036854775807", "body_size", "len(subject)", "int('7')"]
FLOATS: Final = ["1.5", "-0.0", "1e308", "float('nan')", "7 / 2", "2 ** 0.5"]
TEXTS: Final = ['""', '"a"', '"é"', "subject", "properties.plan", "body_text", "message_id"]
BOOLS: Final = ["true", "false", 'subject == "x"', "body_size > 100"]
SPANS: Final = ["hours(2)", 'duration("90s")', "visible_at - enqueued_at"]
TIMES: Final = ["enqueued_at", "visible_at", "now()", 'date("2026-02-28")']
LISTED: Final = ["[1, 2, 3]", "1..4", "[body_size]", "[]"]
NATIVE: Final = ["subject_parts", "property_keys", 'split(subject, ".")']


def joined(shape: str, *parts: Made) -> Made:
    """Texts of a shape whose places are filled from other makers."""
    return st.tuples(*parts).map(lambda values: shape.format(*values))


SHAPES: Final = {
    "int": [
        "({int} {op} {int})", "-({int})", "bitand({int}, {int})", "len({text})",
        "({bool} ? {int} : {int})", "count({list}, {bool})", "int({float})", "len({native})",
        "({int} % {int})", "{time}.Year()", "sum({list}, {int})",
    ],
    "float": [
        "({float} {op} {int})", "({int} / {int})", "round({float})", "{span}.Hours()",
        "({int} ** {int})", "({bool} ? {float} : {float})", "float({int})",
    ],
    "text": [
        "({text} + {text})", "upper({text})", "string({int})", "({bool} ? {text} : {text})",
        "{text}[1:{int}]", 'replace({text}, "a", {text})', 'join({native}, ",")',
        '{time}.Format("2006-01-02")', "trim({text})", "toJSON({list})", "{span}.String()",
    ],
    "bool": [
        "({int} < {float})", "({bool} and {bool})", "not ({bool})", "({text} in {native})",
        "({text} contains {text})", "any({list}, {bool})", "({span} <= {span})",
        "({time} == {time})", "({int} == {int})", "({text} == {text})", "all({native}, {bool})",
    ],
    "span": [
        "({span} + {span})", "({time} - {time})", "({int} * {span})", "{span}.Round({span})",
    ],
    "time": [
        "({time} + {span})", "{time}.UTC()", "{time}.Truncate({span})",
        '{time}.In(timezone("Europe/Paris"))', "({bool} ? {time} : {time})",
    ],
    "list": [
        "[{int}, {int}]", "{list}[1:]", "filter({list}, {bool})", "map({list}, {int})",
        "sortBy({list}, {int})", "reverse({list})", "concat({list}, {list})",
    ],
    "native": [
        "split({text}, {text})", "{native}[:1]", "take({native}, 1)",
    ],
}  # fmt: skip
"""Kind → how an expression of it is made of others."""


def grown(kind: str, makers: dict[str, Made]) -> Made:
    """Expressions of a kind, made of smaller ones."""
    ops = st.sampled_from(["+", "-", "*"])

    def fill(shape: str) -> Made:
        names = [part.split("}")[0] for part in shape.split("{")[1:]]
        bare = shape
        for name in names:
            bare = bare.replace("{" + name + "}", "{}", 1)
        return joined(bare, *(ops if name == "op" else makers[name] for name in names))

    return st.one_of(*map(fill, SHAPES[kind]))


LEAVES: Final = {
    "int": INTS, "float": FLOATS, "text": TEXTS, "bool": BOOLS, "span": SPANS, "time": TIMES,
    "list": LISTED, "native": NATIVE,
}  # fmt: skip


def expressions(levels: int) -> dict[str, Made]:
    """Makers of every kind, nested so deep."""
    makers: dict[str, Made] = {kind: st.sampled_from(leaves) for kind, leaves in LEAVES.items()}
    for _ in range(levels):
        makers = {kind: st.one_of(makers[kind], grown(kind, makers)) for kind in LEAVES}
    return makers


EXACT: Final[dict[str, type]] = {
    "int": int, "int64": int, "float": float, "string": bytes, "bool": bool, "time": Instant,
    "duration": Duration, "bytes": Octets,
}  # fmt: skip


def is_of(value: Value, kind: Type) -> bool:
    """Whether a value is what its type says."""
    if kind.kind == "list":
        if kind.is_native and not isinstance(value, Strings):
            return False
        is_list = type(value) in LISTS
        return is_list and kind.item is not None and all(is_of(item, kind.item) for item in value)
    return kind.kind not in EXACT or type(value) is EXACT[kind.kind]


def valued(expr: str, fixture: str) -> tuple[Type, Value]:
    """Type and value of an expression that need not be a filter. Raises Refused, FilterFailed."""
    patterns = Patterns()
    root = Parser(tokens(expr)).parse()
    kind = complete(Checker(patterns)._visit(root))
    program = generate(rewrite(fold(root)), patterns)
    return kind, program.code(Run(facts(fixture), program.cells))


@pytest.mark.parametrize("kind", sorted(LEAVES))
def test_a_value_is_of_the_type_that_the_checker_found(kind: str) -> None:
    looked_at = 0

    @many
    @given(expr=expressions(2)[kind], fixture=st.sampled_from(FIXTURES))
    def look(expr: str, fixture: str) -> None:
        nonlocal looked_at
        try:
            found, value = valued(expr, fixture)
        except (Refused, FilterFailed):
            return
        looked_at += 1
        assert is_of(value, found), (
            f"{expr} is typed {found}, its value is a {type(value).__name__}"
        )

    look()
    assert looked_at > 50
