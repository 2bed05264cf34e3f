// Where dead letters are: the queues that have some, worst first.
// A row leads to the letters themselves (dead_letter_queue.js).

import { h } from "../dom.js";
import { age, count, rate, visible } from "../format.js";
import { link } from "../router.js";
import { table } from "../table.js";

export default function page() {
  const list = table({
    caption: "Queues with dead letters",
    columns: [
      { id: "queue", label: "Queue", isHead: true, sort: (row) => row.queue, make: nameLink },
      {
        id: "kind",
        label: "Kind",
        width: "8rem",
        isWide: true,
        sort: (row) => row.kind,
        text: (row) => row.kind,
      },
      {
        id: "dead",
        label: "Dead letters",
        isNumber: true,
        width: "8rem",
        sort: (row) => row.dead_lettered,
        text: (row) => count(row.dead_lettered),
        look: () => "bad",
      },
      {
        id: "died",
        label: "New/s",
        isNumber: true,
        width: "6rem",
        sort: (row) => row.died,
        text: (row) => rate(row.died),
      },
      {
        id: "active",
        label: "Active",
        isNumber: true,
        width: "7rem",
        sort: (row) => row.active,
        text: (row) => count(row.active),
      },
      {
        id: "age",
        label: "Oldest active",
        isNumber: true,
        isWide: true,
        width: "8rem",
        sort: (row) => row.oldest_message_age_ms,
        text: (row) => (row.active + row.locked ? age(row.oldest_message_age_ms) : "–"),
      },
    ],
    key: (row) => row.queue,
    sort: ["dead", "down"],
    empty: "There are no dead letters.",
  });
  return {
    title: "Dead letters",
    node: list.node,
    update({ look }) {
      if (!look.queues) list.say("The counts cannot be read at the moment.");
      list.update((look.queues ?? []).filter((row) => row.dead_lettered > 0));
    },
  };
}

function nameLink(row) {
  return h("a", { href: link("dead-letters", row.queue) }, h("bdi", {}, visible(row.queue)));
}
