// One message with all its fields and its body, in a dialog, with what can be done to it.
// Used by a queue's page, its dead letters and whoever holds a message. The body is loaded when a message is
// opened and at no other time.

import { call } from "./api.js";
import { bodyView } from "./body_view.js";
import { tell } from "./dialog.js";
import { h } from "./dom.js";
import { count, moment, visible } from "./format.js";
import { toBytes } from "./json.js";

const TEXTS = [
  ["message_id", "Message id"],
  ["group_id", "Group"],
  ["subject", "Subject"],
  ["content_type", "Content type"],
  ["correlation_id", "Correlation id"],
  ["reply_to", "Reply to"],
  ["dead_letter_reason", "Died of"],
  ["dead_letter_description", "Description"],
];
const MOMENTS = [
  ["enqueued_at_ms", "Sent"],
  ["visible_at_ms", "Due"],
  ["expires_at_ms", "Expires"],
  ["locked_until_ms", "Locked until"],
];

// The whole message by its number; an Error if it is gone.
export async function whole(queue, seq) {
  const reply = await call("QueueService/Peek", { queue, from_seq: seq, max: 1 });
  const found = reply.messages[0];
  if (!found || String(found.seq_number) !== String(seq)) {
    throw new Error(`Message ${seq} is not in this queue any more.`);
  }
  return found;
}

// actions(message, close) → buttons that stand below it.
export async function openMessage(queue, seq, actions = () => []) {
  const message = await whole(queue, seq);
  const place = h("div", { class: "bar" });
  const dialog = tell({ title: `Message ${seq}`, body: [messageView(message), place] });
  place.append(...actions(message, () => dialog.close()).filter(Boolean));
}

export function messageView(message) {
  const rows = [
    message.state && row("State", message.state.replace("_", " ")),
    ...MOMENTS.filter(([name]) => message[name]).map(([name, title]) => row(title, moment(message[name]))),
    row("Deliveries", count(message.delivery_count ?? 0)),
    ...TEXTS.filter(([name]) => message[name]).map(([name, title]) =>
      row(title, h("bdi", {}, visible(message[name]))),
    ),
  ];
  return h(
    "div",
    { class: "stack tight" },
    h("dl", { class: "facts" }, rows),
    propertyList(message.properties ?? {}),
    bodyView(toBytes(message.body), { name: `message-${message.seq_number}` }),
  );
}

function row(title, value) {
  return h("div", {}, h("dt", {}, title), h("dd", {}, value));
}

function propertyList(properties) {
  const names = Object.keys(properties);
  if (!names.length) return null;
  const pairs = names.map((name) =>
    row(h("bdi", {}, visible(name)), h("bdi", {}, visible(properties[name]))),
  );
  return h(
    "details",
    { open: names.length <= 6 },
    h("summary", {}, `Properties (${count(names.length)})`),
    h("dl", { class: "facts" }, pairs),
  );
}
