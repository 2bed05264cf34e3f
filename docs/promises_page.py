"""What is promised, what shows it, and what the last long run tried: python docs/promises_page.py

    python docs/promises_page.py [FIGURES.jsonl | --check]

Writes docs/reference/promises.md from the catalogue and the marks on the tests, and the tables of
figures in docs/conformance.md from docs/proof.json. With the file that `make proof` has written
(.venv/proof.jsonl), its lines are summed into docs/proof.json first: a suite that ran replaces what
was known of it, the others keep theirs. Rules: a figure stands here only if a run made it, and
figures of different products are never added.
With --check it only says which page is stale; tests/house/test_docs.py calls it so.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # run as a script, it finds its neighbours by their full names

from docs.prose import table  # noqa: E402  # after the path
from tests.catalogue import AMENDED, PARTIAL, PROMISES, split  # noqa: E402  # the same
from tests.conformance.test_catalogue import shown  # noqa: E402  # the same

FIGURES = ROOT / "docs" / "proof.json"
PAGE = ROOT / "docs" / "conformance.md"
PROMISES_PAGE = ROOT / "docs" / "reference" / "promises.md"
BEGIN, END = "<!-- figures: python docs/promises_page.py -->", "<!-- end of figures -->"

Known = dict[str, dict[str, Any]]
"""What stands in docs/proof.json of suites, or of the layers of `make proof`, by name."""


def summed(rows: Sequence[Mapping[str, Any]]) -> Known:
    """Rows of a run by suite: date, product, seeds, and what was tried added up. Of a suite that
    ran on several products, only what was tried on the last of them."""
    told = [row for row in rows if "suite" in row]
    products = {row["suite"]: row.get("product", "") for row in told}
    suites: Known = {}
    for row in told:
        if row.get("product", "") != products[row["suite"]]:
            continue
        suite = suites.setdefault(
            row["suite"], {"date": "", "product": row.get("product", ""), "seeds": [], "tried": {}}
        )
        suite["date"] = max(suite["date"], row["date"])
        if row["seed"] is not None and row["seed"] not in suite["seeds"]:
            suite["seeds"].append(row["seed"])
        suite["tried"] = dict(Counter(suite["tried"]) + Counter(row["tried"]))
    return suites


def layers(rows: Sequence[Mapping[str, Any]]) -> Known:
    """The layers that have passed whole, by name: on which product, with what sizes."""
    return {
        row["layer"]: {key: row[key] for key in ("date", "product", "sizes", "seconds")}
        for row in rows
        if "sizes" in row
    }


def figures(suites: Known) -> str:
    """The table of what was tried."""
    rows = (
        (
            name,
            ", ".join(f"{number:,} {what}" for what, number in sorted(suite["tried"].items())),
            suite["date"],
            _short(suite.get("product", "")),
            ", ".join(f"`{seed}`" for seed in suite["seeds"][:4]) or "—",
        )
        for name, suite in sorted(suites.items())
    )
    return "\n".join(
        table(("suite", "tried, without a violation", "date", "product", "seeds"), rows)
    )


def passed(known: Known) -> str:
    """The table of layers, and how long they took."""
    rows = (
        (
            name,
            "<br>".join(f"`{key}={value}`" for key, value in sorted(layer["sizes"].items())) or "—",
            f"{layer['seconds'] / 60:.1f}",
            _short(layer["product"]),
        )
        for name, layer in sorted(known.items())
    )
    minutes = sum(layer["seconds"] for layer in known.values()) / 60
    lines = table(("layer", "sizes", "minutes", "product"), rows)
    return "\n".join([*lines, "", f"Together {minutes:.0f} minutes." if known else ""]).rstrip()


def _short(product: str) -> str:
    return f"`{product[:8]}`" if product else "—"


def with_figures(page: str, known: Mapping[str, Known]) -> str:
    """The page about conformance with these tables between its marks."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    tables = f"{figures(known['suites'])}\n\n{passed(known['layers'])}"
    return f"{before}{BEGIN}\n\n{tables}\n\n{END}{after}"


def promises() -> Iterator[str]:
    """Every promise, how it stands, and the test modules that show it."""
    yield from ("<!-- Made by docs/promises_page.py. -->", "", "# Promises", "")
    yield (
        "Every sentence that the tests hold the system to, and where. How they are counted and"
        " shown is on the page about [conformance](../conformance.md)."
    )
    places = shown()
    for letter, title in (("W", "The wire"), ("E", "The engine"), ("T", "Tools")):
        yield from ("", f"## {title}", "")
        rows = (
            (
                promise.id,
                _plain(promise.text),
                _state(promise.id, promise.state, promise.reason),
                "<br>".join(_modules(places.get(promise.id, []))),
            )
            for promise in sorted(PROMISES.values(), key=lambda each: split(each.id))
            if promise.id.startswith(letter)
        )
        yield from table(("id", "promise", "state", "shown by"), rows)


def _state(name: str, state: str, reason: str) -> str:
    if name in PARTIAL:
        return f"in part: {PARTIAL[name]}"
    if name in AMENDED:
        return f"{state}; {AMENDED[name]}"
    return state if state == "done" else f"{state}: {reason}"


def _modules(places: list[str]) -> list[str]:
    return [f"`{each}`" for each in sorted({place.rpartition(":")[0] for place in places})]


def _plain(text: str) -> str:
    return re.sub(r"([|<>])", r"\\\1", text)


def main(arguments: list[str]) -> int:
    """Write both pages, or with --check only compare. Returns the exit status."""
    if len(arguments) > 1:
        print("usage: python docs/promises_page.py [FIGURES.jsonl | --check]", file=sys.stderr)
        return 2
    is_check = arguments == ["--check"]
    known: dict[str, Known] = json.loads(FIGURES.read_text("utf-8"))
    if arguments and not is_check:
        rows = [json.loads(line) for line in Path(arguments[0]).read_text("utf-8").splitlines()]
        known = {
            "suites": known["suites"] | summed(rows),
            "layers": known["layers"] | layers(rows),
        }
        FIGURES.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", "utf-8")
    pages = {
        PAGE: with_figures(PAGE.read_text("utf-8"), known),
        PROMISES_PAGE: "\n".join(promises()) + "\n",
    }
    stale = [path for path, text in pages.items() if path.read_text("utf-8") != text]
    for path in stale:
        if is_check:
            print(f"{path.name} is stale: run python docs/promises_page.py", file=sys.stderr)
        else:
            path.write_text(pages[path], "utf-8")
    return 1 if stale and is_check else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
