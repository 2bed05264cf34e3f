// Names with values that are set one by one, as looks come in.
// Used by the overview and by the page Observe. A value that is not known is a dash.

import { h, say, set } from "./dom.js";
import { DASH, moment, setMoment } from "./format.js";

// isDense: narrow columns, for short values.
export function facts(names, { isDense = false } = {}) {
  const values = new Map(names.map((name) => [name, h("dd", {}, DASH)]));
  return {
    node: h(
      "dl",
      { class: isDense ? "facts dense" : "facts" },
      names.map((name) => h("div", {}, h("dt", {}, name), values.get(name))),
    ),
    set(name, text, look = "") {
      say(values.get(name), text);
      set(values.get(name), "data-look", look || null);
    },
    // An instant, which keeps up with the time.
    at(name, ms, look = "") {
      const value = values.get(name);
      if (!value.firstElementChild) value.replaceChildren(moment(ms));
      setMoment(value.firstElementChild, ms);
      set(value, "data-look", look || null);
    },
  };
}
