// The text of a filter, checked by the broker while it is typed, and tried on a sample message.
// Used by the dialogs of subscriptions.js. Whether a filter is right is the broker's word alone (TestFilter),
// so what is said here is what a publish will do. Nothing is stored by a check.

import { call } from "./api.js";
import { h, say, set } from "./dom.js";
import { area } from "./fields.js";
import { filterGuide } from "./filter_guide.js";
import { visibleLines } from "./format.js";
import { sampleForm } from "./sample.js";

const PAUSE_MS = 350; // between the last key and the check

// Returns { node, value(), isRefused(), leave() }. isRefused: the broker said no to this very text. A change
// event tells the dialog around it when that changed.
export function filterEditor(expr = "") {
  const field = area("Filter", { value: expr, rows: 4, hint: "Empty: every message." });
  const verdict = h("p", { class: "verdict", role: "status" });
  const outcome = h("p", { class: "verdict", role: "status" });
  const sample = sampleForm();
  const trial = h(
    "details",
    { class: "trial" },
    h("summary", {}, "Try it on a sample message"),
    sample.node,
    outcome,
  );
  const state = { timer: 0, asking: null, refused: null };

  async function check() {
    clearTimeout(state.timer);
    state.asking?.abort();
    const mine = (state.asking = new AbortController());
    const expr = field.input.value;
    const { message, problem } = trial.open ? sampled(sample) : {};
    try {
      const found = await call("AdminService/TestFilter", { expr, message }, { signal: mine.signal });
      state.refused = found.valid ? null : expr;
      tell(verdict, ...validity(found, expr));
      if (problem) tell(outcome, problem, "bad");
      else tell(outcome, ...(message && found.valid ? match(found) : ["", ""]));
    } catch (error) {
      if (mine.signal.aborted) return;
      tell(verdict, error.message, "bad");
      tell(outcome, "", "");
    }
    node.dispatchEvent(new Event("change", { bubbles: true }));
  }

  function later() {
    clearTimeout(state.timer);
    state.timer = setTimeout(check, PAUSE_MS);
  }

  const insert = (words) => {
    const { selectionStart: start, selectionEnd: end } = field.input;
    const gap = /\S$/.test(field.input.value.slice(0, start)) ? " " : "";
    field.input.setRangeText(gap + words, start, end, "end");
    field.input.focus();
    check();
  };
  field.input.addEventListener("input", later);
  sample.node.addEventListener("input", later);
  trial.addEventListener("toggle", later);
  field.node.append(verdict);
  const node = h("div", { class: "filter-editor" }, field.node, trial, filterGuide(insert));
  check();
  return {
    node,
    value: () => field.input.value,
    isRefused: () => state.refused !== null && state.refused === field.input.value,
    leave() {
      clearTimeout(state.timer);
      state.asking?.abort();
    },
  };
}

function sampled(sample) {
  try {
    return { message: sample.value() };
  } catch (error) {
    return { problem: error.message };
  }
}

function tell(place, words, look) {
  say(place, words);
  set(place, "data-look", look || null);
}

function validity(found, expr) {
  if (!found.valid) return [visibleLines(found.error), "bad"];
  return [expr.trim() ? "Valid." : "Every message matches.", "good"];
}

// What TestFilter said about a sample, in words and with the look they deserve.
export function match(found) {
  if (found.error) {
    return [`It fails on this message, which counts as no match: ${visibleLines(found.error)}`, "warn"];
  }
  return found.matched ? ["This message matches.", "good"] : ["This message does not match.", ""];
}
