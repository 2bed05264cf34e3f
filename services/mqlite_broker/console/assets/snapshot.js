// An Observe reply as the pages read it: queues by name, rates since the look before, totals.
// Made by poll.js. Pure. What the broker does not know is null and is shown as a dash, never as zero.

export const STATES = ["active", "locked", "scheduled", "deferred", "dead_lettered"];
const RATED = {
  in: ["enqueued"],
  out: ["completed", "receive_deleted"],
  given: ["delivered"],
  died: ["dead_lettered"],
};

export class Look {
  constructor(reply, before) {
    this.reply = reply;
    this.at = reply.sampled_at_ms;
    this.startedAt = reply.started_at_ms;
    this.readAt = Date.now();
    this.events = eventsOf(reply.messages);
    const isNext = before && before.startedAt === this.startedAt && before.at < this.at;
    this.before = isNext ? { at: before.at, events: before.events } : null;
    this.waiters = reply.receive_waiters
      ? new Map(reply.receive_waiters.map((each) => [each.queue, each.count]))
      : null;
    this.queues = reply.queues?.map((row) => this.rowOf(row)) ?? null;
    this.byName = new Map(this.queues?.map((row) => [row.queue, row]));
    this.totals = totalsOf(this.queues, this.events);
  }

  // A queue's counts with its rates; `in`, `out`, `given` and `died` are per second, null at first.
  rowOf(row) {
    const now = this.events.get(row.queue);
    const then = this.before?.events.get(row.queue);
    const rates = Object.entries(RATED).map(([name, events]) => [
      name,
      this.before ? (sum(now, events) - sum(then, events)) / ((this.at - this.before.at) / 1000) : null,
    ]);
    return {
      ...row,
      ...Object.fromEntries(rates),
      waiters: this.waiters ? (this.waiters.get(row.queue) ?? 0) : null,
    };
  }

  // How often an event happened to messages of a queue since the look before; null at first.
  since(queue, event) {
    if (!this.before) return null;
    return sum(this.events.get(queue), [event]) - sum(this.before.events.get(queue), [event]);
  }

  // What is kept of it for the charts.
  summary() {
    return { at: this.at, counts: this.totals };
  }
}

function eventsOf(messages) {
  const found = new Map();
  for (const { queue, event, count } of messages) {
    if (!count) continue;
    if (!found.has(queue)) found.set(queue, {});
    found.get(queue)[event] = count;
  }
  return found;
}

function sum(events, names) {
  return events ? names.reduce((total, name) => total + (events[name] ?? 0), 0) : 0;
}

function totalsOf(queues, events) {
  const found = {};
  for (const state of STATES)
    found[state] = queues ? queues.reduce((total, row) => total + row[state], 0) : null;
  for (const [name, members] of Object.entries(RATED)) {
    found[name] = 0;
    for (const each of events.values()) found[name] += sum(each, members);
  }
  return found;
}

// Rates per second between neighbouring looks: [{ at, value }].
export function rates(looks, name) {
  return looks.slice(1).map((look, index) => {
    const passed = (look.at - looks[index].at) / 1000;
    const more = look.counts[name] - looks[index].counts[name];
    return { at: look.at, value: passed > 0 ? Math.max(0, more / passed) : 0 };
  });
}

export function levels(looks, name) {
  return looks
    .filter((look) => look.counts[name] !== null)
    .map((look) => ({ at: look.at, value: look.counts[name] }));
}
