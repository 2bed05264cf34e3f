// Messages of one queue and state, a page at a time, found by what a person knows of them.
// Used by a queue's page and by its dead letters. Lists never load bodies (faults B60). One search looks at a
// bounded number of messages, so a rare one is found in several calls, with the way to stop between them.
// Nothing here is refreshed by itself: a list that moves under the hand is no help with harmful actions.

import { call } from "./api.js";
import { busy, h, say } from "./dom.js";
import { bytes, count, moment, plural, setMoment, visible, visibleLines } from "./format.js";
import { searchForm } from "./message_search.js";
import { table } from "./table.js";

const SIZE = 50;

// state: "" for all. extra: further columns. isSelectable: a box in each row; onSelect is told of changes.
// onOpen(found) shows one. Returns { node, reload(), selected() }; selected() is the numbers that are marked.
export function messageList({ queue, state, extra = [], isSelectable = false, onOpen, onSelect = () => {} }) {
  const marked = new Set();
  const boxes = isSelectable ? [boxColumn(marked, () => onSelect(marked.size))] : [];
  const list = table({
    caption: "Messages",
    columns: [...boxes, ...columns(onOpen), ...extra],
    key: (row) => String(row.message.seq_number),
    empty: "No message here.",
    size: SIZE,
  });
  const search = searchForm(() => load([""]), { hasReason: state === "" || state === "dead_lettered" });
  const progress = h("span", { class: "hint", role: "status" });
  const halt = h("button", { type: "button", hidden: true }, "Stop");
  const back = h("button", { type: "button" }, "Previous page");
  const on = h("button", { type: "button" }, "Next page");
  const again = h("button", { type: "button" }, "Reload");
  const all = isSelectable && h("button", { type: "button", class: "quiet" }, "Select this page");
  const problem = h("p", { class: "problem", role: "alert" });
  let shown = { rows: [], tokens: [""], next: "" };
  let running = null;

  async function load(tokens) {
    running?.abort();
    const mine = (running = new AbortController());
    say(problem, "");
    try {
      const found = await look(tokens.at(-1), mine);
      if (mine !== running) return;
      shown = { rows: found.rows, tokens, next: found.next };
      list.say(
        search.isEmpty() ? "No message here." : `No message matches; looked at ${count(found.scanned)}.`,
      );
      draw();
      if (found.failed) say(problem, failures(found));
    } catch (error) {
      if (mine === running) say(problem, error.message);
    } finally {
      if (mine === running) halt.hidden = true;
    }
  }

  // One page: as many searches as it takes, until it is full, at the end, or stopped.
  async function look(token, mine) {
    const rows = [];
    let next = token;
    let scanned = 0;
    let failed = 0;
    let failure = "";
    do {
      const request = { queue, state, ...search.value(), max: SIZE - rows.length, page_token: next };
      const reply = await call("QueueService/Search", request, { signal: mine.signal });
      rows.push(...reply.messages);
      scanned += reply.scanned ?? 0;
      failed += reply.failed ?? 0;
      failure ||= reply.failure ?? "";
      next = reply.next_page_token ?? "";
      if (mine !== running) break;
      halt.hidden = !next || rows.length >= SIZE;
      say(
        progress,
        halt.hidden ? "" : `Looked at ${plural(scanned, "message")}, found ${count(rows.length)}.`,
      );
    } while (next && rows.length < SIZE && !halt.isPressed);
    halt.isPressed = false;
    return { rows, next, scanned, failed, failure };
  }

  function draw() {
    marked.clear();
    onSelect(0);
    list.update(shown.rows);
    back.disabled = shown.tokens.length === 1;
    on.disabled = !shown.next;
    const more = shown.next ? ", and there are more" : "";
    say(
      progress,
      shown.rows.length ? `Page ${shown.tokens.length}: ${plural(shown.rows.length, "message")}${more}.` : "",
    );
  }

  halt.addEventListener("click", () => {
    halt.isPressed = true;
  });
  back.addEventListener("click", () => busy(back, load(shown.tokens.slice(0, -1))).then(draw));
  on.addEventListener("click", () => busy(on, load([...shown.tokens, shown.next])).then(draw));
  again.addEventListener("click", () => busy(again, load(shown.tokens)));
  if (all) {
    all.addEventListener("click", () => {
      for (const box of list.node.querySelectorAll("tbody input[type=checkbox]")) {
        if (!box.checked) box.click();
      }
    });
  }
  load([""]);
  return {
    node: h(
      "div",
      { class: "stack tight" },
      search.node,
      problem,
      list.node,
      h("div", { class: "bar" }, progress, halt, h("span", { class: "gap" }), all, again, back, on),
    ),
    reload: () => load(shown.tokens),
    selected: () => shown.rows.filter((row) => marked.has(String(row.message.seq_number))),
    filter: () => search.value(),
  };
}

function failures({ failed, failure }) {
  const where = plural(failed, "message");
  return `The filter failed on ${where}, counted as no match: ${visibleLines(failure)}`;
}

function columns(onOpen) {
  return [
    { id: "seq", label: "Number", isHead: true, width: "6.5rem", make: (row) => opener(row, onOpen) },
    {
      id: "sent",
      label: "Sent",
      width: "10rem",
      make: (row) => moment(row.message.enqueued_at_ms),
      renew: sent,
    },
    { id: "group", label: "Group", isWide: true, text: (row) => visible(row.message.group_id ?? "") },
    {
      id: "what",
      label: "Subject or id",
      text: (row) => visible(row.message.subject || row.message.message_id || ""),
    },
    {
      id: "tries",
      label: "Tries",
      isNumber: true,
      width: "4.5rem",
      text: (row) => count(row.message.delivery_count ?? 0),
    },
    {
      id: "size",
      label: "Size",
      isNumber: true,
      isWide: true,
      width: "6rem",
      text: (row) => bytes(row.body_bytes),
    },
  ];
}

function sent(node, row) {
  setMoment(node, row.message.enqueued_at_ms);
}

function opener(row, onOpen) {
  const name = `Open message ${row.message.seq_number}`;
  return h(
    "button",
    { type: "button", class: "quiet number", "aria-label": name, onclick: () => onOpen(row) },
    String(row.message.seq_number),
  );
}

function boxColumn(marked, onChange) {
  return {
    id: "box",
    label: "",
    width: "2.6rem",
    make(row) {
      const key = String(row.message.seq_number);
      const box = h("input", { type: "checkbox", "aria-label": `Select message ${key}` });
      box.addEventListener("change", () => {
        if (box.checked) marked.add(key);
        else marked.delete(key);
        onChange();
      });
      return box;
    },
    renew(box, row) {
      box.checked = marked.has(String(row.message.seq_number));
    },
  };
}
