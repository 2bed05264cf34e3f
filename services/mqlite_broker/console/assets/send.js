// Send a message to a queue, or publish one to a topic.
// Used by the pages of both. A sending that got no answer may be repeated with the same button: it carries an
// id under which the broker stores it once.

import { call, newId } from "./api.js";
import { unhex } from "./body_view.js";
import { ask } from "./dialog.js";
import { h } from "./dom.js";
import { area, choice, properties, text, time } from "./fields.js";
import { plural, visible } from "./format.js";
import { fromBytes, fromText } from "./json.js";
import { note } from "./notes.js";
import { refresh } from "./poll.js";

// Resolves to the outcome of the message ({ outcome, seq_number?, copies? }), or null.
export async function sendMessage(name, { isTopic = false } = {}) {
  const fields = {
    body: area("Body", { rows: 7 }),
    as: choice("The body is", { text: "Text (UTF-8)", hex: "Bytes in hexadecimal" }),
    subject: text("Subject"),
    group_id: text("Group"),
    message_id: text("Message id"),
    content_type: text("Content type", { placeholder: "application/json" }),
    correlation_id: text("Correlation id"),
    reply_to: text("Reply to"),
    ttl: time("Lives for", { placeholder: "as long as the queue lets it" }),
    due: text("Deliver at", { type: "datetime-local", hint: "Empty: now." }),
    properties: properties("Properties"),
  };
  const { body, as, ...others } = fields;
  const repeat = { content: "", id: "" };
  const sent = await ask({
    title: `${isTopic ? "Publish to" : "Send to"} ${visible(name)}`,
    body: [
      body.node,
      as.node,
      h(
        "div",
        { class: "grid" },
        Object.values(others).map((each) => each.node),
      ),
    ],
    action: isTopic ? "Publish" : "Send",
    isWide: true,
    act: async () => {
      const request = { queue: name, ...read(fields) };
      const content = JSON.stringify(request);
      if (repeat.content !== content) Object.assign(repeat, { content, id: newId() });
      return (await call("QueueService/SendResult", { ...request, request_id: repeat.id })).results[0];
    },
  });
  if (!sent) return null;
  note(told(sent, name), { isError: sent.outcome === "conflict" });
  await refresh();
  return sent;
}

function read(fields) {
  const message = { body: encoded(fields.body.value(), fields.as.value()) };
  for (const name of ["subject", "group_id", "message_id", "content_type", "correlation_id", "reply_to"]) {
    if (fields[name].value()) message[name] = fields[name].value();
  }
  const found = fields.properties.value();
  if (Object.keys(found).length) message.properties = found;
  const due = fields.due.input.value;
  return {
    messages: [message],
    ttl_ms: fields.ttl.value(),
    scheduled_enqueue_time_ms: due ? new Date(due).getTime() : 0,
  };
}

// The base64 of a body that was typed as text or as hexadecimal digits.
export function encoded(typed, as) {
  if (as === "text") return fromText(typed);
  const bytes = unhex(typed);
  if (!bytes) throw new Error("The body is not hexadecimal: give pairs of digits, for example 48 65 6c.");
  return fromBytes(bytes);
}

function told(sent, name) {
  const where = visible(name);
  if (sent.outcome === "duplicate") return `${where} knew this message already, as ${sent.seq_number}.`;
  if (sent.outcome === "conflict")
    return `${where} has this message id with another body; nothing was stored.`;
  if (sent.outcome === "unmatched") return `No subscription of ${where} wanted it; nothing was stored.`;
  if (sent.copies > 1) return `Stored in ${plural(sent.copies, "subscription")} of ${where}.`;
  return `Sent to ${where} as message ${sent.seq_number}.`;
}
