"""The grammar of the command line, in process by table and as a process by exit code (T1-T10)."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from mqlite_actor.sdk.notation import parse_duration
from mqlite_actor.version import __version__
from mqlite_cli import usage
from mqlite_cli.commands import BY_NAME, COMMANDS
from mqlite_cli.grammar import Arguments, Command, parse
from mqlite_cli.refusals import HelpWanted, Refusal, UsageError
from tests.services.cli_process import Shell

CREATE, SEND, RECEIVE, PEEK = (BY_NAME[n] for n in ("create-queue", "send", "receive", "peek"))
SECOND = 1_000_000_000


def said(command: Command, *words: str) -> tuple[list[str], dict[str, str | int | bool]]:
    arguments: Arguments = parse(command, words)
    return arguments.words, arguments.given()


@pytest.mark.promise("T6")
@pytest.mark.parametrize(
    "words",
    [
        ["-lock=1s", "q"],
        ["--lock=1s", "q"],
        ["--lock", "1s", "q"],
        ["-lock", "1s", "q"],
        ["q", "--lock", "1s"],
        ["--lock=9h", "q", "--lock=1s"],
    ],
)
def test_all_spellings_of_a_flag_are_equal_and_the_last_one_wins(words: list[str]) -> None:
    assert said(CREATE, *words) == (["q"], {"lock": SECOND})


@pytest.mark.promise("T6")
@pytest.mark.parametrize(
    "words",
    [
        ["--subject", "s", "q", "a", "b"],
        ["q", "--subject", "s", "a", "b"],
        ["q", "a", "--subject", "s", "b"],
        ["q", "a", "b", "--subject", "s"],
    ],
)
def test_flags_stand_before_between_and_after_positionals(words: list[str]) -> None:
    assert said(SEND, *words) == (["q", "a", "b"], {"subject": "s"})


@pytest.mark.promise("T7")
def test_two_dashes_end_the_flags() -> None:
    assert said(SEND, "q", "--", "hello", "--output", "json") == (
        ["q", "hello", "--output", "json"],
        {},
    )
    assert said(SEND, "q", "--subject", "--", "--", "--") == (["q", "--"], {"subject": "--"})


@pytest.mark.promise("T10")
@pytest.mark.parametrize(
    ("words", "is_on"),
    [
        (["q", "--no-ack"], True),
        (["q", "-no-ack=T"], True),
        (["q", "--no-ack=false"], False),
        (["q", "--no-ack=0"], False),
        (["q"], False),
    ],
)
def test_a_switch_is_on_when_named_and_off_behind_an_equals_sign(
    *, words: list[str], is_on: bool
) -> None:
    assert parse(RECEIVE, words).is_on("no-ack") is is_on


@pytest.mark.promise("T10")
def test_a_switch_takes_no_separate_value() -> None:
    with pytest.raises(Refusal, match="usage"):
        parse(RECEIVE, ["q", "--no-ack", "false"])


@pytest.mark.parametrize(
    ("word", "value"),
    [("5", 5), ("-1", -1), ("+7", 7), ("0x10", 16), ("0b1", 1), ("1_000", 1000), ("0", 0)],
)
def test_integers_have_their_usual_spellings(word: str, value: int) -> None:
    assert said(PEEK, "q", "--from", word)[1] == {"from": value}


def test_presence_is_told_from_value() -> None:
    arguments = parse(PEEK, ["q", "--max", "0"])
    assert arguments.has("max")
    assert not arguments.has("from")


@pytest.mark.parametrize("words", [["-"], ["q", "-"]])
def test_a_single_dash_is_a_positional(words: list[str]) -> None:
    assert parse(SEND, words).words == words


@pytest.mark.promise("T2", "T9")
@pytest.mark.parametrize(
    ("command", "words", "mend"),
    [
        (SEND, ["q", "x", "--bogus"], "unknown flag --bogus"),
        (SEND, ["q", "x", "--out", "json"], "did you mean --output"),
        (SEND, ["q", "x", "--sub=s"], "did you mean --subject"),
        (SEND, ["q", "x", "---subject", "s"], "no flag"),
        (SEND, ["q", "x", "--=v"], "no flag"),
        (SEND, ["q", "x", "--subject"], "needs a value"),
        (CREATE, ["q", "--lock", "30"], "write 30s"),
        (CREATE, ["q", "--lock", "1.5"], "without a unit"),
        (CREATE, ["q", "--lock", "1y"], "unknown unit"),
        (CREATE, ["q", "--lock", ""], "not a duration"),
        (CREATE, ["q", "--max-delivery", "1.0"], "not an integer"),
        (CREATE, ["q", "--max-delivery", "010"], "not an integer"),
        (CREATE, ["q", "--max-delivery", " 5"], "not an integer"),
        (CREATE, ["q", "--max-delivery", "9223372036854775808"], "int64"),
        (CREATE, ["q", "--max-delivery", "9" * 5000], "not an integer"),
        (RECEIVE, ["q", "--no-ack=maybe"], "true or false"),
        (PEEK, ["q", "-1"], "unknown flag --1"),
        (SEND, ["q", "x", "--subject", "\udcff"], "not UTF-8"),
        (SEND, ["q", "x", "--file", ""], "not a file name"),
    ],
)
def test_words_that_cannot_be_read_are_a_usage_error_with_the_mend(
    command: Command, words: list[str], mend: str
) -> None:
    with pytest.raises(UsageError, match=mend):
        parse(command, words)


@pytest.mark.promise("T16")
@pytest.mark.parametrize("word", ["--tokn=sesame", "---token=sesame", "--=sesame"])
def test_an_unknown_flag_is_named_without_its_value(word: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(SEND, ["q", "x", word])
    assert "sesame" not in str(caught.value)


@pytest.mark.promise("T3")
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_a_wrong_number_of_positionals_is_refused_with_the_usage(command: Command) -> None:
    short = list(command.words[:-1])
    surplus = [*command.words, "surplus"]
    for words in ([short] if command.words else []) + ([] if command.rest else [surplus]):
        with pytest.raises(Refusal, match=f"usage: mqlite {command.name}"):
            parse(command, words)


def test_a_name_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(Refusal, match="QUEUE: not UTF-8"):
        parse(SEND, ["\udcff", "x"])


@pytest.mark.parametrize("word", ["-h", "--help", "-help", "--h"])
def test_help_is_a_flag_of_every_command(word: str) -> None:
    for command in COMMANDS:
        with pytest.raises(HelpWanted):
            parse(command, ["anything", word, "--bogus"])


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("0", 0),
        ("-0", 0),
        ("1ns", 1),
        ("1us", 1_000),
        ("1\u00b5s", 1_000),
        ("1\u03bcs", 1_000),
        ("1ms", 1_000_000),
        ("30s", 30 * SECOND),
        ("1m", 60 * SECOND),
        ("1h30m", 5400 * SECOND),
        ("1.5h", 5400 * SECOND),
        (".5s", SECOND // 2),
        ("1.s", SECOND),
        ("2d", 172_800 * SECOND),
        ("1w", 604_800 * SECOND),
        ("-1.5s", -3 * SECOND // 2),
        ("+1s", SECOND),
        ("0.1ns", 1),
        ("1s1s", 2 * SECOND),
    ],
)
def test_durations_have_units_and_are_exact(text: str, nanoseconds: int) -> None:
    assert parse_duration(text) == nanoseconds


@pytest.mark.parametrize(
    "text",
    ["", "-", "+", ".", ".s", "s", "1", "1 s", "1S", "1s 2s", "1s2", "--1s", "1e3s", "\u0661s"],
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_duration(text)


ONE_FORM = ("serve", "openapi", "completion", "export", "export-topology", "top")
"""Commands that print in one form, whatever that is."""


def test_every_row_of_the_table_is_complete_and_its_handler_exists() -> None:
    page = usage.page()
    for command in COMMANDS:
        module, _, function = command.handler.partition(":")
        if module != "mqlite_cli.launch":
            assert callable(getattr(import_module(module), function))
        assert command.summary
        assert command.name in page
        assert all(flag.meaning for flag in command.flags.values())
        assert "output" in command.flags or command.name in ONE_FORM, command.name


# -- as a process ----------------------------------------------------------------------------------


@pytest.mark.promise("T1")
def test_no_command_shows_the_help_page_and_exits_2(tmp_path: Path) -> None:
    done = Shell(tmp_path).run(check=2)
    assert done.text == usage.page()
    assert done.err == ""


@pytest.mark.promise("T1")
def test_an_unknown_command_is_named_on_stderr(tmp_path: Path) -> None:
    done = Shell(tmp_path).run("snd", check=2)
    assert done.text == usage.page()
    assert done.err == "error: unknown command snd; did you mean send?\n"


@pytest.mark.promise("T2")
@pytest.mark.parametrize(
    "words",
    [["list", "--bogus"], ["send", "q", "x", "--subject"], ["create-queue", "q", "--lock", "30"]],
)
def test_a_usage_error_prints_nothing_on_stdout_and_makes_no_file(
    tmp_path: Path, words: list[str]
) -> None:
    done = Shell(tmp_path).run(*words, check=2)
    assert done.out == b""
    assert done.err.startswith(f"error: {words[0]}: ")
    assert f"usage: mqlite {words[0]}" in done.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.promise("T3", "T8")
@pytest.mark.parametrize("words", [["list", "x"], ["send"], ["peek", "q", "--output", "yaml"]])
def test_what_is_decided_after_the_flags_exits_1_and_makes_no_file(
    tmp_path: Path, words: list[str]
) -> None:
    done = Shell(tmp_path, MQLITE_ENDPOINT="http://127.0.0.1:1").run(*words, check=1)
    assert done.out == b""
    assert len(done.errors) == 1
    assert "connect" not in done.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.promise("T8")
@pytest.mark.parametrize("name", [name for name, each in BY_NAME.items() if "output" in each.flags])
def test_an_unknown_output_form_is_refused_by_every_command(tmp_path: Path, name: str) -> None:
    words = [*name.split(), *BY_NAME[name].words, "--output", "yaml"]
    assert "write text, json or ndjson" in Shell(tmp_path).run(*words, check=1).err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.promise("T4", "T5")
@pytest.mark.parametrize(
    ("word", "begins"),
    [
        ("version", f"mqlite {__version__}\n"),
        ("-v", f"mqlite {__version__}\n"),
        ("--version", f"mqlite {__version__}\n"),
        ("help", "mqlite: "),
        ("-h", "mqlite: "),
        ("--help", "mqlite: "),
    ],
)
def test_version_and_help_answer_and_refuse_surplus(tmp_path: Path, word: str, begins: str) -> None:
    shell = Shell(tmp_path)
    assert shell.ok(word).startswith(begins)
    assert "usage" in shell.run(word, "surplus", check=1).err


@pytest.mark.promise("T4")
def test_help_of_a_command_exits_0_and_lists_its_flags(tmp_path: Path) -> None:
    text = Shell(tmp_path).ok("receive", "-h")
    assert text.startswith("usage: mqlite receive [flags] QUEUE\n")
    assert "--no-ack" in text
