// Make, show, find and revoke an access key, each in a dialog.
// Used by the page of the keys. A key's id is chosen here and shown before the request leaves, so that a key
// whose answer was lost can be looked up and revoked. A token is shown once, in one dialog, and is gone from
// the page when that closes; it is kept nowhere.

import { call, newId, session } from "./api.js";
import { ask, tell } from "./dialog.js";
import { busy, h, say } from "./dom.js";
import { check, copyButton, text, time } from "./fields.js";
import { moment, visible } from "./format.js";
import { note } from "./notes.js";

const RIGHTS = {
  send: ["Send", "send, schedule and cancel messages, in every queue"],
  listen: ["Listen", "receive, settle and look at messages, in every queue"],
  manage: ["Manage", "everything, also to make further keys"],
};

export function isId(id) {
  return /^[0-9a-f]{32}$/.test(id);
}

export function keyState(key, now = Date.now()) {
  if (key.revoked_at_ms) return "revoked";
  return key.expires_at_ms && key.expires_at_ms <= now ? "expired" : "active";
}

// The key of an id, revoked and expired ones too; null if there is none.
export async function find(id) {
  const before = BigInt(`0x${id}`) - 1n; // the list begins behind a key
  const after_id = before < 0n ? "" : before.toString(16).padStart(32, "0");
  const { keys } = await call("AuthService/ListKeys", { after_id, limit: 1, sort: "id_asc" });
  return keys[0]?.id === id ? keys[0] : null;
}

// -- making --------------------------------------------------------------------------------------

// Resolves to whether there may be a key that was not there before.
export async function createKey() {
  const fields = {
    id: text("Id", {
      value: newId(),
      hint: "Note it before you create the key: should the answer be lost, it is how the key is found.",
    }),
    name: text("Name", { required: true, hint: "Of the program that will use it." }),
    lifetime: time("Expires after", { placeholder: "never", hint: "For example 90d." }),
  };
  const rights = Object.entries(RIGHTS).map(([right, [label, hint]]) => [right, check(label, { hint })]);
  const lost = lostAnswer(fields.id);
  fields.id.input.classList.add("code");
  const made = await ask({
    title: "Create a key",
    body: [
      fields.name.node,
      h(
        "fieldset",
        {},
        h("legend", {}, "It may"),
        rights.map(([, field]) => field.node),
      ),
      fields.lifetime.node,
      fields.id.node,
      lost.node,
    ],
    action: "Create",
    ready: () =>
      isId(fields.id.input.value) &&
      fields.name.input.value !== "" &&
      rights.some(([, field]) => field.value()),
    act: async () => {
      const lifetime = fields.lifetime.value();
      const request = {
        id: fields.id.input.value,
        name: fields.name.input.value,
        permissions: rights.filter(([, field]) => field.value()).map(([right]) => right),
        expires_at_ms: lifetime ? Date.now() + lifetime : 0,
      };
      try {
        return await call("AuthService/CreateKey", request);
      } catch (error) {
        lost.judge(error);
        throw error;
      }
    },
  });
  if (made) showSecret(made);
  return Boolean(made) || lost.isOpen();
}

// What to do when nobody can say whether the key was made.
function lostAnswer(idField) {
  const finding = h("p", { role: "status" });
  const look = h("button", { type: "button" }, "Look the id up");
  const revoke = h("button", { type: "button", class: "danger", hidden: true }, "Revoke it");
  const node = h(
    "div",
    { class: "why-line", hidden: true },
    finding,
    h("div", { class: "bar" }, look, revoke),
  );
  const attempt = async (act) => {
    try {
      await act();
    } catch (error) {
      say(finding, error.message);
    }
  };
  look.addEventListener("click", () =>
    busy(
      look,
      attempt(async () => {
        const key = await find(idField.input.value);
        revoke.hidden = !key || Boolean(key.revoked_at_ms);
        if (!key) say(finding, "No key has this id by now. You can create it with the same id.");
        else if (key.revoked_at_ms) anew("It was made, and is revoked.");
        else say(finding, "It was made. Revoke it, and create another with a new id.");
      }),
    ),
  );
  revoke.addEventListener("click", () =>
    busy(
      revoke,
      attempt(async () => {
        await call("AuthService/RevokeKey", { id: idField.input.value });
        anew("It was made, and is revoked now.");
        revoke.hidden = true;
      }),
    ),
  );
  const anew = (lead) => {
    idField.input.value = newId();
    say(finding, `${lead} There is a new id above for another.`);
  };
  return {
    node,
    isOpen: () => !node.hidden,
    judge({ isUnsure, code }) {
      if (!isUnsure && code !== "key_conflict") return;
      say(finding, "The key may have been made all the same; then nobody has its token.");
      node.hidden = false;
    },
  };
}

// The only place where a token is shown. Closing takes a click on the button that says so.
function showSecret({ key, token }) {
  const secret = h("input", {
    type: "text",
    class: "code",
    value: token,
    readonly: true,
    "aria-label": "Token",
  });
  secret.addEventListener("focus", () => secret.select());
  const dialog = tell({
    title: `The token of ${visible(key.name)}`,
    body: [
      h("p", { class: "why-line" }, "It is shown this once. The broker keeps no copy, so store it now."),
      h("div", { class: "secret" }, secret, copyButton(token)),
      facts(key),
    ],
  });
  dialog.addEventListener("cancel", (event) => event.preventDefault());
  dialog.addEventListener("close", () => {
    secret.value = "";
  });
}

// -- one key -------------------------------------------------------------------------------------

export function showKey(key, onChange) {
  const revoke = h("button", { type: "button", class: "danger" }, "Revoke");
  const dialog = tell({
    title: `Key ${visible(key.name)}`,
    body: [facts(key), key.revoked_at_ms ? null : h("div", { class: "bar" }, revoke)],
  });
  revoke.addEventListener("click", async () => {
    dialog.close();
    if (await revokeKey(key)) onChange();
  });
}

function facts(key) {
  const row = (title, value) => h("div", {}, h("dt", {}, title), h("dd", {}, value));
  return h(
    "dl",
    { class: "facts" },
    row("Id", h("code", {}, key.id)),
    row("May", key.permissions.join(", ")),
    row("State", keyState(key)),
    row("Created", moment(key.created_at_ms)),
    row("Expires", key.expires_at_ms ? moment(key.expires_at_ms) : "never"),
    key.revoked_at_ms ? row("Revoked", moment(key.revoked_at_ms)) : null,
  );
}

// Whether this session's token is that of a key: true or false, or null where nobody can tell, since browsers
// hash on https and on this machine only. The token itself is in the header of the call and not in its body.
async function isOwn({ id }) {
  if (!session.token.startsWith("mqk_")) return false;
  try {
    const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(session.token));
    const { keys } = await call("AuthService/ListKeys", { token_sha256: hexadecimal(digest), limit: 1 });
    return keys[0]?.id === id;
  } catch {
    return null;
  }
}

function hexadecimal(digest) {
  return Array.from(new Uint8Array(digest), (each) => each.toString(16).padStart(2, "0")).join("");
}

const SESSION = new Map([
  [true, "You are signed in with this key: revoking it ends your session."],
  [null, "If it is the one you are signed in with, this ends your session too."],
]);

// Resolves to whether it was revoked.
export async function revokeKey(key) {
  const start = key.id.slice(0, 8);
  const own = key.permissions.includes("manage") ? await isOwn(key) : false;
  const gone = await ask({
    title: `Revoke ${visible(key.name)}?`,
    body: [
      facts(key),
      h("p", {}, "From its next request on it is refused, for good. Keys that it made stay valid."),
      SESSION.has(own) && h("p", { class: own ? "why-line" : null }, SESSION.get(own)),
    ],
    action: own ? "Revoke it and sign out" : "Revoke the key",
    isDanger: true,
    typed: start,
    act: () => call("AuthService/RevokeKey", { id: key.id }),
  });
  if (gone) note(`Revoked ${visible(key.name)} (${start}).`);
  return Boolean(gone);
}
