// Lines to copy for programs and shells that shall use this broker: curl, Python, the command line.
// Used by the page Connect. Pure. They never hold a token: it comes from the environment, and the line that
// sets that has a placeholder. Any name of a queue is quoted so that it arrives as it is and does nothing else.

import { visible } from "./format.js";
import { fromText } from "./json.js";

const PLACEHOLDER = "YOUR_TOKEN";
const HELLO = "hello";

export const LANGUAGES = { curl: "curl", python: "Python", shell: "Command line" };

// Each with the right that it needs.
export const TASKS = {
  send: ["send", "Send a message"],
  receive: ["listen", "Receive and complete one"],
  watch: ["monitor", "Watch the broker"],
};

// What a shell has to be told once. hasToken: whether the broker asks for one.
export function environment({ address, hasToken }) {
  const lines = [`export MQLITE_ENDPOINT=${quoted(address)}`];
  if (hasToken) lines.push(`export MQLITE_TOKEN=${quoted(PLACEHOLDER)}`);
  return lines.join("\n");
}

export function snippet(language, task, { queue, hasToken }) {
  return WRITERS[language][task]({ queue, hasToken });
}

const WRITERS = {
  curl: {
    send: ({ queue, hasToken }) =>
      curl("QueueService/Send", { queue, messages: [{ body: fromText(HELLO) }] }, hasToken),
    receive: ({ queue, hasToken }) =>
      [
        "# Waits up to 20 s for a message, and holds it for the queue's lock duration.",
        curl("QueueService/Receive", { queue, max_messages: 1, wait_time_ms: 20_000 }, hasToken),
        "",
        "# Done with it: put in its seq_number and lock_token.",
        curl("QueueService/Complete", { queue, seq_number: 0, lock_token: "LOCK_TOKEN" }, hasToken),
      ].join("\n"),
    watch: ({ hasToken }) => curl("AdminService/Observe", {}, hasToken),
  },
  python: {
    send: ({ queue, hasToken }) => python(hasToken, [`print(q.send_one(${literal(queue)}, b"${HELLO}"))`]),
    receive: ({ queue, hasToken }) =>
      python(hasToken, [
        `for message in q.receive(${literal(queue)}, wait=20):`,
        "    print(message.seq_number, message.body)",
        "    message.complete()",
      ]),
    watch: ({ hasToken }) =>
      python(hasToken, [
        "for row in q.observe().queues or []:",
        "    print(row.queue, row.active, row.dead_lettered)",
      ]),
  },
  shell: {
    send: ({ queue }) => `mqlite send -- ${quoted(queue)} ${quoted(HELLO)}`,
    receive: ({ queue }) => `mqlite receive --wait 20s -- ${quoted(queue)}`,
    watch: () => "mqlite top",
  },
};

function curl(call, request, hasToken) {
  return [
    `curl -sS "$MQLITE_ENDPOINT/mqlite.v1.${call}"`,
    ...(hasToken ? ['-H "Authorization: Bearer $MQLITE_TOKEN"'] : []),
    '-H "Content-Type: application/json"',
    `-d ${quoted(literal(request))}`,
  ].join(" \\\n  ");
}

function python(hasToken, lines) {
  const token = hasToken ? ', token=os.environ["MQLITE_TOKEN"]' : "";
  return [
    "import os",
    "",
    "import mqlite_actor as mq",
    "",
    `with mq.connect_sync(os.environ["MQLITE_ENDPOINT"]${token}) as q:`,
    ...lines.map((line) => `    ${line}`),
  ].join("\n");
}

// -- quoting -------------------------------------------------------------------------------------

// Of JSON and of Python; visible() writes what cannot be seen as both do.
function literal(value) {
  return visible(JSON.stringify(value));
}

// One word of a shell. Hidden characters are written as bytes, which bash, zsh and ksh read.
function quoted(text) {
  if (visible(text) === text) return `'${text.replaceAll("'", "'\\''")}'`;
  const shown = Array.from(text, (each) => {
    if (each === "'" || each === "\\") return `\\${each}`;
    return visible(each) === each ? each : hexadecimal(each);
  });
  return `$'${shown.join("")}'`;
}

function hexadecimal(character) {
  const bytes = new TextEncoder().encode(character);
  return Array.from(bytes, (each) => `\\x${each.toString(16).padStart(2, "0")}`).join("");
}
