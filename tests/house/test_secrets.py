"""A secret is compared in constant time, or found by its digest: never by == or `in`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.house.tree import Source, dotted, sources

SECRET = re.compile(r"(^|_)(token|tokens|secret|password|presented|credential|digest)s?$")
"""Names of things that open a door."""

DOORS = ("services/mqlite_broker/",)
"""Where credentials are checked. Below it the fence of a lease is called a token too: random, as
long-lived as the lease, and no credential."""

ALLOWED = {
    "services/mqlite_broker/tokens.py": "configured tokens among each other, before anybody asks",
}
"""File → why comparing there tells nobody anything."""


def compared(source: Source) -> Iterator[str]:
    """Comparisons of a name that sounds like a secret with what is not written out."""
    for node in source.nodes:
        if not isinstance(node, ast.Compare):
            continue
        for operator, right in zip(node.ops, node.comparators, strict=True):
            if isinstance(operator, ast.Eq | ast.NotEq | ast.In | ast.NotIn) and not isinstance(
                right, ast.Constant
            ):
                for side in (node.left, right):
                    name = dotted(side)
                    if SECRET.search(name):
                        yield source.at(node.lineno, f"{name} is compared")


def test_no_secret_is_compared_letter_by_letter() -> None:
    found = [
        each for source in sources(DOORS) if source.path not in ALLOWED for each in compared(source)
    ]
    assert found == [], "\n".join(found)


def test_a_comparison_is_found_wherever_it_stands() -> None:
    for line in ("ok = token == self.token", "ok = presented in known", "ok = a.digest != digest"):
        assert [*compared(Source("services/mqlite_broker/x.py", line))], line
    for line in ('ok = token == ""', "ok = hmac.compare_digest(token, known)", "ok = a == b"):
        assert not [*compared(Source("services/mqlite_broker/x.py", line))], line
