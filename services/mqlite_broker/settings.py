"""Flags and environment to one frozen struct, or one clear refusal.

Called by the `serve` command before anything is opened or bound. A flag wins over its variable, an
empty variable counts as unset (except MQLITE_ADDR, where blank is an error). What would open the
broker or weaken its durability by a typo is refused; a bad size only warns and keeps its default,
as the contract has it (spec/tools.md 2, faults B84). A secret may stand in a file; to name both is
refused, for nobody could tell which one counts.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Final, TypedDict

import msgspec

from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import InvalidArgument
from mqlite_actor.sdk.address import StoreKind, parse_store
from mqlite_actor.sdk.notation import parse_duration, parse_size
from mqlite_actor.version import __version__
from mqlite_broker import cores, origins, ui
from mqlite_broker import tokens as token_sources
from mqlite_broker.auth import is_loopback
from mqlite_broker.door_limits import DoorLimits
from mqlite_broker.tokens import Tokens

VARIABLES: Final = (
    "MQLITE_ADDR", "MQLITE_DB", "MQLITE_DB_AUTH_TOKEN", "MQLITE_SYNC", "MQLITE_MAX_MESSAGE_BYTES",
    "MQLITE_TOKENS",
    "MQLITE_TOKENS_FILE", "MQLITE_MONITOR_TOKENS", "MQLITE_MONITOR_TOKENS_FILE", "MQLITE_METRICS",
    "MQLITE_TLS_CERT", "MQLITE_TLS_KEY", "MQLITE_MAX_CONNECTIONS", "MQLITE_DIAGNOSTICS_DIR",
    "MQLITE_DLQ_RETENTION", "MQLITE_DLQ_MAX_AGE", "MQLITE_DLQ_MAX_COUNT", "MQLITE_DLQ_MAX_BYTES",
    "MQLITE_CORS", "MQLITE_LOG_LEVEL", "MQLITE_LOG_FORMAT", "MQLITE_DOCS_URL", "MQLITE_LANE",
    "MQLITE_WORKERS", "MQLITE_LINK_SOCKET", "MQLITE_BACKUP_DIR",
    "MQLITE_CHECKPOINTS", "MQLITE_UI",
)  # fmt: skip
"""What `serve` reads."""

OTHERS: Final = (
    "MQLITE_ENDPOINT", "MQLITE_CONTEXT", "MQLITE_TOKEN", "MQLITE_TOKEN_FILE", "MQLITE_TEST_DB",
    "MQLITE_TEST_DB_AUTH_TOKEN", "MQLITE_TEST_PORT", "MQLITE_RUNID", "MQLITE_INTEGRITY_N",
    "MQLITE_MODEL_SEED", "MQLITE_MODEL_EXAMPLES",
)  # fmt: skip
"""What other parts read; known, so that no warning names them."""

FLAGS: Final = (
    "addr", "token-file", "tls-cert", "tls-key", "max-connections", "docs-url", "diagnostics-dir",
    "backup-dir", "checkpoints", "workers", "link-socket",
)  # fmt: skip
SWITCHES: Final = ("insecure-allow-remote", "metrics", "no-lane")
"""What `serve` takes on its command line, with and without a value."""

LEVELS: Final = ("debug", "info", "warn", "error")
FORMATS: Final = ("text", "json")
OWN: Final = "own"
EXTERNAL: Final = "external"
"""Who moves the log into the file: the broker, or a program that replicates it."""

SWITCH_WORDS: Final = {
    "": False, "off": False, "false": False, "0": False, "on": True, "true": True, "1": True,
}  # fmt: skip

DOCS_URL: Final = "urn:mqlite-actor:docs"

CONNECTIONS_MAX: Final = 100_000
"""As many descriptors and some gigabytes: beyond it there is a typing error."""

DLQ_MAX_AGE_MS: Final = 14 * 24 * 3_600_000
DLQ_MAX_COUNT: Final = 1_000_000
"""What `serve` keeps of dead letters unless told otherwise (spec/engine.md 1.4)."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a broker needs. `tokens` None: authentication is off.

    What has a default here is about the store and the process, which an embedding program has
    settled by itself.
    """

    host: str
    port: int
    tokens: tuple[str, ...] | None
    is_token_generated: bool
    monitor_tokens: tuple[str, ...]
    has_metrics: bool
    cors: str  # the allowed origin, "*" for any, "" for none
    docs_url: str
    connections_max: int
    insecure_allow_remote: bool
    has_lane: bool = True  # never over TLS (ruling R31)
    console: str = ui.ANY  # where the console may send requests; "": there is none
    version: str = __version__  # what the card and the status say
    db: str = ""
    db_auth_token: str = ""  # of a remote store
    synchronous: str = "NORMAL"
    message_bytes_max: int = limits.MESSAGE_BYTES_DEFAULT
    token_file: str = ""  # where the generated token is kept; "": it is printed
    tls_cert: str = ""  # "": HTTP in clear
    tls_key: str = ""
    diagnostics_dir: str = ""  # "": no diagnostic log
    backup_dir: str = ""  # "": the folder of the database
    leaves_log: bool = False  # to a program that replicates the file
    log_level: str = "info"
    log_format: str = "text"
    dlq_max_age_ms: int = DLQ_MAX_AGE_MS  # 0: unbounded, as for the two below
    dlq_max_count: int = DLQ_MAX_COUNT
    dlq_max_bytes: int = 0
    workers: int = 0  # front-end processes; 0: the doors are in this one
    link_socket: str = ""  # where programs of this machine connect; "": nowhere
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Without the tokens: a traceback must not show them."""
        return f"Settings({self.address})"

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
    tokens = _tokens(flags, environ)
    warnings += token_sources.doubts(tokens)
    cors = origins.allowed(_get(environ, "MQLITE_CORS"), "MQLITE_CORS", tokens)
    warnings += origins.doubts(cors, "MQLITE_CORS")
    insecure = bool(flags.get("insecure-allow-remote", False))
    check_reach(tokens, host, insecure_allow_remote=insecure)
    tls_cert, tls_key = _tls(flags, environ)
    db = _get(environ, "MQLITE_DB") or "file:./mq.db"
    source, number = _either(flags, environ, "workers")
    return Settings(
        host=host,
        port=port,
        db=db,
        db_auth_token=_get(environ, "MQLITE_DB_AUTH_TOKEN"),
        workers=cores.workers(number, source=source, db=db),
        link_socket=_either(flags, environ, "link-socket")[1],
        synchronous=_get(environ, "MQLITE_SYNC") or "NORMAL",
        message_bytes_max=_size(environ, "MQLITE_MAX_MESSAGE_BYTES", warnings),
        tokens=tokens.values,
        is_token_generated=tokens.is_generated,
        token_file=tokens.file,
        has_metrics=_metrics(flags, environ, is_auth_on=tokens.values is not None),
        has_lane=_lane(flags, environ),
        console=ui.reach_of(_get(environ, "MQLITE_UI")),
        monitor_tokens=_monitor_tokens(environ, tokens),
        tls_cert=tls_cert,
        tls_key=tls_key,
        connections_max=_connections(flags, environ),
        diagnostics_dir=_either(flags, environ, "diagnostics-dir")[1],
        cors=cors,
        log_level=_word(environ, "MQLITE_LOG_LEVEL", LEVELS, "info"),
        log_format=_word(environ, "MQLITE_LOG_FORMAT", FORMATS, "text"),
        **_retention(environ, warnings),
        backup_dir=_either(flags, environ, "backup-dir")[1],
        leaves_log=_leaves_log(flags, environ, db),
        docs_url=_either(flags, environ, "docs-url")[1] or DOCS_URL,
        insecure_allow_remote=insecure,
        warnings=tuple(warnings),
    )


# -- rules that `q.serve` shares -------------------------------------------------------------------


def address(text: str, *, source: str) -> tuple[str, int]:
    """HOST:PORT, [HOST]:PORT or :PORT as host and port."""
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


def check_reach(tokens: Tokens, host: str, *, insecure_allow_remote: bool) -> None:
    """Refuse to serve whoever can reach the address, unless somebody insists."""
    if tokens.values is None and not is_loopback(host) and not insecure_allow_remote:
        raise InvalidArgument(
            "MQLITE_TOKENS=off on an address that other machines can reach; bind a loopback address"
            " (--addr 127.0.0.1:6754), set tokens, or add --insecure-allow-remote"
        )


def check_metrics(*, is_on: bool, is_auth_on: bool) -> bool:
    """Metrics name queues, so nobody may read them without a credential."""
    if is_on and not is_auth_on:
        raise InvalidArgument("metrics need authentication; set MQLITE_TOKENS or switch them off")
    return is_on


# -- one variable each -----------------------------------------------------------------------------


def _either(
    flags: Mapping[str, str | bool], environ: Mapping[str, str], name: str
) -> tuple[str, str]:
    """The flag of this name, else its variable: which it was, and its text."""
    if name in flags:
        return f"--{name}", str(flags[name]).strip()
    variable = "MQLITE_" + name.upper().replace("-", "_")
    return variable, _get(environ, variable)


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
    return address(text, source=source)


def _tokens(flags: Mapping[str, str | bool], environ: Mapping[str, str]) -> Tokens:
    given = [name for name in ("MQLITE_TOKENS", "MQLITE_TOKENS_FILE") if _get(environ, name)]
    if "token-file" in flags:
        given.append("--token-file")
    if len(given) > 1:
        raise InvalidArgument(f"{given[0]} and {given[1]} both name tokens; give one")
    if "token-file" in flags:
        return token_sources.from_token_file(str(flags["token-file"]).strip())
    path = _get(environ, "MQLITE_TOKENS_FILE")
    if path:
        return token_sources.from_list_file(path, source="MQLITE_TOKENS_FILE")
    return token_sources.administrators(_get(environ, "MQLITE_TOKENS"), source="MQLITE_TOKENS")


def _monitor_tokens(environ: Mapping[str, str], tokens: Tokens) -> tuple[str, ...]:
    source = "MQLITE_MONITOR_TOKENS"
    text, path = _get(environ, source), _get(environ, "MQLITE_MONITOR_TOKENS_FILE")
    if text and path:
        raise InvalidArgument(f"{source} and MQLITE_MONITOR_TOKENS_FILE both name tokens; give one")
    if path:
        source = "MQLITE_MONITOR_TOKENS_FILE"
        text = token_sources.read_list(path, source=source)
    return token_sources.monitors(text, tokens, source=source)


def _tls(flags: Mapping[str, str | bool], environ: Mapping[str, str]) -> tuple[str, str]:
    (cert_source, cert), (key_source, key) = (
        _either(flags, environ, name) for name in ("tls-cert", "tls-key")
    )
    if bool(cert) != bool(key):
        there, missing = (cert_source, key_source) if cert else (key_source, cert_source)
        raise InvalidArgument(f"{there} is set without {missing}; TLS needs both")
    return cert, key


def _connections(flags: Mapping[str, str | bool], environ: Mapping[str, str]) -> int:
    source, text = _either(flags, environ, "max-connections")
    if not text and source.startswith("MQLITE_"):
        return DoorLimits.connections_max
    if not re.fullmatch(r"[0-9]{1,9}", text) or not 1 <= int(text) <= CONNECTIONS_MAX:
        raise InvalidArgument(f"{source}={text!r} is no number from 1 to {CONNECTIONS_MAX}")
    return int(text)


def _metrics(
    flags: Mapping[str, str | bool], environ: Mapping[str, str], *, is_auth_on: bool
) -> bool:
    word = _get(environ, "MQLITE_METRICS").lower()
    if word not in SWITCH_WORDS:
        raise InvalidArgument(f"MQLITE_METRICS={word!r} is unknown; use on or off")
    is_on = bool(flags["metrics"]) if "metrics" in flags else SWITCH_WORDS[word]
    return check_metrics(is_on=is_on, is_auth_on=is_auth_on)


def _lane(flags: Mapping[str, str | bool], environ: Mapping[str, str]) -> bool:
    word = _get(environ, "MQLITE_LANE").lower() or "on"
    if word not in SWITCH_WORDS:
        raise InvalidArgument(f"MQLITE_LANE={word!r} is unknown; use on or off")
    return not flags["no-lane"] if "no-lane" in flags else SWITCH_WORDS[word]


def _leaves_log(flags: Mapping[str, str | bool], environ: Mapping[str, str], db: str) -> bool:
    source, text = _either(flags, environ, "checkpoints")
    if (text.lower() or OWN) == OWN:
        return False
    if text.lower() != EXTERNAL:
        raise InvalidArgument(f"{source} {text!r} is unknown; use {OWN} or {EXTERNAL}")
    if parse_store(db, bare_paths=True).kind is not StoreKind.FILE:
        raise InvalidArgument(f"{source} {EXTERNAL} is for a store in a file; {db!r} is none")
    return True


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


class _Retention(TypedDict):
    dlq_max_age_ms: int
    dlq_max_count: int
    dlq_max_bytes: int


def _retention(environ: Mapping[str, str], warnings: list[str]) -> _Retention:
    """Bounds on dead letters; what makes no sense warns and leaves the default."""
    word = _get(environ, "MQLITE_DLQ_RETENTION")
    if word.lower() not in ("", "on", "off"):
        warnings.append(f"MQLITE_DLQ_RETENTION={word!r} is unknown; only off lifts the bounds")
    if word.lower() == "off":
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
