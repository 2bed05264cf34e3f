"""The numbers to reach (N1 to N13, and R of a remote store), each of the scenarios of one run.

Read by the report. A number whose scenarios did not run is shown as not measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from bench.scenario import Sample

Samples = Mapping[str, Sequence[Sample]]
"""The runs of each scenario, in the order in which they were made."""


@dataclass(frozen=True, slots=True)
class Number:
    """One number. `at_least` False: smaller is better, and `bound` the most that it may be."""

    id: str
    about: str
    value: Callable[[Samples], list[float]]
    bound: float
    at_least: bool = True
    unit: str = ""

    def shown(self, samples: Samples) -> tuple[str, str]:
        """The figure with its spread, and whether it is reached."""
        try:
            values = self.value(samples)
        except (KeyError, ValueError):
            return "not measured", ""
        if not values:
            return "not measured", ""
        middle = median(values)
        is_met = middle >= self.bound if self.at_least else middle <= self.bound
        spread = f"{_round(middle)}{self.unit} [{_round(min(values))} … {_round(max(values))}]"
        return spread, "yes" if is_met else "no"


def _round(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def ratio(over: str, under: str) -> Callable[[Samples], list[float]]:
    """Rates of two scenarios, run by run."""

    def value(samples: Samples) -> list[float]:
        pairs = zip(samples[over], samples[under], strict=False)
        return [a.rate / b.rate for a, b in pairs]

    return value


def slower(over: str, under: str) -> Callable[[Samples], list[float]]:
    """How many times longer one operation of the first takes."""
    return ratio(under, over)


def each(name: str, figure: Callable[[Sample], float]) -> Callable[[Samples], list[float]]:
    """A figure of one scenario."""
    return lambda samples: [figure(sample) for sample in samples[name]]


def against(
    name: str, base: str, figure: Callable[[Sample], float]
) -> Callable[[Samples], list[float]]:
    """A wait of one scenario over the median call of another, run by run."""

    def value(samples: Samples) -> list[float]:
        pairs = zip(samples[name], samples[base], strict=False)
        return [figure(a) / b.p50_ms for a, b in pairs]

    return value


def memory(over: str, under: str) -> Callable[[Samples], list[float]]:
    """Highest resident sizes of two scenarios, run by run."""

    def value(samples: Samples) -> list[float]:
        pairs = zip(samples[over], samples[under], strict=False)
        return [a.rss_mib / b.rss_mib for a, b in pairs]

    return value


def _written(sample: Sample) -> float:
    return sample.written_bytes / sample.operations


def _on_disk(sample: Sample) -> float:
    return sample.disk_bytes / sample.operations


NUMBERS: Final = (
    Number("N1", "embedded sends, 64 producers ÷ the yardstick",
           ratio("produce 64", "yardstick sends"), 0.35),
    Number("N2", "the same, each commit flushed",
           ratio("produce 64 FULL", "yardstick sends FULL"), 0.4),
    Number("N3", "embedded cycles, 64 consumers ÷ the yardstick",
           ratio("cycle 64", "yardstick cycles"), 0.5),
    Number("N4", "HTTP sends, 64 connections ÷ an empty route",
           ratio("HTTP send 64", "empty route 64"), 10),
    Number("N5", "HTTP sends, 1 connection ÷ an empty route",
           ratio("HTTP send 1", "empty route 1"), 4),
    Number("N5b", "HTTP messages, 64 a call ÷ HTTP sends",
           ratio("HTTP batch 64", "HTTP send 64"), 8),
    Number("N6", "HTTP cycles, 64 connections ÷ HTTP sends",
           ratio("HTTP cycle 64", "HTTP send 64"), 0.4),
    Number("N7a", "a cycle before 1,000,000 messages ÷ before 1,000",
           slower("backlog 1M", "backlog 1k"), 1.3, at_least=False),
    Number("N7b", "a cycle behind 50,000 held messages of a group ÷ behind one",
           slower("blocked 50k", "blocked 1"), 1.5, at_least=False),
    Number("N8a", "a waiting receive's answer after the send, p50 ÷ a send's p50",
           against("wake", "produce 1", lambda sample: sample.p50_ms), 1.5, at_least=False),
    Number("N8b", "the same, p99 ÷ a send's p50",
           against("wake", "produce 1", lambda sample: sample.p99_ms), 6, at_least=False),
    Number("N9a", "lateness of a scheduled message, p99",
           each("scheduled", lambda sample: sample.p99_ms), 25, at_least=False, unit=" ms"),
    Number("N9b", "lateness of an expired lock's message, p99",
           each("expired lock", lambda sample: sample.p99_ms), 25, at_least=False, unit=" ms"),
    Number("N10a", "memory of an idle broker", each("idle broker", lambda sample: sample.rss_mib),
           70, at_least=False, unit=" MiB"),
    Number("N10b", "memory after 1,000,000 messages ÷ before",
           memory("million", "idle broker"), 1.3, at_least=False),
    Number("N11a", "bytes written per send, 64 producers", each("produce 64", _written), 1500,
           at_least=False, unit=" B"),
    Number("N11b", "bytes on disk per message of 256 B", each("produce 64", _on_disk), 400,
           at_least=False, unit=" B"),
    Number("N11c", "bytes of a settlement's receipt on disk",
           each("settle 64", _on_disk), 80, at_least=False, unit=" B"),
    Number("N11d", "bytes written for a settlement's receipt, 64 a transaction",
           each("receipts 64", _written), 900, at_least=False, unit=" B"),
    Number("N12a", "mqlite version ÷ the interpreter alone",
           slower("mqlite version", "python -c pass"), 3, at_least=False),
    Number("N12b", "mqlite send ÷ the interpreter alone",
           slower("mqlite send", "python -c pass"), 8, at_least=False),
    Number("R", "remote sends 45 ms away, 64 producers ÷ 1",
           ratio("remote send 64", "remote send 1"), 20),
    Number("N13", "longest send while 100,000 locks end",
           each("mass expiry", lambda sample: sample.max_ms), 100, at_least=False, unit=" ms"),
)  # fmt: skip
