// The tables of the page Observe: maintenance, calls, refusals, storage operations, earlier starts.
// Each is { node, show(reply, past, isUnknown) }: `past` is the reply that counting starts from, missing for
// the start of the broker, and isUnknown says that it is asked for and not there yet.

import { count, DASH, instant, moment, plural, seconds, setMoment, visible } from "./format.js";
import { between, mean, ofCall, ofDuration, percentile } from "./latency.js";
import { table } from "./table.js";

const PARTS = { p50: 0.5, p95: 0.95, p99: 0.99 };
const PROBLEMS = { failing: "bad", recovered: "warn", ok: "good" };

function number(id, label, { look, isWide = false, width = "6.2rem", show = count } = {}) {
  return {
    id,
    label,
    isNumber: true,
    isWide,
    width,
    sort: (row) => row[id],
    text: (row) => show(row[id]),
    look: look && ((row) => (row[id] > 0 ? look : "zero")),
  };
}

// A time that something took, at most: percentiles are upper bounds.
function length(id, label, options = {}) {
  return number(id, label, { width: "6.4rem", show: took, ...options });
}

function took(value) {
  if (value === null) return DASH;
  return value === Infinity ? "> 20 s" : `≤ ${seconds(value)}`;
}

function words(id, label, text, rest = {}) {
  return { id, label, text, ...rest };
}

function time(id, label, rest = {}) {
  const make = (row) => moment(row[id]);
  return { id, label, make, renew: (node, row) => setMoment(node, row[id]), ...rest };
}

// -- maintenance ---------------------------------------------------------------------------------

export function maintenance() {
  const list = table({
    caption: "Maintenance",
    key: (row) => row.task,
    columns: [
      words("task", "Task", (row) => visible(row.task), { isHead: true, width: "7rem" }),
      words("health", "Health", health, { width: "7rem", look: (row) => PROBLEMS[row.health] ?? "zero" }),
      number("runs", "Runs", { isWide: true }),
      number("failures", "Failures", { look: "warn" }),
      number("interrupted", "Broken off", { isWide: true }),
      time("last_success_at_ms", "Last ok", { width: "9rem" }),
      words("failure", "Last failure", failure, { isWide: true }),
      length("mean", "Mean", { isWide: true, show: seconds }),
    ],
  });
  return {
    node: list.node,
    show: (reply) =>
      list.update(reply.maintenance.map((row) => ({ ...row, mean: mean(ofDuration(row.duration)) }))),
  };
}

function health(row) {
  if (!row.enabled) return "off";
  return row.health === "unknown" ? DASH : row.health;
}

function failure(row) {
  if (!row.last_failure_at_ms) return DASH;
  const times = row.consecutive_failures ? `, ${plural(row.consecutive_failures, "time")} in a row` : "";
  const end = row.recovered_at_ms ? `, well again ${instant(row.recovered_at_ms)}` : "";
  return `${instant(row.last_failure_at_ms)}: ${row.last_error_code || "unknown"}${times}${end}`;
}

// -- calls ---------------------------------------------------------------------------------------

export function calls() {
  const list = table({
    caption: "Calls",
    key: (row) => row.rpc,
    sort: ["count", "down"],
    columns: [
      words("rpc", "Call", (row) => row.rpc, { isHead: true, sort: (row) => row.rpc }),
      number("count", "Answered"),
      number("failed", "Not ok", { look: "warn", isWide: true }),
      ...Object.keys(PARTS).map((id) => length(id, id, { isWide: id === "p95" })),
      length("mean", "Mean", { isWide: true, show: seconds }),
    ],
  });
  return {
    node: list.node,
    show({ http }, past, isUnknown) {
      const before = new Map(past?.http.handler_latency.map((each) => [each.rpc, ofCall(each)]));
      const failed = failures(http, past?.http);
      const rows = http.handler_latency.map((each) =>
        timed({ rpc: each.rpc, failed: failed.get(each.rpc) ?? 0 }, ofCall(each), before.get(each.rpc)),
      );
      list.say(
        http.state !== "available"
          ? "Not known: nothing counts calls here."
          : isUnknown
            ? "Waiting for a second look."
            : "No call yet.",
      );
      list.update(isUnknown ? [] : rows.filter((row) => row.count));
    },
  };
}

function timed(row, now, before) {
  const found = between(now, before);
  const parts = Object.entries(PARTS).map(([name, part]) => [name, percentile(found, part)]);
  return { ...row, count: found.count, ...Object.fromEntries(parts), mean: mean(found) };
}

function failures(http, past) {
  const found = new Map();
  const add = (sign) => (each) => {
    if (each.code !== "ok" && each.count) found.set(each.rpc, (found.get(each.rpc) ?? 0) + sign * each.count);
  };
  http.requests.forEach(add(1));
  past?.requests.forEach(add(-1));
  return found;
}

export function refusals() {
  const list = table({
    caption: "Refused and failed calls",
    key: (row) => `${row.rpc} ${row.code}`,
    sort: ["count", "down"],
    size: 25,
    empty: "None.",
    columns: [
      words("rpc", "Call", (row) => row.rpc, { isHead: true, sort: (row) => row.rpc }),
      words("code", "Code", (row) => row.code, { sort: (row) => row.code }),
      number("count", "Times"),
    ],
  });
  return {
    node: list.node,
    show({ http }) {
      list.say(http.state === "available" ? "None since the broker started." : DASH);
      list.update(http.requests.filter((row) => row.count && row.code !== "ok"));
    },
  };
}

// -- storage -------------------------------------------------------------------------------------

export function operations() {
  const list = table({
    caption: "Operations of the store",
    key: (row) => `${row.operation} ${row.outcome} ${row.error_code}`,
    columns: [
      words("operation", "Operation", (row) => row.operation, { isHead: true, width: "8rem" }),
      words("outcome", "Outcome", outcome, { look: (row) => (row.outcome === "error" ? "bad" : null) }),
      number("count", "Times"),
      number("retries", "Retries", { isWide: true }),
      ...Object.keys(PARTS).map((id) => length(id, id, { isWide: id === "p95" })),
      length("mean", "Mean", { isWide: true, show: seconds }),
    ],
  });
  return {
    node: list.node,
    show({ storage }) {
      const rows = storage.operations.filter((row) => row.duration.count || row.retries);
      list.say("Nothing was asked of the store yet.");
      list.update(rows.map((row) => timed(row, ofDuration(row.duration))));
    },
  };
}

function outcome(row) {
  return row.error_code && row.outcome !== row.error_code ? `${row.outcome}: ${row.error_code}` : row.outcome;
}

// -- earlier starts ------------------------------------------------------------------------------

export function boots() {
  const list = table({
    caption: "Earlier starts",
    key: (row) => row.boot_id,
    size: 20,
    columns: [
      time("first_at_ms", "From", { isHead: true }),
      time("last_at_ms", "Until"),
      words("end", "End", (row) => (row.stopped ? "stopped in order" : "not in order"), {
        look: (row) => (row.stopped ? null : "warn"),
      }),
      number("failures", "Failures", { look: "warn" }),
      words("last", "Last of them", lastFailure, { isWide: true }),
    ],
  });
  return {
    node: list.node,
    show: ({ diagnostics }) => list.update(diagnostics?.earlier_boots ?? []),
  };
}

function lastFailure(row) {
  if (!row.failures) return DASH;
  return visible([row.last_task, row.last_code, row.last_detail].filter(Boolean).join(": "));
}
