"""Makes the pages of docs/reference from the tables of the program: python docs/make.py [--check]

Called by a person after a change of a table, and with --check by tests/house/test_docs.py: then it
writes nothing, names the stale pages and ends with status 1.
Rule: PAGES says which page comes from which table; a page holds no word that is not in its table or
in the function that writes it, so that reference and program cannot disagree. The OpenAPI
description is made by the broker's own module.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # run as a script, it finds its neighbours by their full names
sys.path.insert(1, str(ROOT / "services"))  # those of this tree, whatever is installed

from docs import calls_page, command_line, python_page  # noqa: E402  # after the path
from docs.prose import plain, table  # noqa: E402  # the same
from mqlite_actor.contract import errors, limits  # noqa: E402  # the same
from mqlite_broker import openapi  # noqa: E402  # the same

REFERENCE = ROOT / "docs" / "reference"

MADE = "<!-- Made by docs/make.py; change the table it comes from, then run that. -->"


# -- errors ----------------------------------------------------------------------------------------

FAULTS = (
    (errors.CallerError, "your request"),
    (errors.WorldError, "the broker or its store"),
    (errors.OpenError, "the file or its owner"),
    (errors.Closed, "whoever closed it"),
)
GROUPS = (errors.MqliteError, errors.CallerError, errors.WorldError, errors.OpenError)
"""Classes to catch by, never raised themselves."""


def error_classes() -> list[type[errors.MqliteError]]:
    """Every class of the tree in the order of the source."""
    found = [
        each
        for each in vars(errors).values()
        if isinstance(each, type) and issubclass(each, errors.MqliteError)
    ]
    return [each for each in found if each not in GROUPS]


def fault_of(kind: type[errors.MqliteError]) -> str:
    return next((whose for parent, whose in FAULTS if issubclass(kind, parent)), "nobody")


def errors_page() -> Iterator[str]:
    yield from ("# Errors", "")
    yield (
        "One class per wire code, the same whether the engine is in your process or behind a "
        'broker. A broker answers with the HTTP status and `{"code": …, "message": …}`; '
        "a program catches the class, from `mqlite_actor`. "
        "Match on codes and classes, never on message texts."
    )
    yield ""
    on_wire = [kind for kind in error_classes() if not issubclass(kind, errors.OpenError)]
    head = ("code", "HTTP", "class", "at fault", "meaning")
    rows = (
        (
            f"`{kind.code}`",
            str(kind.http_status),
            f"`{kind.__name__}`",
            fault_of(kind),
            plain(kind.__doc__ or ""),
        )
        for kind in on_wire
    )
    yield from table(head, rows)
    yield ""
    yield "## When a store is opened"
    yield ""
    yield "These have no code: there is no broker yet that could send one."
    yield ""
    at_open = [kind for kind in error_classes() if issubclass(kind, errors.OpenError)]
    yield from table(
        ("class", "meaning"),
        ((f"`{kind.__name__}`", plain(kind.__doc__ or "")) for kind in at_open),
    )


# -- limits ----------------------------------------------------------------------------------------


def constant_name(node: ast.stmt) -> str:
    """The name that a statement of limits.py binds, or ""."""
    match node:
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
            return name if name.isupper() else ""
        case _:
            return ""


@dataclass
class Block:
    """Constants on neighbouring lines of limits.py, and the string below them: their reason."""

    line: int
    names: list[str] = field(default_factory=list)
    reason: str = ""


def limit_blocks() -> list[Block]:
    blocks: list[Block] = []
    end = 0
    for node in ast.parse(Path(limits.__file__).read_text(encoding="utf-8")).body[1:]:
        name = constant_name(node)
        if name and node.lineno > end + 1:
            blocks.append(Block(node.lineno))
        end = node.end_lineno or node.lineno
        match node:
            case ast.Expr(value=ast.Constant(value=str(reason))) if blocks:
                blocks[-1].reason = f"{blocks[-1].reason} {plain(reason)}".strip()
            case _ if name:
                blocks[-1].names.append(name)
    return blocks


def limit_titles() -> list[tuple[int, str]]:
    """(line, title) of the `# -- title ---` comments of limits.py."""
    source = Path(limits.__file__).read_text(encoding="utf-8").splitlines()
    found = ((number, re.match(r"# -- (.+?) -+$", line)) for number, line in enumerate(source, 1))
    return [(number, plain(match[1])) for number, match in found if match]


UNITS = (("BYTES", 1), ("KIB", 1024))


def amount(name: str) -> str:
    """A limit's value with its unit, from the name that carries it."""
    value = getattr(limits, name)
    words = name.split("_")
    for unit, factor in UNITS:
        if unit in words:
            size = value * factor
            return f"{size:,} bytes ({size / limits.MIB:g} MiB)"
    for unit, word in (("MS", "ms"), ("SECONDS", "s")):
        if unit in words:
            return f"{value:,g} {word}" if isinstance(value, float) else f"{value:,} {word}"
    return f"{value:,}"


def limits_page() -> Iterator[str]:
    yield from ("# Limits", "")
    yield (
        "Every queue, batch, body and wait has a bound. "
        "These are the numbers of `mqlite_actor.contract.limits`, "
        "those that belong together in one row."
    )
    blocks = limit_blocks()
    titles = limit_titles()
    for position, (start, title) in enumerate(titles):
        end = titles[position + 1][0] if position + 1 < len(titles) else sys.maxsize
        yield ""
        yield f"## {title[0].upper()}{title[1:]}"
        yield ""
        rows = (
            (
                "<br>".join(f"`{name}`" for name in block.names),
                "<br>".join(amount(name) for name in block.names),
                block.reason,
            )
            for block in blocks
            if start < block.line < end
        )
        yield from table(("name", "value", "reason"), rows)


# -- settings --------------------------------------------------------------------------------------


def settings_page() -> Iterator[str]:
    """From .env.example: comment lines, then NAME=default; a blank line ends the comment."""
    yield from ("# Settings", "")
    yield (
        "Environment variables of the broker and of the client commands. "
        "Nothing is read from a file by itself; "
        "`.env.example` at the top of the source shows how to use one. "
        "A flag wins over its variable, and an empty value counts as unset, except that of "
        "`MQLITE_ADDR`, which is refused."
    )
    comment: list[str] = []
    rows: list[tuple[str, str, str]] = []
    for line in (ROOT / ".env.example").read_text(encoding="utf-8").splitlines():
        title = re.match(r"# -- (.+?) -+$", line)
        if title:
            yield from _settings_table(rows)
            rows.clear()
            yield ""
            yield f"## {title[1][0].upper()}{title[1][1:]}"
            yield ""
        elif line.startswith("#"):
            comment.append(line.removeprefix("#").strip())
        elif "=" in line:
            name, _, default = line.partition("=")
            rows.append((f"`{name}`", f"`{default}`" if default else "", " ".join(comment)))
        if not line or title:
            comment.clear()
    yield from _settings_table(rows)


def _settings_table(rows: list[tuple[str, str, str]]) -> Iterator[str]:
    if rows:
        yield from table(("variable", "default", "meaning"), rows)


def cli_page() -> Iterator[str]:
    """The command table, by the page beside this file."""
    return command_line.page(table)


PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "calls.md": calls_page.calls_page,
    "cli.md": cli_page,
    "errors.md": errors_page,
    "limits.md": limits_page,
    "python.md": python_page.page,
    "settings.md": settings_page,
}


def markdown(page: Callable[[], Iterator[str]]) -> str:
    """A page with the line on top that says where it comes from."""
    return "\n".join((MADE, "", *page())).rstrip() + "\n"


def texts() -> dict[str, str]:
    """Every file of docs/reference that is made here, by its name."""
    return {name: markdown(page) for name, page in PAGES.items()} | {"openapi.json": openapi.text()}


def main(arguments: list[str]) -> int:
    """Write the pages, or with --check only compare. Returns the exit status."""
    if arguments not in ([], ["--check"]):
        print("usage: python docs/make.py [--check]", file=sys.stderr)
        return 2
    stale = {
        name: text
        for name, text in texts().items()
        if not (REFERENCE / name).is_file()
        or (REFERENCE / name).read_text(encoding="utf-8") != text
    }
    for name, text in stale.items():
        if arguments:
            print(f"docs/reference/{name} is stale: run python docs/make.py", file=sys.stderr)
        else:
            (REFERENCE / name).write_text(text, encoding="utf-8")
            print(f"wrote docs/reference/{name}")
    return 1 if stale and arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
