"""Every bound of the system, each with its reason.

Used on all floors. Times carry their unit in the name. The relations between bounds stand at the
end and are asserted when this module is imported, so that a changed number cannot break a neighbour
silently.
"""

from __future__ import annotations

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

INT64_MAX: Final = 2**63 - 1
INT64_MIN: Final = -(2**63)

# -- the wire (spec/wire.md 1.7) -------------------------------------------------------------------

REQUEST_BYTES_MAX: Final = 32 * MIB
"""One HTTP request body; the contract's number."""

MESSAGE_BYTES_DEFAULT: Final = 1 * MIB
"""One decoded message body unless MQLITE_MAX_MESSAGE_BYTES says otherwise; equality is allowed."""

NESTING_MAX: Final = 200
"""Depth of request JSON. The deepest legal has four levels; Python's own limit is far above."""

REQUEST_UNCOUNTED_BYTES: Final = 256 * KIB
REQUEST_OBJECTS_MAX: Final = 256 * KIB
REQUEST_VALUES_MAX: Final = 2 * MIB
"""JSON objects (messages are some) and values in a request that is long enough to be counted. A
request of 32 MiB could hold ten million empty messages, half a minute of decoding; these are some
seconds at most, and a full body of 1 MiB as a list of integers still fits."""

INTEGER_DIGITS_MAX: Final = 20
"""Characters of a JSON integer before it is refused unread: int64 needs 20 with its sign."""

RECEIVE_MESSAGES_MAX: Final = 256
RECEIVE_WAIT_MS_MAX: Final = 20_000
PAGE_BYTES_MAX: Final = 32 * MIB
"""Whatever answers with messages stops after the one with which bodies and texts reach this total;
one is always returned."""

TEXT_FACTOR: Final = 6
"""What a byte of text weighs in that total: one control character becomes six bytes of JSON.
Properties, which are kept as JSON, count as they are."""

ENVELOPE_BYTES: Final = 480
"""What a message in a reply needs at most besides its body and texts: names, numbers, the token."""

RECALLED_MAX: Final = 40_000
"""Deferred messages that one call gives out: as many envelopes as have room beside a page."""

PEEK_DEFAULT: Final = 32
PEEK_MAX: Final = 1000
RENEW_BATCH_MAX: Final = 512

RELEASE_BATCH_MAX: Final = 512
"""Leases given back by one call: two full receives, as for a renewal."""

EXPLAIN_ROWS: Final = 1000
EXPLAIN_LANES: Final = 32
"""Waiting messages that Explain looks at, and blocked lines that it names: 2 ms of work."""

SEARCH_ROWS: Final = 512
SEARCH_BYTES: Final = 4 * MIB
"""Messages that one page of a search looks at, and bytes of bodies when it looks into those: some
5 ms of work, so that a long search never holds anybody up."""

SEARCH_SECONDS: Final = 0.1
"""How long one page asks the filter of a search, in turns with whatever else asks filters. Usual
ones are through with a page in a tenth of that."""

SELECTED_MAX: Final = 1000
"""Numbers that one RedriveSelected takes: a full page of Peek."""

REQUEST_ID_BYTES_MAX: Final = 255
"""Of a request id. A UUID has 36; a header of this length passes every proxy."""

KEY_NAME_BYTES_MAX: Final = 128
KEYS_PAGE_DEFAULT: Final = 100
KEYS_PAGE_MAX: Final = 1000

# -- time (design.md ruling R26) -------------------------------------------------------------------

DURATION_MS_MAX: Final = 2**53
"""Durations saturate here: every JSON reader holds it exactly, and 285,000 years is for ever."""

INSTANT_MS_MAX: Final = 253_402_300_799_999
"""9999-12-31T23:59:59.999Z, the last instant that every date library can write. A caller who names
a later one is refused; a computed one is stored as this."""

LOCK_DURATION_MS_DEFAULT: Final = 30_000
MAX_DELIVERY_COUNT_DEFAULT: Final = 10
MAX_DELIVERY_COUNT_MAX: Final = 2**31 - 1
"""More deliveries than any lease could live through; keeps sums far from int64."""

TOMBSTONE_MS: Final = 86_400_000
"""How long a deletion is remembered, so that its repetition is answered (decision 2)."""

RECEIPT_MS: Final = 1_800_000
"""A settlement receipt answers replays for 30 minutes (spec/engine.md 3.6)."""

REQUEST_ID_MS: Final = 1_800_000
"""The reply to a send under a request id is kept for 30 minutes (ruling R46)."""

ATTEMPT_MS_MIN: Final = 300_000
"""A receive attempt is remembered for the longer of this and the queue's lock duration."""

# -- the actor (design.md 3, rulings R41 and R50) --------------------------------------------------

GROUP_COMMANDS_MAX: Final = 256
GROUP_BYTES_MAX: Final = 8 * MIB
"""One transaction takes at most this much of what waits: about 10 ms of work, and little enough to
run again one by one after a failure. It ends sooner where it gives out PAGE_BYTES_MAX."""

INLINE_ROWS: Final = 1024
INLINE_GROUP_BYTES: Final = 1 * MIB
INLINE_SECONDS: Final = 0.005
INLINE_PAUSE_SECONDS: Final = 0.1
"""A broker runs groups up to this size in its trio thread, about 5 ms of work (ruling R44). After
one that took longer they go to the storage thread for the pause."""

INLINE_TURNS: Final = 32
"""Commands that one caller may have run in its own turn, one after the other, before the actor gets
one: some three milliseconds."""

MAILBOX_COMMANDS_MAX: Final = 10_000
MAILBOX_BYTES_MAX: Final = 128 * MIB
"""What may wait for the writer. A caller beyond it waits for room; at some 10,000 commands a second
a full mailbox is about a second of work."""

MAILBOX_WAIT_SECONDS: Final = 10.0
"""How long a caller waits for room before `unavailable`: well below every client's patience."""

WAITERS_MAX: Final = 100_000
"""Parked receives over all queues. Each is a task of a few KiB; more is a client in a loop."""

TX_SECONDS: Final = 5.0
TX_SECONDS_MAX: Final = 30.0
"""How long a transaction of the embedding program may hold the writer, by default and at most:
everybody else waits meanwhile, and the shortest usual lease is 30 s (ruling R43)."""

WRITER_BUSY_SECONDS: Final = 1.0
"""A group that takes longer is reported (ruling R50): a hundred times what one takes."""

WRITER_STUCK_SECONDS: Final = 10.0
"""A writer that is busy for longer is not ready for work: beyond a wait for a foreign lock and the
usual transaction of a program, of 5 s each."""

WRITER_WATCH_SECONDS: Final = 0.25
"""How often the watchdog looks while a group runs."""

MAINTENANCE_ROWS: Final = 256
"""Rows that one maintenance command may change: 5 ms or less of the writer's time."""

RECOVERY_ROWS: Final = 4096
"""Leases ended per transaction while opening, when nobody waits yet: about 50 ms."""

MAINTENANCE_SLICES_MAX: Final = 10_000
"""Commands of one maintenance pass before the rest is left to the next: 2.5 million rows."""

SWEEP_SECONDS: Final = 1.0
EXPIRE_SECONDS: Final = 10.0
PRUNE_SECONDS: Final = 60.0
"""Cadence of the passes (spec/engine.md 4.1): locks and schedules, expiry, receipts."""

SWEEP_PAUSE_SECONDS: Final = 0.005
"""Between two runs of a pass: what falls due within 5 ms is taken together."""

BACKOFF_SECONDS_MAX: Final = 30.0
"""A failing pass is retried after its period, doubled for each failure up to this."""

# -- storage ---------------------------------------------------------------------------------------

BUSY_MS: Final = 5_000
"""How long SQLite waits for a foreign lock on the file (spec/engine.md 2.3)."""

CACHE_KIB: Final = 8 * KIB
"""Page cache of the writer: the hot end of every index, and the memory of a small broker."""

READ_THREADS_MAX: Final = 3
"""Looks that run in threads at a time. A look needs the interpreter for most of its time, so more
of them would only wait for each other."""

READERS_MAX: Final = READ_THREADS_MAX + 1
"""Read-only connections of one process: one each for those, and one that no large look can take
from the small ones, the check of an access key among them. Each may hold READER_CACHE_KIB."""

READER_CACHE_KIB: Final = KIB
"""SQLite page cache of one reader: the upper levels of the indexes. Bodies pass through once."""

READ_SECONDS: Final = 5.0
"""A look that takes longer is stopped: as long as it runs, the log cannot be cut behind it. The
largest page (PAGE_BYTES_MAX) takes a tenth of a second from a usual disk."""

READ_BUSY_MS: Final = 1_000
"""How long a look waits for a foreign lock. Only a program that opens, repairs or leaves the file
holds one that readers feel, and for moments."""

INLINE_BYTES_MAX: Final = KIB
"""A longer body is kept beside its row; rows written under another bound stay readable. Chosen by
measurement (docs/decisions/0004-layout.md)."""

WAL_BYTES_KEPT: Final = 64 * MIB
"""A log that grew past this under a long reader is cut back to it by the next checkpoint that can.
"""

CHECKPOINT_PAGES: Final = 1000
"""Length of the log, 4 MiB, from which it is moved into the file beside the writer; SQLite's own
number for the automatic checkpoints that this replaces."""

RECLAIM_PAGES_MIN: Final = 256
"""Free pages from which they are given back to the disk (spec/engine.md 1.5)."""

RECLAIM_PAGES: Final = 256
"""Pages given back by one command: 1 MiB, some milliseconds of the writer's time."""

CHORE_ROWS: Final = 256
"""Messages that one chunk of a redrive or purge touches."""

BACKUP_PAGES: Final = 256
"""Pages that one step of a backup copies: 1 MiB, after which it looks whether it is to end."""

LOG_PAGES_MAX: Final = 8 * CHECKPOINT_PAGES
"""Length, 32 MiB, at which the writer begins it anew, because steady writing kept the other from
reaching its end. Twice as long would not be faster (docs/decisions/0005-checkpoints.md)."""

LOG_WAIT_MS: Final = 20
"""How long the writer, about to cut a log that is too long, waits for looks that began before: they
are short, and those that begin meanwhile are not in the way. As long as any slice of its time."""

FULL_WAIT_MS: Final = 5 * LOG_WAIT_MS
"""How long it waits for them where a settlement would be refused otherwise: the disk is full."""

RESERVE_BYTES: Final = 8 * MIB
"""Room on the disk that no send may take: settlements and purges write too, up to 256 messages a
transaction, and free space only after they did. A quarter is theirs alone. What the log holds is
kept free besides, so that it can always be moved into the file."""

ROOM_PAGES: Final = 64
"""Pages that the log may grow before the disk is asked again how much is free, and before it is cut
where little is: so that groups of small sends cost no system call each."""

CHECKPOINT_PAUSE_SECONDS: Final = 0.2
"""After a checkpoint that failed, or that a reader held up."""

CLOSE_SECONDS: Final = 10.0
"""How long close waits for work that has begun before it reports that it could not end in order."""

# -- remote stores (spec/remote.md) ----------------------------------------------------------------

REMOTE_CONNECT_SECONDS: Final = 5.0
REMOTE_ANSWER_SECONDS: Final = 15.0
"""To connect, and for one request's answer: a server lets a writer wait 5 s for the lock (sqld)."""

REMOTE_PATIENCE_SECONDS: Final = 15.0
"""How long a transaction is tried again, and a lost answer looked for, before its callers are told.
"""

LEAVE_SECONDS: Final = 2.0
GOODBYE_SECONDS: Final = 1.0
"""How long a group may go on once the engine is to end, and how long a database may take to hear
that it has no owner any more; then the connection is cut, so that the end never waits for one that
is dead."""

REMOTE_PAUSE_SECONDS: Final = 0.05
REMOTE_PAUSE_SECONDS_MAX: Final = 2.0
"""Before a repetition, doubled each time, with a random part; about one round trip to begin with.
A Retry-After of the server counts instead, up to the patience."""

REMOTE_KEEP_SECONDS: Final = 3.0
"""An idle connection is not used again after this: servers close theirs, and a request on a closed
one has to be looked for."""

REMOTE_REPLY_BYTES_MAX: Final = 64 * MIB
"""Of one answer; sqld gives 10 MiB, and others have no bound of their own."""

REMOTE_STEPS_MAX: Final = 2000
"""Statements in one request. Only CompleteBatch of very many, and passes after a long rest, have
more: about 100 ms of a server's time each."""

REMOTE_PAGE_BYTES: Final = 4 * MIB
"""What PAGE_BYTES_MAX is elsewhere: base64 and names make 6 MiB of it, and sqld answers 10."""

REMOTE_RECALLED_MAX: Final = 1000
"""What RECALLED_MAX is elsewhere: each comes with the names of its columns."""

REMOTE_SWEEP_FACTOR: Final = 10
"""The passes' safety net is wider on a remote store, where each look costs a round trip; what is
known to fall due is still taken in time."""

OWNER_LEASE_MS: Final = 10_000
OWNER_STAY_SECONDS: Final = 3.0
"""How long a remote database belongs to the engine that wrote to it last, and how often an idle one
writes: two such writes may fail. A successor waits for the rest of the lease."""

SKEW_MS_MAX: Final = 2_000
"""Between the clocks of this machine and of the database, before a warning: the shortest leases in
use are some seconds."""

# -- filters ---------------------------------------------------------------------------------------

COMPILED_FILTERS_MAX: Final = 1024
"""Compiled filters kept by their text: more than the subscriptions of a large broker."""

FILTERED_BODY_BYTES: Final = 16 * 1024
"""A longer body is parsed for a filter outside of the writer: about a millisecond of work."""

FILTER_CALL_BYTES: Final = 300
FILTER_WORK_MAX: Final = 20_000_000
FILTER_WIDE_WORK_MAX: Final = 500_000
"""A longer filter, its length times that of a message's texts and of a call, is asked outside of
the writer: half a millisecond, and more than ten of what is usual. The second one is for texts that
are not ASCII, whose letters take thirty times as long to be made upper or lower."""

FILTER_SLICE_SECONDS: Final = 0.005
"""Filters are asked for this long before others get their turn: Python's own switch interval."""

VERDICT_ROUNDS_MAX: Final = 8
"""Rounds of asking while a topic's subscriptions change under a send, before it is refused."""

# -- the HTTP door (spec/wire.md 5.1) --------------------------------------------------------------

HEADER_SECONDS: Final = 10.0
BODY_SECONDS: Final = 60.0
IDLE_SECONDS: Final = 120.0
GRACE_SECONDS: Final = 2.0
"""After SIGTERM, what is still unanswered after this is cut (ruling R25)."""

# -- the link (design.md 4, rulings R7, R42 and R47) -----------------------------------------------

LINK_ITEMS_BYTES: Final = 256 * KIB
"""Small items gather in one frame up to this; a larger item goes alone."""

LINK_ITEMS_MAX: Final = 65_535
"""Items in one frame: what a two-byte array header can say."""

LINK_ASK_BYTES_MAX: Final = REQUEST_BYTES_MAX + 64 * KIB
"""A frame towards the engine: the largest request, and room for what stands around it."""

STORED_BYTES_MAX: Final = 2 * LINK_ASK_BYTES_MAX
"""A message as it is kept: what one request sent, and why another one buried it. Only edits of dead
letters, and programs that take larger messages than any front end, make a larger one."""

LINK_REPLY_BYTES_MAX: Final = 4 * REQUEST_BYTES_MAX
"""A frame from the engine: a full page, and the message that filled it. A longer reply is refused.
"""

LINK_CALLS_MAX: Final = 20_000
"""Calls in flight on one link, and claims that its peer has not confirmed: twice what the mailbox
takes."""

LINK_ASKS_BYTES_MAX: Final = 64 * MIB
"""Requests in flight on one link; while there are more, it is not read: half of the mailbox."""

LINK_UNSENT_BYTES: Final = 8 * MIB
"""While more than this waits to be written, nothing new is read or asked."""

LINK_OWED_BYTES_MAX: Final = 256 * MIB
"""Replies that wait for a peer before looks and claims under leases are refused: several full pages
at once are honest. With twice as much, of what cannot be refused, the peer is cut: it asks and does
not read."""

LINK_STALL_SECONDS: Final = 10.0
"""A peer that takes nothing for so long is cut; a live one on the same machine needs
microseconds."""

LINK_HELLO_SECONDS: Final = 10.0
"""From connecting to the other side's first frame."""

LINK_CANCEL_SECONDS: Final = 10.0
"""How long a cancelled call waits to learn whether it had run: one group, one sync, and a foreign
lock of BUSY_MS."""

LINK_WAIT_SECONDS: Final = 5.0
"""How long a call waits for a lost link to come back: a restart of the broker takes a second."""

LINK_RETRY_SECONDS: Final = 0.05
LINK_RETRY_SECONDS_MAX: Final = 2.0
"""Between two attempts to connect, doubled each time."""

LINKS_MAX: Final = 256
"""Programs linked to one engine; more wait. Each may hold twice LINK_OWED_BYTES_MAX."""

assert RECEIVE_MESSAGES_MAX <= RENEW_BATCH_MAX, "one renewal must cover one receive"
assert RECEIVE_MESSAGES_MAX <= RELEASE_BATCH_MAX, "one release must cover one receive"
assert MESSAGE_BYTES_DEFAULT < PAGE_BYTES_MAX <= REQUEST_BYTES_MAX
assert GROUP_BYTES_MAX <= MAILBOX_BYTES_MAX and GROUP_COMMANDS_MAX <= MAILBOX_COMMANDS_MAX
assert REQUEST_BYTES_MAX <= MAILBOX_BYTES_MAX, "the largest legal request must fit an empty mailbox"
assert LOG_WAIT_MS < FULL_WAIT_MS < READ_BUSY_MS < READ_SECONDS * 1000, (
    "a wait is part of what it waits for"
)
assert READERS_MAX * READER_CACHE_KIB <= CACHE_KIB, "looking must not cost more than writing"
assert DURATION_MS_MAX + INSTANT_MS_MAX < INT64_MAX, "an instant plus a duration must not overflow"
assert LINK_ASK_BYTES_MAX < LINK_ASKS_BYTES_MAX <= MAILBOX_BYTES_MAX
assert max(PEEK_MAX, RECEIVE_MESSAGES_MAX, SEARCH_ROWS) <= RECALLED_MAX
assert PAGE_BYTES_MAX + STORED_BYTES_MAX + RECALLED_MAX * ENVELOPE_BYTES < LINK_REPLY_BYTES_MAX
assert LINK_REPLY_BYTES_MAX < LINK_OWED_BYTES_MAX and BUSY_MS / 1000 < LINK_CANCEL_SECONDS
