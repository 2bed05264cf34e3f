// A body as text, as JSON or as bytes, whatever it really is.
// Used wherever a message is shown. Shows a beginning first, since a body may have a megabyte; what cannot be
// seen in a text is written out. JSON is laid out from its own characters, so no number changes.

import { h, say, set } from "./dom.js";
import { copyButton } from "./fields.js";
import { bytes as size, visibleLines } from "./format.js";
import { toText } from "./json.js";

const SHOWN = 64 * 1024; // characters of text
const SHOWN_BYTES = 4096; // as hexadecimal, some four times as long
const DEPTH_MAX = 200; // deeper JSON is a trick, and is shown as text

export function bodyView(content, { name = "body" } = {}) {
  const text = toText(content);
  const laidOut = text === null ? null : layout(text);
  const forms = { Text: text, JSON: laidOut, Hex: "" };
  const pre = h("pre", { class: "body", tabindex: "0", "aria-label": "Body" });
  const more = h("button", { type: "button" }, "Show all");
  const hint = h("span", { class: "hint" });
  const buttons = Object.keys(forms).map((form) =>
    h("button", { type: "button", disabled: forms[form] === null, onclick: () => draw(form, false) }, form),
  );
  let current = "";

  function draw(form, isWhole) {
    current = form;
    for (const each of buttons) set(each, "aria-pressed", String(each.textContent === form));
    const limit = form === "Hex" ? SHOWN_BYTES : SHOWN;
    const length = form === "Hex" ? content.length : forms[form].length;
    const end = isWhole ? length : Math.min(length, limit);
    say(pre, form === "Hex" ? hex(content.subarray(0, end)) : visibleLines(forms[form].slice(0, end)));
    more.hidden = end === length;
  }

  more.addEventListener("click", () => draw(current, true));
  const notUtf8 = text === null ? "It is no UTF-8 text. " : "";
  say(hint, `${notUtf8}${size(content.length)}`);
  draw(text === null ? "Hex" : laidOut ? "JSON" : "Text", false);
  return h(
    "div",
    { class: "stack tight" },
    h(
      "div",
      { class: "bar" },
      h("div", { class: "segments", role: "group", "aria-label": "Show the body as" }, buttons),
      hint,
      h("span", { class: "gap" }),
      text !== null && copyButton(text),
      saveButton(content, name),
    ),
    content.length ? pre : h("p", { class: "empty" }, "The body is empty."),
    more,
  );
}

function saveButton(content, name) {
  return h(
    "button",
    {
      type: "button",
      class: "quiet",
      onclick: () => {
        const address = URL.createObjectURL(new Blob([content], { type: "application/octet-stream" }));
        h("a", { href: address, download: `${name}.bin` }).click();
        setTimeout(() => URL.revokeObjectURL(address), 1000);
      },
    },
    "Save as a file",
  );
}

// -- JSON ----------------------------------------------------------------------------------------

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

// JSON with line breaks and indents, or null if the text is none, is a bare word, or is too deep.
function layout(text) {
  if (!/^\s*[{[]/.test(text)) return null;
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  const out = [];
  let depth = 0;
  let last = "";
  for (const [token] of text.matchAll(TOKEN)) {
    const isClosing = token === "}" || token === "]";
    if (isClosing) depth -= 1;
    const isOpening = last === "{" || last === "[";
    if (isClosing ? !isOpening : isOpening || last === ",") out.push("\n", "  ".repeat(depth));
    out.push(token === ":" ? ": " : token);
    if (token === "{" || token === "[") depth += 1;
    if (depth > DEPTH_MAX) return null;
    last = token;
  }
  return out.join("");
}

// -- bytes ---------------------------------------------------------------------------------------

// Lines of "00000010  48 65 6c 6c 6f …  Hello…".
export function hex(content) {
  const lines = [];
  for (let at = 0; at < content.length; at += 16) {
    const row = [...content.subarray(at, at + 16)];
    const numbers = row.map((each) => each.toString(16).padStart(2, "0")).join(" ");
    const letters = row
      .map((each) => (each >= 0x20 && each < 0x7f ? String.fromCharCode(each) : "·"))
      .join("");
    lines.push(`${at.toString(16).padStart(8, "0")}  ${numbers.padEnd(47)}  ${letters}`);
  }
  return lines.join("\n");
}

// Bytes of "48 65 6c" with any spacing; null if it is none.
export function unhex(text) {
  const digits = text.replace(/\s+/g, "");
  if (digits.length % 2 || !/^[0-9a-fA-F]*$/.test(digits)) return null;
  return Uint8Array.from({ length: digits.length / 2 }, (_, at) =>
    parseInt(digits.slice(at * 2, at * 2 + 2), 16),
  );
}
