// How the broker itself does: freshness of what is shown, maintenance, calls, sign-ins, storage.
// All from the shared look of poll.js. What the broker does not know is a dash, and never a zero; counters
// belong to its process and begin at zero with it. The tables' columns stand in observe_tables.js.

import { h, say } from "../dom.js";
import { facts } from "../facts.js";
import { age, bytes, count, DASH, seconds, visible } from "../format.js";
import { boots, calls, maintenance, operations, refusals } from "../observe_tables.js";

const SINCE = { start: "since the broker started", look: "since the look before" };

export default function page() {
  const freshness = facts(["Counts", "Sampled", "Last success", "Reading took", "Error", "Broker up for"], {
    isDense: true,
  });
  const doors = facts(
    [
      "Signed in",
      "No token",
      "Wrong token",
      "Expired token",
      "Revoked token",
      "Lacking the right",
      "Keys unreadable",
    ],
    { isDense: true },
  );
  const files = facts(
    [
      "Database",
      "Write-ahead log",
      "Free inside the file",
      "Free on the disk",
      "Read takes",
      "Store format",
      "Connections",
      "Waited for one",
    ],
    { isDense: true },
  );
  const engine = facts(
    [
      "Calls waiting in the engine",
      "Receives waiting",
      "Filters that did not compile",
      "Filters that failed",
      "Processor time",
      "Memory",
      "Open descriptors",
      "Diagnostic log",
    ],
    { isDense: true },
  );
  const tables = [maintenance(), calls(), refusals(), operations(), boots()];
  const [tasks, callTable, refusalTable, operationTable, bootTable] = tables;
  const since = h(
    "select",
    { "aria-label": "Durations of calls" },
    Object.entries(SINCE).map(([each, shown]) => h("option", { value: each }, shown)),
  );
  const earlier = section("Earlier starts", "What the diagnostic log keeps of them.", bootTable.node);
  let looks = [];

  function draw() {
    const [before, now] = [looks.at(-2), looks.at(-1)];
    const past = since.value === "look" ? (before ?? null) : undefined;
    for (const each of tables) each.show(now.reply, past && past.reply, past === null);
    earlier.hidden = !now.reply.diagnostics?.earlier_boots.length;
  }

  since.addEventListener("change", () => looks.length && draw());
  return {
    title: "Observe",
    node: h(
      "div",
      { class: "stack" },
      section("Freshness", "", freshness.node),
      section("Maintenance", "What the broker does by itself, and whether it succeeds.", tasks.node),
      section("Calls", ["Durations behind the check of the credential, ", since], callTable.node),
      section("Refused and failed calls", "", refusalTable.node),
      section("Authentication", "", doors.node),
      section("Storage", "", h("div", { class: "stack tight" }, files.node, operationTable.node)),
      section("Process", "", engine.node),
      earlier,
    ),
    update({ look }) {
      const isNext = looks.length && looks.at(-1).startedAt === look.startedAt;
      if (looks.at(-1) !== look) looks = [...(isNext ? looks.slice(-1) : []), look];
      sayFreshness(freshness, look.reply);
      sayDoors(doors, look.reply);
      sayFiles(files, look.reply);
      sayEngine(engine, look);
      draw();
    },
  };
}

let sections = 0;

function section(title, lead, ...content) {
  const id = `observe-${++sections}`;
  return h(
    "section",
    { "aria-labelledby": id },
    h("h2", { id }, title),
    lead && h("p", { class: "hint" }, lead),
    content,
  );
}

function sayFreshness(place, { collection, sampled_at_ms: at, started_at_ms: start }) {
  const isThere = collection.state === "available";
  place.set("Counts", isThere ? "Can be read" : "Cannot be read", isThere ? "good" : "bad");
  place.at("Sampled", at);
  place.at("Last success", collection.last_success_at_ms, isThere ? "" : "warn");
  place.set("Reading took", isThere ? seconds(collection.duration_seconds) : DASH);
  place.set("Error", collection.error_code || (isThere ? "none" : DASH), collection.error_code ? "bad" : "");
  place.set("Broker up for", start ? age(at - start) : DASH);
}

const OUTCOMES = {
  success: "Signed in",
  missing: "No token",
  invalid: "Wrong token",
  expired: "Expired token",
  revoked: "Revoked token",
  permission_denied: "Lacking the right",
  backend_error: "Keys unreadable",
};

function sayDoors(place, { http }) {
  const found = new Map(http.authentication.map((each) => [each.outcome, each.count]));
  for (const [outcome, title] of Object.entries(OUTCOMES)) {
    const number = http.state === "available" ? found.get(outcome) : null;
    place.set(title, count(number), outcome === "backend_error" && number > 0 ? "bad" : "");
  }
}

function sayFiles(place, { runtime, storage: { pool } }) {
  place.set("Database", runtime.db_size_available ? bytes(runtime.db_size_bytes) : DASH);
  place.set("Write-ahead log", bytes(runtime.wal_bytes));
  place.set("Free inside the file", bytes(runtime.free_bytes));
  place.set("Free on the disk", bytes(runtime.disk_free_bytes));
  place.set("Read takes", runtime.read_available ? seconds(runtime.ping_seconds) : DASH);
  place.set("Store format", runtime.schema_version || DASH);
  place.set("Connections", `${count(pool.open)} open, ${count(pool.in_use)} in use`);
  place.set("Waited for one", `${count(pool.wait_count)} times, ${seconds(pool.wait_duration_seconds)}`);
}

function sayEngine(place, { reply, waiters }) {
  const failures = new Map(reply.filters.map((each) => [each.stage, each.count]));
  const own = reply.process;
  const descriptors = own?.open_descriptors ?? null;
  const most = own?.max_descriptors ?? null;
  const log = reply.diagnostics;
  place.set("Calls waiting in the engine", count(reply.mailbox_depth));
  place.set("Receives waiting", waiters ? count([...waiters.values()].reduce((a, b) => a + b, 0)) : DASH);
  place.set(
    "Filters that did not compile",
    count(failures.get("compile")),
    failures.get("compile") ? "bad" : "",
  );
  place.set("Filters that failed", count(failures.get("evaluate")), failures.get("evaluate") ? "warn" : "");
  place.set("Processor time", seconds(own?.cpu_seconds));
  place.set("Memory", bytes(own?.resident_bytes));
  place.set("Open descriptors", most ? `${count(descriptors)} of ${count(most)}` : count(descriptors));
  place.set("Diagnostic log", log ? visible(log.state) : DASH, log?.state === "failing" ? "bad" : "");
}
