// The overview: is the broker well, what comes and goes, what needs somebody's attention and why.
// Shown after signing in. Everything on it comes from the shared look of poll.js, but the store's place.

import { call, can, session } from "../api.js";
import { chart } from "../chart.js";
import { concerns } from "../concerns.js";
import { h, keyed, say } from "../dom.js";
import { facts } from "../facts.js";
import { age, bytes, count, DASH, plural, rate, seconds, visible } from "../format.js";
import { link } from "../router.js";
import { levels, rates, STATES } from "../snapshot.js";

const RATES = [
  ["in", "In"],
  ["given", "Delivered"],
  ["out", "Done"],
  ["died", "Died"],
];
const NAMES = {
  active: "Active",
  locked: "Locked",
  scheduled: "Scheduled",
  deferred: "Deferred",
  dead_lettered: "Dead letters",
};

export default function page() {
  const health = facts([
    "State",
    "Version",
    "Backend",
    "Location",
    "Up for",
    "Read takes",
    "On disk",
    "Free on disk",
    "Queues",
    "Authentication",
  ]);
  const tiles = STATES.map((state) => tile(NAMES[state], state));
  const charts = RATES.map(([name, title]) => ({ name, ...chart(title, (value) => `${rate(value)}/s`) }));
  const backlog = chart("Active", count);
  const list = h("ul", { class: "concerns", hidden: true });
  const calm = h("p", { class: "empty" }, "Nothing needs attention.");

  if (can("manage")) {
    call("AdminService/Status").then(
      (status) => health.set("Location", visible(status.location)),
      () => {},
    );
  }

  return {
    title: "Overview",
    node: h(
      "div",
      { class: "stack" },
      h(
        "section",
        { "aria-labelledby": "attention" },
        h("h2", { id: "attention" }, "Needs attention"),
        calm,
        list,
      ),
      h(
        "section",
        { "aria-labelledby": "messages" },
        h("h2", { id: "messages" }, "Messages"),
        h(
          "div",
          { class: "tiles" },
          tiles.map((each) => each.node),
        ),
        h(
          "div",
          { class: "charts" },
          charts.map((each) => each.node),
          backlog.node,
        ),
      ),
      h("section", { "aria-labelledby": "health" }, h("h2", { id: "health" }, "Broker"), health.node),
    ),
    update({ look, looks }) {
      for (const each of tiles) each.update(look);
      for (const each of charts) each.update(rates(looks, each.name));
      backlog.update(levels(looks, "active"));
      const found = concerns(look);
      keyed(list, found, { key: (each) => each.id, make: concern, update: renew });
      calm.hidden = found.length > 0;
      list.hidden = !calm.hidden;
      describe(health, look);
    },
  };
}

function describe(health, look) {
  const { reply } = look;
  const { runtime } = reply;
  health.set(
    "State",
    runtime.read_available
      ? look.queues
        ? "In order"
        : "Counts cannot be read"
      : "The store cannot be read",
    runtime.read_available && look.queues ? "good" : "bad",
  );
  health.set("Version", `${visible(reply.version)}, store format ${runtime.schema_version}`);
  health.set("Backend", reply.backend);
  health.set("Up for", reply.started_at_ms ? age(reply.sampled_at_ms - reply.started_at_ms) : DASH);
  health.set("Read takes", runtime.read_available ? seconds(runtime.ping_seconds) : DASH);
  health.set("On disk", runtime.db_size_available ? bytes(runtime.db_size_bytes) : DASH);
  health.set("Free on disk", bytes(runtime.disk_free_bytes));
  health.set(
    "Queues",
    look.queues
      ? `${plural(reply.queue_count, "queue")}, ${plural(reply.subscription_count, "subscription")}`
      : DASH,
  );
  health.set(
    "Authentication",
    session.card.auth === "none" ? "Off: whoever reaches this address may do everything" : "On",
    session.card.auth === "none" ? "warn" : "",
  );
}

function tile(title, state) {
  const value = h("strong", {}, DASH);
  return {
    node: h("div", { class: "tile", "data-state": state }, h("span", {}, title), value),
    update: (look) => say(value, count(look.totals[state])),
  };
}

function concern(each) {
  return h(
    "li",
    { "data-look": each.look },
    each.queue === undefined
      ? h("strong", {}, each.title)
      : h("a", { href: link(...each.goTo) }, h("bdi", {}, visible(each.queue))),
    h("span", { class: "why" }),
  );
}

function renew(node, each) {
  say(node.lastChild, each.why);
}
