// What a person knows of the messages they look for: the form above a list of messages.
// Used by messages.js. Everything that is given has to hold; a filter is asked last, by the broker.

import { h, say } from "./dom.js";
import { check, number, properties, text } from "./fields.js";

// onSearch() when something else is looked for; hasReason: dead letters may be among them. Returns { node, value(),
// isEmpty() }; value() is what the request asks for.
export function searchForm(onSearch, { hasReason }) {
  const fields = {
    body_text: text("Body contains", { hint: "Letter case counts." }),
    message_id: text("Message id is"),
    group_id: text("Group is"),
    subject: text("Subject is"),
    correlation_id: text("Correlation id is"),
    properties: properties("Properties are"),
    from_seq: number("From number"),
    to_seq: number("Up to number"),
    enqueued_from_ms: text("Sent at or after", { type: "datetime-local" }),
    enqueued_before_ms: text("Sent before", { type: "datetime-local" }),
    ...(hasReason ? { dead_letter_reason: text("Died of", { hint: "Exactly this reason." }) } : {}),
    filter: text("Filter", { hint: 'As of a subscription: properties.tier == "gold".' }),
    newest_first: check("Newest first"),
  };
  const problem = h("p", { class: "problem", role: "alert" });
  const clear = h("button", { type: "button" }, "Clear");
  const form = h(
    "form",
    {},
    h(
      "div",
      { class: "grid" },
      Object.values(fields).map((field) => field.node),
    ),
    problem,
    h("div", { class: "actions" }, clear, h("button", { type: "submit", class: "primary" }, "Find")),
  );
  let current = {};
  const read = () => {
    const pairs = Object.entries(fields).map(([name, field]) => [name, given(name, field)]);
    return Object.fromEntries(
      pairs.filter(([, value]) => value && (typeof value !== "object" || Object.keys(value).length)),
    );
  };
  const run = () => {
    say(problem, "");
    try {
      current = read();
      onSearch();
    } catch (error) {
      say(problem, error.message);
    }
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    run();
  });
  clear.addEventListener("click", () => {
    for (const { input } of Object.values(fields)) {
      input.value = "";
      input.checked = false;
    }
    run();
  });
  return {
    node: h("details", { class: "panel search" }, h("summary", {}, "Search"), form),
    value: () => current,
    isEmpty: () => Object.keys(current).every((name) => name === "newest_first"),
  };
}

function given(name, field) {
  if (!name.startsWith("enqueued_")) return field.value();
  return field.input.value ? new Date(field.input.value).getTime() : 0;
}
