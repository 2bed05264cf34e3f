"""A topology: queues and subscriptions with all their settings, as a TOML file and as data.

Called by `applying`; knows nothing of brokers. Rules: a setting is named and written as the flag of
`create-queue` is; one that is absent has its default, so that a file means the same wherever and
however often it is applied; the order in a file means nothing; every error names the file, the
table and the key.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from mqlite_actor.contract.errors import InvalidArgument
from mqlite_actor.contract.limits import LOCK_DURATION_MS_DEFAULT, MAX_DELIVERY_COUNT_DEFAULT
from mqlite_cli import grammar
from mqlite_cli.commands import BY_NAME
from mqlite_cli.escaping import field
from mqlite_cli.grammar import did_you_mean
from mqlite_cli.moments import shown_duration
from mqlite_cli.queue_settings import ON_EXPIRE, SETTINGS, read_settings
from mqlite_cli.refusals import Refusal, UsageError

Settings = dict[str, int | str | bool]
"""By the wire's names, all of them."""

DEFAULTS: Final[Settings] = {
    "lock_duration_ms": LOCK_DURATION_MS_DEFAULT,
    "max_delivery_count": MAX_DELIVERY_COUNT_DEFAULT,
    "default_ttl_ms": 0,
    "dedup_window_ms": 0,
    "ordering_mode": "standard",
    "dead_letter_on_expire": True,
    "dlq_max_age_ms": 0,
    "dlq_max_count": 0,
    "dlq_max_bytes": 0,
}
FLAGS: Final = {wire_name: flag for flag, (wire_name, _) in SETTINGS.items()}
"""What a setting is called in a file."""

_TABLES: Final = ("queues", "subscriptions")
_DURATIONS: Final = frozenset(name for name in DEFAULTS if name.endswith("_ms"))


class Subscription(NamedTuple):
    """What a subscription listens to; its queue has settings like any other."""

    topic: str
    expr: str


class Topology(NamedTuple):
    """Every queue by name, those of subscriptions too, and what the latter listen to."""

    queues: dict[str, Settings]
    subscriptions: dict[str, Subscription]


class Change(msgspec.Struct, frozen=True):
    """One step from what is to what is wanted. `settings`: name in a file → [before, after], and of
    a subscription also its topic and filter."""

    change: str
    kind: str
    name: str
    settings: dict[str, tuple[str, str]]


def read(text: str, *, source: str) -> Topology:
    """What a file says. Refusal with the place of what is wrong."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Refusal(f"{source}: {error}") from error
    _check_keys(document, _TABLES, source)
    queues: dict[str, Settings] = {}
    subscriptions: dict[str, Subscription] = {}
    for kind in _TABLES:
        for name, table in _tables(document, kind, source).items():
            where = f"{source}: [{kind}.{_key(name)}]"
            if name in queues:
                raise Refusal(f"{where}: a queue has this name already")
            own = dict(table)
            if kind == "subscriptions":
                topic, expr = _text(own, "topic", where), _text(own, "filter", where)
                if not topic:
                    raise Refusal(f"{where}: topic is missing")
                subscriptions[name] = Subscription(topic, expr)
            queues[name] = _settings(own, where)
    return Topology(queues, subscriptions)


def write(topology: Topology) -> str:
    """The file that `read` reads back to the same. Defaults are left out."""
    parts = []
    for name, settings in sorted(topology.queues.items()):
        subscription = topology.subscriptions.get(name)
        lines = [f"[{'subscriptions' if subscription else 'queues'}.{_key(name)}]"]
        if subscription:
            lines.append(f"topic = {_quoted(subscription.topic)}")
            if subscription.expr:
                lines.append(f"filter = {_quoted(subscription.expr)}")
        for setting, value in settings.items():
            if value != DEFAULTS[setting]:
                shown = shown_value(setting, value)
                is_number = shown.removeprefix("-").isdigit() and setting not in _DURATIONS
                lines.append(f"{FLAGS[setting]} = {shown if is_number else _quoted(shown)}")
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def compare(there: Topology, wanted: Topology) -> list[Change]:
    """The steps, in an order in which they can be made: what is new, what changes, what goes.

    Refusal where a name would have to become another kind of thing.
    """
    changes = [
        *(_created(wanted, name) for name in sorted(wanted.queues) if name not in there.queues),
        *(_updated(there, wanted, name) for name in sorted(wanted.queues) if name in there.queues),
        *(
            Change("delete", _kind(there, name), name, {})
            for name in sorted(
                there.queues, key=lambda name: (name not in there.subscriptions, name)
            )
            if name not in wanted.queues
        ),
    ]
    return [each for each in changes if each is not None]


def shown_value(setting: str, value: int | str | bool) -> str:  # noqa: FBT001 - a value, no switch
    """A setting as a file has it."""
    if isinstance(value, bool):
        return next(word for word, meaning in ON_EXPIRE.items() if meaning is value)
    if isinstance(value, str):
        return value
    if value < 0:
        return "unbounded"
    return shown_duration(value) if setting in _DURATIONS else str(value)


def _created(wanted: Topology, name: str) -> Change:
    settings = {
        FLAGS[setting]: ("", shown_value(setting, value))
        for setting, value in wanted.queues[name].items()
        if value != DEFAULTS[setting]
    }
    subscription = wanted.subscriptions.get(name)
    if subscription:
        settings = {
            "topic": ("", subscription.topic),
            "filter": ("", subscription.expr),
            **settings,
        }
    return Change("create", _kind(wanted, name), name, settings)


def _updated(there: Topology, wanted: Topology, name: str) -> Change | None:
    old, new = there.subscriptions.get(name), wanted.subscriptions.get(name)
    if bool(old) != bool(new) or (old and new and old.topic != new.topic):
        before = f"a subscription of {field(old.topic)}" if old else "a queue"
        after = f"a subscription of {field(new.topic)}" if new else "a queue"
        raise Refusal(f"{field(name)} is {before}, and the file wants {after}; delete it first")
    settings = {
        FLAGS[setting]: (
            shown_value(setting, there.queues[name][setting]), shown_value(setting, value),
        )
        for setting, value in wanted.queues[name].items()
        if there.queues[name][setting] != value
    }  # fmt: skip
    if old and new and old.expr != new.expr:
        settings = {"filter": (old.expr, new.expr), **settings}
    return Change("update", _kind(wanted, name), name, settings) if settings else None


def _kind(topology: Topology, name: str) -> str:
    return "subscription" if name in topology.subscriptions else "queue"


def _tables(document: Mapping[str, object], kind: str, source: str) -> dict[str, dict[str, object]]:
    tables = document.get(kind, {})
    if not isinstance(tables, dict):
        raise Refusal(f"{source}: {kind} must be tables, [{kind}.NAME]")
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise Refusal(f"{source}: {kind}.{_key(name)} must be a table, [{kind}.NAME]")
    return tables


def _text(table: dict[str, object], key: str, where: str) -> str:
    value = table.pop(key, "")
    if not isinstance(value, str):
        raise Refusal(f"{where}: {key} must be a text")
    return value


def _settings(table: dict[str, object], where: str) -> Settings:
    """By the parser of the flags, so that a file and a command line cannot disagree."""
    _check_keys(table, tuple(SETTINGS), where)
    words = []
    for key, value in table.items():
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise Refusal(f"{where}: {key} must be a text or an integer")
        words.append(f"--{key}={value}")
    try:
        found = read_settings(grammar.parse(BY_NAME["create-queue"], [*words, "NAME"]))
    except (UsageError, InvalidArgument) as error:
        reason = error.message if isinstance(error, InvalidArgument) else str(error)
        raise Refusal(f"{where}: {reason.removeprefix('--')}") from error
    meant = {name: value for name, value in found.items() if value or name.startswith("dead")}
    return {**DEFAULTS, **meant}


def _check_keys(table: Mapping[str, object], known: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in known:
            hint = did_you_mean(key, known) or f"; it is one of {', '.join(known)}"
            raise Refusal(f"{where}: unknown key {field(key)}{hint}")


def _key(name: str) -> str:
    is_bare = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
    return name if is_bare else _quoted(name)


def _quoted(text: str) -> str:
    """A TOML string: those of JSON, and escapes of TOML's own for what no terminal should obey."""
    written = msgspec.json.encode(text).decode()
    return "".join(each if each.isprintable() else _escape(ord(each)) for each in written)


def _escape(code: int) -> str:
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
