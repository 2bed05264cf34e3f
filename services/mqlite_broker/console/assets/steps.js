// Long work in steps: one bounded call after the other, at a rate, with a bar and a way to stop.
// Used by redrives and purges. A closed tab ends the work after the step that is under way.
// Rule: what may have been done counts as done, so that a total is never passed; whoever goes on has looked again.

import { h, say } from "./dom.js";
import { count } from "./format.js";

const STEP = 256; // messages of one call: the broker does them in one transaction, so a refused step did nothing
const SECOND_MS = 1000; // of paced work, divided where a step holds less than a second's share

// expected: how many there are. run(rate, total, step) resolves when `total` are done, `step` says so, or somebody
// stopped it; step(size) → { moved, isEnd } does the next `size` of them, never 0, which would be no bound on the
// wire. `moved` counts over repeated runs. What a step needs of a form is read before the run, not in the step.
// A step whose answer is lost ends the work: `lost` is its size, and `doubt` says what a person has to know.
export function steps(expected) {
  const bar = h("progress", { max: Math.max(1, expected), value: 0, "aria-label": "Progress" });
  const line = h("span", { class: "hint", role: "status" });
  const stop = h("button", { type: "button" }, "Stop");
  const node = h(
    "div",
    { class: "stack tight", hidden: true },
    bar,
    h("div", { class: "bar" }, line, h("span", { class: "gap" }), stop),
  );
  let isStopped = false;
  stop.addEventListener("click", () => {
    isStopped = true;
  });
  const work = {
    node,
    moved: 0,
    lost: 0,
    doubt: "",
    async run(rate, total, step) {
      node.hidden = false;
      isStopped = false;
      bar.max = Math.max(1, total);
      for (;;) {
        const size = Math.min(rate || STEP, STEP, total - work.moved);
        if (size <= 0) return true; // an earlier run has done as many
        let done;
        try {
          done = await step(size);
        } catch (error) {
          if (!error.isUnsure) throw error;
          work.lost = size;
          work.doubt = ` Perhaps up to ${count(size)} more: look before you go on. ${error.message}`;
          return true;
        }
        const { moved, isEnd } = done;
        work.moved += moved;
        bar.value = work.moved;
        say(line, `${count(work.moved)} of ${count(total)}`);
        if (isEnd || isStopped) return true;
        if (rate) await new Promise((resolve) => setTimeout(resolve, (SECOND_MS * size) / rate));
      }
    },
  };
  return work;
}
