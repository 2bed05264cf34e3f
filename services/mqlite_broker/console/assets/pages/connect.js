// How programs reach this broker: lines to copy, for a queue and for what is to be done with it.
// Nothing is asked of the broker. The token of this session is not in them: programs get keys of their own.

import { can, session } from "../api.js";
import { h, say, set } from "../dom.js";
import { choice, copyButton, text } from "../fields.js";
import { link } from "../router.js";
import { environment, LANGUAGES, snippet, TASKS } from "../snippets.js";

const NAMES_MAX = 500; // suggestions of a list; more is no help

export default function page() {
  const hasToken = session.card.auth !== "none";
  const tasks = Object.entries(TASKS).filter(([, [right]]) => can(right));
  const queue = text("Queue or topic", { value: "orders" });
  const task = choice("What to do", Object.fromEntries(tasks.map(([name, [, shown]]) => [name, shown])), {
    value: tasks[0][0],
  });
  const names = h("datalist", { id: "queue-names" });
  set(queue.input, "list", "queue-names");
  const buttons = Object.entries(LANGUAGES).map(([name, shown]) =>
    h("button", { type: "button", "data-language": name, onclick: () => draw(name) }, shown),
  );
  const code = listing("Lines to copy");
  let language = "curl";

  function draw(chosen = language) {
    language = chosen;
    for (const each of buttons) set(each, "aria-pressed", String(each.dataset.language === chosen));
    queue.node.hidden = task.value() === "watch";
    code.say(snippet(chosen, task.value(), { queue: queue.value(), hasToken }));
  }

  const setup = listing("Lines for each shell");
  setup.say(environment({ address: session.base || location.origin, hasToken }));
  queue.input.addEventListener("input", () => draw());
  task.input.addEventListener("change", () => draw());
  draw();
  return {
    title: "Connect",
    node: h(
      "div",
      { class: "stack" },
      h(
        "section",
        { "aria-labelledby": "once" },
        h("h2", { id: "once" }, "Once in each shell"),
        setup.node,
        hasToken ? advice() : h("p", { class: "hint" }, "Authentication is off: no token is asked for."),
      ),
      h(
        "section",
        { "aria-labelledby": "then" },
        h("h2", { id: "then" }, "Then"),
        h("div", { class: "grid" }, task.node, queue.node, names),
        h(
          "div",
          { class: "stack tight" },
          h("div", { class: "segments", role: "group", "aria-label": "Language" }, buttons),
          code.node,
        ),
      ),
    ),
    update({ look }) {
      const found = (look.queues ?? []).slice(0, NAMES_MAX).map((row) => row.queue);
      if (names.children.length === found.length) return;
      names.replaceChildren(...found.map((each) => h("option", { value: each })));
    },
  };
}

function advice() {
  return h(
    "p",
    { class: "hint" },
    "Put the token of an access key in the place of YOUR_TOKEN. Give each program a key of its own, with as few",
    " rights as it needs",
    can("manage") ? [": make one under ", h("a", { href: link("keys") }, "Keys"), "."] : ".",
  );
}

function listing(label) {
  const pre = h("pre", { class: "body", tabindex: "0", role: "region", "aria-label": label });
  return {
    node: h(
      "div",
      { class: "listing" },
      pre,
      copyButton(() => pre.textContent),
    ),
    say: (lines) => say(pre, lines),
  };
}
