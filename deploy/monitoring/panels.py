"""The panels of the dashboard: what each answers, and the expressions that answer it.

Used by dashboard.py, which lays them out. `$queue` and `$instance` are choices of the viewer,
`$__rate_interval` is Grafana's: long enough for a rate at any zoom. Rule: whatever a panel divides
by or takes a quantile of is there from the first scrape on, so that no panel of a healthy broker is
empty for ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

BROKER: Final = 'instance=~"$instance"'
QUEUES: Final = 'instance=~"$instance", queue=~"$queue"'
WINDOW: Final = "$__rate_interval"


@dataclass(frozen=True)
class Line:
    """One expression, and how its series are called in the legend."""

    expr: str
    legend: str = ""


@dataclass(frozen=True)
class Panel:
    """A panel: `width` of the 24 columns, `unit` as Grafana names it; `stat` shows one number."""

    title: str
    says: str
    lines: tuple[Line, ...]
    unit: str = "short"
    width: int = 8
    stat: bool = False
    red_from: float | None = None
    by_name: bool = False


def stat(title: str, says: str, expr: str, **more: Any) -> Panel:  # noqa: ANN401 - Panel's fields
    return Panel(title, says, (Line(expr),), stat=True, width=more.pop("width", 4), **more)


def depth(state: str) -> str:
    return f'sum by (queue) (mqlite_queue_messages{{{QUEUES}, state="{state}"}})'


def events(*names: str) -> str:
    which = "|".join(names)
    return f'mqlite_message_events_total{{{QUEUES}, event=~"{which}"}}'


def rate(series: str, by: str = "") -> str:
    return f"sum{f' by ({by})' if by else ''} (rate({series}[{WINDOW}]))"


def quantile(share: float, series: str, by: str) -> str:
    return f"histogram_quantile({share}, {rate(series, f'le, {by}')})"


RPC_TIME: Final = f'mqlite_rpc_duration_seconds_bucket{{{BROKER}, rpc!="QueueService/Receive"}}'
STORE_TIME: Final = f'mqlite_storage_operation_duration_seconds_bucket{{{BROKER}, outcome="ok"}}'

ROWS: Final[tuple[tuple[str, tuple[Panel, ...]], ...]] = (
    (
        "Health",
        (
            stat("Up", "1 while the broker answers", f'up{{job="mqlite", {BROKER}}}'),
            stat(
                "Queues readable",
                "0 when the store cannot be read; the other numbers are then old",
                f"mqlite_collection_success{{{BROKER}}}",
            ),
            stat(
                "Uptime",
                "Since the start of the engine; counters began at zero then",
                f"time() - mqlite_start_time_seconds{{{BROKER}}}",
                unit="s",
            ),
            Panel(
                "Version",
                "What runs here",
                (Line(f"mqlite_info{{{BROKER}}}", "{{version}}"),),
                stat=True,
                width=4,
                by_name=True,
            ),
            stat(
                "Waiting",
                "Messages that somebody could receive now",
                f'sum(mqlite_queue_messages{{{QUEUES}, state="active"}})',
            ),
            stat(
                "Dead letters",
                "Messages that were given up",
                f'sum(mqlite_queue_messages{{{QUEUES}, state="dead_lettered"}})',
                red_from=1,
            ),
        ),
    ),
    (
        "Queues",
        (
            Panel(
                "Waiting",
                "Grows when more comes in than goes out",
                (Line(depth("active"), "{{queue}}"),),
            ),
            Panel(
                "Age of the oldest",
                "How long a message has waited or been worked on",
                (
                    Line(
                        f"max by (queue) (mqlite_queue_oldest_message_age_seconds{{{QUEUES}}})",
                        "{{queue}}",
                    ),
                ),
                unit="s",
            ),
            Panel("In work", "Under a lease", (Line(depth("locked"), "{{queue}}"),)),
            Panel(
                "In",
                "Messages a second that were stored",
                (Line(rate(events("enqueued"), "queue"), "{{queue}}"),),
                unit="cps",
            ),
            Panel(
                "Out",
                "Messages a second that were done",
                (Line(rate(events("completed", "receive_deleted"), "queue"), "{{queue}}"),),
                unit="cps",
            ),
            Panel(
                "Redelivered",
                "Handlers that failed or took longer than their lease",
                (Line(rate(events("redelivered"), "queue"), "{{queue}}"),),
                unit="cps",
            ),
            Panel(
                "For later",
                "Scheduled, and deferred",
                (
                    Line(depth("scheduled"), "{{queue}} scheduled"),
                    Line(depth("deferred"), "{{queue}} deferred"),
                ),
            ),
            Panel(
                "Receives that wait",
                "0 with messages waiting: nobody works on that queue",
                (Line(f"sum by (queue) (mqlite_receive_waiters{{{QUEUES}}})", "{{queue}}"),),
            ),
            Panel(
                "Leases that ended",
                "Nobody settled or renewed in time",
                (Line(rate(events("lock_expired"), "queue"), "{{queue}}"),),
                unit="cps",
            ),
        ),
    ),
    (
        "Dead letters",
        (
            Panel(
                "Dead letters",
                "By queue",
                (Line(depth("dead_lettered"), "{{queue}}"),),
                width=12,
            ),
            Panel(
                "What happens to them",
                "Added, put back, thrown away by hand, thrown away by the bounds",
                (
                    Line(
                        rate(
                            events("dead_lettered", "redriven", "purged", "retention_deleted"),
                            "event",
                        ),
                        "{{event}}",
                    ),
                ),
                unit="cps",
                width=12,
            ),
        ),
    ),
    (
        "Calls",
        (
            Panel(
                "Calls",
                "Requests a second",
                (Line(rate(f"mqlite_rpc_requests_total{{{BROKER}}}", "rpc") + " > 0", "{{rpc}}"),),
                unit="reqps",
            ),
            Panel(
                "Refusals and failures",
                "Everything but ok, by code: not_found and lock_lost are the caller's, internal "
                "and outcome_unknown the broker's",
                (
                    Line(
                        rate(f'mqlite_rpc_requests_total{{{BROKER}, code!="ok"}}', "code") + " > 0",
                        "{{code}}",
                    ),
                ),
                unit="reqps",
            ),
            Panel(
                "Credentials",
                "How checks end, good ones left out",
                (
                    Line(
                        rate(
                            f'mqlite_authentication_total{{{BROKER}, outcome!="success"}}',
                            "outcome",
                        ),
                        "{{outcome}}",
                    ),
                ),
                unit="reqps",
            ),
            *(
                Panel(
                    f"Time of calls, p{share * 100:.0f}",
                    "Receives left out: they wait for a message as long as they are told to",
                    (Line(quantile(share, RPC_TIME, "rpc"), "{{rpc}}"),),
                    unit="s",
                )
                for share in (0.5, 0.95, 0.99)
            ),
        ),
    ),
    (
        "Storage",
        (
            Panel(
                "On disk",
                "Database, log and index together; the log alone; room inside the file",
                (
                    Line(f"mqlite_storage_size_bytes{{{BROKER}}}", "all"),
                    Line(f"mqlite_storage_wal_bytes{{{BROKER}}}", "log"),
                    Line(f"mqlite_storage_free_bytes{{{BROKER}}}", "free inside"),
                ),
                unit="bytes",
            ),
            Panel(
                "Left on the disk",
                "Sends are refused when nothing is left",
                (Line(f"mqlite_disk_free_bytes{{{BROKER}}}", "{{instance}}"),),
                unit="bytes",
            ),
            Panel(
                "Commands that wait for the writer",
                "Near 0 while the writer keeps up",
                (Line(f"mqlite_mailbox_depth{{{BROKER}}}", "{{instance}}"),),
            ),
            Panel(
                "Time of storage calls, p99",
                "A commit waits for the disk when the durability is FULL",
                (Line(quantile(0.99, STORE_TIME, "operation"), "{{operation}}"),),
                unit="s",
            ),
            Panel(
                "A trivial read",
                "What every read costs at least",
                (Line(f"mqlite_storage_ping_seconds{{{BROKER}}}", "{{instance}}"),),
                unit="s",
            ),
            Panel(
                "Storage errors",
                "Anything but 0 is a disk to look at",
                (
                    Line(
                        rate(
                            f'mqlite_storage_operations_total{{{BROKER}, outcome="error"}}',
                            "error_code",
                        ),
                        "{{error_code}}",
                    ),
                ),
                unit="cps",
            ),
        ),
    ),
    (
        "Maintenance and process",
        (
            Panel(
                "Since the last good pass",
                "Each task has its own rhythm, from a second to an hour",
                (
                    Line(
                        f"time() - mqlite_maintenance_last_success_timestamp_seconds{{{BROKER}}}"
                        f" and mqlite_maintenance_last_success_timestamp_seconds{{{BROKER}}} > 0",
                        "{{task}}",
                    ),
                ),
                unit="s",
            ),
            Panel(
                "Failures in a row",
                "0 is the only good value",
                (Line(f"mqlite_maintenance_consecutive_failures{{{BROKER}}}", "{{task}}"),),
            ),
            Panel(
                "Filters that failed",
                "A filter that fails routes nothing",
                (Line(rate(f"mqlite_filter_failures_total{{{BROKER}}}", "stage"), "{{stage}}"),),
                unit="cps",
            ),
            Panel(
                "Processor",
                "1 is one core",
                (Line(f'rate(process_cpu_seconds_total{{job="mqlite", {BROKER}}}[{WINDOW}])'),),
            ),
            Panel(
                "Memory",
                "Resident",
                (Line(f'process_resident_memory_bytes{{job="mqlite", {BROKER}}}'),),
                unit="bytes",
            ),
            Panel(
                "Descriptors",
                "In use, and allowed",
                (
                    Line(f'process_open_fds{{job="mqlite", {BROKER}}}', "in use"),
                    Line(f'process_max_fds{{job="mqlite", {BROKER}}}', "allowed"),
                ),
            ),
        ),
    ),
)
