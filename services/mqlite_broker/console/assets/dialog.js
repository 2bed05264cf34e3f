// Questions in a <dialog>: a form, its fields, and an action that may fail and be tried again.
// Used by every page that changes something. The dialog closes when the action has succeeded or the person
// gave up; a failure is shown in it and nothing is lost. Rules: what destroys is confirmed by typing; nothing can
// be typed while the action is under way, so that what is shown is what it does.

import { h, say } from "./dom.js";
import { visible } from "./format.js";

// Resolves to what `act` returned, or to null if the person gave up.
//   title, body: what it is about; body is nodes or texts.
//   action: the word on the button; isDanger colours it.
//   typed: a text that must be typed before the button works.
//   act(): does it; called when the form is sent, and reads the form before it awaits anything. Throws what is to
//   be shown.
//   ready(): whether the button may be pressed, asked after each input.
export function ask({
  title,
  body = [],
  action,
  isDanger = false,
  typed = "",
  act,
  ready = () => true,
  isWide = false,
}) {
  return new Promise((resolve) => {
    const problem = h("p", { class: "problem", role: "alert" });
    const send = h("button", { type: "submit", class: isDanger ? "danger" : "primary" }, action);
    const cancel = h("button", { type: "button" }, "Cancel");
    const heading = h("h2", { id: "dialog-title" }, title);
    const guard = typed ? confirmation(typed) : null;
    const form = h(
      "form",
      {},
      heading,
      body,
      guard?.node,
      problem,
      h("div", { class: "actions" }, cancel, send),
    );
    const dialog = h("dialog", { "aria-labelledby": "dialog-title", class: isWide ? "wide" : "" }, form);
    let isAtWork = false;
    let result = null;
    const judge = () => {
      send.disabled = isAtWork || !ready() || Boolean(guard && !guard.isTyped());
      cancel.disabled = isAtWork;
    };
    cancel.addEventListener("click", () => dialog.close());
    dialog.addEventListener("cancel", (event) => isAtWork && event.preventDefault());
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(result);
    });
    form.addEventListener("input", judge);
    form.addEventListener("change", judge);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      if (send.disabled) return;
      isAtWork = true;
      judge();
      say(problem, "");
      let unlock = () => {};
      try {
        const work = act();
        unlock = locked(form);
        result = (await work) ?? true;
        dialog.close();
      } catch (error) {
        say(problem, error.message);
      }
      unlock();
      isAtWork = false;
      judge();
    });
    document.body.append(dialog);
    judge();
    dialog.showModal();
  });
}

// Takes no typing any more, but clicks on buttons; returns what gives the fields back.
function locked(form) {
  const focused = document.activeElement;
  const open = [...form.elements].filter((each) => each.tagName !== "BUTTON" && !each.disabled);
  for (const each of open) each.disabled = true;
  return () => {
    for (const each of open) each.disabled = false;
    if (open.includes(focused)) focused.focus();
  };
}

// A word that has to be typed; a name that cannot be typed is confirmed by the word "delete".
function confirmation(typed) {
  const word = typed === visible(typed) && typed.trim() === typed && typed.length <= 60 ? typed : "delete";
  const input = h("input", { type: "text", autocomplete: "off", spellcheck: "false", "data-confirm": "" });
  const node = h(
    "label",
    { class: "field" },
    h("span", {}, "Type ", h("strong", {}, word), " to confirm"),
    input,
  );
  return { node, isTyped: () => input.value === word };
}

// Shows something until it is closed.
export function tell({ title, body, isWide = true }) {
  const close = h("button", { type: "button", class: "primary" }, "Close");
  const heading = h("h2", { id: "dialog-title" }, title);
  const dialog = h(
    "dialog",
    { "aria-labelledby": "dialog-title", class: isWide ? "wide" : "" },
    heading,
    body,
    h("div", { class: "actions" }, close),
  );
  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}
