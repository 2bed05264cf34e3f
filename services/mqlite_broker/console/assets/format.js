// Numbers, sizes, times and foreign texts as a person reads them.
// The way in which instants are shown is chosen in the header and remembered by this browser.

import { fetched, store } from "./api.js";
import { h, say } from "./dom.js";

const MODE = "mqlite.times";
export const DASH = "–"; // not known; never a zero

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

export function count(number) {
  return number === null || number === undefined ? DASH : whole.format(number);
}

export function rate(perSecond) {
  if (perSecond === null || perSecond === undefined) return DASH;
  return perSecond > 0 && perSecond < 0.05 ? "<0.1" : short.format(perSecond);
}

export function bytes(number) {
  if (number === null || number === undefined) return DASH;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let size = Number(number);
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${short.format(size)} ${units[unit]}`;
}

export function seconds(number) {
  if (number === null || number === undefined) return DASH;
  if (number < 0.001) return `${short.format(number * 1e6)} µs`;
  return number < 1 ? `${short.format(number * 1e3)} ms` : `${short.format(number)} s`;
}

// -- durations -----------------------------------------------------------------------------------

const UNITS = [
  ["w", 604_800_000],
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1000],
  ["ms", 1],
];

// Roughly, by its two largest units: "3h 20m".
export function age(ms) {
  if (ms === null || ms === undefined) return DASH;
  let rest = Number(ms);
  if (rest < 1000) return rest <= 0 ? "0s" : "<1s";
  const parts = [];
  for (const [unit, length] of UNITS.slice(1, -1)) {
    const number = Math.floor(rest / length);
    if (!number && !parts.length) continue;
    if (number) parts.push(`${number}${unit}`);
    rest -= number * length;
    if (parts.length === 2 || !number) break;
  }
  return parts.join(" ");
}

// Exactly, as the command line writes it: "1h30m", "250ms".
export function duration(ms) {
  let rest = Number(ms);
  let text = "";
  for (const [unit, length] of UNITS) {
    const number = Math.floor(rest / length);
    if (number) text += `${number}${unit}`;
    rest -= number * length;
  }
  return text || "0s";
}

const PART = /(\d+(?:\.\d+)?)(ms|[smhdw])/gy;

// Milliseconds of "30s", "1h30m", "14d"; null if it is no duration.
export function milliseconds(text) {
  const input = text.trim().toLowerCase();
  if (input === "0") return 0;
  let total = 0;
  let end = 0;
  PART.lastIndex = 0;
  for (let found = PART.exec(input); found; found = PART.exec(input)) {
    total += Number(found[1]) * UNITS.find(([unit]) => unit === found[2])[1];
    end = PART.lastIndex;
  }
  return input && end === input.length ? Math.ceil(total) : null;
}

// -- instants ------------------------------------------------------------------------------------

export const MODES = { relative: "Relative", local: "Local time", utc: "UTC" };
let mode = fetched(localStorage, MODE);

export function timeMode(chosen) {
  if (chosen in MODES) {
    mode = chosen;
    store(localStorage, MODE, chosen);
  }
  return mode in MODES ? mode : "relative";
}

export function instant(ms, now = Date.now()) {
  if (!ms) return DASH;
  const at = Number(ms);
  if (timeMode() === "relative") return at <= now ? `${age(now - at)} ago` : `in ${age(at - now)}`;
  return timeMode() === "utc" ? utc(at) : local(at);
}

// An instant as an element that keeps up: tick() says all of them anew.
export function moment(ms) {
  const node = h("time", {});
  setMoment(node, ms);
  return node;
}

export function setMoment(node, ms) {
  node.dataset.ms = ms || "";
  node.title = ms ? utc(ms) : "";
  say(node, instant(ms));
}

export function tick() {
  for (const node of document.querySelectorAll("time[data-ms]")) {
    say(node, instant(Number(node.dataset.ms)));
  }
}

export function utc(ms) {
  const date = new Date(Number(ms));
  return Number.isNaN(date.getTime()) ? String(ms) : date.toISOString().replace("T", " ");
}

export function local(ms) {
  const date = new Date(Number(ms));
  if (Number.isNaN(date.getTime())) return String(ms);
  const two = (number, digits = 2) => String(number).padStart(digits, "0");
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  const time = [date.getHours(), date.getMinutes(), date.getSeconds()].map((each) => two(each)).join(":");
  return `${day} ${time}.${two(date.getMilliseconds(), 3)}`;
}

// -- foreign texts -------------------------------------------------------------------------------

// Control characters, and those that turn or hide text, as something that can be seen.
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

export function visible(text) {
  return text.replace(UNSEEN, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

// The same for a text of several lines.
export function visibleLines(text) {
  return text.replace(UNSEEN, (each) => (each === "\n" || each === "\t" ? each : visible(each)));
}

export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}
