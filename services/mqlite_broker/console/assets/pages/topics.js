// The topics: how many listen to each and what they hold; subscribe, publish.
// A topic is its subscriptions, so the list is made of theirs (subscriptions.js) and of the shared look.

import { h, say } from "../dom.js";
import { count, rate, visible } from "../format.js";
import { poll } from "../poll.js";
import { link } from "../router.js";
import { sendMessage } from "../send.js";
import { subscribe, subscriptionList } from "../subscriptions.js";
import { table } from "../table.js";

export default function page() {
  const search = h("input", {
    type: "search",
    placeholder: "Search by topic or subscription",
    "aria-label": "Search by topic or subscription",
  });
  const problem = h("p", { class: "problem", role: "alert" });
  const list = table({
    caption: "Topics",
    columns: columns(),
    key: (row) => row.topic,
    sort: ["topic", "up"],
    empty: "Asking for the topics…",
  });
  const known = subscriptionList({ onChange: draw, onProblem: (text) => say(problem, text) });

  function draw() {
    if (!known.rows) return;
    const rows = topics(known.rows, poll.look);
    const wanted = search.value.toLowerCase();
    list.say(rows.length ? "No topic matches." : "No topic yet. A topic begins with its first subscription.");
    list.update(rows.filter((row) => row.words.includes(wanted)));
  }

  async function add() {
    if (await subscribe()) await known.load();
  }

  search.addEventListener("input", draw);
  known.load();
  return {
    title: "Topics",
    node: h(
      "div",
      { class: "stack" },
      h(
        "div",
        { class: "bar" },
        search,
        h("span", { class: "gap" }),
        h("button", { type: "button", class: "primary", onclick: add }, "Subscribe to a topic"),
      ),
      problem,
      list.node,
    ),
    update({ look }) {
      known.follow(look);
      draw();
    },
  };
}

// One row for each topic; the sums are null while the counts cannot be read.
function topics(subscriptions, look) {
  const found = new Map();
  for (const { topic, name } of subscriptions) {
    if (!found.has(topic)) found.set(topic, { topic, names: [], members: [] });
    found.get(topic).names.push(name);
    found.get(topic).members.push(look?.byName.get(name));
  }
  return [...found.values()].map(({ topic, names, members }) => ({
    topic,
    size: names.length,
    words: [topic, ...names].join("\n").toLowerCase(),
    active: total(members, "active"),
    locked: total(members, "locked"),
    dead_lettered: total(members, "dead_lettered"),
    in: total(members, "in"),
  }));
}

function total(members, name) {
  const numbers = members.map((row) => row?.[name] ?? null);
  return numbers.includes(null) ? null : numbers.reduce((sum, each) => sum + each, 0);
}

function columns() {
  const number = (id, label, { look = null, show = count, isWide = false } = {}) => ({
    id,
    label,
    isNumber: true,
    isWide,
    width: "7rem",
    sort: (row) => row[id],
    text: (row) => show(row[id]),
    look: look && ((row) => (row[id] > 0 ? look : "zero")),
  });
  return [
    { id: "topic", label: "Topic", isHead: true, sort: (row) => row.topic, make: nameLink },
    number("size", "Subscriptions", { isWide: true }),
    number("active", "Active"),
    number("locked", "Locked", { isWide: true }),
    number("dead_lettered", "Dead", { look: "bad" }),
    number("in", "Copies/s", { show: rate, isWide: true }),
    { id: "actions", label: "", width: "6.5rem", make: actions },
  ];
}

function nameLink(row) {
  return h("a", { href: link("topics", row.topic), class: "name" }, h("bdi", {}, visible(row.topic)));
}

function actions(row) {
  return h(
    "span",
    { class: "row-actions" },
    h(
      "button",
      {
        type: "button",
        class: "quiet",
        "aria-label": `Publish to ${visible(row.topic)}`,
        onclick: () => sendMessage(row.topic, { isTopic: true }),
      },
      "Publish",
    ),
  );
}
