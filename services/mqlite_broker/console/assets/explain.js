// Why a queue or a message gives a receiver nothing, in words, with the way to what stands in the way.
// Used by a queue's page and from an open message.

import { call } from "./api.js";
import { h } from "./dom.js";
import { count, moment, plural, visible } from "./format.js";

const FINE = new Set(["deliverable", "empty"]);

// The broker's answer about a message, or with seq 0 about the queue.
export function explain(queue, seq = 0) {
  return call("QueueService/Explain", { queue, seq_number: seq });
}

export function isFine(answer) {
  return FINE.has(answer.reason) && !answer.blocked?.length;
}

// onOpen(seq) opens the message that is named.
export function explanation(answer, onOpen) {
  const lines = answer.blocked ?? [];
  return h(
    "div",
    { class: isFine(answer) ? "why-line fine" : "why-line" },
    h("p", {}, sentence(answer.explanation)),
    answer.message && finding("It", answer.message, onOpen),
    answer.blocker && finding("It waits for", answer.blocker, onOpen),
    lines.length > 0 && blocked(lines, answer.has_more, onOpen),
  );
}

function sentence(text) {
  const shown = visible(text);
  return `${shown.charAt(0).toUpperCase()}${shown.slice(1)}${/[.!?]$/.test(shown) ? "" : "."}`;
}

function finding(lead, each, onOpen) {
  const until = each.locked_until_ms || (each.state === "scheduled" && each.visible_at_ms);
  return h(
    "p",
    { class: "finding" },
    `${lead}: `,
    number(each.seq_number, onOpen),
    each.group_id ? [" of group ", h("bdi", {}, visible(each.group_id))] : "",
    `, delivered ${plural(each.delivery_count ?? 0, "time")}`,
    each.max_delivery_count ? ` of at most ${count(each.max_delivery_count)}` : "",
    until ? [`, ${each.locked_until_ms ? "its lock ends" : "due"} `, moment(until)] : "",
    each.ahead ? `, ${plural(each.ahead, "message")} before it` : "",
    ".",
  );
}

function blocked(lines, hasMore, onOpen) {
  return h(
    "details",
    { open: true },
    h(
      "summary",
      {},
      `${plural(lines.length, "line stands", "lines stand")} still${hasMore ? ", perhaps more" : ""}`,
    ),
    h(
      "ul",
      { class: "plain-list" },
      lines.map((line) =>
        h(
          "li",
          {},
          line.group_id ? ["Group ", h("strong", {}, h("bdi", {}, visible(line.group_id)))] : "The queue",
          `: ${plural(line.waiting, "message")} behind `,
          number(line.head.seq_number, onOpen),
          `. ${sentence(line.head.explanation)}`,
        ),
      ),
    ),
  );
}

function number(seq, onOpen) {
  return h("button", { type: "button", class: "quiet inline", onclick: () => onOpen(seq) }, `message ${seq}`);
}
