// A table that is refreshed in place: sortable, a page at a time, its columns as wide as they were.
// Used by every list. A row is made once for its key and its cells are updated, so nothing jumps, and there
// are never more rows in the page than `size`.

import { h, keyed, say, set } from "./dom.js";
import { count } from "./format.js";

// columns: [{ id, label, text(row), sort?(row), isNumber?, width?, look?(row), make?(row) → node, renew?(node, row),
//             isWide? }]
//   text is the cell's text; make builds other content once for a row, and renew updates it; look gives a class.
//   A column with isWide is left out on a phone.
// Returns { node, update(rows), rows } ; `empty` is said when there is nothing.
export function table({ caption, columns, key, sort, size = 100, empty = "Nothing here." }) {
  const state = { rows: [], column: sort?.[0] ?? "", isDown: sort?.[1] === "down", page: 0 };
  const heads = columns.map((column) => head(column, state, () => draw()));
  const body = h("tbody");
  const nothing = h("p", { class: "empty" }, "Loading…");
  const pager = pages(state, size, () => draw());
  let nothingToSay = empty;
  const node = h(
    "div",
    { class: "table" },
    h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
      h(
        "table",
        {},
        h("caption", { class: "unseen" }, caption),
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            heads.map((each) => each.node),
          ),
        ),
        body,
      ),
    ),
    nothing,
    pager.node,
  );

  const make = (row) =>
    h(
      "tr",
      {},
      columns.map((column) => cell(column, row)),
    );
  const update = (line, row) => columns.forEach((column, index) => renew(line.children[index], column, row));

  function draw() {
    const shown = sorted(state, columns);
    state.page = Math.min(state.page, Math.max(0, Math.ceil(shown.length / size) - 1));
    keyed(body, shown.slice(state.page * size, (state.page + 1) * size), { key, make, update });
    heads.forEach((each) => each.draw());
    nothing.hidden = shown.length > 0;
    say(nothing, nothingToSay);
    pager.draw();
  }

  return {
    node,
    update(rows) {
      state.rows = rows;
      draw();
    },
    // What is said when there is nothing, from now on.
    say(text) {
      nothingToSay = text;
      say(nothing, text);
    },
  };
}

function cell(column, row) {
  const node = h(column.isHead ? "th" : "td", {
    class: [column.isNumber && "number", column.isWide && "roomy"].filter(Boolean).join(" ") || null,
    scope: column.isHead ? "row" : null,
  });
  if (column.make) node.append(column.make(row));
  return node;
}

function renew(node, column, row) {
  if (column.make) column.renew?.(node.firstChild, row);
  else say(node, column.text(row));
  if (column.look) set(node, "data-look", column.look(row) || null);
}

function head(column, state, draw) {
  const node = h("th", {
    scope: "col",
    class: [column.isNumber && "number", column.isWide && "roomy"].filter(Boolean).join(" ") || null,
  });
  if (column.width) node.style.width = column.width;
  if (!column.sort) {
    node.append(column.label || h("span", { class: "unseen" }, "Actions"));
    return { node, draw() {} };
  }
  const mark = h("span", { class: "mark", "aria-hidden": "true" });
  node.append(
    h(
      "button",
      {
        type: "button",
        class: "sorter",
        onclick: () => {
          state.isDown = state.column === column.id ? !state.isDown : Boolean(column.isNumber);
          state.column = column.id;
          state.page = 0;
          draw();
        },
      },
      column.isNumber ? [mark, column.label] : [column.label, mark],
    ),
  );
  return {
    node,
    draw() {
      const isIt = state.column === column.id;
      set(node, "aria-sort", isIt ? (state.isDown ? "descending" : "ascending") : null);
      say(mark, isIt ? (state.isDown ? "▾" : "▴") : "");
    },
  };
}

function sorted(state, columns) {
  const column = columns.find((each) => each.id === state.column);
  if (!column?.sort) return state.rows;
  const way = state.isDown ? -1 : 1;
  return [...state.rows].sort((a, b) => way * compare(column.sort(a), column.sort(b)));
}

function compare(a, b) {
  if (a === b) return 0;
  if (a === null || a === undefined) return -1;
  if (b === null || b === undefined) return 1;
  return a < b ? -1 : 1;
}

function pages(state, size, draw) {
  const text = h("span", {});
  const turn = (step) => () => {
    state.page += step;
    draw();
  };
  const back = h("button", { type: "button", onclick: turn(-1) }, "Previous");
  const on = h("button", { type: "button", onclick: turn(1) }, "Next");
  const node = h("div", { class: "pager", hidden: true }, text, back, on);
  return {
    node,
    draw() {
      const total = state.rows.length;
      const first = state.page * size;
      node.hidden = total <= size;
      say(text, `${count(first + 1)}–${count(Math.min(first + size, total))} of ${count(total)}`);
      back.disabled = state.page === 0;
      on.disabled = first + size >= total;
    },
  };
}
