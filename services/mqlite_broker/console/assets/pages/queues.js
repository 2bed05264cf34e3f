// The queues: how full each is and how fast it moves; create, change and delete them.
// A credential that may not list them opens one by its name.

import { can } from "../api.js";
import { h } from "../dom.js";
import { text } from "../fields.js";
import { age, count, rate, visible } from "../format.js";
import { link } from "../router.js";
import { table } from "../table.js";
import { changeQueue, createQueue, deleteQueue } from "../queue_actions.js";

export default function page() {
  if (!can("monitor")) return { title: "Queues", node: opener() };
  const search = h("input", {
    type: "search",
    placeholder: "Search by name",
    "aria-label": "Search by name",
  });
  const kinds = h(
    "select",
    { "aria-label": "Which kind" },
    h("option", { value: "queue" }, "Queues"),
    h("option", { value: "subscription" }, "Subscriptions"),
    h("option", { value: "" }, "Both"),
  );
  const list = table({
    caption: "Queues",
    columns: columns(),
    key: (row) => row.queue,
    sort: ["queue", "up"],
    empty: "No queue yet.",
  });
  let rows = [];

  const draw = () => {
    const wanted = search.value.toLowerCase();
    const found = rows.filter(
      (row) => row.queue.toLowerCase().includes(wanted) && (!kinds.value || row.kind === kinds.value),
    );
    list.say(rows.length ? "No queue matches." : "No queue yet.");
    list.update(found);
  };
  search.addEventListener("input", draw);
  kinds.addEventListener("change", draw);

  return {
    title: "Queues",
    node: h(
      "div",
      { class: "stack" },
      h(
        "div",
        { class: "bar" },
        search,
        kinds,
        h("span", { class: "gap" }),
        can("manage") &&
          h("button", { type: "button", class: "primary", onclick: () => createQueue() }, "Create a queue"),
      ),
      list.node,
    ),
    update({ look }) {
      rows = look.queues ?? [];
      draw();
      if (!look.queues) list.say("The counts cannot be read at the moment.");
    },
  };
}

function columns() {
  const number = (id, label, look = null) => ({
    id,
    label,
    isNumber: true,
    width: "5.8rem",
    sort: (row) => row[id],
    text: (row) => count(row[id]),
    look: look && ((row) => (row[id] > 0 ? look : "zero")),
  });
  const speed = (id, label) => ({
    id,
    label,
    isNumber: true,
    isWide: true,
    width: "4.4rem",
    sort: (row) => row[id],
    text: (row) => rate(row[id]),
  });
  return [
    { id: "queue", label: "Name", isHead: true, sort: (row) => row.queue, make: nameLink },
    number("active", "Active"),
    number("locked", "Locked"),
    { ...number("scheduled", "Scheduled"), isWide: true },
    { ...number("deferred", "Deferred"), isWide: true },
    number("dead_lettered", "Dead", "bad"),
    {
      id: "age",
      label: "Oldest",
      isNumber: true,
      width: "5.8rem",
      sort: (row) => row.oldest_message_age_ms,
      text: (row) => (row.active + row.locked ? age(row.oldest_message_age_ms) : "–"),
    },
    speed("in", "In/s"),
    speed("out", "Out/s"),
    { id: "actions", label: "", isWide: true, width: "9.6rem", make: actions },
  ];
}

function nameLink(row) {
  return h("a", { href: link("queues", row.queue), class: "name" }, h("bdi", {}, visible(row.queue)));
}

function actions(row) {
  if (!can("manage")) return h("span", {});
  const shown = visible(row.queue);
  return h(
    "span",
    { class: "row-actions" },
    h(
      "button",
      {
        type: "button",
        class: "quiet",
        "aria-label": `Settings of ${shown}`,
        onclick: () => changeQueue(row.queue),
      },
      "Settings",
    ),
    row.kind === "queue"
      ? h(
          "button",
          {
            type: "button",
            class: "quiet",
            "aria-label": `Delete ${shown}`,
            onclick: () => deleteQueue(row.queue),
          },
          "Delete",
        )
      : null,
  );
}

// For a key that may send or listen only: nobody lists the queues for it.
function opener() {
  const name = text("Queue or topic", { required: true });
  const form = h(
    "form",
    { class: "panel narrow" },
    h("p", {}, "This credential may not list queues. Open one by its name."),
    name.node,
    h("div", { class: "actions" }, h("button", { type: "submit", class: "primary" }, "Open")),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (name.input.value) location.hash = link("queues", name.input.value);
  });
  return form;
}
