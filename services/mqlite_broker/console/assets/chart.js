// A small line over the last minutes, drawn as SVG and redrawn in place.
// Used by the overview and by a queue's page. Its numbers stand beside it as text, which is what a screen
// reader reads; the picture itself says only which way things go.

import { h, say, set, svg } from "./dom.js";

const WIDTH = 240;
const HEIGHT = 48;

// points: [{ at, value }], oldest first. show(value) is the value as a text.
export function chart(title, show, { span = 15 * 60_000 } = {}) {
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
      say(value, last ? show(last.value) : "–");
      say(peak, last ? `peak ${show(top)}` : "waiting for a second look");
      const places = points.map((each) => place(each, last.at, span, top || 1));
      set(line, "points", places.join(" "));
      set(
        fill,
        "points",
        places.length
          ? [`${x(points[0].at, last.at, span)},${HEIGHT}`, ...places, `${WIDTH},${HEIGHT}`].join(" ")
          : "",
      );
    },
  };
}

function x(at, last, span) {
  return Math.max(0, WIDTH - ((last - at) / span) * WIDTH).toFixed(1);
}

function place(point, last, span, top) {
  return `${x(point.at, last, span)},${(HEIGHT - 2 - (point.value / top) * (HEIGHT - 6)).toFixed(1)}`;
}
