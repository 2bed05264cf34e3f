// Which dead letters an action would begin with: their first numbers, looked up again as its bounds change.
// Used in the dialogs of redrives and purges, which take the oldest first. A look that fails says so and stops
// nobody: the action asks the broker anyway.

import { call } from "./api.js";
import { h, say } from "./dom.js";
import { count } from "./format.js";

const SHOWN = 5;
const WAIT_MS = 300; // after the last key

// bounds() → { old, most }: an age in milliseconds and a number, 0 for none; it may throw while somebody types.
export function lettersPreview(queue, letters, bounds) {
  const node = h("p", { class: "hint", role: "status" }, "Looking which come first…");
  let timer = 0;
  let latest = 0;

  async function look() {
    const mine = ++latest;
    const text = await told(queue, letters, bounds);
    if (mine === latest) say(node, text);
  }

  return {
    node,
    look,
    lookSoon() {
      clearTimeout(timer);
      timer = setTimeout(look, WAIT_MS);
    },
  };
}

async function told(queue, letters, bounds) {
  try {
    const { old, most } = bounds();
    const limit = Math.min(most || letters, letters);
    const before = old ? Date.now() - old : 0;
    const request = {
      queue,
      state: "dead_lettered",
      enqueued_before_ms: before,
      max: Math.min(SHOWN, limit || 1),
    };
    const { messages, next_page_token: more } = await call("QueueService/Search", request);
    const numbers = messages.map(({ message }) => String(message.seq_number));
    if (!numbers.length)
      return more ? "None among the first that were looked at." : "There is none like that.";
    const rest = more && numbers.length < limit ? ", …" : "";
    const lead = numbers.length === 1 ? "Begins with message" : "Begins with messages";
    return `${lead} ${numbers.join(", ")}${rest}; at most ${count(limit)}.`;
  } catch (error) {
    return error.message;
  }
}
