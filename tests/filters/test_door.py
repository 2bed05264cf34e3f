"""Whatever is typed, the door answers: a filter that says yes, no or fails, or a reasoned refusal.

Three sources of filters: characters, pieces of the language in any order, and recorded filters with
parts exchanged. MQLITE_FUZZ_SECONDS sets how long the last goes on (20 without it).
"""

from __future__ import annotations

import os
import random
import re
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.figures import record
from tests.filters.samples import FIXTURES, outcome, vectors

SECONDS = float(os.environ.get("MQLITE_FUZZ_SECONDS", "20"))
FILTERS_MAX = 30_000
"""A bound on the look that every run takes; with MQLITE_FUZZ_SECONDS set, only the time counts."""

few = settings(
    max_examples=200,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
PIECES = """
( ) [ ] { } , ; : :: . ?. ?? ? | # #index #acc .. + - * / % ** ^ == != < <= > >= && || ! and or
not in contains startsWith endsWith matches let if else = true false nil 0 1 -1 1.5 1e3
9223372036854775807 "" "a" 'b' `c` b"d" subject properties subject_parts property_keys body_size
body_text body_json $env enqueued_at visible_at len( any( all( filter( map( count( sum( find(
groupBy( sortBy( reduce( string( int( float( type( max( min( mean( median( first( last( get( take(
keys( split( join( replace( repeat( date( timezone( duration( hours( now( toJSON( fromJSON(
flatten( concat( uniq( sort( x y .a ["k"] [0] .Hour() .Format("06") .String() ) ) ) ] } // /* */
\\ @ & ~ é “ \x00 \ud800
""".split()  # noqa: SIM905 - a list of 130 quoted pieces would hide them


@few
@given(text=st.text(max_size=60), fixture=st.sampled_from(FIXTURES))
def test_any_text_is_a_filter_or_refused(text: str, fixture: str) -> None:
    assert outcome(text, fixture) in "TFEC"


@few
@given(parts=st.lists(st.sampled_from(PIECES), max_size=25), fixture=st.sampled_from(FIXTURES))
def test_pieces_of_the_language_are_a_filter_or_refused(parts: list[str], fixture: str) -> None:
    assert outcome(" ".join(parts), fixture) in "TFEC"


WORDS = re.compile(r'"[^"]*"|`[^`]*`|[\w$#]+|\S')
GROUPS = re.compile(r"[\w.]*\([^()]*\)|\[[^\[\]]*\]")


class Mixer:
    """Makes filters of recorded ones."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.exprs = [vector.expr for vector in vectors() if len(vector.expr) < 300]
        self.words = [word for expr in self.exprs for word in WORDS.findall(expr)]
        self.groups = [group for expr in self.exprs for group in GROUPS.findall(expr)]

    def filter(self) -> str:
        """A recorded filter with a word or a group exchanged, or two of them joined."""
        expr = self.random.choice(self.exprs)
        roll = self.random.random()
        if roll < 0.4:
            return self._exchanged(expr)
        if roll < 0.8:
            found = list(GROUPS.finditer(expr))
            if found:
                match = self.random.choice(found)
                expr = expr[: match.start()] + self.random.choice(self.groups) + expr[match.end() :]
            return expr
        op = self.random.choice(["and", "or", "==", "<", "+", "??", "in", "|", "..", ";", "?", "%"])
        return f"({expr}) {op} ({self.random.choice(self.exprs)})"

    def _exchanged(self, expr: str) -> str:
        words = WORDS.findall(expr) or [""]
        words[self.random.randrange(len(words))] = self.random.choice(self.words)
        return " ".join(words)


@pytest.mark.promise("E149")
def test_recorded_filters_with_parts_exchanged_are_filters_or_refused() -> None:
    seed = random.SystemRandom().getrandbits(32) if "MQLITE_FUZZ_SECONDS" in os.environ else 1
    mixer = Mixer(seed)
    seen: dict[str, int] = dict.fromkeys("TFEC", 0)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        expr, fixture = mixer.filter(), mixer.random.choice(FIXTURES)
        try:
            seen[outcome(expr, fixture)] += 1
        except BaseException as error:
            error.add_note(f"seed {seed}: {expr!r} on {fixture}")
            raise
        if "MQLITE_FUZZ_SECONDS" not in os.environ and sum(seen.values()) >= FILTERS_MAX:
            break
    assert seen["C"] > 0
    record("filters", seed=seed, filters=sum(seen.values()))
