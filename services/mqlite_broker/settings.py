"""Flags and environment to one frozen struct, or one clear refusal.

Called by the `serve` command before anything is opened or bound. A flag wins over its variable, an
empty variable counts as unset (except MQLITE_ADDR, where blank is an error). What would open the
broker or weaken its durability by a typo is refused; a bad size only warns and keeps its default,
as the contract has it (spec/tools.md 2, faults B84).
"""

from __future__ import annotations

import difflib
import re
import secrets
from collections.abc import Mapping
from typing import Final, TypedDict

import msgspec

from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import InvalidArgument
from mqlite_actor.sdk.notation import parse_duration, parse_size
from mqlite_broker.auth import is_loopback

VARIABLES: Final = (
    "MQLITE_ADDR", "MQLITE_DB", "MQLITE_SYNC", "MQLITE_MAX_MESSAGE_BYTES", "MQLITE_TOKENS",
    "MQLITE_MONITOR_TOKENS", "MQLITE_METRICS",
    "MQLITE_DLQ_RETENTION", "MQLITE_DLQ_MAX_AGE", "MQLITE_DLQ_MAX_COUNT", "MQLITE_DLQ_MAX_BYTES",
    "MQLITE_CORS", "MQLITE_LOG_LEVEL", "MQLITE_LOG_FORMAT", "MQLITE_DOCS_URL",
    "MQLITE_BACKUP_DIR",
)  # fmt: skip
"""What `serve` reads."""

OTHERS: Final = (
    "MQLITE_ENDPOINT", "MQLITE_TOKEN", "MQLITE_TOKEN_FILE", "MQLITE_TEST_DB",
    "MQLITE_TEST_DB_AUTH_TOKEN", "MQLITE_TEST_PORT", "MQLITE_RUNID", "MQLITE_INTEGRITY_N",
    "MQLITE_MODEL_SEED", "MQLITE_MODEL_EXAMPLES",
)  # fmt: skip
"""What other parts read; known, so that no warning names them."""

LEVELS: Final = ("debug", "info", "warn", "error")
FORMATS: Final = ("text", "json")

SWITCH_WORDS: Final = {
    "": False, "off": False, "false": False, "0": False, "on": True, "true": True, "1": True,
}  # fmt: skip

TOKEN_PREFIX: Final = "mqk_"  # the public beginning of every token, not a secret


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything `serve` needs. `tokens` None: authentication is off."""

    host: str
    port: int
    db: str
    synchronous: str
    message_bytes_max: int
    tokens: tuple[str, ...] | None
    is_token_generated: bool
    monitor_tokens: tuple[str, ...]
    has_metrics: bool
    cors: str  # the allowed origin, "*" for any, "" for none
    log_level: str
    log_format: str
    docs_url: str
    backup_dir: str  # "" for the folder of the database
    dlq_max_age_ms: int  # 0: unbounded, as for the two below
    dlq_max_count: int
    dlq_max_bytes: int
    insecure_allow_remote: bool
    warnings: tuple[str, ...] = ()

    @property
    def address(self) -> str:
        """HOST:PORT as it was meant."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the address."""
        return is_loopback(self.host)


def read_settings(flags: Mapping[str, str | bool], environ: Mapping[str, str]) -> Settings:
    """Read, check, and fill in defaults. InvalidArgument names the variable or flag and the mend.

    `flags`: those that were given, by their names without dashes.
    """
    warnings = _unknown(environ)
    host, port = _address(flags, environ)
    tokens, is_generated = _tokens(_get(environ, "MQLITE_TOKENS"))
    insecure = bool(flags.get("insecure-allow-remote", False))
    if tokens is None and not is_loopback(host) and not insecure:
        raise InvalidArgument(
            "MQLITE_TOKENS=off on an address that other machines can reach; bind a loopback address"
            " (--addr 127.0.0.1:6754), set tokens, or add --insecure-allow-remote"
        )
    return Settings(
        host=host,
        port=port,
        db=_get(environ, "MQLITE_DB") or "file:./mq.db",
        synchronous=_get(environ, "MQLITE_SYNC") or "NORMAL",
        message_bytes_max=_size(environ, "MQLITE_MAX_MESSAGE_BYTES", warnings),
        tokens=tokens,
        is_token_generated=is_generated,
        has_metrics=_metrics(flags, environ, is_auth_on=tokens is not None),
        monitor_tokens=_monitor_tokens(_get(environ, "MQLITE_MONITOR_TOKENS"), tokens),
        cors=_cors(_get(environ, "MQLITE_CORS"), is_auth_on=tokens is not None),
        log_level=_word(environ, "MQLITE_LOG_LEVEL", LEVELS, "info"),
        log_format=_word(environ, "MQLITE_LOG_FORMAT", FORMATS, "text"),
        **_retention(environ, warnings),
        backup_dir=_get(environ, "MQLITE_BACKUP_DIR"),
        docs_url=_get(environ, "MQLITE_DOCS_URL") or "urn:mqlite-actor:docs",
        insecure_allow_remote=insecure,
        warnings=tuple(warnings),
    )


# -- one variable each -----------------------------------------------------------------------------


def _get(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name, "").strip()


def _address(flags: Mapping[str, str | bool], environ: Mapping[str, str]) -> tuple[str, int]:
    flag = flags.get("addr")
    if flag is not None:
        source, text = "--addr", str(flag).strip()
    elif "MQLITE_ADDR" in environ:
        source, text = "MQLITE_ADDR", environ["MQLITE_ADDR"].strip()
    else:
        source, text = "MQLITE_ADDR", ":6754"
    host, colon, port_text = text.rpartition(":")
    if not text or not colon:
        raise InvalidArgument(f"{source} {text!r} is not HOST:PORT; use for example 127.0.0.1:6754")
    if not re.fullmatch(r"[0-9]{1,5}", port_text) or int(port_text) > 65535:
        raise InvalidArgument(f"{source} {text!r}: the port must be a number from 0 to 65535")
    if host.startswith("[") and host.endswith("]") and len(host) > len("[]"):
        host = host[1:-1]
    elif "[" in host or "]" in host:
        raise InvalidArgument(f"{source} {text!r}: no address in the brackets; use [::1]:6754")
    elif ":" in host:
        raise InvalidArgument(f"{source} {text!r}: write an IPv6 address in brackets, [::1]:6754")
    return host, int(port_text)


def _tokens(text: str) -> tuple[tuple[str, ...] | None, bool]:
    if text.lower() == "off":
        return None, False
    if not text:
        return (TOKEN_PREFIX + secrets.token_hex(32),), True
    tokens = tuple(token for part in text.split(",") if (token := part.strip()))
    if not tokens:
        raise InvalidArgument(
            "MQLITE_TOKENS holds no usable token; give a comma list, leave it empty for a generated"
            " one, or say off"
        )
    for number, token in enumerate(tokens, start=1):
        if re.search(r"\s", token):
            raise InvalidArgument(
                f"MQLITE_TOKENS: entry {number} holds a space or line break; no client can send it"
            )
    return tokens, False


def _monitor_tokens(text: str, tokens: tuple[str, ...] | None) -> tuple[str, ...]:
    if not text:
        return ()
    if tokens is None:
        raise InvalidArgument(
            "MQLITE_MONITOR_TOKENS needs administrator tokens; authentication is off"
        )
    found = tuple(part.strip() for part in text.split(","))
    for number, token in enumerate(found, start=1):
        if not token or re.search(r"\s", token):
            raise InvalidArgument(
                f"MQLITE_MONITOR_TOKENS: entry {number} is blank or holds a space or line break"
            )
        if token in tokens:
            raise InvalidArgument(
                f"MQLITE_MONITOR_TOKENS: entry {number} is an administrator token too; use another"
            )
    return found


def _metrics(
    flags: Mapping[str, str | bool], environ: Mapping[str, str], *, is_auth_on: bool
) -> bool:
    word = _get(environ, "MQLITE_METRICS").lower()
    if word not in SWITCH_WORDS:
        raise InvalidArgument(f"MQLITE_METRICS={word!r} is unknown; use on or off")
    is_on = bool(flags["metrics"]) if "metrics" in flags else SWITCH_WORDS[word]
    if is_on and not is_auth_on:
        raise InvalidArgument("metrics need authentication; set MQLITE_TOKENS or switch them off")
    return is_on


def _cors(text: str, *, is_auth_on: bool) -> str:
    if text.lower() == "off":
        return ""
    if re.search(r"[\r\n]", text):
        raise InvalidArgument("MQLITE_CORS holds a line break; give one origin, * or off")
    return text or ("*" if is_auth_on else "")


def _size(environ: Mapping[str, str], name: str, warnings: list[str]) -> int:
    text = _get(environ, name)
    default = limits.MESSAGE_BYTES_DEFAULT
    if not text:
        return default
    size = parse_size(text)
    if size is None:
        warnings.append(f"{name}={text!r} is not a number of bytes above 0; using {default}")
        return default
    if size > limits.REQUEST_BYTES_MAX:
        most = limits.REQUEST_BYTES_MAX
        warnings.append(f"{name}={text} is over the size of a request; using {most}")
        return most
    return size


DLQ_MAX_AGE_MS: Final = 14 * 24 * 3_600_000
DLQ_MAX_COUNT: Final = 1_000_000
"""What `serve` keeps of dead letters unless told otherwise (spec/engine.md 1.4)."""


class _Retention(TypedDict):
    dlq_max_age_ms: int
    dlq_max_count: int
    dlq_max_bytes: int


def _retention(environ: Mapping[str, str], warnings: list[str]) -> _Retention:
    """Bounds on dead letters; what makes no sense warns and leaves the default."""
    if _get(environ, "MQLITE_DLQ_RETENTION").lower() == "off":
        return {"dlq_max_age_ms": 0, "dlq_max_count": 0, "dlq_max_bytes": 0}
    age_ms = DLQ_MAX_AGE_MS
    text = _get(environ, "MQLITE_DLQ_MAX_AGE")
    if text:
        try:
            age_ms = max(0, -(-parse_duration(text) // 1_000_000))
        except ValueError as error:
            warnings.append(f"MQLITE_DLQ_MAX_AGE={text!r}: {error}; using 336h")
    return {
        "dlq_max_age_ms": min(age_ms, limits.DURATION_MS_MAX),
        "dlq_max_count": _count(environ, "MQLITE_DLQ_MAX_COUNT", DLQ_MAX_COUNT, warnings),
        "dlq_max_bytes": _count(environ, "MQLITE_DLQ_MAX_BYTES", 0, warnings),
    }


def _count(environ: Mapping[str, str], name: str, default: int, warnings: list[str]) -> int:
    """An integer bound; 0 and below are unbounded."""
    text = _get(environ, name)
    if not text:
        return default
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text):
        warnings.append(f"{name}={text!r} is not an integer; using {default}")
        return default
    return max(0, int(text))


def _word(environ: Mapping[str, str], name: str, words: tuple[str, ...], default: str) -> str:
    text = _get(environ, name).lower()
    if text and text not in words:
        raise InvalidArgument(f"{name}={text!r} is unknown; use {', '.join(words)}")
    return text or default


def _unknown(environ: Mapping[str, str]) -> list[str]:
    """A mistyped variable would silently do nothing."""
    known = VARIABLES + OTHERS
    warnings = []
    for name in sorted(environ):
        if name.startswith("MQLITE_") and name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            warnings.append(f"{name} is not a setting of this version{hint}")
    return warnings
