// The start: sign in if need be, then the frame around the pages, its freshness and its end.
// Called by index.html. Owns the frame; pages are the router's business.

import { forget, remembered, session, signIn, store } from "./api.js";
import { h, say, set } from "./dom.js";
import { instant, local, MODES, tick, timeMode, visible } from "./format.js";
import { poll, refresh, start, stop, watch } from "./poll.js";
import { leave, link, menu, show } from "./router.js";
import { signInPage } from "./pages/sign_in.js";

const app = document.getElementById("app");
let unwatch = () => {};

async function begin() {
  session.onEnd = (reason) => end(reason);
  const known = remembered();
  if (!known) return signInFirst("");
  try {
    await signIn(known.base, known.token);
  } catch (error) {
    if (error.status === 401 || error.status === 403) forget();
    return signInFirst(error.message);
  }
  return frame();
}

function signInFirst(reason) {
  document.title = "Sign in · mqlite";
  app.replaceChildren(signInPage({ reason, onDone: frame }));
}

function end(reason) {
  window.onhashchange = null;
  unwatch();
  leave();
  stop();
  forget();
  for (const dialog of document.querySelectorAll("dialog")) dialog.close();
  signInFirst(reason);
}

// -- the frame -----------------------------------------------------------------------------------

function frame() {
  const nav = h(
    "nav",
    { "aria-label": "Pages" },
    menu().map((route) => h("a", { href: link(route.at) }, route.menu)),
  );
  const heading = h("h1", { tabindex: "-1" });
  const place = h("div", { class: "page" });
  const main = h("main", { id: "main" }, heading, place);
  const stale = staleBanner();
  const fresh = h("span", { class: "hint fresh" });
  const skip = h(
    "a",
    {
      class: "skip",
      href: "#main",
      onclick: (event) => {
        event.preventDefault();
        heading.focus();
      },
    },
    "Skip to content",
  );
  app.replaceChildren(skip, header(fresh), nav, stale.node, main);

  const turn = () =>
    show(place, (route, title) => {
      say(heading, title);
      for (const each of nav.children) {
        const isIt = route && each.hash === link(route.under ?? route.at);
        set(each, "aria-current", isIt ? "page" : null);
        if (isIt) each.scrollIntoView({ block: "nearest", inline: "nearest" });
      }
      if (turns++) heading.focus({ preventScroll: true });
      window.scrollTo(0, 0);
    });
  let turns = 0;
  window.onhashchange = turn;
  unwatch = watch(() => {
    stale.update();
    tick();
    fresh.dataset.looks = poll.number;
    say(fresh, poll.look ? `as of ${local(poll.look.readAt).slice(11, 19)}` : "");
  });
  start();
  turn();
}

function header(fresh) {
  const times = h(
    "select",
    { "aria-label": "How times are shown" },
    Object.entries(MODES).map(([each, shown]) => h("option", { value: each }, shown)),
  );
  times.value = timeMode();
  times.addEventListener("change", () => {
    timeMode(times.value);
    tick();
  });
  const name = `${session.card.name} ${session.card.version}`;
  return h(
    "header",
    { class: "top" },
    h("a", { class: "brand", href: "#/" }, "mqlite"),
    h(
      "span",
      { class: "broker" },
      h("span", { class: "dot", "aria-hidden": "true" }),
      visible(session.base ? `${name} at ${session.base}` : name),
    ),
    fresh,
    h("span", { class: "gap" }),
    times,
    themeButton(),
    h("button", { type: "button", onclick: () => end("") }, session.token ? "Sign out" : "Leave"),
  );
}

function themeButton() {
  const root = document.documentElement;
  const isDark = () =>
    (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) ===
    "dark";
  const button = h("button", { type: "button" });
  const name = () => {
    say(button, isDark() ? "Light" : "Dark");
    set(button, "aria-label", isDark() ? "Use the light theme" : "Use the dark theme");
  };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    store(localStorage, "mqlite.theme", root.dataset.theme);
    name();
  });
  name();
  return button;
}

// Says that what is shown is old, and why. It keeps its place, so that nothing jumps.
function staleBanner() {
  const text = h("span", {});
  const again = h("button", { type: "button", onclick: () => refresh() }, "Try now");
  const node = h("div", { class: "stale", role: "status", hidden: true }, text, again);
  return {
    node,
    update() {
      const { error, look } = poll;
      node.hidden = !error;
      document.body.classList.toggle("is-stale", Boolean(error));
      if (error)
        say(
          text,
          `${error.message} ${look ? `What you see is from ${instant(look.readAt)}.` : ""} Trying again.`,
        );
    },
  };
}

begin();
