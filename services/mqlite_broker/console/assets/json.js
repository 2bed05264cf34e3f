// JSON and base64 as the wire has them: whole numbers of 64 bits, bodies of any bytes.
// Used by api.js and wherever a body is shown or written. A number that a double cannot hold becomes
// a BigInt, and goes out again with every digit.

const LONG = /\d{16}/;
const WHOLE = /^-?\d+$/;

export function parse(text) {
  return LONG.test(text) ? JSON.parse(text, exact) : JSON.parse(text);
}

function exact(_key, value, context) {
  if (typeof value !== "number" || Number.isSafeInteger(value)) return value;
  return context && WHOLE.test(context.source) ? BigInt(context.source) : value;
}

export function stringify(value) {
  return JSON.stringify(value, (_key, each) => (typeof each === "bigint" ? raw(each) : each));
}

function raw(number) {
  return JSON.rawJSON ? JSON.rawJSON(String(number)) : Number(number);
}

// A sequence number from a text that a person or the address bar gave; null if it is none.
export function whole(text) {
  if (!/^\d{1,19}$/.test(text)) return null;
  const number = Number(text);
  return Number.isSafeInteger(number) ? number : BigInt(text);
}

// -- bodies --------------------------------------------------------------------------------------

const PIECE = 0x8000; // arguments of one call; a body has up to a million bytes

export function toBytes(base64) {
  return Uint8Array.from(atob(base64 ?? ""), (each) => each.charCodeAt(0));
}

export function fromBytes(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += PIECE) {
    text += String.fromCharCode(...bytes.subarray(at, at + PIECE));
  }
  return btoa(text);
}

export function fromText(text) {
  return fromBytes(new TextEncoder().encode(text));
}

// The text that bytes are, or null if they are not UTF-8.
export function toText(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}
