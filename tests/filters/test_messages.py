"""What a refusal or a failure says: the cause, the place, and the mend."""

from __future__ import annotations

import pytest

from mqlite_actor.contract.errors import InvalidFilter
from mqlite_actor.filters import compile_filter
from tests.filters.samples import failure_of, message_of

REFUSALS = {
    'subjet == "x"': ["line 1, column 1", "unknown name `subjet`", "did you mean `subject`?"],
    "shout(subject)": ["column 1", "unknown name `shout`"],
    'subject = "x"': ["column 9", "unexpected `=`", "`==` compares"],
    'subject == "a" AND body_size > 1': ["column 16", "`AND`", "write `and`"],
    "NOT body_json.vip": ["write `not`"],
    "body_json.x == null": ["column 16", "`null`", "write `nil`"],
    "body_json.x == None": ["write `nil`"],
    'subject.contains("fr")': ["`contains`", "operator", "a contains b"],
    "properties.retries > 3": ["does not take string and int", "int(…)"],
    'not subject == "x"': ["column 1", "`not` does not take string", "not (a == b)"],
    "subject == “x”": ["column 12", "plain quotes"],
    "body_json.a ?? 1 == 2": ["column 18", "`==` cannot follow `??`", "(a ?? b) =="],
    '"fr" in subject': ["`contains` looks into a string"],
    'subject | split(".")[0] == "a"': ["put the pipe in parentheses"],
    "enqueued_at > 5": ["does not take time and int"],
    'enqueued_at > "2026-01-01"': ["date(…)"],
    "visible_at - enqueued_at > 60": ["seconds(…)"],
    "enqueued_at.hour() == 1": ["time has no member `hour`", "did you mean `Hour`?"],
    'subject == "abc': ["column 12", "unterminated string"],
    "true /* x": ["column 6", "unterminated comment"],
    '"\\d" == "d"': ["column 2", "bad escape \\d", "backticks"],
    "12abc == 1": ["bad number"],
    "9223372036854775808 > 0": ["bad number", "64 bits"],
    "subject": ["must be true or false, this is string"],
    "upper(1) == 'x'": ["the argument of upper must be a string, is int"],
    "split('a') == nil": ["split takes 2 to 3 arguments, not 1"],
    "len('a', 'b') == 1": ["len takes 1 argument, not 2"],
    "concat() == nil": ["concat takes 1 or more arguments, not 0"],
    'subject matches "("': ["column 17", "bad regular expression"],
    "true and\n  nope": ["line 2, column 3", "unknown name `nope`"],
    "#": ["unexpected `#`"],
    "let subject = 1; true": ["column 5", "`subject` is taken"],
    "5 % 0 == 0": ["column 3", "integer modulus by zero"],
    "true &  false": ["unexpected &", "`and`"],
    "[1,2": ["unexpected end of the filter, expected ,"],
    "any(properties, true)": ["loops over a list"],
    "any([1], 5)": ["the predicate of any must be true or false, is int"],
    "any([1], # == 1; true)": ["{ }"],
    "sortBy([1], #, 5) == []": ['"asc" or "desc"'],
    " ": [],
}  # fmt: skip


@pytest.mark.parametrize("expr", [expr for expr, parts in REFUSALS.items() if parts])
def test_a_refusal_names_cause_place_and_mend(expr: str) -> None:
    message = message_of(expr)
    assert [part for part in REFUSALS[expr] if part not in message] == [], message


def test_a_refusal_shows_the_text_around_on_one_line() -> None:
    message = message_of(
        "true and\n" + "body_size > 1 and " * 5 + "nope" + " and body_size > 1" * 5
    )
    assert "\n" not in message
    assert "⟶nope" in message
    assert len(message) < 250


def test_a_long_name_is_not_repeated_at_length() -> None:
    assert len(message_of("a" * 4000)) < 500


FAILURES = {
    "body_json.missing > 1": ("type", 19, "does not take nil and int"),
    "true and body_json.a.b == 1": ("missing", 21, "nil has no member 'b'"),
    "subject_parts[9] == 'x'": ("missing", 14, "index out of range"),
    "body_size % 0 == 0": ("arithmetic", 11, "modulus by zero"),
    "int('x') == 1": ("value", 1, "not an int"),
    "duration('1mo') == seconds(1)": ("value", 1, "bad duration"),
    "len(1..2000000) > 0": ("budget", 6, "1,000,000 elements"),
    "body_json.total": ("result", 0, "must be true or false, is float"),
    "any(body_json.lines, .qty)": ("type", 1, "the predicate of any must be true or false"),
    "not body_json.missing": ("type", 1, "the operand of `not`"),
}


@pytest.mark.parametrize("expr", FAILURES)
def test_a_failure_names_kind_place_and_cause(expr: str) -> None:
    kind, column, text = FAILURES[expr]
    failed = failure_of(expr)
    assert (failed.kind, failed.column) == (kind, column)
    assert text in str(failed)
    assert failed.line == (1 if column else 0)


def test_a_failure_holds_no_value_of_the_message() -> None:
    failed = failure_of("body_json.currency > body_json.total")
    assert "EUR" not in str(failed)
    assert "240" not in str(failed)


def test_a_lone_surrogate_in_the_source_is_refused() -> None:
    with pytest.raises(InvalidFilter, match="lone surrogate"):
        compile_filter("subject == '\ud800'")
