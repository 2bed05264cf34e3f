"""The matcher of recorded answers: it accepts what the placeholders stand for and sees the rest."""

from __future__ import annotations

import json

import pytest

from tests.conformance.traces import Answer, Names, Step, compare


def problems(expected: object, found: object, *, extra_keys_ok: bool = False) -> list[str]:
    return Names().problems(expected, found, extra_keys_ok=extra_keys_ok)


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        ({"a": 1}, {"a": 1}),
        ([1, "x", None, True], [1, "x", None, True]),
        ("<int>", 7),
        ("<text>", "x"),
        ("<text~del>", "a delay"),
        ("<text^no such path>", "no such path: /x"),
        ("<seq:1>", 5),
        (["<seq:1>", "<seq:2>", "<seq:1>"], [5, 9, 5]),
        (["<ms:1>", "<ms:2>", "<ms:1+400>"], [100, 100, 500]),
        (["<ms:1+400>", "<ms:1>"], [500, 100]),
        (["<token:1>", "<token:2>"], ["a", "b"]),
        ("<a>", "<a>"),
    ],
)
def test_what_was_recorded_is_accepted(expected: object, found: object) -> None:
    assert problems(expected, found) == []


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        ({"a": 1}, {"a": 2}),
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a": 1}, {}),
        ([1], [1, 1]),
        (1, True),
        (1, 1.0),
        (None, 0),
        ("<int>", "7"),
        ("<int>", True),
        ("<text>", ""),
        ("<text>", 1),
        ("<text~delay>", "nothing of that"),
        ("<text^path>", "no path"),
        ("<seq:1>", "5"),
        (["<seq:1>", "<seq:1>"], [5, 6]),
        (["<seq:1>", "<seq:2>"], [9, 5]),
        (["<seq:2>", "<seq:10>"], [9, 5]),
        (["<seq:1>", "<seq:2>"], [5, 5]),
        (["<ms:1>", "<ms:1+400>"], [100, 501]),
        (["<token:1>", "<token:1>"], ["a", "b"]),
        ("<token:1>", 5),
        ("<a>", "<b>"),
    ],
)
def test_what_differs_is_seen(expected: object, found: object) -> None:
    assert len(problems(expected, found)) == 1


def test_extra_keys_are_let_through_where_the_recording_says_so() -> None:
    expected = {"queues": [{"name": "q", "kind": "queue"}]}
    found = {"queues": [{"name": "q", "kind": "queue", "generation": "g"}]}
    assert problems(expected, found, extra_keys_ok=True) == []
    assert problems(expected, {"queues": [{"kind": "queue", "name": "q"}]}, extra_keys_ok=True)
    assert problems(expected, {"queues": [{"name": "q"}]}, extra_keys_ok=True)


def test_names_bound_by_an_answer_are_written_into_later_requests() -> None:
    names = Names()
    answer = {"seq": "<seq:1>", "token": "<token:1>", "at": "<ms:3>"}
    assert names.problems(answer, {"seq": 5, "token": "ab", "at": 70}, extra_keys_ok=False) == []
    body = b'{"s":"<seq:1>","n":"<seq:1+2>","t":"<token:1>","m":"<ms:3>"}'
    assert json.loads(names.written(body, 0)) == {"s": 5, "n": 7, "t": "ab", "m": 70}


def test_the_clients_clock_is_bound_by_the_request() -> None:
    names = Names()
    body = b'{"a":"<at:1:+500>","b":"<at:2:-3>","c":"<at:1>"}'
    assert json.loads(names.written(body, 1000)) == {"a": 1500, "b": 997, "c": 1500}
    assert names.problems(["<at:1>", "<at:1+400>"], [1500, 1900], extra_keys_ok=False) == []
    assert names.problems("<at:1>", 1501, extra_keys_ok=False)


def test_a_body_without_placeholders_is_sent_as_it_is() -> None:
    for body in (b"", b"\xff<\xfe", b'{"a":"<b>"}'):
        assert Names().written(body, 0) == body


STEP = Step(
    scenario="s",
    number=1,
    method="POST",
    path="/",
    headers={},
    body=None,
    wait_ms=0,
    status=200,
    content_type="application/json",
    response_headers={"Vary": None, "X-One": "1"},
    response='{"ok":true}\n',
    extra_keys_ok=False,
)
HEADERS = {"content-type": "application/json", "x-one": "1"}


@pytest.mark.parametrize(
    ("answer", "number"),
    [
        (Answer(200, HEADERS, b'{"ok":true}\n'), 0),
        (Answer(200, HEADERS, b'{ "ok" : true }\n'), 0),
        (Answer(500, HEADERS, b'{"ok":true}\n'), 1),
        (Answer(200, HEADERS, b'{"ok":true}'), 1),
        (Answer(200, HEADERS, b'{"ok":true}\n\n'), 1),
        (Answer(200, {**HEADERS, "vary": "Origin"}, b'{"ok":true}\n'), 1),
        (Answer(200, {"content-type": "application/json"}, b'{"ok":true}\n'), 1),
        (Answer(200, {**HEADERS, "content-type": "text/plain"}, b'{"ok":true}\n'), 1),
    ],
)
def test_status_headers_and_the_last_line_break_are_compared(answer: Answer, number: int) -> None:
    assert len(compare(STEP, answer, Names())) == number
