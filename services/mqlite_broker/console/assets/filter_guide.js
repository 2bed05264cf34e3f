// What a filter can say, beside the place where one is written: names, signs and examples to take over.
// Used by filter_editor.js. A short form of docs/reference/filters.md; the broker's check has the last word.

import { h } from "./dom.js";
import { copyButton } from "./fields.js";

const VARIABLES = [
  ["subject", "text; “invoice.fr” for example"],
  ["subject_parts", "the subject, split at each dot"],
  ["properties.NAME", "text, “” if the message lacks it"],
  ["property_keys", "the names of its properties"],
  ["body_json.NAME", "of a JSON object; nil if it is missing, numbers are floats"],
  ["body_text", "the body as text"],
  ["body_size", "its bytes"],
  ["content_type", "text"],
  ["group_id", "text"],
  ["message_id", "text"],
  ["correlation_id", "text"],
  ["reply_to", "text"],
  ["enqueued_at", "when it was sent"],
  ["visible_at", "when it may be delivered"],
];

const OPERATORS = [
  ["and  or  not", "not (a == b) needs its parentheses"],
  ["==  !=  <  <=  >  >=", ""],
  ["contains  startsWith  endsWith", "of texts"],
  ["matches", "a regular expression; anchor it with ^ and $"],
  ["in  not in", "a list, or the keys of a map"],
  ["??", "the left value unless it is nil; put it into parentheses"],
  ["any  all  none  count  len", "of lists: any(body_json.lines, .qty > 3)"],
  ["minutes  hours  days", "lengths of time: visible_at - enqueued_at > hours(1)"],
];

const EXAMPLES = [
  ['subject startsWith "invoice."', "by the beginning of the subject"],
  ['properties.plan == "pro" and properties.region in ["eu", "ch"]', "by properties"],
  ["(body_json.total ?? 0) > 100", "by a number in a JSON body that may be missing"],
  ['any(body_json.lines ?? [], .sku == "B2")', "by one of the lines of an order"],
  ["subject matches `^invoice\\.(fr|de)\\.`", "by a regular expression"],
  ['len(subject_parts) > 2 and subject_parts[2] == "paid"', "by a part of the subject"],
];

// insert(words) puts words where the cursor is.
export function filterGuide(insert) {
  return h(
    "details",
    { class: "guide" },
    h("summary", {}, "What a filter can say"),
    h("h3", {}, "Examples"),
    h(
      "ul",
      {},
      EXAMPLES.map(([expr, meaning]) => example(expr, meaning, insert)),
    ),
    h("h3", {}, "Names"),
    terms(VARIABLES),
    h("h3", {}, "Words and signs"),
    terms(OPERATORS),
    h("p", { class: "hint" }, "A filter that fails on a message does not match it. Failures are counted."),
    copyButton(asText, "Copy all this as text"),
  );
}

function example(expr, meaning, insert) {
  const act = () => insert(expr);
  return h(
    "li",
    { class: "example" },
    h("code", {}, expr),
    h("span", { class: "hint" }, meaning),
    h("button", { type: "button", class: "quiet", "aria-label": `Insert ${expr}`, onclick: act }, "Insert"),
  );
}

function terms(pairs) {
  return h(
    "dl",
    { class: "terms" },
    pairs.map(([name, meaning]) => h("div", {}, h("dt", {}, h("code", {}, name)), h("dd", {}, meaning))),
  );
}

function asText() {
  const lines = (pairs) => pairs.map(([name, meaning]) => `  ${name}${meaning ? ` – ${meaning}` : ""}`);
  return [
    "A filter is one expression that is true or false for a message.",
    "Names:",
    ...lines(VARIABLES),
    "Words and signs:",
    ...lines(OPERATORS),
    "Examples:",
    ...lines(EXAMPLES),
  ].join("\n");
}
