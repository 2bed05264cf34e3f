// Purges: dead letters deleted for good, after their number was seen and the queue's name typed.
// Used by the dead letters of a queue. Deletes at most as many as the person was told of.

import { call } from "./api.js";
import { ask } from "./dialog.js";
import { h } from "./dom.js";
import { time } from "./fields.js";
import { count, plural, visible } from "./format.js";
import { lettersPreview } from "./letters_preview.js";
import { note } from "./notes.js";
import { refresh } from "./poll.js";
import { steps } from "./steps.js";

export async function purgeLetters(queue, letters) {
  const old = time("Only those sent longer ago than", { placeholder: "any age" });
  const preview = lettersPreview(queue, letters, () => ({ old: old.value(), most: 0 }));
  old.input.addEventListener("input", preview.lookSoon);
  preview.look();
  const work = steps(letters);
  const act = () => {
    const asked = { queue, older_than_ms: old.value() };
    return work.run(0, letters, async (max) => {
      const { purged } = await call("AdminService/Purge", { ...asked, max });
      return { moved: purged, isEnd: purged < max || work.moved + purged >= letters };
    });
  };
  const done = await ask({
    title: `Purge dead letters of ${visible(queue)}`,
    body: [
      h(
        "p",
        {},
        h("strong", {}, `Up to ${plural(letters, "dead letter")}`),
        " will be deleted, the oldest first. ",
        "Nothing brings them back; what you want to keep, redrive or edit first.",
      ),
      old.node,
      preview.node,
      work.node,
    ],
    action: letters ? `Purge up to ${count(letters)}` : "Nothing to purge",
    isDanger: true,
    typed: queue,
    ready: () => letters > work.moved,
    act,
  });
  if (!done && !work.moved) return;
  note(`Purged ${plural(work.moved, "dead letter")}.${work.doubt}`, { isError: work.lost > 0 });
  await refresh();
}
