// One topic: who listens with which filter, what they hold, and who would get a message.
// The filters come from subscriptions.js, the counts from the shared look.

import { busy, h, say } from "../dom.js";
import { count, plural, rate, visible, visibleLines } from "../format.js";
import { poll } from "../poll.js";
import { preview } from "../preview.js";
import { changeQueue } from "../queue_actions.js";
import { link } from "../router.js";
import { sendMessage } from "../send.js";
import { changeFilter, deleteSubscription, subscribe, subscriptionList } from "../subscriptions.js";
import { table } from "../table.js";

export default function page({ params: { topic } }) {
  const problem = h("p", { class: "problem", role: "alert" });
  const summary = h("span", { class: "hint", role: "status" });
  const known = subscriptionList({ onChange, onProblem: (text) => say(problem, text) });
  const list = table({
    caption: `Subscriptions of ${visible(topic)}`,
    columns: columns((name, act) => change(name, act)),
    key: (row) => row.name,
    sort: ["name", "up"],
    empty: "Asking for the subscriptions…",
  });
  const mine = () => known.rows?.filter((row) => row.topic === topic) ?? [];
  const trial = preview(mine);

  function onChange() {
    trial.clear();
    draw();
  }

  function draw() {
    if (!known.rows) return;
    const rows = mine();
    list.say("Nobody listens to this topic, so there is no such topic.");
    list.update(rows.map((row) => ({ ...poll.look?.byName.get(row.name), ...row })));
    say(summary, plural(rows.length, "subscription"));
  }

  // What a button does works on the row as it is now, not as it was when the button was made.
  async function change(name, act) {
    const rows = mine();
    const row = rows.find((each) => each.name === name);
    if (row && (await act(row, { isLast: rows.length === 1 }))) await known.load();
  }

  async function add() {
    if (await subscribe(topic)) await known.load();
  }

  const reload = h("button", { type: "button", onclick: () => busy(reload, known.load()) }, "Reload");
  known.load();
  return {
    title: visible(topic),
    node: h(
      "div",
      { class: "stack" },
      h(
        "div",
        { class: "bar" },
        h("a", { href: link("topics") }, "All topics"),
        summary,
        h("span", { class: "gap" }),
        reload,
        h("button", { type: "button", onclick: add }, "Add a subscription"),
        h(
          "button",
          { type: "button", class: "primary", onclick: () => sendMessage(topic, { isTopic: true }) },
          "Publish",
        ),
      ),
      problem,
      list.node,
      trial.node,
    ),
    update({ look }) {
      known.follow(look);
      draw();
    },
  };
}

function columns(change) {
  const number = (id, label, { look = null, show = count, isWide = false } = {}) => ({
    id,
    label,
    isNumber: true,
    isWide,
    width: "5.8rem",
    sort: (row) => row[id],
    text: (row) => show(row[id]),
    look: look && ((row) => (row[id] > 0 ? look : "zero")),
  });
  return [
    {
      id: "name",
      label: "Subscription",
      isHead: true,
      width: "24%",
      sort: (row) => row.name,
      make: nameLink,
    },
    { id: "filter", label: "Filter", isWide: true, make: () => h("code", {}), renew: showFilter },
    number("active", "Active"),
    number("locked", "Locked", { isWide: true }),
    number("dead_lettered", "Dead", { look: "bad" }),
    number("in", "In/s", { show: rate, isWide: true }),
    { id: "actions", label: "", width: "12.5rem", make: (row) => actions(row.name, change) },
  ];
}

function nameLink(row) {
  return h("a", { href: link("queues", row.name), class: "name" }, h("bdi", {}, visible(row.name)));
}

function showFilter(node, row) {
  say(node, row.expr ? visibleLines(row.expr) : "every message");
  node.className = row.expr ? "expr" : "hint";
}

function actions(name, change) {
  const shown = visible(name);
  const button = (label, title, act) =>
    h("button", { type: "button", class: "quiet", "aria-label": title, onclick: act }, label);
  return h(
    "span",
    { class: "row-actions" },
    button("Filter", `Filter of ${shown}`, () => change(name, changeFilter)),
    button("Settings", `Settings of ${shown}`, () => changeQueue(name)),
    button("Delete", `Delete ${shown}`, () => change(name, deleteSubscription)),
  );
}
