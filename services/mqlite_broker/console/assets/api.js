// The broker, asked: one function for every call, and who is signed in.
// Everything that leaves the page leaves here. The token lives in this tab's sessionStorage, in one value
// with the broker that it is for, and in the Authorization header; it is in no address, in no other storage
// and in no message.
// Rule: a 401 ends the session wherever it happens; a 403 is the caller's to show.

import { parse, stringify } from "./json.js";

const PREFIX = "/mqlite.v1.";
const OUR_PREFIX = "/mqlite.ext.v1.";
const OURS = new Set([
  "QueueService/Release",
  "QueueService/Explain",
  "QueueService/Search",
  "QueueService/SendResult",
  "AdminService/DescribeQueue",
  "AdminService/UpdateQueue",
  "AdminService/DeleteSubscription",
  "AdminService/PurgeActive",
  "AdminService/RedriveSelected",
  "AdminService/Resubmit",
  "AdminService/Backup",
]);
const READS = new Set([
  "QueueService/Peek",
  "QueueService/Stats",
  "QueueService/Explain",
  "QueueService/Search",
  "AdminService/ListQueues",
  "AdminService/ListSubscriptions",
  "AdminService/TestFilter",
  "AdminService/DescribeQueue",
  "AdminService/Status",
  "AdminService/Observe",
  "AuthService/ListKeys",
]);
const UNDONE = new Set(["unavailable", "storage_full"]); // refusals by which the broker says that it did nothing
const PATIENCE_MS = 60_000; // longer than any call but a paced redrive, which the console does in steps

const SESSION = "mqlite.session"; // of this tab: a broker and the token for it, never one without the other
const BEFORE = "mqlite.token"; // where older consoles kept the token
const BASE = "mqlite.broker"; // of all tabs: the address to suggest to who signs in next

// isUnsure: the call may have been done all the same, because its answer was lost or says nothing about it.
export class CallError extends Error {
  constructor(status, code, message, options) {
    super(message, options);
    this.status = status;
    this.code = code;
    this.isUnsure = false;
  }
}

// What is known of the broker and of our credential. `rights`: of send, listen, manage, monitor.
export const session = {
  base: "",
  token: "",
  card: null,
  access: "",
  rights: new Set(),
  reach: document.documentElement.dataset.reach,
  onEnd: () => {},
};

export function can(right) {
  return session.rights.has(right);
}

// `name` as "QueueService/Peek". Resolves to the decoded reply; CallError for a refusal, and with status
// 0 and code "unreachable" when there is no answer.
export async function call(name, request = {}, { signal } = {}) {
  try {
    return await answered(name, request, signal);
  } catch (error) {
    if (error instanceof CallError && !READS.has(name)) doubt(error);
    throw error;
  }
}

async function answered(name, request, signal) {
  const prefix = OURS.has(name) ? OUR_PREFIX : PREFIX;
  const answer = await ask(session.base, prefix + name, {
    method: "POST",
    token: session.token,
    body: stringify(request),
    signal,
  });
  if (answer.ok && answer.content) return answer.content;
  const error = refusal(answer);
  if (answer.status === 401 && session.rights.size) session.onEnd(error.message);
  throw error;
}

// Of a call that changes something: whether nobody knows if it was done, and then its message says so.
function doubt(error) {
  const { status, code } = error;
  error.isUnsure = status === 0 || status < 300 || (status >= 500 && !UNDONE.has(code));
  if (error.isUnsure && code !== "outcome_unknown") error.message += " It may have been done all the same.";
}

async function ask(base, path, { method, token = "", body, signal }) {
  const headers = { "Content-Type": "application/json" };
  if (token) headers.Authorization = `Bearer ${token}`;
  const patience = AbortSignal.timeout(PATIENCE_MS);
  try {
    const response = await fetch(base + path, {
      method,
      headers: method === "GET" ? {} : headers,
      body,
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
      referrerPolicy: "no-referrer",
      signal: signal ? AbortSignal.any([signal, patience]) : patience,
    });
    const text = await response.text();
    return { ok: response.ok, status: response.status, content: decoded(text) };
  } catch (error) {
    if (signal?.aborted) throw signal.reason;
    const reason = patience.aborted ? "it did not answer within a minute" : "no connection";
    throw new CallError(0, "unreachable", `The broker cannot be reached: ${reason}.`, { cause: error });
  }
}

function decoded(text) {
  try {
    return parse(text);
  } catch {
    return null;
  }
}

function refusal(answer) {
  const { code, message } = answer.content ?? {};
  if (typeof code === "string" && typeof message === "string") {
    return new CallError(answer.status, code, message);
  }
  return new CallError(answer.status, "internal", `The answer was no broker's (status ${answer.status}).`);
}

// -- signing in ----------------------------------------------------------------------------------

// The open discovery card of a broker; CallError if there is none at that address.
export async function card(base) {
  const answer = await ask(base, "/", { method: "GET" });
  if (answer.ok && answer.content?.name && Array.isArray(answer.content.endpoints)) return answer.content;
  throw new CallError(answer.status, "no_broker", "There is no broker at this address.");
}

// Finds out what the credential may do, with calls that change nothing, and starts the session.
// CallError (401) if it may do nothing.
export async function signIn(base, token) {
  const known = await card(base);
  Object.assign(session, { base, token, card: known, rights: new Set(), access: "" });
  try {
    await probe();
  } catch (error) {
    session.token = "";
    throw error;
  }
  store(sessionStorage, SESSION, token && JSON.stringify({ base, token }));
  store(localStorage, BASE, base);
}

async function probe() {
  const seen = await allowed("AdminService/Observe", {});
  if (seen) {
    session.access = seen.access;
    session.rights = new Set(
      seen.access === "monitor" ? ["monitor"] : ["monitor", "manage", "send", "listen"],
    );
    return;
  }
  // Neither a manager nor a monitor: a peek at no queue and a send of nothing tell the rest.
  const [listens, sends] = await Promise.all([
    allowed("QueueService/Peek", { queue: "", max: 1 }),
    allowed("QueueService/Send", { queue: "", messages: [] }),
  ]);
  session.access = "key";
  session.rights = new Set([listens && "listen", sends && "send"].filter(Boolean));
  if (!session.rights.size) throw new CallError(403, "permission_denied", "This token may do nothing here.");
}

async function allowed(name, request) {
  try {
    return await call(name, request);
  } catch (error) {
    if (error.status === 403) return null;
    throw error;
  }
}

// Where this tab is signed in, {base, token}; null if it is not. What another tab does changes nothing here.
export function remembered() {
  const kept = fetched(sessionStorage, SESSION);
  if (!kept) return null;
  const found = JSON.parse(kept);
  return session.reach === "self" && found.base ? null : found;
}

// The broker to suggest: this tab's, or where somebody signed in last in any tab.
export function suggested() {
  if (session.reach === "self") return "";
  return remembered()?.base ?? fetched(localStorage, BASE);
}

export function forget() {
  Object.assign(session, { token: "", rights: new Set(), access: "" });
  store(sessionStorage, SESSION, "");
  store(sessionStorage, BEFORE, "");
}

// -- storage that may be switched off --------------------------------------------------------------

export function fetched(storage, key) {
  try {
    return storage.getItem(key) ?? "";
  } catch {
    return "";
  }
}

export function store(storage, key, value) {
  try {
    if (value) storage.setItem(key, value);
    else storage.removeItem(key);
  } catch {
    // Then nothing is remembered.
  }
}

// 32 hexadecimal digits that nobody else has; the page need not be on https for it.
export function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (each) => each.toString(16).padStart(2, "0")).join("");
}
