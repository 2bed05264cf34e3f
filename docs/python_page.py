"""Makes docs/reference/python.md, the API of the package, from its own signatures and docstrings.

Called by docs/make.py. Rule: every public name stands on the page, errors excepted, which have a
page of their own; a new one joins by itself, under "Other names" until a heading claims it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import mqlite_actor as mq
from mqlite_actor.contract.errors import MqliteError

HEADINGS: dict[str, tuple[str, ...]] = {
    "Opening": (
        "connect", "connect_sync", "open_embedded", "open_embedded_sync", "run_embedded",
        "open_reader", "open_reader_sync",
    ),
    "Handles": ("Handle", "Embedded", "SyncHandle", "SyncEmbedded", "Reader", "SyncReader"),
    "Messages": ("Message", "Received", "ReceivedMessage", "HeldMessage"),
    "Receivers": ("Receiver", "SyncReceiver", "ReceiverOptions", "ReceiverHooks", "STOP_SIGNALS"),
    "Policies": (
        "retry", "retry_exponentially", "reject", "by_exception", "Retry", "DeadLetter",
    ),
    "Transactions": ("Tx", "SyncTx"),
    "Typed queues, questions and answers": (
        "TypedQueue", "Requester", "requester", "SyncRequester", "requester_sync",
    ),
}  # fmt: skip

TWINS = {"SyncHandle": "Handle", "SyncEmbedded": "Embedded", "SyncTx": "Tx", "SyncReader": "Reader"}
"""Blocking classes: their verbs are those of the other, without `await`."""

SOURCE_NOTE = re.compile(r"\s*\((?:spec/|design\.md|rulings? |decision |faults )[^)]*\)")


def page() -> Iterator[str]:
    """The lines of the page."""
    yield "# Python"
    yield ""
    yield (
        "Everything here is in `mqlite_actor`. Durations are seconds or a `timedelta`, instants "
        "are aware `datetime`s. The errors are on [their own page](errors.md); the programs in "
        "[examples](../examples/README.md) show the names at work."
    )
    claimed = {name for names in HEADINGS.values() for name in names}
    rest = tuple(name for name in mq.__all__ if name not in claimed and not _is_error(name))
    for heading, names in {**HEADINGS, "Other names": rest}.items():
        yield ""
        yield f"## {heading}"
        for name in names:
            if hasattr(mq, name):
                yield ""
                yield from _entry(name, getattr(mq, name))


def _is_error(name: str) -> bool:
    found = getattr(mq, name)
    return inspect.isclass(found) and issubclass(found, MqliteError)


def _entry(name: str, found: Any) -> Iterator[str]:  # noqa: ANN401  # whatever is public
    yield f"### {name}"
    yield ""
    if inspect.isclass(found):
        yield _text(found)
        yield from _options(found)
        if name in TWINS:
            yield ""
            twin = TWINS[name]
            yield f"Its verbs are those of [{twin}](#{twin.lower()}), without `await`."
        else:
            yield from _verbs(found)
    elif inspect.isfunction(found):
        yield f"`{_signature(name, found)}`"
        yield ""
        yield _text(found)
    else:
        shown = ", ".join(each.name for each in found) if isinstance(found, tuple) else _kind(found)
        yield f"`{shown}`"


def _kind(found: Any) -> str:  # noqa: ANN401  # whatever is public
    return re.sub(r"\b(?:[a-z_]+\.)+", "", str(found))


def _options(kind: type) -> Iterator[str]:
    """The keys of a TypedDict; what they mean stands in its source, beside each."""
    if not hasattr(kind, "__total__"):
        return
    lines = inspect.getsource(kind)
    for key, words in re.findall(
        r'^    (\w+): [^\n]+\n    """(.*?)"""', lines, re.MULTILINE | re.DOTALL
    ):
        joined = re.sub(r"\s+", " ", words)
        yield f"- `{key}`: {joined}"


def _verbs(kind: type) -> Iterator[str]:
    inherited = {name for parent in kind.__mro__[1:-1] for name in vars(parent)}
    public_parent = any(parent.__name__ in mq.__all__ for parent in kind.__mro__[1:-1])
    for name, verb in inspect.getmembers(kind):
        is_verb = inspect.isfunction(verb) or isinstance(verb, property | cached_property)
        if name.startswith("_") or not is_verb or (public_parent and name in inherited):
            continue
        yield ""
        if isinstance(verb, property):
            yield f"**`{name}`** — {_text(verb)}"
        else:
            yield f"**`{_signature(name, verb)}`** — {_text(verb)}"


def _signature(name: str, function: Any) -> str:  # noqa: ANN401  # a function or a method
    signature = inspect.signature(function)
    shown = [each for each in signature.parameters.values() if each.name != "self"]
    text = str(signature.replace(parameters=shown)).replace("'", "")
    is_async = inspect.iscoroutinefunction(function)
    return f"{'await ' if is_async else ''}{name}{text}"


def _text(found: Any) -> str:  # noqa: ANN401  # whatever has a docstring
    return SOURCE_NOTE.sub("", inspect.getdoc(found) or "")
