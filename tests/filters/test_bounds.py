"""Hostile filters end: by a refusal, or by a budget, and never by anything else."""

from __future__ import annotations

import json
import sys

import pytest

from mqlite_actor.contract.errors import InvalidFilter
from mqlite_actor.filters import Facts, FilterFailed, compile_filter
from tests.filters.samples import about, failure_of, on, outcome

NESTED_LISTS = "let a = [1,1,1,1,1,1,1,1,1,1]; " + "".join(
    f"let {name} = [{','.join(before * 10)}]; "
    for before, name in zip("abcdef", "bcdefg", strict=True)
)

BUDGETS = {
    "nested ranges": "any(1..999, any(1..999, any(1..999, any(1..999, false))))",
    "strings that double": "len(reduce(1..60, #acc + #acc, body_text)) > 0",
    "a replacement that explodes": 'len(replace(body_text, "a", body_text)) > 0',
    "a body joined a thousand times": "len(join(map(1..1000, body_text))) > 0",
    "unlike items compared each with each": "len(uniq(map(1..5000, #))) > 0",
    "lists in lists as text": NESTED_LISTS + "len(string(g)) > 0",
    "lists in lists as JSON": NESTED_LISTS + "len(toJSON(g)) > 0",
    "lists in lists compared": NESTED_LISTS + "g == map([0], g)[0]",
    "lists in lists flattened": NESTED_LISTS + "len(flatten(g)) > 0",
    "a pattern made over and over": 'any(1..100000, subject matches ("a" + string(#)))',
    "a pattern of many states": 'body_text matches "[ab]*a[ab]{500}c"',
    "a long search made again": (
        'any(1..9999, lastIndexOf(body_text, "b" + body_text[1:500000]) == 1)'
    ),
    "long texts compared again": 'let x = body_text + ""; any(1..90000, x != body_text)',
    "long texts sorted": "len(sort(map(1..90000, body_text))) > 0",
    "lists taken again": "let x = map(1..90000, #); any(1..90000, len(take(x, 90000)) == 0)",
    "dates read again": 'any(1..200000, date("2026-01-01") == nil)',
    "long layouts": (
        'let l = repeat("2006-01-02 ", 300); any(1..9999, enqueued_at.Format(l) == "")'
    ),
    "large patterns made again": (r'any(1..2000, subject matches ("\\pL{60}" + string(#)))'),
    "a body split into characters": 'len(split(body_text, "")) > 0',
    "a large sort": "len(sort(map(1..90000, # * 1.5))) > 0",
    "a list searched over and over": "any(1..999, any(1..999, # in [1.5, 2.5, body_size + 0.5]))",
}


@pytest.mark.promise("E149")
@pytest.mark.parametrize("name", BUDGETS)
def test_a_filter_that_would_run_on_ends_by_its_budget(name: str) -> None:
    held = about(body=b"ab" * 524_288, content_type="text/plain", subject="a.b.c")
    with pytest.raises(FilterFailed) as caught:
        compile_filter(BUDGETS[name]).decide(held)
    assert caught.value.kind == "budget"


REFUSED = {
    "brackets": "(" * 2000 + "true" + ")" * 2000,
    "lists": "[" * 1000 + "]" * 1000,
    "signs": "-" * 4000 + "1 == 1",
    "conditions": "true ? " * 400 + "true" + " : true" * 400,
    "ifs": "if true {" * 250 + "true" + "} else {true}" * 250,
    "powers": "2 " + "** 2 " * 300 + "> 1",
    "calls": "abs(" * 500 + "1" + ")" * 500 + " == 1",
    "loops": "any([1]," * 250 + "true" + ")" * 250,
    "nodes": "||".join(["true"] * 600),
    "bytes": "true" + " " * 4093,
    "a large pattern": 'subject matches "' + "(a{1000})" * 200 + '"',
    "many patterns": " or ".join(f'subject matches "\\\\pL{{80}}{n}"' for n in range(60)),
    "a pattern that nests": 'subject matches "' + "(" * 1100 + ")" * 1100 + '"',
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_filter_beyond_a_limit_is_refused(name: str) -> None:
    assert outcome(REFUSED[name]) == "C"


ALLOWED = {
    "brackets": ("(" * 150 + "true" + ")" * 150, "T"),
    "lists": ("[" * 150 + "1" + "]" * 150 + " != nil", "T"),
    "signs": ("not " * 150 + "true", "T"),
    "negations": ("-" * 150 + "1 == 1", "T"),
    "conditions": ("true ? " * 150 + "true" + " : false" * 150, "T"),
    "ifs": ("if true {" * 150 + "true" + "} else {false}" * 150, "T"),
    "calls": ("abs(" * 150 + "-1" + ")" * 150 + " == 1", "T"),
    "brackets with operators": ("(body_size + 1 * " * 150 + "1" + ")" * 150 + " > 1", "T"),
    "loops": ("any([1]," * 150 + "true" + ")" * 150, "T"),
    "maps": ("{a: " * 150 + "1" + "}" * 150 + " != nil", "T"),
    "a chain of sums": ("+".join(["body_size"] * 400) + " > 0", "T"),
    "a chain of truths": ("||".join(["body_size == 1"] * 200) + " || body_size == 117", "T"),
    "a chain of pipes": ("subject" + "|upper()" * 300 + ' == "INVOICE.FR.PAID"', "T"),
    "a chain of members": ("body_json" + "?.a" * 300 + " == nil", "T"),
    "a chain of indexes": ("body_json.x" + "?.[0]" * 300 + " == nil", "T"),
    "a chain of coalescing": ("(" + "body_json.a ?? " * 200 + "true)", "T"),
    "many lets": ("".join(f"let v{n}=1;" for n in range(300)) + "v299 == 1", "T"),
    "a long sum": ("sum([" + ",".join(["body_size"] * 400) + "]) > 0", "T"),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_nesting_and_chains_within_the_limits_work(name: str) -> None:
    expr, wanted = ALLOWED[name]
    assert outcome(expr) == wanted


def deep(frames: int, work: object) -> str:
    """Call something with so many Python frames already in use."""
    if frames:
        return deep(frames - 1, work)
    assert callable(work)
    return str(work())


def test_a_caller_deep_in_its_own_stack_gets_the_same_outcome() -> None:
    exprs = [expr for expr, _ in ALLOWED.values()]
    used = sys.getrecursionlimit() // 3
    assert deep(used, lambda: [outcome(expr) for expr in exprs]) == str(
        [wanted for _, wanted in ALLOWED.values()]
    )


def test_operands_that_stand_in_two_places_do_not_multiply() -> None:
    elvis = "(" * 60 + "body_json.vip" + " ?: true)" * 60
    assert failure_of(elvis).kind == "budget"
    chained = "1 < " + "(1 < " * 60 + "body_size" + " < 900) ? 5 : 6" * 60 + " < 9"
    assert outcome(chained) in "CE"
    nested = "body_json.total"
    for _ in range(30):
        nested = f"(0 < ({nested} ? 1 : 2) < 3)"
    assert outcome(nested.replace("body_json.total", "body_json.vip")) == "E"
    assert failure_of(nested.replace("body_json.total", "body_json.vip")).kind == "budget"


def test_a_filter_says_whether_it_may_take_long() -> None:
    quick = ['subject == "x"', "", "body_json.a > 1", "body_size in 1..5", 'subject matches "a"']
    slow = [
        "any([1], true)",
        "len(1..5) > 0",
        'uniq(subject_parts) == ["a"]',
        "subject matches subject",
    ]
    assert [compile_filter(expr).has_loops for expr in quick] == [False] * len(quick)
    assert [compile_filter(expr).has_loops for expr in slow] == [True] * len(slow)
    assert compile_filter("body_json.a > 1").reads_body
    assert not compile_filter('subject == "x"').reads_body


@pytest.mark.parametrize("levels", [900, 5000, 9_999, 10_000, 10_001, 200_000])
def test_a_deeply_nested_body_is_read_or_empty_and_never_an_error(levels: int) -> None:
    body = b'{"a":' * levels + b"1" + b"}" * levels
    held = about(body)
    is_read = levels <= 10_000
    assert on(held, "len(body_json) == 1") == ("T" if is_read else "F")
    for expr in ("body_json == body_json", 'string(body_json) != ""', 'toJSON(body_json) != ""'):
        assert on(held, expr) in "TE"


def test_a_body_is_decoded_once_for_any_number_of_filters() -> None:
    held = about(json.dumps({"a": 1}).encode())
    assert on(held, "body_json.a == 1") == "T"
    decoded = held.body_json
    assert on(held, "body_json.a == 2") == "F"
    assert held.body_json is decoded


def test_a_filter_is_reused_and_keeps_nothing_of_a_message() -> None:
    compiled = compile_filter("let n = body_size; map(1..n, #)[0] == 1")
    for size in (3, 1, 2):
        assert compiled.decide(about(b"x" * size))
    with pytest.raises(FilterFailed):
        compiled.decide(about(b""))


def test_blank_text_matches_everything_whatever_its_length() -> None:
    for blank in ("", "   ", "\n\t\u3000", " " * 5000):
        assert compile_filter(blank).decide(about())
    with pytest.raises(InvalidFilter):
        compile_filter("\u200b")


def test_evaluate_takes_a_message_and_the_three_instants() -> None:
    held: Facts = about(b"x", subject="a")
    compiled = compile_filter('subject == "a" and visible_at - enqueued_at == seconds(1)')
    assert compiled.evaluate(held.message, enqueued_at_ms=0, visible_at_ms=1000, now_ms=5)
    assert compile_filter("now().UnixMilli() == 5").evaluate(
        held.message, enqueued_at_ms=0, visible_at_ms=1000, now_ms=5
    )
