// Signing in: which broker, which token, and what to do where no token is asked for.
// Shown by main.js before there is a session. The token goes from its field into api.js and nowhere else.

import { card, session, signIn, suggested } from "../api.js";
import { busy, h, say } from "../dom.js";
import { text } from "../fields.js";
import { visible } from "../format.js";

export function signInPage({ reason, onDone }) {
  const isFixed = session.reach === "self";
  const address = text("Broker address", {
    value: suggested(),
    placeholder: location.origin,
    type: "url",
    hint: "Empty for the broker that this page came from.",
  });
  const token = text("Token", {
    type: "password",
    hint: "Kept in this tab only, until you sign out or close it.",
  });
  token.input.autocomplete = "current-password";
  // Password managers want a name beside a secret.
  const user = h("input", { type: "text", autocomplete: "username", value: "mqlite", hidden: true });
  const found = h("p", { class: "card-line", role: "status" }, "Looking for the broker…");
  const problem = h("p", { class: "problem", role: "alert" }, reason);
  const send = h("button", { type: "submit", class: "primary" }, "Sign in");
  const without = h("button", { type: "button", hidden: true }, "Continue without a token");
  const form = h(
    "form",
    { class: "panel sign-in" },
    h("h1", {}, "mqlite console"),
    found,
    isFixed ? null : address.node,
    user,
    token.node,
    problem,
    h("div", { class: "actions" }, without, send),
  );

  const base = () => address.input.value.trim().replace(/\/+$/, "");
  const judge = () => {
    send.disabled = !token.input.value;
  };

  async function look() {
    const asked = base();
    try {
      const known = await card(asked);
      if (asked !== base()) return;
      const isOpen = known.auth === "none";
      say(
        found,
        visible(
          `${known.name} ${known.version}, status ${known.status}${isOpen ? ", authentication is off" : ""}`,
        ),
      );
      without.hidden = !isOpen;
    } catch (error) {
      if (asked !== base()) return;
      say(found, error.message);
      without.hidden = true;
    }
  }

  async function enter(secret) {
    say(problem, "");
    try {
      await signIn(base(), secret);
      token.input.value = "";
      onDone();
    } catch (error) {
      say(problem, error.status === 401 ? "This token is wrong, expired or revoked." : error.message);
    }
  }

  address.input.addEventListener("change", look);
  token.input.addEventListener("input", judge);
  without.addEventListener("click", () => busy(without, enter("")));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!send.disabled) busy(send, enter(token.input.value.trim()));
  });
  judge();
  look();
  return h("main", { class: "alone", id: "main" }, form);
}
