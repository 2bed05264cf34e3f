"""All scenarios, in the order in which they are run and shown; and which of them can run here."""

from __future__ import annotations

import importlib.util
import shutil
from typing import Final

from bench import (
    embedded_scenarios,
    http_scenarios,
    link_scenarios,
    peers,
    remote_scenarios,
    time_scenarios,
    yard_scenarios,
)
from bench.scenario import Scenario

TABLES: Final[dict[str, tuple[Scenario, ...]]] = {
    "yardsticks": yard_scenarios.SCENARIOS,
    "embedded": embedded_scenarios.SCENARIOS,
    "lateness": time_scenarios.SCENARIOS,
    "link": link_scenarios.SCENARIOS,
    "HTTP and commands": http_scenarios.SCENARIOS,
    "remote store": remote_scenarios.SCENARIOS,
    "peers": peers.SCENARIOS,
}


def by_name(name: str) -> Scenario:
    """The scenario of this name; KeyError names the known ones."""
    for table in TABLES.values():
        for scenario in table:
            if scenario.name == name:
                return scenario
    raise KeyError(f"no scenario {name!r}; see --list")


def missing(scenario: Scenario) -> str:
    """The first program or module that a scenario needs and this machine has not; "" if none."""
    for word in scenario.needs.split():
        if not shutil.which(word) and importlib.util.find_spec(word) is None:
            return word
    return ""
