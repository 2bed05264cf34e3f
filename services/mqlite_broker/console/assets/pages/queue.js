// One queue: its counts, why nothing moves, its messages by state, and what can be done with them.
// Also shows a subscription, which is a queue that a topic fills.

import { call, can } from "../api.js";
import { ask } from "../dialog.js";
import { busy, h, say, set } from "../dom.js";
import { explain, explanation, isFine } from "../explain.js";
import { age, count, moment, rate, setMoment, visible } from "../format.js";
import { holder } from "../held.js";
import { openMessage } from "../message_view.js";
import { messageList } from "../messages.js";
import { note, noteError } from "../notes.js";
import { refresh } from "../poll.js";
import { changeQueue, deleteQueue } from "../queue_actions.js";
import { link } from "../router.js";
import { sendMessage } from "../send.js";
import { STATES } from "../snapshot.js";

const NAMES = {
  active: "Active",
  locked: "Locked",
  scheduled: "Scheduled",
  deferred: "Deferred",
  dead_lettered: "Dead letters",
};
const INSTANTS = {
  locked: ["locked_until_ms", "Locked until"],
  scheduled: ["visible_at_ms", "Due"],
  active: ["expires_at_ms", "Expires"],
};

export default function page({ params: { name, state = "active" } }) {
  const place = h("div", {});
  const tabs = stateTabs(name, state);
  const speed = h("p", { class: "hint", role: "status" }, "");
  const why = h("div", { role: "status" });
  const changed = h("p", { class: "hint" });
  const list = can("listen")
    ? messageList({
        queue: name,
        state,
        extra: columns(state),
        onOpen: (row) => open(row.message.seq_number),
      })
    : null;
  const held = holder(name, () => list?.reload());
  let seen = null;

  const ways = (message, close) =>
    actions(name, message, { close, held, onChange: () => list?.reload(), open });
  const open = (seq) => openMessage(name, seq, ways).catch(noteError);

  async function ask_() {
    const answer = await explain(name);
    why.replaceChildren(explanation(answer, open));
    return answer;
  }

  if (can("listen")) {
    explain(name).then(
      (answer) => isFine(answer) || why.replaceChildren(explanation(answer, open)),
      (error) => {
        if (error.status === 404)
          place.replaceChildren(h("p", { class: "empty" }, "There is no queue of this name (any more)."));
      },
    );
    call("QueueService/Stats", { queue: name }).then(
      (stats) => tabs.update(stats),
      () => {},
    );
  }
  place.append(
    h(
      "div",
      { class: "stack" },
      h(
        "div",
        { class: "bar" },
        buttons(name, held, ask_, () => list?.reload()),
      ),
      speed,
      why,
      held.node,
      tabs.node,
      changed,
      list?.node ?? h("p", { class: "empty" }, "This credential may send, and look at nothing."),
    ),
  );

  return {
    title: visible(name),
    node: place,
    update({ look }) {
      const row = look.byName.get(name);
      if (!row) return;
      tabs.update(row);
      const waiting = row.waiters === null ? "" : `, ${count(row.waiters)} waiting to receive`;
      const oldest = row.active + row.locked ? `oldest ${age(row.oldest_message_age_ms)}, ` : "";
      const kind = row.kind === "queue" ? "Queue" : "Subscription";
      say(speed, `${kind}, ${oldest}${rate(row.in)}/s in, ${rate(row.out)}/s done${waiting}`);
      if (seen !== null && seen !== row[state])
        say(changed, "The number of these messages has changed since the list was loaded.");
      seen = row[state];
    },
    leave: () => held.leave(),
  };
}

function stateTabs(name, current) {
  const counts = new Map(STATES.map((state) => [state, h("span", {}, "–")]));
  return {
    node: h(
      "nav",
      { class: "tabs", "aria-label": "States" },
      STATES.map((state) => {
        const tab = h("a", { href: link("queues", name, state) }, NAMES[state], counts.get(state));
        set(tab, "aria-current", state === current ? "page" : null);
        return tab;
      }),
    ),
    update: (row) => STATES.forEach((state) => say(counts.get(state), count(row[state]))),
  };
}

function columns(state) {
  if (state === "dead_lettered") {
    return [{ id: "reason", label: "Died of", text: (row) => visible(row.message.dead_letter_reason ?? "") }];
  }
  const [field, label] = INSTANTS[state] ?? [];
  if (!field) return [];
  return [
    {
      id: field,
      label,
      width: "10rem",
      make: (row) => moment(row.message[field]),
      renew: (node, row) => setMoment(node, row.message[field]),
    },
  ];
}

// -- what can be done with the queue -------------------------------------------------------------

function buttons(name, held, onWhy, onChange) {
  const act = (label, work, look = "") => {
    const button = h("button", { type: "button", class: look }, label);
    button.addEventListener("click", () => busy(button, work()).catch(noteError));
    return button;
  };
  return [
    can("send") && act("Send…", async () => (await sendMessage(name)) && onChange(), "primary"),
    can("listen") &&
      act("Receive one", async () => {
        if (await held.next()) return;
        const answer = await onWhy();
        if (isFine(answer)) note("There is nothing to receive.");
      }),
    can("listen") && act("Why is nothing delivered?", onWhy),
    can("manage") && h("a", { class: "button", href: link("dead-letters", name) }, "Dead letters"),
    h("span", { class: "gap" }),
    can("manage") && act("Settings…", () => changeQueue(name)),
    can("manage") &&
      act(
        "Delete…",
        async () => {
          if (await deleteQueue(name)) location.hash = link("queues");
        },
        "danger",
      ),
  ];
}

// -- what can be done with a message -------------------------------------------------------------

function actions(name, message, { close, held, onChange, open }) {
  const seq = message.seq_number;
  const act = (label, work, look = "") => {
    const button = h("button", { type: "button", class: look }, label);
    button.addEventListener("click", () => busy(button, work()).catch(noteError));
    return button;
  };
  const answer = h("div", { class: "whole" });
  const further = (other) => {
    close();
    open(other);
  };
  const isOurs = message.state === "scheduled" && !message.delivery_count;
  return [
    act("Why is it here?", async () =>
      answer.replaceChildren(explanation(await explain(name, seq), further)),
    ),
    message.state === "deferred" &&
      act("Take it", async () => {
        close();
        if (!(await held.deferred(seq))) note(`Message ${seq} is not deferred any more.`, { isError: true });
      }),
    can("send") &&
      isOurs &&
      act(
        "Cancel…",
        async () => {
          close();
          await cancel(name, seq, onChange);
        },
        "danger",
      ),
    can("manage") &&
      message.state === "dead_lettered" &&
      h("a", { class: "button", href: link("dead-letters", name), onclick: close }, "Go to the dead letters"),
    answer,
  ];
}

async function cancel(queue, seq, onChange) {
  const done = await ask({
    title: `Cancel message ${seq}?`,
    body: h("p", {}, "It was scheduled and has not been delivered. Cancelling deletes it."),
    action: "Cancel the message",
    isDanger: true,
    act: () => call("QueueService/Cancel", { queue, seq_number: seq }),
  });
  if (!done) return;
  note(`Message ${seq} was cancelled.`);
  onChange();
  await refresh();
}
