// Elements, made and kept: h() builds them, keyed() holds a list of them to a list of things.
// Used by everything that shows something. Rule: text becomes a text node or an attribute and never
// markup, so nothing that a queue, a message or an error says can do anything (faults B76).

const SVG = "http://www.w3.org/2000/svg";

// h("button", { class: "plain", onclick: f, disabled: false }, "Text", node, null, [more])
export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) set(node, name, value);
  node.append(
    ...children.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false),
  );
  return node;
}

export function set(node, name, value) {
  if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
  else if (name === "value") node.value = value;
  else if (value === true) node.setAttribute(name, "");
  else if (value === false || value === null || value === undefined) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, String(value));
}

// Sets a text only if it changed, so that a selection in it survives.
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

const rows = new WeakMap();

// Makes the children of `parent` those of `items`, in their order. A child is made once for its key
// and then updated in place, so that focus, selection and scrolling stay where they are.
export function keyed(parent, items, { key, make, update = () => {} }) {
  const before = rows.get(parent) ?? new Map();
  const after = new Map();
  const focused = parent.contains(document.activeElement) ? document.activeElement : null;
  let next = parent.firstChild;
  for (const item of items) {
    const name = key(item);
    const node = before.get(name) ?? make(item);
    before.delete(name);
    after.set(name, node);
    update(node, item);
    if (node === next) next = next.nextSibling;
    else parent.insertBefore(node, next);
  }
  for (const node of before.values()) node.remove();
  rows.set(parent, after);
  if (focused && focused !== document.activeElement && parent.contains(focused)) focused.focus();
}

export function busy(button, promise) {
  button.disabled = true;
  button.setAttribute("aria-busy", "true");
  return promise.finally(() => {
    button.disabled = false;
    button.removeAttribute("aria-busy");
  });
}
