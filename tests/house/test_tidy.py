"""The walls on form: sizes, heads, names, clocks, errors, suppressions, sleeps.

Each wall is a row of WALLS: a rule, the files it holds for, the function that looks, a breach that
the function must find, and something harmless that it must leave alone.
Walls on imports stand in test_imports.py, walls on texts of any kind in test_texts.py.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from tests.house.tree import EVERYWHERE, PRODUCT, Source, dotted, sources

Look = Callable[[Source], Iterator[str]]

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
LINE_CHARACTERS_MAX = 100
"""A file that a newcomer reads in one sitting, a function that fits one screen (docs/style.md)."""

SLEEPS_ALLOWED: dict[str, str] = {
    **dict.fromkeys(
        [f"tests/simulation/{name}.py" for name in ("client", "judge", "world")],
        "time is simulated there, and sleeping takes none",
    ),
    **dict.fromkeys(
        [f"tests/soak/{name}.py" for name in ("load", "hostile", "test_soak")],
        "a soak is measured in time: its load and its looks are paced",
    ),
    "tests/mutants/forks.py": "a tool, which waits for programs that may hang",
}
"""Test file → reason. A test waits for an event with a bound, or moves the clock."""

CLOCK = "mqlite_actor/clock.py"
CLOCK_CALLS = {
    f"{owner}.{call}"
    for owner, calls in {
        "time": ("time", "time_ns", "monotonic", "monotonic_ns"),
        "datetime": ("now", "utcnow", "today"),
        "datetime.datetime": ("now", "utcnow", "today"),
    }.items()
    for call in calls
}

SLEEP_CALLS = {"time.sleep", "trio.sleep", "trio.sleep_until", "asyncio.sleep", "anyio.sleep"}

SQL = re.compile(
    r"\s*(SELECT\s|INSERT\s+(INTO|OR)\b|UPDATE\s|DELETE\s+FROM\b|REPLACE\s+INTO\b|WITH\s+\w+\s+AS\b"
    r"|(CREATE|DROP|ALTER)\s+(TABLE|INDEX|TRIGGER|VIEW|UNIQUE|VIRTUAL|TEMP)\b"
    r"|PRAGMA\s|(ATTACH|DETACH|EXPLAIN)\s|(SAVEPOINT|RELEASE)\s"
    r"|(BEGIN|COMMIT|ROLLBACK|VACUUM|ANALYZE|REINDEX)\b)"
)

DIRECTIVE = re.compile(
    r"(type:\s*ignore(\[[\w, -]*\])?|(ruff:\s*|flake8:\s*)?noqa(:\s*[A-Z]+\d+([,\s]+[A-Z]+\d+)*)?"
    r"|mypy:\s*[\w-]+|pragma:\s*no\s*(cover|branch))"
)

BAG_FILES = {"utils.py", "util.py", "helpers.py", "helper.py", "common.py", "misc.py"}
BAG_CLASS = re.compile(r"(^Base[A-Z]|Manager$|Helper$|Utils?$)")


def too_long_file(source: Source) -> Iterator[str]:
    if len(source.lines) > FILE_LINES_MAX:
        yield source.at(1, f"{len(source.lines)} lines, the wall is {FILE_LINES_MAX}")


def too_long_function(source: Source) -> Iterator[str]:
    for node in source.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES_MAX:
                what = f"{node.name} has {length} lines, the wall is {FUNCTION_LINES_MAX}"
                yield source.at(node.lineno, what)


def too_long_line(source: Source) -> Iterator[str]:
    for number, line in enumerate(source.lines, 1):
        if len(line) > LINE_CHARACTERS_MAX:
            yield source.at(number, f"{len(line)} characters, the wall is {LINE_CHARACTERS_MAX}")


def headless_module(source: Source) -> Iterator[str]:
    """A product module says its job and its rules; a test or a package face may do with a line."""
    head = ast.get_docstring(source.syntax) or ""
    lines = [line for line in head.splitlines() if line.strip()]
    short = source.name == "__init__.py" or not source.path.startswith(PRODUCT)
    if len(lines) < (1 if short else 2):
        yield source.at(1, "no head: job, caller and callee, rules that must hold")


def foreign_clock(source: Source) -> Iterator[str]:
    """Time comes from mqlite_actor.clock alone, so that a test can move it."""
    if source.path == CLOCK:
        return
    for node in source.nodes:
        if isinstance(node, ast.Call) and dotted(node.func) in CLOCK_CALLS:
            yield source.at(node.lineno, f"{dotted(node.func)}() instead of a Clock")
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            for alias in node.names:
                if f"time.{alias.name}" in CLOCK_CALLS:
                    yield source.at(node.lineno, f"{alias.name} from time instead of a Clock")


def swallowed_error(source: Source) -> Iterator[str]:
    for node in source.nodes:
        if isinstance(node, ast.ExceptHandler):
            if node.type is None:
                yield source.at(node.lineno, "bare except")
            elif _catches_all(node.type) and all(_does_nothing(step) for step in node.body):
                yield source.at(node.lineno, "every error caught and nothing done")
        if isinstance(node, ast.Call) and dotted(node.func) in ("suppress", "contextlib.suppress"):
            yield from (
                source.at(node.lineno, "every error suppressed")
                for argument in node.args
                if _catches_all(argument)
            )


def _catches_all(kind: ast.expr) -> bool:
    kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return any(dotted(each) in ("Exception", "BaseException") for each in kinds)


def _does_nothing(step: ast.stmt) -> bool:
    constant = isinstance(step, ast.Expr) and isinstance(step.value, ast.Constant)
    return constant or isinstance(step, ast.Pass | ast.Continue)


def sql_text(source: Source) -> Iterator[str]:
    if source.path.startswith("mqlite_actor/storage/"):
        return
    prose = {id(node.value) for node in source.nodes if isinstance(node, ast.Expr)}
    for node in source.nodes:
        if not isinstance(node, ast.Constant) or id(node) in prose:
            continue
        if isinstance(node.value, str) and SQL.match(node.value):
            yield source.at(node.lineno, f"SQL outside storage: {node.value.strip()[:30]!r}")


def bag_of_things(source: Source) -> Iterator[str]:
    if source.name in BAG_FILES:
        yield source.at(1, "a file is named for its noun")
    for node in source.nodes:
        if isinstance(node, ast.ClassDef) and BAG_CLASS.search(node.name):
            yield source.at(node.lineno, f"class {node.name}: name the noun")


def sleep_in_test(source: Source) -> Iterator[str]:
    if source.path in SLEEPS_ALLOWED:
        return
    for node in source.nodes:
        if isinstance(node, ast.Call) and dotted(node.func) in SLEEP_CALLS:
            yield source.at(
                node.lineno, f"{dotted(node.func)}: wait for an event or move the clock"
            )
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if f"{node.module}.{alias.name}" in SLEEP_CALLS:
                    yield source.at(node.lineno, f"{alias.name} from {node.module}")


def unexplained_suppression(source: Source) -> Iterator[str]:
    """What is left of the comment after its directives must be a reason."""
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type == tokenize.COMMENT and DIRECTIVE.search(token.string):
            reason = DIRECTIVE.sub("", token.string)
            if len(re.findall(r"[A-Za-z]{2,}", reason)) < 2:
                yield source.at(token.start[0], f"no reason beside {token.string!r}")


@dataclass(frozen=True)
class Wall:
    """One rule. `breach` is a snippet that `look` must find when it stands at `breach_at`."""

    rule: str
    look: Look
    folders: tuple[str, ...]
    breach: str
    harmless: str
    breach_at: str = "mqlite_actor/semantics/planted.py"


FUNCTION = "def f():\n" + "    x = 1\n" * (FUNCTION_LINES_MAX - 1)
DONT = "no" + "qa"

WALLS = (
    Wall(
        "a file has at most 400 lines",
        too_long_file,
        EVERYWHERE,
        breach="x = 1\n" * (FILE_LINES_MAX + 1),
        harmless="x = 1\n" * FILE_LINES_MAX,
    ),
    Wall(
        "a function has at most 60 lines",
        too_long_function,
        EVERYWHERE,
        breach=FUNCTION + "    x = 1\n",
        harmless=FUNCTION,
    ),
    Wall(
        "a line has at most 100 characters",
        too_long_line,
        EVERYWHERE,
        breach="#" * (LINE_CHARACTERS_MAX + 1),
        harmless="#" * LINE_CHARACTERS_MAX,
    ),
    Wall(
        "every module has a head",
        headless_module,
        EVERYWHERE,
        breach='"""Only a title."""\n',
        harmless='"""A title.\n\nCalled by one, calls the other.\n"""\n',
    ),
    Wall(
        "only clock.py reads a clock",
        foreign_clock,
        PRODUCT,
        breach="import time\nnow = time.time()\n",
        harmless="import time\nname = time.tzname\n",
    ),
    Wall(
        "no error is swallowed",
        swallowed_error,
        EVERYWHERE,
        breach="try:\n    f()\nexcept Exception:\n    pass\n",
        harmless="try:\n    f()\nexcept KeyError:\n    pass\n",
    ),
    Wall(
        "no except is bare",
        swallowed_error,
        EVERYWHERE,
        breach="try:\n    f()\nexcept:\n    raise\n",
        harmless="try:\n    f()\nexcept Exception:\n    log()\n    raise\n",
    ),
    Wall(
        "SQL stands in storage",
        sql_text,
        PRODUCT,
        breach='def f(t):\n    return f"DELETE FROM {t}"\n',
        harmless='"""SELECT is a word here."""\nmethod = "DELETE"\n',
    ),
    Wall(
        "no bags of things",
        bag_of_things,
        EVERYWHERE,
        breach="class QueueManager:\n    pass\n",
        harmless="class Mailbox:\n    pass\n",
    ),
    Wall(
        "no file is called utils",
        bag_of_things,
        EVERYWHERE,
        breach="x = 1\n",
        harmless="",
        breach_at="mqlite_actor/sdk/utils.py",
    ),
    Wall(
        "no test sleeps",
        sleep_in_test,
        ("tests/",),
        breach="import trio\n\nasync def f():\n    await trio.sleep(1)\n",
        harmless="import trio\n\nasync def f():\n    await trio.sleep_forever()\n",
        breach_at="tests/engine/test_planted.py",
    ),
    Wall(
        "every suppression has its reason",
        unexplained_suppression,
        EVERYWHERE,
        breach=f"import a  # {DONT}: F401\n",
        harmless=f"import a  # {DONT}: F401 - imported for its registration\n",
    ),
)

NAMES = [wall.rule for wall in WALLS]


@pytest.mark.parametrize("wall", WALLS, ids=NAMES)
def test_the_tree_keeps_the_wall(wall: Wall) -> None:
    found = [each for source in sources(wall.folders) for each in wall.look(source)]
    assert not found, f"{wall.rule}:\n" + "\n".join(found)


@pytest.mark.parametrize("wall", WALLS, ids=NAMES)
def test_the_wall_finds_a_breach_and_leaves_the_harmless_alone(wall: Wall) -> None:
    assert list(wall.look(Source(wall.breach_at, wall.breach)))
    if wall.harmless:
        assert not list(wall.look(Source(wall.breach_at, wall.harmless)))
