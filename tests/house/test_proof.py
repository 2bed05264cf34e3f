"""A long proof can be made in pieces, and its figures are of one product."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from docs import promises_page
from tests import figures, proof
from tests.house.tree import ROOT

PROGRAM = """
import json, os, sys
size = os.environ["SIZE"]
with open(os.environ["MQLITE_PROOF"], "a") as file:
    row = {"suite": "s", "date": "2026-01-02", "seed": 7, "tried": {"things": int(size)}}
    file.write(json.dumps({**row, "product": "p"}) + "\\n")
sys.exit(size == "13" or sys.argv[1:] != ["tests"])
"""
"""A layer's tests: as many things as it is told to try, of which the thirteenth goes wrong."""


class Place:
    """A product, and the file of its proof."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.file = root / "proof.jsonl"
        self.program = root / "program.py"
        self.program.write_text(PROGRAM, encoding="utf-8")
        self.change("first")

    def change(self, text: str) -> None:
        for folder in figures.PRODUCT:
            (self.root / folder).mkdir(exist_ok=True)
            (self.root / folder / "a.py").write_text(text, encoding="utf-8")

    def prove(self, size: str, *, again: bool = False, name: str = "one") -> list[str]:
        """The names of layers that failed."""
        layer = proof.Layer(name, ("tests",), {"SIZE": size})
        command = [sys.executable, str(self.program)]
        return proof.prove([layer], command, self.file, again=again, root=self.root)

    def tried(self) -> dict[str, int]:
        """What stands in the file, added up."""
        suites = promises_page.summed(proof.read(self.file))
        return dict(suites["s"]["tried"]) if suites else {}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_layer_that_has_passed_on_this_product_is_not_run_again(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    assert place.prove("5") == []
    place.program.write_text("raise SystemExit(1)", encoding="utf-8")
    assert place.prove("5") == []
    assert "passed on this product" in capsys.readouterr().out
    assert place.prove("5", again=True) == ["one"]
    assert place.tried() == {"things": 5}


def test_a_layer_is_run_again_for_other_sizes_and_on_another_product(place: Place) -> None:
    for size in ("5", "6"):
        place.prove(size)
        assert place.tried() == {"things": int(size)}, "a layer's figures replace its earlier ones"
    place.change("second")
    place.program.write_text(PROGRAM.replace('"p"', '"q"'), encoding="utf-8")
    assert place.prove("6", name="two") == []
    assert place.tried() == {"things": 6}, "figures of two products are not added"


def test_a_layer_that_finds_something_adds_no_figures(place: Place) -> None:
    assert place.prove("13") == ["one"]
    assert place.tried() == {}
    assert place.prove("13") == ["one"], "and is run again"


def test_a_product_that_changes_meanwhile_proves_nothing(place: Place) -> None:
    spoil = f"open({str(place.root / 'services' / 'b.py')!r}, 'w').close()\n"
    place.program.write_text(spoil + PROGRAM, encoding="utf-8")
    assert place.prove("5") == ["one"]
    assert place.tried() == {}


def test_every_layer_has_tests_that_read_its_sizes() -> None:
    for layer in proof.LAYERS:
        paths = [ROOT / word for word in layer.tests if word.startswith("tests/")]
        assert all(path.exists() for path in paths), layer.name
        files = [
            each for path in paths for each in ([path] if path.is_file() else path.rglob("*.py"))
        ]
        shared = [ROOT / "tests/fuzzing.py"]
        text = "".join(each.read_text("utf-8") for each in [*files, *shared])
        assert [size for size in layer.sizes if f'"{size}"' not in text] == [], layer.name
