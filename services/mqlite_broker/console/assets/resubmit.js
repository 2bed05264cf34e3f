// Edit a dead letter and put it back, as one operation: it is mended and active, or nothing happened.
// Used by the dead letters of a queue. Only what was changed is sent, so what the page cannot show is kept.

import { call } from "./api.js";
import { hex } from "./body_view.js";
import { ask } from "./dialog.js";
import { h } from "./dom.js";
import { area, properties, text } from "./fields.js";
import { visible } from "./format.js";
import { toBytes, toText } from "./json.js";
import { note } from "./notes.js";
import { refresh } from "./poll.js";
import { encoded } from "./send.js";

const TEXTS = {
  subject: "Subject",
  group_id: "Group",
  message_id: "Message id",
  content_type: "Content type",
  correlation_id: "Correlation id",
  reply_to: "Reply to",
};

// Resolves to whether it was put back.
export async function resubmit(queue, message) {
  const seq = message.seq_number;
  const bytes = toBytes(message.body);
  const plain = toText(bytes);
  const as = plain === null || plain.includes("\r") ? "hex" : "text"; // a text field would turn \r\n into \n
  const shown = as === "text" ? plain : digits(bytes);
  const body = area(as === "text" ? "Body" : "Body, in hexadecimal", { value: shown, rows: 12 });
  const lines = properties("Properties", { value: message.properties ?? {} });
  const target = text("Into another queue", { placeholder: visible(queue) });
  const texts = Object.entries(TEXTS).map(([name, label]) => [
    name,
    text(label, { value: message[name] ?? "" }),
  ]);
  const inputs = [body.input, lines.input, ...texts.map(([, field]) => field.input)];
  // A field may show less than the message has, so what counts is whether a person changed the field.
  const before = new Map(inputs.map((input) => [input, input.value]));
  const isChanged = (input) => input.value !== before.get(input);

  const changes = () => {
    const patch = {};
    if (isChanged(body.input)) patch.body = encoded(body.input.value, as);
    if (isChanged(lines.input)) patch.properties = lines.value();
    for (const [name, { input }] of texts) {
      if (isChanged(input)) patch[name] = input.value;
    }
    return patch;
  };
  const done = await ask({
    title: `Edit message ${seq} and put it back`,
    body: [
      h(
        "p",
        {},
        `It died of “${visible(message.dead_letter_reason ?? "an unknown reason")}”. Edited and` +
          " resubmitted in one step, it is delivered again with its count of deliveries at zero.",
      ),
      body.node,
      h(
        "details",
        {},
        h("summary", {}, "Other fields"),
        h(
          "div",
          { class: "grid" },
          texts.map(([, field]) => field.node),
          lines.node,
          target.node,
        ),
      ),
    ],
    action: "Resubmit",
    isWide: true,
    act: () => {
      const request = { queue, seq_number: seq, message: changes(), target: target.input.value };
      return call("AdminService/Resubmit", request);
    },
  });
  if (!done) return false;
  const where = target.input.value ? `into ${visible(target.input.value)} ` : "";
  note(`Message ${seq} was put back ${where}as ${done.seq_number}.`);
  await refresh();
  return true;
}

// As an editor shows bytes: sixteen on a line.
function digits(bytes) {
  return hex(bytes)
    .split("\n")
    .map((line) => line.slice(10, 57).trimEnd())
    .join("\n");
}
