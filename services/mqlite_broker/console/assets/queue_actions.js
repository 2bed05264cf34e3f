// Create, change and delete a queue, each in a dialog.
// Used by the list of queues and by a queue's page. A change sends only what was changed and names the
// generation it was shown, so a queue that was deleted and made anew meanwhile is left alone.

import { call } from "./api.js";
import { ask } from "./dialog.js";
import { h } from "./dom.js";
import { choice, number, text, time } from "./fields.js";
import { count, plural, visible } from "./format.js";
import { note, noteError } from "./notes.js";
import { refresh } from "./poll.js";

const ORDERS = {
  standard: "Standard: any order, as fast as it goes",
  group_fifo: "By group: one message of a group at a time",
  strict_fifo: "Strict: one message at a time",
};
const EXPIRY = { true: "Becomes a dead letter", false: "Is deleted" };

export async function createQueue() {
  const name = text("Name", { required: true });
  const form = settings(DEFAULTS);
  const made = await ask({
    title: "Create a queue",
    body: [name.node, form.node],
    action: "Create",
    ready: () => name.input.value !== "",
    act: () => create(name.input.value, form.changed()),
  });
  if (made) await done(`Created ${visible(name.input.value)}.`);
}

// In one step at the broker: creating over a queue would replace its settings, and nobody means that with this
// button.
async function create(name, config) {
  const { created } = await call("AdminService/UpdateQueue", { name, create: config });
  if (!created) throw new Error("A queue of this name exists. Change its settings instead.");
}

export async function changeQueue(name) {
  const known = await described(name);
  if (!known) return;
  const form = settings(known.config);
  const made = await ask({
    title: `Settings of ${visible(name)}`,
    body: [
      h("p", { class: "hint" }, "Messages that are there stay. What you leave as it is stays too."),
      form.node,
    ],
    action: "Save",
    act: async () => {
      const config = form.changed();
      if (!Object.keys(config).length) throw new Error("Nothing was changed.");
      await call("AdminService/UpdateQueue", { name, config, generation: known.generation });
    },
  });
  if (made) await done(`Saved the settings of ${visible(name)}.`);
}

// Resolves to whether it was deleted.
export async function deleteQueue(name) {
  const known = await described(name);
  if (!known) return false;
  if (known.total > 0) {
    const parts = ["active", "locked", "scheduled", "deferred", "dead_lettered"]
      .filter((state) => known[state])
      .map((state) => `${count(known[state])} ${state.replace("_", "-")}`);
    const held = `${visible(name)} holds ${plural(known.total, "message")} (${parts.join(", ")}).`;
    note(`${held} Only an empty queue can be deleted.`, { isError: true });
    return false;
  }
  const made = await ask({
    title: `Delete ${visible(name)}?`,
    body: h("p", {}, "The queue is empty. Its settings and its memory of duplicates go with it."),
    action: "Delete the queue",
    isDanger: true,
    typed: name,
    act: () => call("AdminService/DeleteQueue", { name, generation: known.generation }),
  });
  if (made) await done(`Deleted ${visible(name)}.`);
  return Boolean(made);
}

async function described(name) {
  try {
    return await call("AdminService/DescribeQueue", { name });
  } catch (error) {
    noteError(error);
    return null;
  }
}

async function done(text) {
  note(text);
  await refresh();
}

// -- the form ------------------------------------------------------------------------------------

const DEFAULTS = {
  lock_duration_ms: 30_000,
  max_delivery_count: 10,
  default_ttl_ms: 0,
  dead_letter_on_expire: true,
  dedup_window_ms: 0,
  ordering_mode: "standard",
  dlq_max_age_ms: 0,
  dlq_max_count: 0,
  dlq_max_bytes: 0,
};

const BOUND = "Empty: the broker's own bound. −1: no bound.";

// Fields for every setting; changed() is those that differ from `config`, in the wire's names.
function settings(config) {
  const bound = (label, value) => number(label, { value: value || "", min: -1, hint: BOUND });
  const fields = {
    ordering_mode: choice("Order", ORDERS, { value: config.ordering_mode }),
    max_delivery_count: number("Deliveries before a message dies", {
      value: config.max_delivery_count,
      min: 1,
    }),
    lock_duration_ms: time("A receiver holds a message for", { value: config.lock_duration_ms }),
    default_ttl_ms: time("Messages live for", { value: config.default_ttl_ms, placeholder: "for ever" }),
    dead_letter_on_expire: choice("A message that outlives that", EXPIRY, {
      value: String(config.dead_letter_on_expire),
    }),
    dedup_window_ms: time("Duplicates are recognised for", {
      value: config.dedup_window_ms,
      placeholder: "not at all",
    }),
    dlq_max_age_ms: age(config.dlq_max_age_ms),
    dlq_max_count: bound("Dead letters are kept up to this number", config.dlq_max_count),
    dlq_max_bytes: bound("Dead letters are kept up to so many bytes", config.dlq_max_bytes),
  };
  const read = (name) =>
    name === "dead_letter_on_expire" ? fields[name].value() === "true" : fields[name].value();
  const { dlq_max_age_ms: a, dlq_max_count: b, dlq_max_bytes: c, ...main } = fields;
  return {
    node: h(
      "div",
      {},
      h(
        "div",
        { class: "grid" },
        Object.values(main).map((each) => each.node),
      ),
      h(
        "details",
        {},
        h("summary", {}, "How long dead letters are kept"),
        h(
          "div",
          { class: "grid" },
          [a, b, c].map((each) => each.node),
        ),
      ),
    ),
    changed() {
      const values = Object.keys(fields).map((name) => [name, read(name)]);
      return Object.fromEntries(values.filter(([name, value]) => value !== config[name]));
    },
  };
}

// An age, or −1 for none.
function age(value) {
  const field = time("Dead letters are kept for", {
    value: Math.max(0, value),
    hint: `For example 14d. ${BOUND}`,
  });
  if (value < 0) field.input.value = "-1";
  const { value: read } = field;
  return { ...field, value: () => (["-1", "−1"].includes(field.input.value.trim()) ? -1 : read()) };
}
