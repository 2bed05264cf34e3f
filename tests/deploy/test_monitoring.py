"""The monitoring starter is sound: checked by promtool, by the page about it, and by its own table.

That it shows a busy broker and tells what is wrong with one is test_alert_drill.py's.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from tests.deploy.prometheus_process import (
    MONITORING,
    config_copied,
    promtool,
)

MONITOR: Final = "monitor-token"
RULES: Final = MONITORING / "prometheus" / "mqlite.rules.yml"
SHOWN: Final = MONITORING / "prometheus" / "mqlite.rules.test.yml"


def alerts() -> dict[str, str]:
    """Name → the rest of its rule, of the shipped file."""
    parts = re.split(r"^ *- alert: (\w+)$", RULES.read_text("utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


# -- what promtool knows ---------------------------------------------------------------------------


def test_promtool_finds_nothing_wrong(tmp_path: Path) -> None:
    config = config_copied(tmp_path, MONITOR)
    said = promtool(tmp_path, "check", "config", config.name)
    assert f"{len(alerts())} rules found" in said
    promtool(tmp_path, "check", "rules", "--lint=all", "--lint-fatal", RULES.name)


def test_every_alert_fires_and_clears_on_made_up_series() -> None:
    promtool(SHOWN.parent, "test", "rules", SHOWN.name)
    shown = SHOWN.read_text("utf-8")
    for name in alerts():
        part = shown.partition(f"- name: {name}\n")[2].partition("\n  - name: ")[0]
        moments = part.split("- eval_time: ")[1:]
        assert ["exp_alerts" in moment for moment in moments] == [True, False], name


def test_every_alert_says_how_bad_it_is_and_what_to_do() -> None:
    for name, rule in alerts().items():
        assert re.search(r"severity: (page|ticket)\b", rule), name
        assert re.search(r'summary: ".+"\n +description: ".+\."', rule), name
        divisor = rule.partition(" / (")[2]
        assert ("/ " not in rule.partition("annotations")[0]) or "> 0)" in divisor, name


def test_what_grew_within_a_window_is_told_before_it_is_out_of_it() -> None:
    by_window = {
        name: "for:" in rule
        for name, rule in alerts().items()
        if re.search(r"\b(changes|delta|increase)\(", rule.partition("labels:")[0])
    }
    assert by_window == dict.fromkeys(
        ("MqliteRestarts", "MqliteDeadLettersGrow", "MqliteFiltersFail"), False
    )


def test_the_page_lists_every_alert_with_its_severity() -> None:
    page = (MONITORING.parents[1] / "docs" / "how-to" / "monitoring.md").read_text("utf-8")
    listed = re.findall(r"^\| `(\w+)` \((\w+)\) \| .+ \| (.+) \|$", page, flags=re.MULTILINE)
    rules = [
        (
            name,
            re.findall(r"severity: (\w+)", rule)[0],
            next(iter(re.findall(r"for: (\w+)", rule)), "at once"),
        )
        for name, rule in alerts().items()
    ]
    assert listed == rules


# -- the dashboard ---------------------------------------------------------------------------------


def dashboard() -> dict[str, Any]:
    file = MONITORING / "grafana" / "dashboards" / "mqlite.json"
    found: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return found


def expressions() -> dict[str, str]:
    """Panel and letter → what it asks, with the choices of a viewer filled in."""
    found = {}
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            text = target["expr"].replace("$__rate_interval", "5s")
            text = text.replace("$queue", ".*").replace("$instance", ".*")
            assert "$" not in text
            found[f"{panel['title']} {target['refId']}"] = text
    return found


def test_the_dashboard_is_what_its_table_makes() -> None:
    done = subprocess.run(
        [sys.executable, "deploy/monitoring/dashboard.py", "--check"],
        cwd=MONITORING.parents[1], capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_panels_do_not_overlap_and_say_what_they_show() -> None:
    taken: set[tuple[int, int]] = set()
    ids = [panel["id"] for panel in dashboard()["panels"]]
    assert len(ids) == len(set(ids))
    for panel in dashboard()["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        assert all(x < 24 for x, _ in cells), panel["title"]
        assert panel["type"] == "row" or panel["description"], panel["title"]
        taken |= cells
