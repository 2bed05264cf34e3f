// Which page stands at which address, and how it comes and goes.
//
// How a page is made:
//   1. Write assets/pages/NAME.js. It exports a default function `page({ params, query })` that returns at
//      once, with `{ title, node, update?, leave? }`:
//        title   names the page in the heading and in the browser's tab;
//        node    is the page's element, built with h() of dom.js; what has to be asked for is asked after
//                it was returned, and put into it;
//        update  is called with `poll` (poll.js) after each look at the broker, and once at the start if
//                there has been one: change texts and rows in place with say() and keyed();
//        leave   is called once when the page goes: stop timers, give back what is held.
//   2. Add a row to ROUTES: the address without its "#/", with ":name" for a part that is a parameter; the
//      right that it needs, "" for none; its place in the navigation, if it has one.
//   3. A call is `await call("AdminService/…", {…})` (api.js), an action a button with `busy(button, promise)`;
//      whatever changes something asks first with `ask()` of dialog.js, and says what it did with `note()` of
//      notes.js. Then `refresh()` of poll.js shows the new state.
//   Lists are `table()` of table.js, inputs are from fields.js, numbers and foreign texts go through format.js.
//   A page has no style of its own: classes stand in base.css and parts.css.
//
// Links are `link("queues", name)`. Parts of an address are percent-encoded, so any name fits.

import { can } from "./api.js";
import { h } from "./dom.js";
import { poll, watch } from "./poll.js";

export const ROUTES = [
  { at: "overview", right: "monitor", menu: "Overview", load: () => import("./pages/overview.js") },
  { at: "queues", right: "", menu: "Queues", load: () => import("./pages/queues.js") },
  { at: "queues/:name", right: "", under: "queues", load: () => import("./pages/queue.js") },
  { at: "queues/:name/:state", right: "", under: "queues", load: () => import("./pages/queue.js") },
  {
    at: "dead-letters",
    right: "manage",
    menu: "Dead letters",
    load: () => import("./pages/dead_letters.js"),
  },
  {
    at: "dead-letters/:name",
    right: "manage",
    under: "dead-letters",
    load: () => import("./pages/dead_letter_queue.js"),
  },
  { at: "topics", right: "manage", menu: "Topics", load: () => import("./pages/topics.js") },
  { at: "topics/:topic", right: "manage", under: "topics", load: () => import("./pages/topic.js") },
  { at: "keys", right: "manage", menu: "Keys", load: () => import("./pages/keys.js") },
  { at: "observe", right: "monitor", menu: "Observe", load: () => import("./pages/observe.js") },
  { at: "connect", right: "", menu: "Connect", load: () => import("./pages/connect.js") },
];

export function link(...parts) {
  return `#/${parts.map(encodeURIComponent).join("/")}`;
}

export function isOpen(route) {
  return !route.right || can(route.right);
}

export function menu() {
  return ROUTES.filter((route) => route.menu && isOpen(route));
}

let current = null;
let visits = 0;

// Shows the page of the address in `place`; `onShow(route, title)` tells which it is.
export async function show(place, onShow) {
  const visit = ++visits;
  const found = match(location.hash);
  leave();
  const page = await opened(found);
  if (visit !== visits) {
    page.leave?.();
    return;
  }
  place.replaceChildren(page.node);
  document.title = `${page.title} · mqlite`;
  onShow(found?.route ?? null, page.title);
  const unwatch = page.update ? watch((each) => each.look && page.update(each)) : () => {};
  current = () => {
    unwatch();
    page.leave?.();
  };
  if (page.update && poll.look) page.update(poll);
}

export function leave() {
  current?.();
  current = null;
}

async function opened(found) {
  if (!found) return message("No such page", "There is nothing at this address.");
  if (!isOpen(found.route)) {
    return message(
      "Not allowed",
      `This credential lacks the right “${found.route.right}”, which the page needs.`,
    );
  }
  try {
    const { default: page } = await found.route.load();
    return page(found);
  } catch (error) {
    console.error(error);
    return message("This page failed", `It could not be shown: ${error.message}`);
  }
}

function message(title, text) {
  return { title, node: h("p", { class: "empty" }, text) };
}

function match(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean);
  if (!parts.length) return { route: menu()[0] ?? ROUTES.at(-1), params: {}, query: new URLSearchParams() };
  for (const route of ROUTES) {
    const params = matched(route.at.split("/"), parts);
    if (params) return { route, params, query: new URLSearchParams(query) };
  }
  return null;
}

function matched(pattern, parts) {
  if (pattern.length !== parts.length) return null;
  const params = {};
  for (const [index, each] of pattern.entries()) {
    if (each.startsWith(":")) params[each.slice(1)] = plain(parts[index]);
    else if (each !== parts[index]) return null;
  }
  return params;
}

function plain(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
