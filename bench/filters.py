"""What filters cost: compiling, evaluating, and how long a hostile one takes.

    python -m bench.filters [--runs 7]

Ten filters as people write them are compiled and evaluated in turn on one message of 300 bytes:
with facts of their own (the body is decoded again), and with facts that were used before, as a
publish to many subscriptions does. Hostile filters run once each on a message of 1 MiB, in
processor time, for other work on the machine is no cost of theirs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

from bench.measure import interleaved
from mqlite_actor.contract.errors import InvalidFilter
from mqlite_actor.contract.wire import Message
from mqlite_actor.filters import Facts, Filter, FilterFailed, compile_filter

NOW_MS = 1_790_000_000_000
MESSAGE = Message(
    subject="invoice.fr.paid",
    message_id="inv-7",
    group_id="acct-12",
    content_type="application/json",
    properties={"plan": "pro", "zone": "fr", "retries": "3"},
    body=b'{"total":240,"currency":"EUR","lines":[{"sku":"A1","qty":2},{"sku":"B2","qty":5}],'
    b'"vip":true,"note":null,"ratio":0.5,"customer":{"name":"Zoe","country":"FR","tags":["new"]},'
    b'"memo":"' + b"x" * 110 + b'"}',
)
REALISTIC = {
    "subject equals": 'subject == "invoice.fr.paid"',
    "subject prefix and property": 'subject startsWith "invoice." and properties.plan == "pro"',
    "one of a list": 'properties.zone in ["fr", "de", "es", "it"]',
    "subject parts": 'len(subject_parts) == 3 and subject_parts[1] in ["fr", "de"]',
    "regular expression": r"subject matches `^invoice\.(fr|de|es)\.`",
    "property as a number": '"retries" in properties and int(properties.retries) > 2',
    "JSON member": 'body_json.total > 100 and body_json.currency == "EUR"',
    "JSON member with default": '(body_json.customer?.country ?? "") == "FR"',
    "JSON loop": 'any(body_json.lines, .sku == "B2" and .qty >= 3)',
    "delay": 'visible_at - enqueued_at <= hours(1) and content_type contains "json"',
}
LARGE = Message(subject="a.b.c", content_type="text/plain", body=b"ab" * 524_288)
DOUBLED = "let a = [1,1,1,1,1,1,1,1,1,1]; " + "".join(
    f"let {name} = [{','.join(before * 10)}]; "
    for before, name in zip("abcdef", "bcdefg", strict=True)
)
HOSTILE = {
    "brackets, 2000 deep": "(" * 2000 + "true" + ")" * 2000,
    "brackets, 150 deep": "(" * 150 + "true" + ")" * 150,
    "signs, 190 deep": "!" * 190 + "true",
    "4 kB of operators": "||".join(["body_size==1"] * 240),
    "4 kB of sums": "+".join(["body_size"] * 400) + ">0",
    "a pattern of 4 kB": 'body_text matches "' + "(a|b)*c?" * 480 + '"',
    "a large pattern": 'body_text matches "' + "(a{1000})" * 80 + '"',
    "many patterns": " or ".join(f'subject matches "\\\\pL{{80}}{n}"' for n in range(60)),
    "a pattern of many states": 'body_text matches "[ab]*a[ab]{500}c"',
    "nested ranges": "any(1..999, any(1..999, any(1..999, any(1..999, false))))",
    "strings that double": "len(reduce(1..60, #acc + #acc, body_text)) > 0",
    "lists in lists": DOUBLED + "len(toJSON(g)) > 0",
    "unlike items": "len(uniq(map(1..5000, #))) > 0",
    "a body in pieces": 'len(split(body_text, "")) > 0',
    "a large sort": "len(sort(map(1..60000, # * 1.5))) > 0",
}


def facts(message: Message) -> Facts:
    """The message as it is published."""
    return Facts(message, enqueued_at_ms=NOW_MS, visible_at_ms=NOW_MS, now_ms=NOW_MS)


def rate(work: Callable[[], object]) -> float:
    """Calls a second, over some tens of milliseconds."""
    count = 0
    started = time.perf_counter()
    while time.perf_counter() - started < 0.05:
        for _ in range(20):
            work()
        count += 20
    return count / (time.perf_counter() - started)


def alone(compiled: Filter) -> float:
    """Evaluations a second, every one with facts of its own."""
    return rate(lambda: compiled.decide(facts(MESSAGE)))


def together(compiled: dict[str, Filter], name: str) -> float:
    """Evaluations a second on facts that were used before."""
    held = facts(MESSAGE)
    return rate(partial(compiled[name].decide, held))


def hostile(expr: str) -> str:
    """How long compiling and running take, and how it ends."""
    started = time.process_time()
    try:
        compiled = compile_filter(expr)
    except InvalidFilter as refused:
        spent = 1e3 * (time.process_time() - started)
        return f"compile {spent:6.1f} ms   {refused.message[:60]}"
    middle = time.process_time()
    try:
        ending = str(compiled.decide(facts(LARGE)))
    except FilterFailed as failed:
        ending = str(failed)
    spent, ran = 1e3 * (middle - started), 1e3 * (time.process_time() - middle)
    where = "worker" if compiled.has_loops else "inline"
    return f"compile {spent:6.1f} ms   run {ran:7.1f} ms ({where})   {ending[:60]}"


def main() -> None:
    """Measure in turn, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    given = parser.parse_args()
    compiled = {name: compile_filter(expr) for name, expr in REALISTIC.items()}
    tables: dict[str, dict[str, Callable[[], float]]] = {
        "compile": {
            name: partial(rate, partial(compile_filter, expr)) for name, expr in REALISTIC.items()
        },
        "evaluate, each alone": {name: partial(alone, each) for name, each in compiled.items()},
        "evaluate, facts shared": {name: partial(together, compiled, name) for name in compiled},
    }
    for title, things in tables.items():
        print(title)
        for figure in interleaved(given.runs, things).values():
            print(f"  {figure}  = {1e6 / figure.median:.1f} µs")
    print("hostile filters, processor time")
    for name, expr in HOSTILE.items():
        print(f"  {name:26} {hostile(expr)}")


if __name__ == "__main__":
    main()
