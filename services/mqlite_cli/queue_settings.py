"""The flags that configure a queue, as the wire's settings.

Called by `create-queue`, for which an absent setting is a default, and by `update-queue`, for which
it is one that stays. So what was not given is not in the result, and what was given is, even as 0.
"""

from __future__ import annotations

from collections.abc import Callable

from mqlite_actor.contract.errors import InvalidArgument
from mqlite_actor.contract.words import Ordering
from mqlite_actor.sdk.durations import UNBOUNDED_MS, nanoseconds_to_ms
from mqlite_cli.escaping import field
from mqlite_cli.grammar import Arguments, did_you_mean

ON_EXPIRE: dict[str, bool] = {"dead-letter": True, "discard": False}
"""`--on-expire` to the wire's `dead_letter_on_expire`."""


def read_settings(arguments: Arguments) -> dict[str, int | str | bool]:
    """The wire's name and value of each setting that was given. InvalidArgument names the flag."""
    found = {
        wire_name: read(arguments, flag)
        for flag, (wire_name, read) in SETTINGS.items()
        if arguments.has(flag)
    }
    # An empty word is the default, which both requests write by leaving it out.
    return {name: value for name, value in found.items() if value != ""}


def _ordering(arguments: Arguments, name: str) -> str:
    return _one_of(arguments, name, [mode.value for mode in Ordering])


def _on_expire(arguments: Arguments, name: str) -> bool | str:
    return ON_EXPIRE.get(_one_of(arguments, name, list(ON_EXPIRE)), "")


def _milliseconds(arguments: Arguments, name: str) -> int:
    return nanoseconds_to_ms(arguments.number(name), field=f"--{name}", is_zero_allowed=True)


def _at_least_zero(arguments: Arguments, name: str) -> int:
    number = arguments.number(name)
    if number < 0:
        raise InvalidArgument(f"--{name}: must not be negative")
    return number


def _age_bound(arguments: Arguments, name: str) -> int:
    """Any negative age is no bound; `-1ns` must not become 0, which would inherit the broker's."""
    return UNBOUNDED_MS if arguments.number(name) < 0 else _milliseconds(arguments, name)


def _bound(arguments: Arguments, name: str) -> int:
    number = arguments.number(name)
    if number < -1:
        raise InvalidArgument(f"--{name}: must not be negative; `unbounded` switches the bound off")
    return number


def _one_of(arguments: Arguments, name: str, words: list[str]) -> str:
    """The word of a flag, "" when it is not given or empty."""
    word = arguments.text(name)
    if word and word not in words:
        known = ", ".join(words)
        raise InvalidArgument(
            f"--{name}: {field(word)} is none of {known}{did_you_mean(word, words)}"
        )
    return word


SETTINGS: dict[str, tuple[str, Callable[[Arguments, str], int | str | bool]]] = {
    "lock": ("lock_duration_ms", _milliseconds),
    "max-delivery": ("max_delivery_count", _at_least_zero),
    "ttl": ("default_ttl_ms", _milliseconds),
    "dedup": ("dedup_window_ms", _milliseconds),
    "ordering": ("ordering_mode", _ordering),
    "on-expire": ("dead_letter_on_expire", _on_expire),
    "dlq-max-age": ("dlq_max_age_ms", _age_bound),
    "dlq-max-count": ("dlq_max_count", _bound),
    "dlq-max-bytes": ("dlq_max_bytes", _bound),
}
"""Flag → what the wire calls it, and how its value is read."""
