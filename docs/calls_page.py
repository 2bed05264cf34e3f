"""Makes docs/reference/calls.md from CALLS and the structs of the wire. Called by make.py alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import inspect

from docs.prose import plain, table
from mqlite_actor.contract.calls import CALLS, CONTRACT, EXT, EXT_PREFIX, Call


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
