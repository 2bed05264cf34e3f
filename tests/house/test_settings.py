"""Settings are the same everywhere: the struct, the flags of `serve`, the page, .env.example."""

from __future__ import annotations

import re

import msgspec

from mqlite_broker.settings import OTHERS, VARIABLES, Settings, read_settings
from mqlite_cli.commands import COMMANDS
from tests.house.tree import PRODUCT, ROOT, sources

NAME = re.compile(r"\bMQLITE_[A-Z][A-Z_]*[A-Z]\b")
TEST_ONLY = {name for name in OTHERS if name.startswith(("MQLITE_TEST_", "MQLITE_MODEL_"))} | {
    "MQLITE_RUNID",
    "MQLITE_INTEGRITY_N",
}
CLIENT = set(OTHERS) - TEST_ONLY

LATER = {"MQLITE_DB_AUTH_TOKEN": "a refusal of sdk/address.py names it; remote stores will read it"}
"""Variables that the product names and nothing reads yet."""


def example() -> dict[str, str]:
    """The assignments of .env.example."""
    lines = (ROOT / ".env.example").read_text(encoding="utf-8").splitlines()
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {name: value for name, _, value in pairs}


def documented() -> dict[str, str]:
    """Variable → default, as the settings page has them in its tables."""
    page = (ROOT / "docs/reference/settings.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(MQLITE_\w+)` \| (?:`([^`]*)`)? ?\|", page, re.MULTILINE)
    return dict(rows)


def test_the_example_holds_every_variable_and_no_other() -> None:
    assert set(example()) == {*VARIABLES, *CLIENT}


def test_the_page_holds_what_the_example_holds() -> None:
    assert documented() == example()


def test_the_defaults_of_the_example_are_those_of_the_program() -> None:
    plain, written = read_settings({}, {}), read_settings({}, example())
    differing = {
        field.name
        for field in msgspec.structs.fields(Settings)
        if getattr(plain, field.name) != getattr(written, field.name)
    }
    assert differing == {"tokens"}, "the generated token differs, nothing else"


def test_every_variable_that_the_product_reads_is_known() -> None:
    read = {name for source in sources(PRODUCT) for name in NAME.findall(source.text)}
    assert read - {*VARIABLES, *OTHERS, *LATER} == set()


def test_every_flag_of_serve_has_its_variable_or_its_reason() -> None:
    without = {"insecure-allow-remote": "a decision for one start, not for an environment"}
    (serve,) = (command for command in COMMANDS if command.name == "serve")
    for flag in serve.flags:
        variable = "MQLITE_" + flag.upper().replace("-", "_")
        assert (variable in VARIABLES) != (flag in without), flag
