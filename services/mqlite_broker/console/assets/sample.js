// A message that is sent to nobody: what filters are tried on.
// Used by the editor of filters and by a topic's page. value() is a Message of the wire, with the two times
// that a filter may read; it throws an Error that names the field which is wrong.

import { h } from "./dom.js";
import { area, properties, text, time } from "./fields.js";
import { fromText } from "./json.js";

const MORE = ["group_id", "message_id", "correlation_id", "reply_to"];

export function sampleForm() {
  const fields = {
    subject: text("Subject"),
    content_type: text("Content type", { placeholder: "application/json" }),
    properties: properties("Properties"),
    body: area("Body", { rows: 3 }),
    group_id: text("Group"),
    message_id: text("Message id"),
    correlation_id: text("Correlation id"),
    reply_to: text("Reply to"),
    delay: time("Delivered after", { placeholder: "at once" }),
  };
  const nodes = (names) => names.map((name) => fields[name].node);
  return {
    node: h(
      "div",
      { class: "sample" },
      h("div", { class: "grid" }, nodes(["subject", "content_type"])),
      h("div", { class: "grid pair" }, nodes(["properties", "body"])),
      h(
        "details",
        {},
        h("summary", {}, "More fields"),
        h("div", { class: "grid" }, nodes([...MORE, "delay"])),
      ),
    ),
    value() {
      const message = { properties: fields.properties.value(), body: fromText(fields.body.value()) };
      for (const name of ["subject", "content_type", ...MORE]) message[name] = fields[name].value();
      const delay = fields.delay.value();
      if (!delay) return message;
      const now = Date.now();
      return { ...message, enqueued_at_ms: now, visible_at_ms: now + delay };
    },
  };
}
