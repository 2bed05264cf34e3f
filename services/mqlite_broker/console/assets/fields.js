// Inputs with their labels and hints: a field is { node, input, value(), problem() }.
// Used inside forms and dialogs. `value()` is what the wire wants; it throws an Error that names the field
// when what was typed is none.

import { h } from "./dom.js";
import { duration, milliseconds } from "./format.js";

let numbers = 0;

function field(label, input, { hint = "", value = () => input.value } = {}) {
  const id = `field-${++numbers}`;
  input.id = id;
  if (hint) input.setAttribute("aria-describedby", `${id}-hint`);
  const node = h(
    "div",
    { class: "field" },
    h("label", { for: id }, label),
    input,
    hint && h("small", { id: `${id}-hint` }, hint),
  );
  return { node, input, value, label };
}

export function text(label, { value = "", hint, required = false, placeholder = "", type = "text" } = {}) {
  const input = h("input", { type, value, placeholder, required, autocomplete: "off", spellcheck: "false" });
  return field(label, input, { hint });
}

export function area(label, { value = "", hint, rows = 6, isCode = true } = {}) {
  const input = h("textarea", { value, rows, class: isCode ? "code" : "", spellcheck: "false" });
  return field(label, input, { hint });
}

export function number(
  label,
  { value = "", hint, min = 0, max = 9_007_199_254_740_991, placeholder = "" } = {},
) {
  const input = h("input", { type: "number", value, min, max, step: 1, placeholder, inputmode: "numeric" });
  const read = () => {
    if (input.value.trim() === "" && !input.validity.badInput) return 0;
    const found = Number(input.value);
    if (!Number.isInteger(found) || input.validity.badInput || found < min || found > max) {
      throw new Error(`${label}: give a whole number from ${min} to ${max}.`);
    }
    return found;
  };
  return field(label, input, { hint, value: read });
}

// A length of time, typed as on the command line and sent as milliseconds; empty is 0.
export function time(
  label,
  { value = 0, hint = "For example 30s, 5m, 1h30m or 14d.", placeholder = "" } = {},
) {
  const input = h("input", {
    type: "text",
    value: value ? duration(value) : "",
    placeholder,
    autocomplete: "off",
  });
  const read = () => {
    if (!input.value.trim()) return 0;
    const found = milliseconds(input.value);
    if (found === null)
      throw new Error(`${label}: “${input.value}” is no duration; use for example 30s, 5m or 14d.`);
    return found;
  };
  return field(label, input, { hint, value: read });
}

export function choice(label, options, { value = "", hint } = {}) {
  const input = h(
    "select",
    {},
    Object.entries(options).map(([each, shown]) => h("option", { value: each }, shown)),
  );
  if (value !== "") input.value = value;
  return field(label, input, { hint });
}

export function check(label, { isOn = false, hint = "" } = {}) {
  const input = h("input", { type: "checkbox" });
  input.checked = isOn;
  const node = h(
    "div",
    { class: "field" },
    h("label", { class: "check" }, input, h("span", {}, label)),
    hint && h("small", {}, hint),
  );
  return { node, input, value: () => input.checked, label };
}

// Properties as lines of "key=value"; as JSON where a line cannot hold one.
export function properties(label, { value = {} } = {}) {
  const pairs = Object.entries(value);
  const isPlain = pairs.every(([name, each]) => name.trim() && !/[=\r\n]/.test(name) && !/[\r\n]/.test(each));
  const input = h("textarea", {
    value: isPlain ? pairs.map((pair) => pair.join("=")).join("\n") : JSON.stringify(value, null, 2),
    rows: 3,
    class: "code",
    spellcheck: "false",
  });
  const hint = isPlain ? "One on each line: key=value." : "A JSON object of texts.";
  return field(label, input, {
    hint,
    value: () => (isPlain ? ofLines(input.value, label) : ofJson(input.value, label)),
  });
}

function ofLines(typed, label) {
  const found = {};
  for (const line of typed.split("\n")) {
    if (!line.trim()) continue;
    const at = line.indexOf("=");
    if (at < 1) throw new Error(`${label}: “${line}” is not key=value.`);
    found[line.slice(0, at)] = line.slice(at + 1);
  }
  return found;
}

function ofJson(typed, label) {
  try {
    const found = JSON.parse(typed);
    if (Object.values(found).every((each) => typeof each === "string")) return found;
  } catch {
    // Said below.
  }
  throw new Error(`${label}: this is no JSON object of texts.`);
}

export function copyButton(text, label = "Copy") {
  const button = h("button", { type: "button", class: "quiet" }, label);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(typeof text === "function" ? text() : text);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select and copy it";
    }
    setTimeout(() => {
      button.textContent = label;
    }, 2000);
  });
  return button;
}
