// Who would get a message, tried on the filters as they are, before anything is published.
// Used by a topic's page. One check for each different filter, a few at a time, and only when it is asked for.
// What it says is what a publish of this very message would do at this moment; nothing is stored.

import { call } from "./api.js";
import { busy, h, say } from "./dom.js";
import { match } from "./filter_editor.js";
import { count, plural, visible } from "./format.js";
import { link } from "./router.js";
import { sampleForm } from "./sample.js";
import { table } from "./table.js";

const AT_ONCE = 4;

// subscriptions() are the rows of the topic at that moment. Returns { node, clear() }; what was found is about
// a message and filters, and is cleared when either changes.
export function preview(subscriptions) {
  const sample = sampleForm();
  const problem = h("p", { class: "problem", role: "alert" });
  const summary = h("p", { role: "status", class: "verdict" });
  const list = table({
    caption: "Who would get it",
    columns: [
      { id: "name", label: "Subscription", isHead: true, width: "30%", make: nameLink },
      { id: "verdict", label: "What happens", text: (row) => row.words, look: (row) => row.look },
    ],
    key: (row) => row.name,
  });
  list.node.hidden = true;
  const send = h("button", { type: "submit", class: "primary" }, "Who would get it?");
  const form = h("form", {}, sample.node, problem, h("div", { class: "actions" }, send));

  async function run() {
    say(problem, "");
    try {
      const message = sample.value();
      const rows = await judged(subscriptions(), message);
      list.update(rows);
      list.node.hidden = false;
      say(summary, summed(rows));
    } catch (error) {
      say(problem, error.message);
    }
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!send.disabled) busy(send, run());
  });
  function clear() {
    list.node.hidden = true;
    say(summary, "");
  }

  form.addEventListener("input", clear);
  const node = h(
    "section",
    { class: "panel", "aria-labelledby": "preview" },
    h("h2", { id: "preview" }, "Who would get a message?"),
    h("p", { class: "hint" }, "A trial: nothing is published."),
    form,
    summary,
    list.node,
  );
  return { node, clear };
}

async function judged(rows, message) {
  const filters = [...new Set(rows.map((row) => row.expr))];
  const answers = new Map();
  await inTurn(filters, async (expr) => {
    answers.set(expr, await call("AdminService/TestFilter", { expr, message }));
  });
  const found = rows.map((row) => ({ name: row.name, ...verdict(answers.get(row.expr)) }));
  if (!message.group_id)
    await inTurn(
      found.filter((row) => row.isMatch),
      demandGroup,
    );
  return found;
}

function verdict(found) {
  const [words, look] = match(found);
  return { isMatch: found.matched, look, words: found.matched ? "Gets a copy." : words };
}

// One subscription that orders by group, and the whole publish of a message without one is refused.
async function demandGroup(row) {
  const { config } = await call("AdminService/DescribeQueue", { name: row.name });
  if (config.ordering_mode !== "group_fifo") return;
  Object.assign(row, {
    isRefused: true,
    look: "bad",
    words: "It keeps the order of each group: without a group the publish is refused for all.",
  });
}

async function inTurn(items, work) {
  const rest = [...items];
  const worker = async () => {
    while (rest.length) await work(rest.shift());
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

function summed(rows) {
  if (rows.some((row) => row.isRefused)) return "The publish would be refused: give the message a group.";
  const number = rows.filter((row) => row.isMatch).length;
  if (!number) return "Nobody would get it, and nothing would be stored.";
  return `${count(number)} of ${plural(rows.length, "subscription")} would get it.`;
}

function nameLink(row) {
  return h("a", { href: link("queues", row.name) }, h("bdi", {}, visible(row.name)));
}
