"""What no vector pins: JSON at its edges, texts that are not UTF-8, times of unusual years."""

from __future__ import annotations

import pytest

from tests.filters.samples import about, on, outcome

BODIES = [
    (b'{"a":"\\ud800"}', 'body_json.a == "\\ufffd"'),
    (b'{"a":"\\ud83d\\ude00x"}', 'body_json.a == "\\u{1F600}x"'),
    (b'{"a":"\\udc00\\ud800b"}', 'body_json.a == "\\ufffd\\ufffdb"'),
    (b'{"a":"x\xff\xfey"}', 'body_json.a == "x\\ufffd\\ufffdy"'),
    (b'{"\xe9":1}', 'body_json["\\ufffd"] == 1'),
    (b'{"a":-0}', 'string(body_json.a) == "-0"'),
    (b'{"a":-0.0}', 'string(body_json.a) == "-0"'),
    (b'{"a":123456789012345678901234567890}', "body_json.a == 1.2345678901234568e29"),
    (b'{"a":1e-400}', "body_json.a == 0"),
    (b'{"a":1,"a":{"b":2}}', "body_json.a.b == 2"),
    (b' \t\r\n{"a":1}\n ', "body_json.a == 1"),
    (b'{"a":"\\u0000"}', "len(body_json.a) == 1"),
    (b'{"":1}', 'body_json[""] == 1 and body_json[nil ?? ""] == 1'),
    (b'{"a":"\x7f"}', 'body_json.a == "\\x7f"'),
]
EMPTY = [
    b'{"a":1e400}', b'{"a":-1e400}', b'{"a":' + b"9" * 400 + b"}", b'{"a":NaN}', b'{"a":Infinity}',
    b'{"a":1}x', b'{"a":1}{}', b'{"a":01}', b'{"a":.5}', b'{"a":"\x01"}', b"{'a':1}", b'{"a":1,}',
    b'\xef\xbb\xbf{"a":1}', b"\xff", b'"x"', b"[1]", b"null", b"1", b"", b" ", b"{", b"\\u",
    b'{"a":"\\ud800"}1', b'{"a":"\\uZZZZ"}', b'{"a":-0}]', b'{"a":-}', b'{"a" 1}', b'{"-0":1e999}',
    b'{"a":' * 950 + b"1e400" + b"}" * 950, b"[" * 950 + b"]" * 950,
    b"[" * 950 + b"{}" + b"]" * 949,
]  # fmt: skip


@pytest.mark.parametrize(("body", "expr"), BODIES)
def test_a_body_is_read_as_the_language_reads_it(body: bytes, expr: str) -> None:
    assert on(about(body), expr) == "T"


@pytest.mark.parametrize("body", EMPTY, ids=range(len(EMPTY)))
def test_a_body_that_is_no_object_is_empty(body: bytes) -> None:
    assert on(about(body), "body_json == {}") == "T"


def test_a_body_of_another_type_is_not_read() -> None:
    body = b'{"a":1}'
    for content_type, size in (
        ("text/plain", 0),
        ("APPLICATION/JSON", 1),
        ("", 1),
        ("x-json-y", 1),
    ):
        assert on(about(body, content_type), f"len(body_json) == {size}") == "T"


@pytest.mark.parametrize("levels", [900, 3000])
def test_what_nests_too_deep_for_the_libraries_is_read_the_same(levels: int) -> None:
    inner = b'{"k":[1,-0.5,"a\\u00e9\\ud800",true,false,null,{},[]]}'
    body = b'{"a":' * levels + inner + b"}" * levels
    path = "?.a" * 300
    assert on(about(body), f"body_json{path} != nil") == "T"
    listed = b'{"a":' + b"[" * levels + inner + b"]" * levels + b"}"
    assert on(about(listed), "flatten(body_json.a)[0] == " + MADE) == "T"


MADE = '{k: [1.0, -0.5, "aé\\ufffd", true, false, nil, {}, sort([])]}'

TEXTS = [
    'upper("\\u01c6") == "\\u01c4"',
    'lower("\\u0130") == "i"',
    'upper("ŉ") == "ŉ"',
    'trim("\\u3000 a\\u00a0") == "a"',
    'trim("\\u200ba") != "a"',
    'len("é"[0:1]) == 1',
    '"é"[0:1] + "é"[1:2] == "é"',
    '"é" contains "é"[1:2]',
    'string("é"[0:1]) != "\\ufffd" and upper("é"[0:1]) == "\\ufffd"',
    'toJSON("é"[0:1]) == "\\"\\ufffd\\""',
    'split("é"[0:1] + "a", "") == ["é"[0:1], "a"]',
    'toJSON({b: [{}], a: "<"}) == `{\n  "a": "\\u003c",\n  "b": [\n    {}\n  ]\n}`',
    'string(groupBy([2, 10, 1], #)) == "map[1:[1] 2:[2] 10:[10]]"',
    'string([1.0, nil, true, hours(1), "x"]) == "[1 <nil> true 1h0m0s x]"',
    'string(123456.7) == "123456.7" and string(1e-4) == "0.0001" and string(5e-324) == "5e-324"',
    'toJSON(1e-7) == "1e-7" and toJSON(123456789.0) == "123456789"',
    'replace("aé", "", "-", 2) == "-a-é"',
    'splitAfter("a,b,c", ",", 1) == ["a,b,c"]',
    'fromBase64(toBase64("é"[0:1])) == "é"[0:1]',
]


@pytest.mark.parametrize("expr", TEXTS)
def test_texts_are_bytes_that_need_not_be_utf8(expr: str) -> None:
    assert outcome(expr) == "T"


TIMES = [
    'date("0000-02-29").Day() == 29',
    'date("9999-12-31").AddDate(1, 0, 0).Year() == 10000',
    'date("2026-01-01").AddDate(-2030, 0, 0).Format("2006-01-02") == "-0004-01-01"',
    'date("2026-01-01").AddDate(10000000, 0, 0).In(timezone("Europe/Paris")).Hour() == 1',
    'date("0001-01-01").In(timezone("America/New_York")).Year() == 0',
    'date("2026-03-29 02:30", "2006-01-02 15:04", "Europe/Paris").UTC().Hour() in [0, 1]',
    'date("2026-10-25 02:30", "2006-01-02 15:04", "Europe/Paris").UTC().Hour() in [0, 1]',
    'date("2024-12-30").ISOWeek() == 2025 and date("2023-01-01").ISOWeek() == 2022',
    'enqueued_at.In(timezone("Asia/Kolkata")).Zone() == "IST"',
    'enqueued_at.In(timezone("Europe/Paris")).Location().String() == "Europe/Paris"',
    'date("2026-07-01").In(timezone("Europe/Paris")).IsDST()',
    'not date("2026-01-01").In(timezone("Europe/Paris")).IsDST()',
    'date("2026-03-05T15:30:00.25+01:00").String() == "2026-03-05 15:30:00.25 +0100 +01"',
    'date("Mon, 02 Jan 2006 15:04:05 GMT").UnixMilli() == 1136214245000',
    "duration('1ns').String() == '1ns' and duration('-1.5us').String() == '-1.5µs'",
    "weeks(100000).Abs() == weeks(100000)",
    "duration('0.000000001s').Nanoseconds() == 1",
    "date('1969-12-31').Unix() == -86400 and date('1969-12-31').UnixMilli() == -86400000",
    "enqueued_at.Truncate(hours(1)) == enqueued_at.Truncate(minutes(60))",
    "now() == now() and now().UnixMilli() == 1790000000000",
    'now(timezone("Europe/Paris")).Hour() == now().Hour() + 2',
]


@pytest.mark.parametrize("expr", TIMES)
def test_times_follow_the_calendar_far_and_near(expr: str) -> None:
    assert outcome(expr) == "T"


@pytest.mark.parametrize(
    "name", ["Europe", "../UTC", "/etc/passwd", "", "utc\\x00", "CEST", "a" * 300]
)
def test_a_zone_is_a_name_of_the_database_and_no_path(name: str) -> None:
    assert outcome(f'timezone("{name}") != nil') == ("T" if not name else "E")


def test_an_extreme_of_an_empty_inner_list_is_an_error_and_a_mean_is_not() -> None:
    assert outcome("max([[]]) == nil") == "E"
    assert outcome("max([]) == nil") == "T"
    assert outcome("mean([[], [1]]) == 1") == "T"


def test_maps_keep_keys_of_different_types_apart() -> None:
    assert outcome('len(fromPairs([[1, 2], [1.0, 2], [true, 2], ["1", 2], [nil, 2]])) == 5') == "T"
    assert outcome("len(groupBy([0 / 0, 0 / 0], #)) == 2") == "T"
    assert outcome("fromPairs([[hours(1), 5]])[hours(1)] == 5") == "T"
    assert outcome("fromPairs([[enqueued_at, 5]])[enqueued_at] == 5") == "T"
