"""Every recorded outcome of the original language: 3,004 vectors and the operator matrix."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.filters.samples import DATA, outcome, vectors

AREAS = sorted({vector.area for vector in vectors() if not vector.id.startswith("V")})
SPEC = [vector for vector in vectors() if vector.id.startswith("V")]
MATRIX = json.loads((DATA / "filter_operator_matrix.json").read_text(encoding="utf-8"))


@pytest.mark.promise("V001-V142")
def test_the_vectors_of_the_specification_have_their_outcomes() -> None:
    assert [vector.id for vector in SPEC] == [f"V{number:03}" for number in range(1, 143)]
    found = {vector.id: outcome(vector.expr, vector.fixture) for vector in SPEC}
    assert found == {vector.id: vector.outcome for vector in SPEC}


@pytest.mark.parametrize("area", AREAS)
@pytest.mark.promise("E149")
def test_the_recorded_vectors_of_an_area_have_their_outcomes(area: str) -> None:
    rows = [vector for vector in vectors() if vector.area == area]
    wrong = [
        f"{row.id} {row.fixture} {row.outcome}: {row.expr[:100]!r} gives {found}"
        for row in rows
        if (found := outcome(row.expr, row.fixture)) != row.outcome
    ]
    assert rows
    assert not wrong, "\n".join(wrong)


def cells() -> Iterator[tuple[str, str]]:
    """(filter, outcome) of every cell of the matrix."""
    operands = [operand["expr"] for operand in MATRIX["operands"]]
    for op, rows in MATRIX["boolean"].items():
        for left, row in zip(operands, rows, strict=True):
            for right, wanted in zip(operands, row, strict=True):
                yield f"{left} {op} {right}", wanted
    for op, rows in MATRIX["value"].items():
        for left, row in zip(operands, rows, strict=True):
            for right, wanted in zip(operands, row, strict=True):
                yield value_cell(f"({left} {op} {right})", wanted)
    for op, row in MATRIX["unary"].items():
        for operand, wanted in zip(operands, row, strict=True):
            yield value_cell(f"({op} {operand})", wanted)
    for name, shape in SHAPES.items():
        for operand, wanted in zip(operands, MATRIX[name], strict=True):
            yield shape.format(operand), wanted


SHAPES = {
    "ternary condition": "{} ? true : false",
    "predicate of any()": "any([1], {})",
    "whole filter": "{}",
}


def value_cell(expr: str, wanted: str) -> tuple[str, str]:
    """A value is seen through type(); an error through any comparison."""
    if wanted in "EC":
        return f'type({expr}) == ""', wanted
    return f'type({expr}) == "{MATRIX["legend"][wanted].rsplit(" ", 1)[1]}"', "T"


def test_every_operator_on_every_pair_of_kinds_has_its_outcome() -> None:
    wrong: list[str] = []
    count = 0
    for expr, wanted in cells():
        count += 1
        found = outcome(expr, MATRIX["fixture"])
        if found != wanted:
            wrong.append(f"{wanted}: {expr} gives {found}")
    assert count > 8000
    assert not wrong, "\n".join(wrong)
