"""The monitoring starter does what it says: checked by promtool, and tried on a busy broker.

A Prometheus of the distribution runs with the very files that are shipped; only the target and the
pace are changed. In the drill a minute is 300 ms, so that an alert fires within seconds, and a
scrape has half a second, for a machine that is busy elsewhere.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

import mqlite_actor as mq
from tests.deploy.prometheus_process import (
    MONITORING,
    Prometheus,
    config_copied,
    promtool,
    running_prometheus,
    until,
)
from tests.services.broker_process import TOKEN, BrokerProcess, started

MONITOR: Final = "monitor-token"
MINUTE_MS: Final = 300
PACE_MS: Final = 500
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


# -- a busy broker ---------------------------------------------------------------------------------


class Site:
    """A broker, and a Prometheus that scrapes it with the files of the starter."""

    def __init__(self, broker: BrokerProcess, prometheus: Prometheus) -> None:
        self.broker = broker
        self.prometheus = prometheus
        self.dsn = broker.url.replace("http://", f"mqlite://{TOKEN}@")

    def guess(self) -> None:
        """Somebody tries a credential that is none."""
        request = Request(f"{self.broker.url}/mqlite.v1.AdminService/Status", b"{}")
        request.add_header("Authorization", "Bearer nonsense")
        with pytest.raises(HTTPError, match="401"):
            urlopen(request, timeout=30)


def quickened(config: Path, target: str) -> None:
    """Another target, and another pace: the rest of the file stays as it is shipped."""
    text = config.read_text("utf-8")
    assert text.count("127.0.0.1:6754") == 1
    text = text.replace("127.0.0.1:6754", target).replace(": 15s", f": {PACE_MS}ms")
    config.write_text(text, "utf-8")
    rules = config.parent / RULES.name
    text = re.sub(
        r"(?<=for: )(\d+)m$|(?<=\[)(\d+)m(?=\])",
        lambda minutes: f"{int(minutes[1] or minutes[2]) * MINUTE_MS}ms",
        rules.read_text("utf-8"),
        flags=re.MULTILINE,
    )
    rules.write_text(text, "utf-8")


def serving(folder: Path, **environ: str) -> Any:  # noqa: ANN401 - a context of a broker
    """A broker with metrics and a monitor's token."""
    return started(folder, MQLITE_METRICS="on", MQLITE_MONITOR_TOKENS=MONITOR, **environ)


@contextmanager
def opened(folder: Path) -> Iterator[Site]:
    config = config_copied(folder / "prometheus", MONITOR)
    with serving(folder) as broker:
        quickened(config, f"127.0.0.1:{broker.port}")
        with running_prometheus(config) as prometheus:
            yield Site(broker, prometheus)


def test_panels_show_something_and_alerts_fire_and_clear(tmp_path: Path) -> None:
    """One test, because a Prometheus takes seconds and workers share nothing."""
    with opened(tmp_path) as site:
        every_panel_shows_something_of_a_busy_broker(site)
        alerts_fire_while_something_is_wrong_and_clear_when_it_is_not(site)
        a_broker_that_is_gone_is_told_and_forgotten_when_it_is_back(site, tmp_path)


def every_panel_shows_something_of_a_busy_broker(site: Site) -> None:
    waiting = expressions()

    def worked() -> bool:
        with mq.connect_sync(site.dsn) as q:
            q.send("orders", [b"1", b"2", b"3"])
            first, second, third = q.receive("orders", max_messages=3)
            first.complete()
            second.abandon()
            third.reject("spoilt")
            q.receive("orders", max_messages=9, at_most_once=True)
            with pytest.raises(mq.NotFound):
                q.send_one("nowhere", b"")
        site.guess()
        for name, text in list(waiting.items()):
            if site.prometheus.series(text):
                del waiting[name]
        return not waiting

    with mq.connect_sync(site.dsn) as q:
        q.create_queue("orders")
    until(worked, lambda: f"no series for {waiting}")


def alerts_fire_while_something_is_wrong_and_clear_when_it_is_not(site: Site) -> None:
    with mq.connect_sync(site.dsn) as q:
        q.create_queue("flood")
        for _ in range(101):
            q.send("flood", [b"x"] * 100)

        def went_wrong() -> bool:
            for _ in range(5):
                site.guess()
            return wrong <= site.prometheus.firing()

        wrong = {"MqliteBacklogHigh", "MqliteCredentialsRefused"}
        until(went_wrong, lambda: f"{wrong - site.prometheus.firing()} do not fire")
        q.purge_active("flood", expected_count=q.stats("flood").active)
    until(lambda: not site.prometheus.firing(), lambda: f"{site.prometheus.firing()} still fire")


def a_broker_that_is_gone_is_told_and_forgotten_when_it_is_back(site: Site, folder: Path) -> None:
    port = site.broker.port
    site.broker.stop()
    until(lambda: "MqliteDown" in site.prometheus.firing(), lambda: "MqliteDown does not fire")
    with serving(folder, MQLITE_ADDR=f"127.0.0.1:{port}") as broker:
        until(lambda: not site.prometheus.firing(), lambda: f"{site.prometheus.firing()} fire")
        broker.stop()
