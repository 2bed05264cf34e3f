"""The tables of the package agree: what the checker knows is what runs."""

from __future__ import annotations

import pytest

from mqlite_actor.filters import check_calls, check_operators, code_loops, functions, methods
from mqlite_actor.filters.environment import _MAKERS
from mqlite_actor.filters.instants import Instant, Location
from mqlite_actor.filters.parser import LEVELS, SPELLINGS
from mqlite_actor.filters.signatures import BUILTINS, FUNCTIONS, LOOPS, METHODS, VARIABLES
from mqlite_actor.filters.values import Duration, Month, Weekday
from tests.filters.samples import outcome

TYPES = {
    "time": Instant, "duration": Duration, "weekday": Weekday, "month": Month,
    "location": Location,
}  # fmt: skip


def test_every_function_that_is_known_runs_and_the_other_way_round() -> None:
    assert set(functions.FUNCTIONS) == set(BUILTINS) | set(FUNCTIONS)
    assert set(BUILTINS) >= functions.HEAVY


def test_every_loop_that_is_known_runs_and_has_a_type() -> None:
    assert set(code_loops.WORK) == set(LOOPS) == set(check_calls.LOOP_RESULTS)


def test_every_operator_has_a_level_and_a_rule() -> None:
    assert set(check_operators.RULES) == {SPELLINGS.get(op, op) for op in LEVELS if op != "|"}


def test_every_variable_is_made() -> None:
    assert set(_MAKERS) == {*VARIABLES, "now"}


@pytest.mark.parametrize("kind", TYPES)
def test_every_method_runs_with_as_many_arguments_as_the_checker_wants(kind: str) -> None:
    runs = methods.METHODS[TYPES[kind]]
    known = METHODS[kind]
    assert {name: len(wanted) for name, (wanted, _) in runs.items()} == {
        name: signature.most for name, signature in known.items()
    }


@pytest.mark.parametrize("name", sorted({*BUILTINS, *FUNCTIONS, *LOOPS, *VARIABLES, "$env"}))
def test_a_known_name_is_taken_for_let(name: str) -> None:
    assert outcome(f"let {name} = 1; true") == "C"
