// Which subscription listens to which topic, and with what filter; made, changed and ended.
// Used by the topics and by a topic's page. The list is asked for when a page opens, after each change here,
// and when a look shows other subscriptions than before: never once per look, never once per subscription.
// Rule: subscribing again replaces a filter, so whatever is sent is compared with what is there now.

import { call } from "./api.js";
import { ask } from "./dialog.js";
import { h } from "./dom.js";
import { text } from "./fields.js";
import { filterEditor } from "./filter_editor.js";
import { count, plural, visible } from "./format.js";
import { note, noteError } from "./notes.js";
import { refresh } from "./poll.js";

const STATES = ["active", "locked", "scheduled", "deferred", "dead_lettered"];

// The list as it is kept by a page: rows is null until it is known; onChange() is told of a new one and
// onProblem(text) why there is none.
export function subscriptionList({ onChange, onProblem }) {
  let seen = null;
  let asking = null;
  const list = { rows: null, load, follow };

  function load() {
    asking ??= fetchAll()
      .then((rows) => {
        list.rows = rows;
        onProblem("");
        onChange();
      })
      .catch((error) => onProblem(error.message))
      .finally(() => {
        asking = null;
      });
    return asking;
  }

  function follow(look) {
    if (!look.queues) return;
    const names = look.queues.filter((row) => row.kind === "subscription").map((row) => row.queue);
    const now = JSON.stringify(names);
    if (seen !== null && seen !== now) load();
    seen = now;
  }

  return list;
}

// Rows of { topic, name, expr }.
async function fetchAll() {
  const { subscriptions } = await call("AdminService/ListSubscriptions");
  return subscriptions.map((each) => ({ expr: "", ...each }));
}

// -- changes -------------------------------------------------------------------------------------

// Asks for all that a subscription has; with a topic for that one. Resolves to the row, or null.
export async function subscribe(topic = "") {
  const topicField = text("Topic", {
    value: topic,
    required: true,
    hint: "It begins with its first subscription.",
  });
  const name = text("Name of the subscription", {
    required: true,
    hint: "A queue of this name will hold its messages.",
  });
  const editor = filterEditor();
  const made = await ask({
    title: topic ? `Subscribe to ${visible(topic)}` : "Subscribe to a topic",
    body: [h("div", { class: "grid" }, topic ? null : topicField.node, name.node), editor.node],
    action: "Subscribe",
    isWide: true,
    ready: () => topicField.input.value !== "" && name.input.value !== "" && !editor.isRefused(),
    act: async () => {
      const row = { topic: topicField.input.value, name: name.input.value, expr: editor.value() };
      await refuseExisting(row);
      await send(row);
      return row;
    },
  });
  editor.leave();
  if (made) await done(`${visible(made.name)} listens to ${visible(made.topic)} from now on.`);
  return made;
}

async function refuseExisting({ topic, name }) {
  if (!(await fetchAll()).some((row) => row.topic === topic && row.name === name)) return;
  throw new Error("This subscription exists. Change its filter instead.");
}

// Resolves to whether it was changed.
export async function changeFilter({ topic, name, expr }) {
  const editor = filterEditor(expr);
  const made = await ask({
    title: `Filter of ${visible(name)}`,
    body: [
      h(
        "p",
        { class: "hint" },
        "It decides on messages that are published from now on. What is stored stays.",
      ),
      editor.node,
    ],
    action: "Save",
    isWide: true,
    ready: () => !editor.isRefused(),
    act: async () => {
      if (editor.value() === expr) throw new Error("Nothing was changed.");
      await refuseOther({ topic, name, expr });
      await send({ topic, name, expr: editor.value() });
    },
  });
  editor.leave();
  if (made) await done(`Saved the filter of ${visible(name)}.`);
  return Boolean(made);
}

// Another person's filter is not overwritten, and a subscription that was ended does not come back.
async function refuseOther({ topic, name, expr }) {
  const now = (await fetchAll()).find((row) => row.topic === topic && row.name === name);
  if (!now) throw new Error("This subscription was ended meanwhile.");
  if (now.expr !== expr) {
    throw new Error(`Somebody changed it meanwhile, to: ${now.expr ? visible(now.expr) : "every message"}`);
  }
}

function send({ topic, name, expr }) {
  return call("AdminService/Subscribe", { topic, name, filter: { expr } });
}

// Ends the subscription that is shown now, with whatever it holds. Resolves to whether it did.
export async function deleteSubscription({ topic, name }, { isLast = false } = {}) {
  let known;
  try {
    known = await call("AdminService/DescribeQueue", { name });
  } catch (error) {
    noteError(error);
    return false;
  }
  const { total, generation } = known;
  const gone = await ask({
    title: `End ${visible(name)}?`,
    body: [
      h("p", {}, total ? losses(known) : "It holds no message."),
      isLast && h("p", {}, `It is the last of ${visible(topic)}: the topic ends with it.`),
    ],
    action: total ? `Delete it with ${plural(total, "message")}` : "Delete the subscription",
    isDanger: true,
    typed: name,
    act: () => end({ topic, name, generation, discard_messages: total > 0 }),
  });
  if (!gone) return false;
  const lost = gone.discarded ? ` ${plural(gone.discarded, "message")} went with it.` : "";
  await done(`${visible(name)} is gone.${lost}`);
  return true;
}

// Messages go in pieces; a broker that is stopped between them leaves the rest to the next attempt.
async function end(request) {
  const reply = await call("AdminService/DeleteSubscription", request);
  if (!reply.deleted) throw new Error(`Only ${plural(reply.discarded, "message")} went so far. Do it again.`);
  return reply;
}

function losses(known) {
  const parts = STATES.filter((state) => known[state]).map(
    (state) => `${count(known[state])} ${state.replace("_", "-")}`,
  );
  const held = `It holds ${plural(known.total, "message")} (${parts.join(", ")}).`;
  return `${held} They are deleted for good, and so is what comes until then.`;
}

async function done(text) {
  note(text);
  await refresh();
}
