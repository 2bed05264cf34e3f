// A small line over the last minutes, drawn as SVG and redrawn in place.
// Used by the overview and by a queue's page. Its numbers stand beside it as text, which is what a screen
// reader reads; the picture itself says only which way things go.

import { h, say, set, svg } from "./dom.js";
import { age, DASH } from "./format.js";

const WIDTH = 240;
const HEIGHT = 48;
const SPAN_MS_MIN = 60_000; // what the width shows at least; then all that is remembered

// points: [{ at, value }], oldest first. show(value) is the value as a text.
export function chart(title, show) {
  const line = svg("polyline", { class: "line" });
  const fill = svg("polygon", { class: "fill" });
  const picture = svg(
    "svg",
    {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      preserveAspectRatio: "none",
      "aria-hidden": "true",
      focusable: "false",
    },
    fill,
    line,
  );
  const value = h("strong", {});
  const peak = h("span", { class: "hint" });
  const node = h("figure", { class: "chart" }, h("figcaption", {}, title), value, picture, peak);
  return {
    node,
    update(points) {
      const last = points.at(-1);
      const top = Math.max(...points.map((each) => each.value), 0);
      const span = last ? Math.max(SPAN_MS_MIN, last.at - points[0].at) : 0;
      say(value, last ? show(last.value) : DASH);
      say(peak, last ? `peak ${show(top)} in ${age(span)}` : "waiting for a second look");
      const places = points.map((each) => place(each, last.at, span, top || 1));
      set(line, "points", places.join(" "));
      set(
        fill,
        "points",
        places.length ? [ground(places[0]), ...places, ground(places.at(-1))].join(" ") : "",
      );
    },
  };
}

function place(point, last, span, top) {
  const x = WIDTH - ((last - point.at) / span) * WIDTH;
  const y = HEIGHT - 2 - (point.value / top) * (HEIGHT - 6);
  return `${x.toFixed(1)},${y.toFixed(1)}`;
}

function ground(point) {
  return `${point.split(",")[0]},${HEIGHT}`;
}
