"""Settings are the same everywhere: the struct, the flags of `serve`, the page, .env.example."""

from __future__ import annotations

import re

import msgspec

from mqlite_broker.settings import (
    FLAGS,
    OTHERS,
    SWITCHES,
    VARIABLES,
    Settings,
    read_settings,
)
from mqlite_cli import usage
from mqlite_cli.commands import COMMANDS
from mqlite_cli.grammar import Flag
from tests.house.tree import PRODUCT, ROOT, sources

NAME = re.compile(r"\bMQLITE_[A-Z][A-Z_]*[A-Z]\b")
TEST_ONLY = {name for name in OTHERS if name.startswith(("MQLITE_TEST_", "MQLITE_MODEL_"))} | {
    "MQLITE_RUNID",
    "MQLITE_INTEGRITY_N",
}
CLIENT = set(OTHERS) - TEST_ONLY


def example() -> dict[str, str]:
    """The assignments of .env.example."""
    lines = (ROOT / ".env.example").read_text(encoding="utf-8").splitlines()
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {name: value for name, _, value in pairs}


def documented() -> dict[str, str]:
    """Variable → default, as the settings page has them in its tables."""
    page = (ROOT / "docs/reference/settings.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(MQLITE_\w+)` \| (?:`([^`]*)`)? ?\|", page, re.MULTILINE)
    return dict(rows)


def test_the_example_holds_every_variable_and_no_other() -> None:
    assert set(example()) == {*VARIABLES, *CLIENT}


def test_the_page_holds_what_the_example_holds() -> None:
    assert documented() == example()


def test_the_defaults_of_the_example_are_those_of_the_program() -> None:
    plain, written = read_settings({}, {}), read_settings({}, example())
    differing = {
        field.name
        for field in msgspec.structs.fields(Settings)
        if getattr(plain, field.name) != getattr(written, field.name)
    }
    assert differing == {"tokens"}, "the generated token differs, nothing else"


def test_every_variable_that_the_product_reads_is_known() -> None:
    read = {name for source in sources(PRODUCT) for name in NAME.findall(source.text)}
    assert read - {*VARIABLES, *OTHERS} == set()


WITHOUT_VARIABLE = {
    "insecure-allow-remote": "a decision for one start, not for an environment",
    "token-file": "MQLITE_TOKEN_FILE is the clients' word (ruling R32); here it is a list's file",
}
WITHOUT_FLAG = {
    "token_file": "token-file",
    "insecure_allow_remote": "insecure-allow-remote",
}
"""Fields of Settings that only a flag sets."""

FIELDS = {
    "host": ["ADDR"],
    "port": ["ADDR"],
    "db": ["DB"],
    "db_auth_token": ["DB_AUTH_TOKEN"],
    "synchronous": ["SYNC"],
    "message_bytes_max": ["MAX_MESSAGE_BYTES"],
    "tokens": ["TOKENS", "TOKENS_FILE"],
    "is_token_generated": ["TOKENS", "TOKENS_FILE"],
    "monitor_tokens": ["MONITOR_TOKENS", "MONITOR_TOKENS_FILE"],
    "has_metrics": ["METRICS"],
    "has_lane": ["LANE"],
    "tls_cert": ["TLS_CERT"],
    "tls_key": ["TLS_KEY"],
    "connections_max": ["MAX_CONNECTIONS"],
    "diagnostics_dir": ["DIAGNOSTICS_DIR"],
    "backup_dir": ["BACKUP_DIR"],
    "leaves_log": ["CHECKPOINTS"],
    "workers": ["WORKERS"],
    "link_socket": ["LINK_SOCKET"],
    "cors": ["CORS"],
    "console": ["UI"],
    "log_level": ["LOG_LEVEL"],
    "log_format": ["LOG_FORMAT"],
    "docs_url": ["DOCS_URL"],
    "dlq_max_age_ms": ["DLQ_MAX_AGE", "DLQ_RETENTION"],
    "dlq_max_count": ["DLQ_MAX_COUNT", "DLQ_RETENTION"],
    "dlq_max_bytes": ["DLQ_MAX_BYTES", "DLQ_RETENTION"],
}
"""Field of Settings → the variables that it comes from, without their prefix."""

NOT_SET = {"version": "q.serve's alone", "warnings": "what is to be said of the others"}


def serve_flags() -> dict[str, Flag]:
    (serve,) = (command for command in COMMANDS if command.name == "serve")
    return serve.flags


def test_every_field_comes_from_a_variable_or_a_flag_and_every_variable_has_a_field() -> None:
    fields = {field.name for field in msgspec.structs.fields(Settings)}
    assert fields == FIELDS.keys() | WITHOUT_FLAG.keys() | NOT_SET.keys()
    assert {f"MQLITE_{name}" for names in FIELDS.values() for name in names} == set(VARIABLES)


def test_every_flag_of_serve_has_its_variable_or_its_reason() -> None:
    for flag in serve_flags():
        variable = "MQLITE_" + flag.removeprefix("no-").upper().replace("-", "_")
        assert (variable in VARIABLES) != (flag in WITHOUT_VARIABLE), flag
    assert set(WITHOUT_FLAG.values()) <= set(serve_flags())


def test_the_broker_without_the_command_line_has_the_same_flags() -> None:
    switches = {name for name, flag in serve_flags().items() if flag.is_switch}
    assert (switches, set(serve_flags()) - switches) == (set(SWITCHES), set(FLAGS))


def test_the_flags_of_serve_stand_in_its_help_with_their_meaning() -> None:
    page = usage.of(next(command for command in COMMANDS if command.name == "serve"))
    for name, flag in serve_flags().items():
        assert f"--{name}" in page
        assert flag.meaning in page
