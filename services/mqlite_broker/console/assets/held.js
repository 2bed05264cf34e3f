// One message held under a lock: received here, shown, and settled by a button.
// Used by a queue's page. What is still held when the page goes is given back as if it had not been delivered,
// and deferred again if it was deferred: active, it would go to any consumer. What the tab takes along comes
// back when its lock ends.

import { call, newId } from "./api.js";
import { ask } from "./dialog.js";
import { busy, h, say } from "./dom.js";
import { area, text, time } from "./fields.js";
import { age, visible } from "./format.js";
import { messageView } from "./message_view.js";
import { note, noteError } from "./notes.js";
import { refresh } from "./poll.js";

const DEFERRED = "QueueService/ReceiveDeferred";

// onChange() is called when a message was taken or settled.
export function holder(queue, onChange) {
  const node = h("section", { class: "panel held", hidden: true, "aria-label": "The message that you hold" });
  const rest = h("span", { class: "hint" });
  let held = null;
  let wasDeferred = false;
  let clock = 0;

  function show(message) {
    held = message;
    clearInterval(clock);
    node.hidden = !message;
    node.replaceChildren();
    if (!message) return;
    node.append(
      h("div", { class: "bar" }, h("h2", { tabindex: "-1" }, `You hold message ${message.seq_number}`), rest),
      messageView(message),
      h("div", { class: "actions" }, buttons()),
    );
    clock = setInterval(count, 1000);
    count();
    node.querySelector("h2").focus();
  }

  function count() {
    const left = held.locked_until_ms - Date.now();
    say(rest, left > 0 ? `for another ${age(left)}` : "The lock has ended: it goes back to the queue.");
  }

  function buttons() {
    const button = (label, act, look = "") => {
      const made = h("button", { type: "button", class: look }, label);
      made.addEventListener("click", () => busy(made, act()).catch(noteError));
      return made;
    };
    return [
      button("Hold longer", renew),
      button("Give back", giveBack),
      button("Try again later…", retry),
      button("Defer", () => settle("Defer", {}, "was set aside; it stands under Deferred.")),
      button("Reject…", reject, "danger"),
      button("Complete…", complete, "danger"),
    ];
  }

  const lease = () => ({ seq_number: held.seq_number, lock_token: held.lock_token });

  async function settle(verb, more, what) {
    const seq = held.seq_number;
    await call(`QueueService/${verb}`, { queue, ...lease(), ...more });
    await over(`Message ${seq} ${what}`);
  }

  async function over(what) {
    show(null);
    note(what);
    onChange();
    await refresh();
  }

  async function renew() {
    const reply = await call("QueueService/RenewBatch", { queue, messages: [lease()] });
    const [result] = reply.results;
    if (!result.ok) throw new Error("The lock has ended; the message is not held any more.");
    held = { ...held, locked_until_ms: result.locked_until_ms };
    count();
  }

  // Resolves to whether it was held still.
  async function putBack() {
    if (!wasDeferred) {
      const reply = await call("QueueService/Release", { queue, messages: [lease()] });
      return reply.results[0].ok;
    }
    try {
      await call("QueueService/Defer", { queue, ...lease() });
    } catch (error) {
      if (error.code !== "lock_lost") throw error;
      return false;
    }
    return true;
  }

  async function giveBack() {
    const seq = held.seq_number;
    const how = wasDeferred ? "was set aside again." : "went back, uncounted.";
    const isBack = await putBack();
    await over(isBack ? `Message ${seq} ${how}` : `The lock of message ${seq} had ended already.`);
  }

  async function retry() {
    const delay = time("After", { value: 60_000 });
    await ask({
      title: `Try message ${held.seq_number} again later`,
      body: [
        h("p", {}, "This counts as a failed delivery; after the last one allowed it becomes a dead letter."),
        delay.node,
      ],
      action: "Put it back",
      act: () => settle("Abandon", { delay_ms: delay.value() }, "will be delivered again."),
    });
  }

  async function reject() {
    const reason = text("Reason", { placeholder: "AppRequested" });
    const description = area("Description", { rows: 3, isCode: false });
    await ask({
      title: `Make message ${held.seq_number} a dead letter`,
      body: [
        h("p", {}, "It stays in this queue, among the dead letters, until somebody redrives or purges it."),
        reason.node,
        description.node,
      ],
      action: "Reject",
      isDanger: true,
      act: () => {
        const more = { dead_letter_reason: reason.value(), dead_letter_description: description.value() };
        return settle("Reject", more, "is a dead letter now.");
      },
    });
  }

  async function complete() {
    await ask({
      title: `Complete message ${held.seq_number}?`,
      body: h(
        "p",
        {},
        "Completing says that it was handled: it is removed from ",
        h("bdi", {}, visible(queue)),
        " for good.",
      ),
      action: "Complete",
      isDanger: true,
      act: () => settle("Complete", {}, "is done and gone."),
    });
  }

  async function take(name, request) {
    if (held) throw new Error(`You hold message ${held.seq_number} already; settle it first.`);
    const { messages } = await call(name, request);
    if (messages.length) {
      wasDeferred = name === DEFERRED;
      show(messages[0]);
      onChange();
      await refresh();
    }
    return messages.length > 0;
  }

  return {
    node,
    // The next message, if one can be delivered now. Resolves to whether there was one.
    next: () => take("QueueService/Receive", { queue, max_messages: 1, receive_attempt_id: newId() }),
    // A deferred one by its number.
    deferred: (seq) => take(DEFERRED, { queue, seq_numbers: [seq] }),
    leave() {
      clearInterval(clock);
      if (!held) return;
      const seq = held.seq_number;
      const how = wasDeferred ? "was set aside again" : "went back";
      const told = (isBack) =>
        note(
          isBack
            ? `Message ${seq} ${how}, because you left its page.`
            : `The lock of message ${seq} had ended already.`,
        );
      putBack().then(told, noteError).finally(refresh);
      held = null;
    },
  };
}
