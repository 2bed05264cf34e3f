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
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import inspect

ROOT = Path(__file__).resolve().parents[1]
# Where the front ends, and this page's neighbours, are while nothing is installed.
sys.path += [str(ROOT), str(ROOT / "services")]

from docs import python_page  # noqa: E402  # found by the line above
from mqlite_actor.contract import errors, limits  # noqa: E402  # the same
from mqlite_actor.contract.calls import (  # noqa: E402  # the same
    CALLS,
    CONTRACT,
    EXT,
    EXT_PREFIX,
    Call,
)
from mqlite_broker import openapi  # noqa: E402  # the same

REFERENCE = ROOT / "docs" / "reference"

MADE = "<!-- Made by docs/make.py; change the table it comes from, then run that. -->"

# References to the papers behind the program mean nothing on a page for its users.
SOURCE_NOTE = re.compile(r"\s*\((?:spec/|design\.md|rulings? |decision )[^)]*\)")


def plain(text: str) -> str:
    """A docstring as one line of prose."""
    return re.sub(r"\s+", " ", SOURCE_NOTE.sub("", text)).strip()


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """A Markdown table; bars inside cells are escaped."""
    columns = list(head)
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    for row in rows:
        cells = [cell.replace("|", "\\|") for cell in row]
        yield f"| {' | '.join(cells)} |"


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


# -- calls -----------------------------------------------------------------------------------------


def type_name(kind: inspect.Type) -> str:
    """A field's JSON type in words; objects are links to their section."""
    match kind:
        case inspect.StructType(cls=cls):
            return f"[{cls.__name__}](#{cls.__name__.lower()})"
        case inspect.ListType(item_type=item):
            return f"list of {type_name(item)}"
        case inspect.DictType(value_type=value):
            return f"object with {type_name(value)} values"
        case inspect.UnionType(types=types):
            words = [type_name(each) for each in types]
            return " or ".join(sorted(words, key=lambda word: word == "null"))
        case inspect.EnumType(cls=cls):
            return " or ".join(f"`{each.value}`" for each in cls)
        case _:
            return SCALARS[type(kind)]


SCALARS: dict[type[inspect.Type], str] = {
    inspect.BoolType: "boolean",
    inspect.BytesType: "base64 string",
    inspect.FloatType: "number",
    inspect.IntType: "integer",
    inspect.NoneType: "null",
    inspect.StrType: "string",
}


def struct(kind: type) -> inspect.StructType:
    described = inspect.type_info(kind)
    assert isinstance(described, inspect.StructType), f"{kind} is no struct"
    return described


def objects_in(kind: inspect.Type) -> Iterator[inspect.StructType]:
    """The structs that a type is made of, itself included, outermost first."""
    match kind:
        case inspect.StructType(fields=fields):
            yield kind
            for each in fields:
                yield from objects_in(each.type)
        case inspect.ListType(item_type=inner) | inspect.DictType(value_type=inner):
            yield from objects_in(inner)
        case inspect.UnionType(types=types):
            for each_type in types:
                yield from objects_in(each_type)
        case _:
            return


def fields_of(kind: inspect.StructType) -> Iterator[str]:
    if not kind.fields:
        yield "No fields: `{}`."
        return
    rows = ((f"`{each.encode_name}`", type_name(each.type)) for each in kind.fields)
    yield from table(("field", "type"), rows)


def call_table(calls: Iterable[Call]) -> Iterator[str]:
    rows = (
        (f"[{call.name}](#{call.name.lower().replace('/', '')})", f"`{call.right}`", call.doc)
        for call in calls
    )
    yield from table(("call", "right", "what it does"), rows)


def call_sections(calls: tuple[Call, ...], level: str) -> Iterator[str]:
    """One section a service, with headings of this level, and in it one a call."""
    for service in dict.fromkeys(call.name.partition("/")[0] for call in calls):
        title = service if calls is CONTRACT else f"{service} (our own)"
        yield from ("", f"{level} {title}", "")
        for call in calls:
            if call.name.startswith(f"{service}/"):
                yield from call_section(call, f"{level}#")


def call_section(call: Call, level: str) -> Iterator[str]:
    yield from (f"{level} {call.name}", "")
    yield from (f"{call.doc}. Needs the right `{call.right}`.", "", f"`POST {call.path}`", "")
    for word, body in (("Request", call.request), ("Response", call.response)):
        yield from (f"{word}: {plain(body.__doc__ or '')}", "")
        yield from fields_of(struct(body))
        yield ""


def calls_page() -> Iterator[str]:
    yield from ("# Calls", "")
    yield (
        "Every call is `POST` with a JSON object, and answers with one. "
        'A request field that is left out has its zero value (`0`, `""`, `false`, `[]`), which '
        "means the default; a field that does not exist is refused. "
        "Times are milliseconds since 1970 UTC, durations are milliseconds. "
        "Errors are on [their own page](errors.md). "
        "A broker that does not serve a call yet answers 404 with a message that starts with "
        "`no such path`; its card (`GET /`) lists what it serves of the contract."
    )
    yield ""
    yield from call_table(CONTRACT)
    yield ""
    yield (
        "[Our own calls](#our-own-calls) go beyond the contract of mqlite v0.3.3, which other "
        "brokers keep too:"
    )
    yield ""
    yield from call_table(EXT)
    yield from call_sections(CONTRACT, "##")
    yield from ("## Our own calls", "")
    yield (
        f"Under `{EXT_PREFIX}`, with rights like the others, and not in the card. "
        "Another broker of the contract answers 404 with `no such path`; "
        "the Python handles then raise `Unsupported`, except that `release` abandons instead. "
        "In a guard or a patch (`expected_count`, the fields of `config` in UpdateQueue and of "
        "`message` in Resubmit) a field that is left out and one that is zero are two things: "
        "what is left out stays as it is, or guards nothing."
    )
    yield from call_sections(EXT, "###")
    yield "## Objects"
    yield ""
    bodies = [struct(body) for call in CALLS for body in (call.request, call.response)]
    names = {each.cls for each in bodies}
    inner = {
        each.cls: each for body in bodies for each in objects_in(body) if each.cls not in names
    }
    for cls, described in inner.items():
        yield f"### {cls.__name__}"
        yield ""
        yield plain(cls.__doc__ or "")
        yield ""
        yield from fields_of(described)
        yield ""


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
        "A flag wins over its variable, and an empty value counts as unset."
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


# -- the command line ------------------------------------------------------------------------------


def cli_page() -> Iterator[str]:
    # Where the page's maker and the package are found without an install.
    sys.path += [str(ROOT), str(ROOT / "services")]
    from docs.command_line import page

    return page(table)


PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "calls.md": calls_page,
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
