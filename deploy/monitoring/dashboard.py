"""Makes the Grafana dashboard from the table of its panels: dashboard.py [--check]

Called by a person after a change of panels.py, and with --check by tests/deploy, which also asks a
real Prometheus every expression and wants series for each. Rules: sizes and positions follow from
the order; no identifier of a Grafana stands in the file, so that any Grafana takes it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # run as a script, it finds its neighbour by its full name

from deploy.monitoring.panels import BROKER, ROWS, Panel  # noqa: E402  # after the path

TARGET: Final = Path(__file__).parent / "grafana" / "dashboards" / "mqlite.json"

SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}

Json = dict[str, Any]

HEIGHT: Final = {True: 4, False: 8}
COLUMNS: Final = 24


def panel_json(panel: Panel, number: int, x: int, y: int) -> Json:
    """A panel as Grafana's model has it."""
    steps: list[Json] = [{"color": "green", "value": None}]
    if panel.red_from is not None:
        steps.append({"color": "red", "value": panel.red_from})
    options: Json = (
        {"colorMode": "value", "textMode": "name" if panel.by_name else "auto"}
        if panel.stat
        else {"legend": {"displayMode": "list", "placement": "bottom"}}
    )
    return {
        "id": number,
        "type": "stat" if panel.stat else "timeseries",
        "title": panel.title,
        "description": panel.says,
        "datasource": SOURCE,
        "gridPos": {"x": x, "y": y, "w": panel.width, "h": HEIGHT[panel.stat]},
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "min": 0, "thresholds": {"steps": steps}},
            "overrides": [],
        },
        "options": options,
        "targets": [
            {
                "refId": chr(ord("A") + place),
                "datasource": SOURCE,
                "expr": line.expr,
                "legendFormat": line.legend or "__auto",
            }
            for place, line in enumerate(panel.lines)
        ],
    }


def panels() -> Iterator[Json]:
    """Every row and panel, laid out from left to right and from top to bottom."""
    number, y = 0, 0
    for title, row in ROWS:
        number += 1
        place = {"x": 0, "y": y, "w": COLUMNS, "h": 1}
        yield {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": place}
        x, y, height = 0, y + 1, 0
        for panel in row:
            if x + panel.width > COLUMNS:
                x, y, height = 0, y + height, 0
            number += 1
            yield panel_json(panel, number, x, y)
            x, height = x + panel.width, HEIGHT[panel.stat]
        y += height


def variable(name: str, query: str) -> Json:
    """A choice of label values; all of them at first."""
    return {
        "name": name,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
    }


def dashboard() -> Json:
    """The whole file."""
    return {
        "uid": "mqlite",
        "title": "mqlite",
        "tags": ["mqlite"],
        "schemaVersion": 38,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "type": "datasource", "query": "prometheus"},
                variable("instance", "label_values(mqlite_info, instance)"),
                variable(
                    "queue",
                    f"label_values(mqlite_queue_retained_messages{{{BROKER}}}, queue)",
                ),
            ]
        },
        "panels": list(panels()),
    }


def main(arguments: list[str]) -> int:
    """Write the file, or with --check only compare. Returns the exit status."""
    if arguments not in ([], ["--check"]):
        print("usage: python deploy/monitoring/dashboard.py [--check]", file=sys.stderr)
        return 2
    text = json.dumps(dashboard(), indent=2) + "\n"
    if not arguments:
        TARGET.write_text(text, encoding="utf-8")
        return 0
    is_fresh = TARGET.is_file() and TARGET.read_text(encoding="utf-8") == text
    if not is_fresh:
        print(f"{TARGET.name} is stale: run python deploy/monitoring/dashboard.py", file=sys.stderr)
    return 0 if is_fresh else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
