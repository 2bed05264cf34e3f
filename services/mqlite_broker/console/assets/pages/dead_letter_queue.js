// The dead letters of one queue: look at them, put them back as they are or mended, or delete them.
// The page is the list; what changes something asks first, in redrive.js, resubmit.js and purge.js.

import { call } from "../api.js";
import { busy, h, say } from "../dom.js";
import { count, visible } from "../format.js";
import { openMessage } from "../message_view.js";
import { messageList } from "../messages.js";
import { noteError } from "../notes.js";
import { purgeLetters } from "../purge.js";
import { redriveAll, redriveSelected } from "../redrive.js";
import { resubmit } from "../resubmit.js";
import { link } from "../router.js";

export default function page({ params: { name } }) {
  const total = h("strong", {}, "–");
  const changed = h("p", { class: "hint", role: "status" });
  const chosen = button("Redrive selected…", () =>
    redriveSelected(name, numbers(list.selected())).then(reload),
  );
  let letters = 0;
  let seen = null;
  const list = messageList({
    queue: name,
    state: "dead_lettered",
    isSelectable: true,
    extra: [
      { id: "reason", label: "Died of", text: (row) => visible(row.message.dead_letter_reason ?? "") },
      {
        id: "text",
        label: "Description",
        isWide: true,
        text: (row) => visible(row.message.dead_letter_description ?? ""),
      },
    ],
    onOpen: (row) => open(row.message.seq_number),
    onSelect: (number) => {
      chosen.disabled = !number;
      say(chosen, number ? `Redrive ${count(number)} selected…` : "Redrive selected…");
    },
  });

  const open = (seq) =>
    openMessage(name, seq, (message, close) => actions(name, message, close, reload)).catch(noteError);

  function reload() {
    say(changed, "");
    seen = null;
    recount();
    return list.reload();
  }

  const show = (number) => {
    letters = number;
    say(total, count(number));
    if (seen !== null && seen !== number)
      say(changed, "There are more or fewer than when the list was loaded.");
    seen = number;
  };
  const recount = () =>
    call("QueueService/Stats", { queue: name }).then((stats) => show(stats.dead_lettered), noteError);

  recount();
  return {
    title: `Dead letters of ${visible(name)}`,
    node: h(
      "div",
      { class: "stack" },
      h(
        "div",
        { class: "bar" },
        h(
          "span",
          {},
          total,
          " dead letters in ",
          h("a", { href: link("queues", name) }, h("bdi", {}, visible(name))),
        ),
        h("span", { class: "gap" }),
        chosen,
        button("Redrive many…", () => redriveAll(name, letters).then(reload)),
        button("Purge…", () => purgeLetters(name, letters).then(reload), "danger"),
      ),
      changed,
      list.node,
    ),
    update({ look }) {
      const row = look.byName.get(name);
      if (row) show(row.dead_lettered);
    },
  };
}

function numbers(rows) {
  return rows.map((row) => row.message.seq_number);
}

function button(label, work, look = "") {
  const made = h("button", { type: "button", class: look }, label);
  made.addEventListener("click", () => busy(made, work()).catch(noteError));
  return made;
}

function actions(name, message, close, reload) {
  if (message.state !== "dead_lettered") return [];
  const seq = message.seq_number;
  const then = (work) => async () => {
    close();
    await work();
    await reload();
  };
  return [
    button(
      "Edit and resubmit…",
      then(() => resubmit(name, message)),
      "primary",
    ),
    button(
      "Redrive as it is…",
      then(() => redriveSelected(name, [seq])),
    ),
  ];
}
