// What needs somebody's attention, read from one look at the broker: a list of { id, look, why, queue? }.
// Used by the overview. Pure. Each says its reason, the worst comes first; calling for each queue is not
// needed (one Observe per look), so a queue's page says more.

import { age, bytes, plural } from "./format.js";

const OLD_MS = 10 * 60_000;
const LITTLE_DISK = 256 * 1024 * 1024;
const WEIGHT = { bad: 0, warn: 1 };
const SHOWN = 100; // more would help nobody; the list of queues can be sorted by any column

export function concerns(look) {
  const found = [
    ...ofTheBroker(look.reply),
    ...(look.queues ?? []).flatMap((row) => [...ofAQueue(row, look)]),
  ];
  return found.sort((a, b) => WEIGHT[a.look] - WEIGHT[b.look] || b.size - a.size).slice(0, SHOWN);
}

function* ofTheBroker({ runtime, collection, maintenance, diagnostics }) {
  const own = (id, title, why) => ({ id, look: "bad", title, why, size: Number.MAX_VALUE });
  if (!runtime.read_available) yield own("read", "Store", "It cannot be read.");
  if (collection.state !== "available") {
    const why = `They could not be read (${collection.error_code}); what is shown may be old.`;
    yield own("collection", "Counts", why);
  }
  const free = runtime.disk_free_bytes;
  if (free !== null && free < LITTLE_DISK) {
    yield own("disk", "Disk", `Only ${bytes(free)} are left; sends will be refused when it is full.`);
  }
  for (const { task, health, consecutive_failures: times, last_error_code: code } of maintenance) {
    if (health !== "failing") continue;
    const why = `It has failed ${plural(times, "time")} in a row, last with “${code}”.`;
    yield own(`task ${task}`, `Maintenance: ${task}`, why);
  }
  if (diagnostics?.state === "failing") yield own("log", "Diagnostic log", "It cannot be written.");
}

function* ofAQueue(row, look) {
  const { queue, active, waiters, dead_lettered: dead } = row;
  const about = (kind, look_, size, why, goTo = ["queues", queue]) => ({
    id: `${kind} ${queue}`,
    look: look_,
    size,
    why,
    queue,
    goTo,
  });
  if (row.unexpected) {
    const why = `${plural(row.unexpected, "row")} in a state that does not exist.`;
    yield about("odd", "bad", row.unexpected, why);
  }
  // Somebody waits for messages and there are some: only an order of messages can stand between them.
  if (active > 0 && waiters > 0 && row.given === 0) {
    const why =
      `${plural(active, "message")} active and ${plural(waiters, "receiver")} waiting, yet nothing is` +
      " delivered: an earlier message holds back its group. Open it and ask why.";
    yield about("stuck", "bad", active, why);
  } else if (active > 0 && row.given === 0 && row.oldest_message_age_ms > OLD_MS) {
    const oldest = age(row.oldest_message_age_ms);
    const why = `${plural(active, "message")} active, the oldest for ${oldest}, and nobody receives.`;
    yield about("idle", "warn", active, why);
  }
  if (dead > 0) {
    const why = `${plural(dead, "dead letter")}${row.died > 0 ? ", and more are coming" : ""}.`;
    yield about("dead", row.died > 0 ? "bad" : "warn", dead, why, ["dead-letters", queue]);
  }
  const lost = look.since(queue, "lock_expired");
  if (lost > 0) {
    const why = `${plural(lost, "lock")} ran out since the last look: consumers are slow or gone.`;
    yield about("lost", "warn", lost, why);
  }
}
