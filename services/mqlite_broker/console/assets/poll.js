// The one look at the broker that every page shares: an Observe call every few seconds.
// Pages get each snapshot through `update`; main.js shows when the last one failed. It rests while the
// tab is hidden, and for a credential that may not observe. What is remembered lives in this tab only.
// Rule: one call per look, whatever is shown, and never two at a time.

import { call, can } from "./api.js";
import { Look } from "./snapshot.js";

export const INTERVAL_MS = 5000;
const KEPT = 180; // a quarter of an hour

const listeners = new Set();
let timer = 0;
let asking = null;
let generation = 0;

export const poll = { look: null, looks: [], error: null, isOn: false, number: 0 };

// Calls `listener(poll)` after each look, successful or not. Returns the way to stop it.
export function watch(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function start() {
  stop();
  poll.isOn = can("monitor");
  refresh();
}

export function stop() {
  clearTimeout(timer);
  generation += 1;
  asking = null;
  Object.assign(poll, { look: null, looks: [], error: null, isOn: false });
}

// Looks now, after something was changed for example; waits for a look that is under way.
export async function refresh() {
  if (!poll.isOn) return;
  clearTimeout(timer);
  asking ??= look(generation);
  await asking;
}

async function look(mine) {
  let found = null;
  let error = null;
  try {
    found = new Look(await call("AdminService/Observe"), poll.look);
  } catch (failure) {
    error = failure;
  }
  if (mine !== generation) return;
  asking = null;
  poll.error = error;
  poll.number += 1;
  if (found) remember(found);
  for (const listener of [...listeners]) listener(poll);
  if (!document.hidden) timer = setTimeout(refresh, INTERVAL_MS);
}

function remember(found) {
  const isRestarted = poll.look && poll.look.startedAt !== found.startedAt;
  poll.looks = [...(isRestarted ? [] : poll.looks), found.summary()].slice(-KEPT);
  poll.look = found;
}

document.addEventListener("visibilitychange", () => {
  clearTimeout(timer);
  if (!document.hidden) refresh();
});
