// Short notes of what was done or went wrong, in a region that screen readers announce.
// A note of success goes by itself; one of a failure stays until it is closed.

import { h } from "./dom.js";

const STAYS_MS = 6000;

export function note(text, { isError = false } = {}) {
  const close = h("button", { type: "button", class: "quiet", "aria-label": "Close this note" }, "×");
  const line = h("div", { class: isError ? "note bad" : "note" }, h("span", {}, text), close);
  close.addEventListener("click", () => line.remove());
  const place = document.getElementById("notes");
  while (place.children.length >= 4) place.firstChild.remove();
  place.append(line);
  if (!isError) setTimeout(() => line.remove(), STAYS_MS);
}

export function noteError(error) {
  note(error.message, { isError: true });
}
