"""What a tool takes: a JSON Schema and a strict check, both from the contract's structs.

Called by `tools` when its tables are read and at every call. Rules: the type of an argument is the
type of the field that it becomes, narrowed at most; nothing is guessed: an argument that is
unknown, missing or of the wrong type is refused by name before any call is made.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mqlite_actor.contract.errors import InvalidArgument, quoted

Json = dict[str, Any]


class Arguments:
    """The arguments of one tool, in the order in which they are shown."""

    __slots__ = ("_kind", "required", "schema")

    def __init__(self, name: str, types: Mapping[str, Any], *, required: Iterable[str]) -> None:
        self.required = tuple(required)
        fields: list[Any] = []
        for each, kind in types.items():
            is_required = each in self.required
            fields.append((each, kind) if is_required else (each, kind | UnsetType, UNSET))
        self._kind = msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)
        self.schema = _inlined(msgspec.json.schema(self._kind))

    @property
    def names(self) -> list[str]:
        return list(self._kind.__struct_fields__)

    def check(self, given: Mapping[str, Any]) -> Json:
        """The arguments that were given, as values of the contract; InvalidArgument."""
        for name in given:
            if name not in self.names:
                near = difflib.get_close_matches(name[:64], self.names, n=1)
                mend = f"did you mean {near[0]}?" if near else f"there are {self._listed()}"
                raise InvalidArgument(f"{quoted(name)}: unknown argument; {mend}")
        missing = [name for name in self.required if name not in given]
        if missing:
            raise InvalidArgument(f"{', '.join(missing)}: missing; the tool cannot do without")
        try:
            checked = msgspec.convert(dict(given), self._kind)
        except msgspec.ValidationError as error:
            raise InvalidArgument(_worded(str(error))) from error
        values = ((name, getattr(checked, name)) for name in self.names)
        return {name: value for name, value in values if value is not UNSET}

    def _listed(self) -> str:
        return ", ".join(self.names) or "none"


def field_type(
    struct: type[msgspec.Struct],
    name: str,
    doc: str,
    **bounds: Any,  # noqa: ANN401 - bounds of any type
) -> Any:  # noqa: ANN401 - a type form
    """The type of a field of the contract with words for the agent, narrowed by `bounds`."""
    kind = get_type_hints(struct, include_extras=True)[name]
    # msgspec takes each bound once: the wire's own stand where the tool names none.
    ranges: Json = {}
    if get_origin(kind) is Annotated:
        kind, meta = get_args(kind)
        ranges = {"ge": meta.ge, "le": meta.le}
    return Annotated[kind, Meta(description=doc, **{**ranges, **bounds})]


def _inlined(document: Json) -> Json:
    """A schema without references, which not every client follows, and without titles."""
    parts: Json = document.get("$defs", {})

    def flat(node: Any) -> Any:  # noqa: ANN401 - any part of a JSON document
        if isinstance(node, list):
            return [flat(each) for each in node]
        if not isinstance(node, dict):
            return node
        if "$ref" in node:
            target = flat(parts[node["$ref"].rpartition("/")[2]])
            return {**target, **{key: flat(item) for key, item in node.items() if key != "$ref"}}
        return {key: flat(item) for key, item in node.items() if not _says_nothing(key, item)}

    top: Json = flat({key: item for key, item in document.items() if key != "$defs"})
    return {**top, "additionalProperties": False}


def _says_nothing(key: str, item: object) -> bool:
    """The name of a struct (a property called so would be an object), or a list of nothing."""
    return (key == "title" and isinstance(item, str)) or (key == "required" and item == [])


def _worded(reason: str) -> str:
    """msgspec's words with the argument in front."""
    text, _, place = reason.partition(" - at `")
    place = place.rstrip("`").removeprefix("$").removeprefix(".")
    text = text[:1].lower() + text[1:]
    return f"{place}: {text}" if place else text
