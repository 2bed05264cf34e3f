-- The file format mqlite-actor/1. Applied once to a file that has none of these tables; a change here is a
-- new format number and a migration. Portable subset only (no WITHOUT ROWID, no triggers): the same
-- tables have to exist in a remote SQLite service. Times are milliseconds since 1970 UTC; 0 means none.

-- Facts about the file: schema_version, and epoch, which moves with every change of configuration so that
-- caches in other processes know that they are stale.
CREATE TABLE meta (
  key   TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT;

-- Numbers that only grow. seq is the last sequence number given out: one counter for all queues, never
-- reused, kept here instead of AUTOINCREMENT so that it is written once per transaction and not per row.
CREATE TABLE counters (
  name  TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT;

-- Ids are never reused (AUTOINCREMENT), so that nothing kept about a deleted queue can meet its successor.
CREATE TABLE queues (
  id                    INTEGER PRIMARY KEY AUTOINCREMENT,
  name                  TEXT NOT NULL UNIQUE,
  kind                  TEXT NOT NULL CHECK (kind IN ('queue', 'subscription')),
  lock_duration_ms      INTEGER NOT NULL,
  max_delivery_count    INTEGER NOT NULL,
  default_ttl_ms        INTEGER NOT NULL,
  dead_letter_on_expire INTEGER NOT NULL CHECK (dead_letter_on_expire IN (0, 1)),
  dedup_window_ms       INTEGER NOT NULL,
  ordering_mode         TEXT NOT NULL CHECK (ordering_mode IN ('standard', 'group_fifo', 'strict_fifo')),
  dlq_max_age_ms        INTEGER NOT NULL,
  dlq_max_count         INTEGER NOT NULL,
  dlq_max_bytes         INTEGER NOT NULL,
  created_at            INTEGER NOT NULL,
  updated_at            INTEGER NOT NULL,
  generation            TEXT NOT NULL
) STRICT;

-- One row per queue, changed once per transaction that touched the queue. Counting messages instead would
-- read all of them. `doctor` and the tests compare the two.
CREATE TABLE counts (
  queue_id          INTEGER PRIMARY KEY,
  active            INTEGER NOT NULL DEFAULT 0,
  locked            INTEGER NOT NULL DEFAULT 0,
  scheduled         INTEGER NOT NULL DEFAULT 0,
  deferred          INTEGER NOT NULL DEFAULT 0,
  dead_lettered     INTEGER NOT NULL DEFAULT 0,
  dead_letter_bytes INTEGER NOT NULL DEFAULT 0
) STRICT;

-- id is the sequence number. state:
--   1 ready      active, and nothing in front of it holds it back: what a claim takes, lowest id first
--   2 waiting    active, but an earlier message of its group (strict_fifo: of its queue) still lives
--   3 locked     4 scheduled     5 deferred     6 dead-lettered
-- No foreign key to queues: the one writer inserts only for a queue it has just read, and the check would
-- be a look-up per row.
CREATE TABLE messages (
  id                      INTEGER PRIMARY KEY,
  queue_id                INTEGER NOT NULL,
  state                   INTEGER NOT NULL CHECK (state BETWEEN 1 AND 6),
  delivery_count          INTEGER NOT NULL,
  visible_at              INTEGER NOT NULL,
  locked_until            INTEGER NOT NULL,
  lock_token              BLOB,
  enqueued_at             INTEGER NOT NULL,
  expires_at              INTEGER NOT NULL,
  group_id                TEXT,
  message_id              TEXT,
  correlation_id          TEXT,
  reply_to                TEXT,
  content_type            TEXT,
  subject                 TEXT,
  properties              TEXT,
  dead_letter_reason      TEXT,
  dead_letter_description TEXT,
  body                    BLOB
) STRICT;

-- Bodies over INLINE_BYTES_MAX; such a message has a NULL body. A change of state rewrites the whole row, so
-- a large body beside it would be written again by every claim and every settlement.
CREATE TABLE bodies (
  id   INTEGER PRIMARY KEY,
  body BLOB NOT NULL
) STRICT;

-- The claim (state 1 from the lowest id), peek by state, the oldest of a state, the head of a strict queue.
-- The row id is part of every index, so this is (queue_id, state, id).
CREATE INDEX messages_by_state ON messages (queue_id, state);

-- The head of a group: its first row that is not dead-lettered.
CREATE INDEX messages_by_group ON messages (queue_id, group_id) WHERE group_id IS NOT NULL AND state < 6;

-- Locks by the end of their lease, schedules by their time, messages by the end of their life.
CREATE INDEX messages_by_lease ON messages (locked_until) WHERE state = 3;
CREATE INDEX messages_by_time ON messages (visible_at) WHERE state = 4;
CREATE INDEX messages_by_expiry ON messages (expires_at) WHERE expires_at > 0 AND state < 6;

-- What a settled lease did, for thirty minutes, so that the identical request can be repeated. Appended in
-- time order and pruned from the front; looked up by sequence number.
CREATE TABLE receipts (
  id         INTEGER PRIMARY KEY,
  seq_number INTEGER NOT NULL,
  queue_id   INTEGER NOT NULL,
  verb       INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  lock_token BLOB NOT NULL,
  args       BLOB
) STRICT;

CREATE INDEX receipts_by_seq ON receipts (seq_number);

-- Duplicate detection: which key was accepted when, with which body. Kept after the message is gone.
CREATE TABLE dedup (
  queue_id   INTEGER NOT NULL,
  key        TEXT NOT NULL,
  body_hash  BLOB NOT NULL,
  seq_number INTEGER NOT NULL,
  seen_at    INTEGER NOT NULL,
  PRIMARY KEY (queue_id, key)
) STRICT;

CREATE INDEX dedup_by_age ON dedup (queue_id, seen_at);

-- Replies of Receive under a caller's attempt id, kept whole (msgpack) because a replay must be the same
-- batch even when its messages are gone. And, with queue_id 0, replies of SendResult under a request id.
CREATE TABLE attempts (
  queue_id   INTEGER NOT NULL,
  attempt_id TEXT NOT NULL,
  expires_at INTEGER NOT NULL,
  reply      BLOB NOT NULL,
  PRIMARY KEY (queue_id, attempt_id)
) STRICT;

CREATE INDEX attempts_by_expiry ON attempts (expires_at);

-- Which topic a subscription's backing queue listens to, and its filter; NULL matches everything. A topic
-- exists exactly while a row names it.
CREATE TABLE subscriptions (
  queue_id   INTEGER PRIMARY KEY,
  topic      TEXT NOT NULL,
  expr       TEXT,
  created_at INTEGER NOT NULL
) STRICT;

CREATE INDEX subscriptions_by_topic ON subscriptions (topic);

-- Deleted queues, for a day, so that a repeated deletion is answered and never hits a successor.
CREATE TABLE tombstones (
  name       TEXT NOT NULL,
  generation TEXT NOT NULL,
  deleted_at INTEGER NOT NULL,
  PRIMARY KEY (name, generation)
) STRICT;

-- Managed credentials. Only a digest of the token is kept. permissions: 1 send, 2 listen, 4 manage, added
-- up; manage is stored as 7.
CREATE TABLE access_keys (
  id          TEXT PRIMARY KEY CHECK (length(id) = 32),
  name        TEXT NOT NULL,
  token_hash  BLOB NOT NULL UNIQUE CHECK (length(token_hash) = 32),
  permissions INTEGER NOT NULL CHECK (permissions IN (1, 2, 3, 7)),
  created_at  INTEGER NOT NULL,
  expires_at  INTEGER NOT NULL,
  revoked_at  INTEGER NOT NULL
) STRICT;

CREATE INDEX access_keys_by_age ON access_keys (created_at, id);
