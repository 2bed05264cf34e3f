"""No text of a sender or a broker reaches the terminal as more than text (B81)."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqlite_cli.escaping import field, json_text, quoted, visible


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (b"plain", '"plain"'),
        (b"", '""'),
        (b'say "hi"\\', '"say \\"hi\\"\\\\"'),
        (b"\n\r\t\x00\x07\x1b\x7f", '"\\n\\r\\t\\x00\\a\\x1b\\x7f"'),
        (b"\xff\xc3(", '"\\xff\\xc3("'),
        ("\u0085\u009b".encode(), '"\\u0085\\u009b"'),
        ("\u202e\u2066\u2028\ufeff\u200b".encode(), '"\\u202e\\u2066\\u2028\\ufeff\\u200b"'),
        ("\U000e0001".encode(), '"\\U000e0001"'),
        ("\u00e9\u6f22\U0001f600".encode(), '"\u00e9\u6f22\U0001f600"'),
        (b"\xed\xa0\x80", '"\\xed\\xa0\\x80"'),
    ],
)
def test_bodies_are_quoted_with_escapes(value: bytes, shown: str) -> None:
    assert quoted(value) == shown


@given(st.binary())
def test_any_body_is_one_printable_line_inside_quotes(body: bytes) -> None:
    shown = quoted(body)
    assert shown.isprintable()
    assert '"' not in shown[1:-1].replace("\\\\", "").replace('\\"', "")


@given(st.binary(), st.binary())
def test_different_bodies_look_different(one: bytes, other: bytes) -> None:
    assert (quoted(one) == quoted(other)) == (one == other)


@given(st.text())
def test_visible_text_is_one_printable_line(text: str) -> None:
    assert visible(text).isprintable()


@pytest.mark.parametrize("text", ["abc", "a-b_c.d/e:f=", "\u00e9"])
def test_a_harmless_value_stands_as_it_is(text: str) -> None:
    assert field(text) == text


@pytest.mark.parametrize("text", ["", "a b", 'a"', "a\\", "a\nb", "\u202ea", "\u00a0"])
def test_a_value_that_could_mislead_is_quoted(text: str) -> None:
    assert field(text).startswith('"')
    assert field(text).isprintable()


@given(st.text())
def test_escaped_json_is_printable_and_the_same_value(text: str) -> None:
    document = json_text(
        msgspec.json.encode({"x": text.encode("utf-16", "replace").decode("utf-16")})
    )
    assert document.isprintable()
    assert json.loads(document) == {"x": text.encode("utf-16", "replace").decode("utf-16")}


def test_layout_of_json_stays() -> None:
    document = msgspec.json.format(msgspec.json.encode({"a": "\u202e", "b": 1}), indent=2)
    assert json_text(document) == '{\n  "a": "\\u202e",\n  "b": 1\n}'
