"""The flags that say how a broker is reached: whom to trust, who we are, how long to wait.

Called by `invocation`. Rules: a file that holds no certificate is refused before a connection
exists; without flags the system's trust holds; there is no flag to trust nobody's certificate. A
store has no use for any of them, so there they are refused instead of ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mqlite_actor.sdk.durations import nanoseconds_to_ms
from mqlite_cli.grammar import Arguments
from mqlite_cli.refusals import Refusal

if TYPE_CHECKING:
    import ssl

_TLS = ("ca-file", "client-cert", "client-key")


def patience_seconds(arguments: Arguments) -> float | None:
    """What `--timeout` says; None without it. InvalidArgument below a millisecond."""
    if not arguments.has("timeout"):
        return None
    return nanoseconds_to_ms(arguments.number("timeout"), field="--timeout") / 1000


def tls_context(
    arguments: Arguments, files: Mapping[str, str], *, is_tls: bool
) -> ssl.SSLContext | None:
    """What the flags, and the files of a context, make of TLS; None is the usual."""
    said = {name: arguments.text(name, files.get(name, "")) for name in _TLS}
    given = [name for name in _TLS if arguments.has(name) or said[name]]
    if not given:
        return None
    if not is_tls:
        raise Refusal(f"--{given[0]} needs an https:// or mqlites:// endpoint")
    cert, key = said["client-cert"], said["client-key"]
    if key and not cert:
        raise Refusal("--client-key needs --client-cert")
    import ssl  # noqa: PLC0415 - a fifth of the start-up, for few

    try:
        context = ssl.create_default_context(cafile=said["ca-file"] or None)
        if cert:
            # Without this the library would ask a terminal, or hang without one.
            context.load_cert_chain(cert, key or None, password=_no_password)
    except (OSError, ValueError) as error:
        shown = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        names = ", ".join(f"--{name}" for name in given)
        raise Refusal(f"{names}: cannot be used: {shown}") from error
    return context


def refuse_for_store(arguments: Arguments) -> None:
    """Refusal if something was said that only a broker has."""
    given = arguments.given()
    for name in ("timeout", "retries", *_TLS):
        if name in given:
            raise Refusal(f"--{name} is for a broker, and this command opens a store itself")


def _no_password() -> str:
    raise ValueError("its key has a password; keys are read without one")
