// Redrives: dead letters become active again, where they are or in another queue, at a rate, with progress.
// Used by the dead letters of a queue. The console does it in steps of its own, so it can be watched and
// stopped, and a closed tab ends it after the step that is under way.

import { call } from "./api.js";
import { h } from "./dom.js";
import { number, text, time } from "./fields.js";
import { count, plural, visible } from "./format.js";
import { ask } from "./dialog.js";
import { lettersPreview } from "./letters_preview.js";
import { note } from "./notes.js";
import { poll, refresh } from "./poll.js";
import { steps } from "./steps.js";

// The letters with these numbers, each for itself.
export async function redriveSelected(queue, numbers) {
  const form = fields(queue);
  const work = steps(numbers.length);
  const outcomes = {};
  let at = 0; // what was tried stays tried when the button is pressed again after a failure
  const step = async (size, target) => {
    const request = { queue, seq_numbers: numbers.slice(at, at + size), target };
    const reply = await call("AdminService/RedriveSelected", request);
    at += size;
    for (const { outcome } of reply.results) outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
    return { moved: reply.moved, isEnd: at >= numbers.length };
  };
  const done = await ask({
    title: `Redrive ${plural(numbers.length, "dead letter")} of ${visible(queue)}`,
    body: [about(), form.node, work.node],
    action: "Redrive",
    act: () => {
      const target = form.target();
      return work.run(form.rate(), numbers.length, (size) => step(size, target));
    },
  });
  if (done || work.moved) await told(work, missed(outcomes));
}

// All of them, or the oldest; at most as many as there are now, so that letters which die again stay.
export async function redriveAll(queue, letters) {
  const form = fields(queue);
  const most = number("At most", { placeholder: `all ${count(letters)}`, hint: "The oldest first." });
  const old = time("Only those sent longer ago than", { placeholder: "any age" });
  const work = steps(letters);
  const preview = lettersPreview(queue, letters, () => ({ old: old.value(), most: most.value() }));
  for (const { input } of [most, old]) input.addEventListener("input", preview.lookSoon);
  preview.look();
  const act = () => {
    const limit = Math.min(most.value() || letters, letters);
    const asked = { queue, target: form.target(), older_than_ms: old.value() };
    return work.run(form.rate(), limit, async (max) => {
      const { moved } = await call("AdminService/Redrive", { ...asked, max });
      return { moved, isEnd: moved < max || work.moved + moved >= limit };
    });
  };
  const done = await ask({
    title: `Redrive dead letters of ${visible(queue)}`,
    body: [about(), h("div", { class: "grid" }, most.node, old.node), preview.node, form.node, work.node],
    action: "Redrive",
    ready: () => letters > work.moved,
    act,
  });
  if (done || work.moved) await told(work, "");
}

function about() {
  return h(
    "p",
    {},
    "They become active and are delivered again, with their count of deliveries at zero. ",
    h("strong", {}, "What killed them may do so again."),
  );
}

function missed(outcomes) {
  const gone = (outcomes.not_dead_lettered ?? 0) + (outcomes.not_found ?? 0);
  const left = outcomes.not_tried ?? 0;
  return [
    gone ? ` ${plural(gone, "other")} had been moved or deleted by somebody else.` : "",
    left ? ` ${plural(left, "other")} were not reached, because the broker is closing.` : "",
  ].join("");
}

async function told(work, more) {
  note(`Redrove ${plural(work.moved, "message")}.${more}${work.doubt}`, { isError: work.lost > 0 });
  await refresh();
}

function fields(queue) {
  const names = (poll.look?.queues ?? []).map((row) => row.queue).filter((each) => each !== queue);
  const known = h(
    "datalist",
    { id: "redrive-targets" },
    names.slice(0, 500).map((each) => h("option", { value: each })),
  );
  const target = text("To another queue", { placeholder: "stay in this queue" });
  target.input.setAttribute("list", known.id);
  const rate = number("At most so many a second", { placeholder: "as fast as it goes" });
  return {
    node: h("div", { class: "grid" }, target.node, rate.node, known),
    target: () => target.input.value,
    rate: () => rate.value(),
  };
}
