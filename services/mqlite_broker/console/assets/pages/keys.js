// The access keys: newest first, with what became of each; make one, find one by its id, revoke one.
// Asked for when the page opens, is turned, and after a change; keys are not part of the shared look.
// While authentication is off the broker refuses all of this, so nothing is asked and it is said why.

import { call, session } from "../api.js";
import { busy, h, say } from "../dom.js";
import { text } from "../fields.js";
import { count, moment, visible } from "../format.js";
import { createKey, find, isId, keyState, revokeKey, showKey } from "../key_actions.js";
import { table } from "../table.js";

const SIZE = 50;

export default function page() {
  return { title: "Keys", node: session.card.auth === "none" ? whileOff() : keys() };
}

function whileOff() {
  return h(
    "div",
    { class: "panel narrow" },
    h("h2", {}, "Authentication is off"),
    h("p", {}, "Whoever reaches this broker may do everything, so there are no keys to manage."),
    h(
      "p",
      {},
      "Start it with administrators' tokens in ",
      h("code", {}, "MQLITE_TOKENS"),
      ", and make a key here for each program. Keys that were made before work again then.",
    ),
  );
}

function keys() {
  const problem = h("p", { class: "problem", role: "alert" });
  const place = h("span", { class: "hint", role: "status" });
  const list = table({
    caption: "Access keys",
    columns: columns(changed),
    key: (row) => row.id,
    size: SIZE,
    empty: "Asking for the keys…",
  });
  const back = h("button", { type: "button", disabled: true }, "Newer");
  const on = h("button", { type: "button", disabled: true }, "Older");
  const again = h("button", { type: "button" }, "Reload");
  let shown = { cursors: [""], next: "" };

  async function load(cursors) {
    say(problem, "");
    try {
      const request = { after_id: cursors.at(-1), limit: SIZE, sort: "created_desc" };
      const { keys: rows, next_after_id: next = "" } = await call("AuthService/ListKeys", request);
      shown = { cursors, next };
      list.say("No key yet. The tokens of the broker's environment are not listed here.");
      list.update(rows);
      say(place, rows.length ? `Page ${count(cursors.length)}` : "");
    } catch (error) {
      say(problem, error.message);
    }
  }

  // busy() switches a button on again when it is done, so whether there is another page is said after it.
  async function turn(button, cursors) {
    await busy(button, load(cursors));
    back.disabled = shown.cursors.length === 1;
    on.disabled = !shown.next;
  }

  async function changed() {
    await turn(again, shown.cursors);
  }

  back.addEventListener("click", () => turn(back, shown.cursors.slice(0, -1)));
  on.addEventListener("click", () => turn(on, [...shown.cursors, shown.next]));
  again.addEventListener("click", changed);
  turn(again, [""]);
  return h(
    "div",
    { class: "stack" },
    h(
      "div",
      { class: "bar" },
      finder(problem, changed),
      h("span", { class: "gap" }),
      h(
        "button",
        { type: "button", class: "primary", onclick: async () => (await createKey()) && turn(again, [""]) },
        "Create a key",
      ),
    ),
    problem,
    h(
      "div",
      { class: "stack tight" },
      list.node,
      h("div", { class: "bar" }, place, h("span", { class: "gap" }), again, back, on),
    ),
  );
}

// A key by its id, wherever in the list it stands: after a lost answer, or from a log.
function finder(problem, changed) {
  const { node: label, input } = text("Id of a key", { placeholder: "Id of a key: 32 hexadecimal digits" });
  label.classList.add("only-input");
  const button = h("button", { type: "submit" }, "Find");
  const form = h("form", { class: "bar find" }, label, button);
  const run = async () => {
    say(problem, "");
    const id = input.value.trim().toLowerCase();
    try {
      if (!isId(id)) throw new Error("An id has 32 hexadecimal digits.");
      const key = await find(id);
      if (!key) throw new Error(`No key has the id ${id}.`);
      showKey(key, changed);
    } catch (error) {
      say(problem, error.message);
    }
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!button.disabled) busy(button, run());
  });
  return form;
}

function columns(changed) {
  const at = (id, label) => ({
    id,
    label,
    width: "9rem",
    isWide: true,
    make: (row) => (row[id] ? moment(row[id]) : h("span", {}, "never")),
  });
  return [
    { id: "name", label: "Name", isHead: true, make: (row) => opener(row, changed) },
    {
      id: "id",
      label: "Id",
      width: "7.5rem",
      isWide: true,
      make: (row) => h("code", {}, row.id.slice(0, 8), "…"),
    },
    { id: "permissions", label: "May", width: "7.5rem", text: (row) => row.permissions.join(", ") },
    {
      id: "state",
      label: "State",
      width: "6rem",
      text: (row) => keyState(row),
      look: (row) => (keyState(row) === "active" ? "good" : "zero"),
    },
    at("created_at_ms", "Created"),
    at("expires_at_ms", "Expires"),
    { id: "actions", label: "", width: "5.5rem", make: (row) => revoker(row, changed), renew: renewRevoker },
  ];
}

function opener(row, changed) {
  return h(
    "button",
    {
      type: "button",
      class: "quiet inline name",
      onclick: () => showKey(row, changed),
    },
    h("bdi", {}, visible(row.name)),
  );
}

function revoker(row, changed) {
  const button = h(
    "button",
    {
      type: "button",
      class: "quiet",
      "aria-label": `Revoke ${visible(row.name)} (${row.id.slice(0, 8)})`,
      onclick: async () => (await revokeKey(row)) && changed(),
    },
    "Revoke",
  );
  const node = h("span", { class: "row-actions" }, button);
  renewRevoker(node, row);
  return node;
}

function renewRevoker(node, row) {
  node.firstChild.hidden = Boolean(row.revoked_at_ms);
}
