"""`send --ndjson`, `--lines` and `--count`, and `import`: many messages, in batches.

Called by `messages`, `copying` and `carrying`; reads standard input or a file, line by line. Rules:
a batch is sent when it is full or when nothing more is there to read, so a slow producer is not
held up; the broker takes a batch whole or not at all, except that it refuses a message whose id was
used with another body, alone; when anything fails, the line is named that it fails at, and all
lines in front of it are stored; what cannot be known is said.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from mqlite_actor.clock import SystemClock
from mqlite_actor.contract.errors import (
    DedupConflict,
    GroupRequired,
    InvalidArgument,
    MessageTooLarge,
    MqliteError,
    OutcomeUnknown,
    Unsupported,
)
from mqlite_actor.contract.ext import SendResultRequest, SlotOutcome
from mqlite_actor.contract.limits import REQUEST_BYTES_MAX
from mqlite_actor.contract.wire import Message, ScheduleRequest, SendRequest, StatsRequest
from mqlite_cli.invocation import Caller, Invocation
from mqlite_cli.refusals import Refusal
from mqlite_cli.stopping import stops_interrupt
from mqlite_cli.streams import STDIN, read_some
from mqlite_cli.terminal import Tick
from mqlite_cli.their_time import Now, reached_ms

BATCH_MESSAGES = 256
"""As many as one receive takes; the cost of a call is spread over enough of them by then."""

BATCH_BYTES = 4 * 1024 * 1024
"""Of lines, an eighth of the largest request; a longer line goes alone."""

_CHUNK_BYTES = 64 * 1024
_OF_A_MESSAGE = (InvalidArgument, GroupRequired, MessageTooLarge, DedupConflict)
"""Refusals of a batch that one of its messages may have caused."""


class Entry(NamedTuple):
    """One line as a message. `at_ms`: when it may be delivered, 0 for at once. One whose time to
    live is over is not sent, and counted."""

    message: Message
    at_ms: int = 0
    is_expired: bool = False


ReadLine = Callable[[bytes, Now], Entry | None]
"""What a line means; None is nothing. ValueError says what is wrong with it."""


class _Line(NamedTuple):
    number: int
    size: int
    entry: Entry
    expired: int  # lines in front of it


def feed(
    run: Invocation, queue: str, read: ReadLine, *, ttl_ms: int = 0, tells_expired: bool = False
) -> int:
    """Send every line of the stream to `queue`; 0, or the error that names its line. The result has
    the number of those that have expired where `read` tells of any."""
    with _source(run) as descriptor:
        lines = _lines(descriptor)
        return feed_lines(run, queue, lines, read, ttl_ms=ttl_ms, tells_expired=tells_expired)


def feed_lines(
    run: Invocation,
    queue: str,
    lines: Iterator[tuple[int, bytes] | None],
    read: ReadLine,
    *,
    ttl_ms: int = 0,
    tells_expired: bool = False,
) -> int:
    """The same for numbered lines that come from elsewhere; None is a pause."""
    feeder: list[_Feeder] = []

    def work(caller: Caller, tick: Tick) -> _Feeder:
        feeder.append(_Feeder(caller, queue, ttl_ms, tick))
        feeder[0].run(lines, read)
        return feeder[0]

    with stops_interrupt():
        try:
            with run.output.terminal.progress(f"sending to {queue}", beside=STDIN) as tick:
                done = run.session(lambda caller: work(caller, tick))
        except KeyboardInterrupt:
            run.warn(feeder[0].progress if feeder else "nothing was sent")
            raise
    if done.expired:
        run.warn(f"{done.expired} message(s) had expired and are left out")
    run.output.done({
        "action": run.command.name, "queue": queue, "sent": done.sent, "unrouted": done.unrouted,
        **({"expired": done.expired} if tells_expired else {}),
    })  # fmt: skip
    return 0


class _Feeder:
    """What was sent, and what is gathered for the next call."""

    __slots__ = (
        "_batch", "_caller", "_doubtful", "_has_asked", "_has_ids", "_last", "_left_out", "_queue",
        "_refused", "_size", "_tick", "_ttl_ms", "expired", "sent", "unrouted",
    )  # fmt: skip

    def __init__(self, caller: Caller, queue: str, ttl_ms: int, tick: Tick) -> None:
        self._tick = tick
        self._has_asked = False  # for the time
        self._has_ids = True  # until a broker says that it knows no request ids
        self._caller = caller
        self._queue = queue
        self._ttl_ms = ttl_ms
        self._batch: list[_Line] = []
        self._size = 0
        self._last = 0  # number of the last line that is done with
        self._doubtful: tuple[int, int] | None = None
        self._left_out = 0  # so many had expired until then
        self._refused: list[int] = []  # numbers of lines
        self.expired = 0
        self.sent = 0
        self.unrouted = 0

    @property
    def progress(self) -> str:
        """How far it came, for whoever wants to go on."""
        done = f"{self.sent} message(s) are stored, all of the first {self._last} line(s)"
        but = [f"line(s) {', '.join(map(str, self._refused))}"] if self._refused else []
        if self._left_out:
            but.append(f"{self._left_out} that had expired")
        if but:
            done += f" but {' and '.join(but)}"
        if self._doubtful is None:
            return done
        first, last = self._doubtful
        return f"{done}; whether lines {first} to {last} are is not known"

    def run(self, lines: Iterator[tuple[int, bytes] | None], read: ReadLine) -> None:
        """Everything there is. The error of a line comes after all lines in front are sent."""
        for each in lines:
            if each is None:
                self.flush()
                continue
            number, line = each
            try:
                entry = read(line, self._reached_ms)
            except ValueError as error:
                self.flush()
                raise Refusal(f"line {number}: {error}; {self.progress}") from error
            if entry is None:
                continue
            if entry.is_expired:
                self._leave_out(number)
            else:
                self._gather(_Line(number, len(line), entry, self.expired))
        self.flush()

    def _leave_out(self, number: int) -> None:
        self.expired += 1
        if not self._batch:
            self._last, self._left_out = number, self.expired

    def _gather(self, line: _Line) -> None:
        first = self._batch[0].entry if self._batch else line.entry
        if self._size + line.size > BATCH_BYTES or first.at_ms != line.entry.at_ms:
            self.flush()
        self._batch.append(line)
        self._size += line.size
        if len(self._batch) >= BATCH_MESSAGES:
            self.flush()

    def flush(self) -> None:
        """Send what is gathered. A refusal that is one message's names its line."""
        batch, self._batch, self._size = self._batch, [], 0
        if not batch:
            return
        try:
            self._send(batch)
        except _OF_A_MESSAGE:
            # One by one, so that those in front of the culprit are stored and it has a name.
            for line in batch:
                self._send_named(line)
        except MqliteError as error:
            error.add_note(self.progress)
            raise
        if self._refused:
            raise DedupConflict(
                "a message id was used with another body inside the duplicate window;"
                f" {self.progress}"
            )

    def _send_named(self, line: _Line) -> None:
        try:
            self._send_in_time(line)
        except MqliteError as error:
            error.add_note(f"line {line.number} failed; {self.progress}")
            raise

    def _send_in_time(self, line: _Line) -> None:
        """A line that is refused for later is for now, if its time has come since it was read."""
        try:
            self._send([line])
        except InvalidArgument:
            at_ms = line.entry.at_ms
            # The latest that it can be at the broker; another cause is refused again.
            now_ms = self._caller.now_ms() or SystemClock().now_ms()
            if not 0 < at_ms <= now_ms:
                raise
            self._send([line._replace(entry=Entry(line.entry.message))])

    def _reached_ms(self) -> int:
        """As Now says; this machine's own clock where a broker's answers name no time."""
        if self._has_asked:
            return self._caller.reached_ms() or SystemClock().now_ms()
        self._has_asked = True
        try:
            return reached_ms(self._caller, StatsRequest(self._queue))
        except MqliteError as error:
            error.add_note(self.progress)
            raise

    def _send(self, batch: list[_Line]) -> None:
        self._doubtful = (batch[0].number, batch[-1].number)
        try:
            outcomes = self._ask([line.entry.message for line in batch], batch[0].entry.at_ms)
        except OutcomeUnknown:
            raise
        except MqliteError:
            self._doubtful = None
            raise
        self._doubtful = None
        self._last, self._left_out = batch[-1].number, batch[-1].expired
        told = [*zip(batch, outcomes, strict=True)]
        refused = [line.number for line, what in told if what is SlotOutcome.CONFLICT]
        self._refused += refused
        self.sent += len(batch) - len(refused)
        self._tick(f"{self.sent} messages")
        self.unrouted += outcomes.count(SlotOutcome.UNMATCHED)

    def _ask(self, messages: list[Message], at_ms: int) -> list[SlotOutcome]:
        """Store a batch; what became of each of it.

        Under an id of its own where the broker knows that, so that a lost answer can be asked for
        again and each message is answered for itself.
        """
        if self._has_ids:
            ttl_ms = 0 if at_ms else self._ttl_ms
            named = SendResultRequest(self._queue, messages, at_ms, ttl_ms, os.urandom(16).hex())
            try:
                return [slot.outcome for slot in self._caller.call(named).results]
            except Unsupported:  # a broker of another make; it has done nothing
                self._has_ids = False
        numbers = self._caller.call(self._plain(messages, at_ms)).seq_numbers
        return [
            SlotOutcome.INSERTED if number else self._why_not(message, at_ms)
            for message, number in zip(messages, numbers or [0] * len(messages), strict=True)
        ]

    def _why_not(self, message: Message, at_ms: int) -> SlotOutcome:
        """Why a message of a batch got no number: asked by sending it alone, which stores nothing
        that was refused and says so. A question that fails leaves open what became of the batch."""
        if message.message_id:
            try:
                self._caller.call(self._plain([message], at_ms))
            except DedupConflict:
                return SlotOutcome.CONFLICT
            except MqliteError as error:
                raise OutcomeUnknown(
                    f"why a message was not stored cannot be asked ({error.message})"
                ) from error
        return SlotOutcome.UNMATCHED

    def _plain(self, messages: list[Message], at_ms: int) -> SendRequest:
        if at_ms:
            return ScheduleRequest(self._queue, messages, scheduled_enqueue_time_ms=at_ms)
        return SendRequest(self._queue, messages, ttl_ms=self._ttl_ms)


@contextmanager
def _source(run: Invocation) -> Iterator[int]:
    """The descriptor of `--file`, or of standard input."""
    words, path = run.arguments.words[1:], run.arguments.text("file")
    if words not in ([], ["-"]) or (words and path):
        raise Refusal("the messages come from standard input or from --file, not from arguments")
    if not path:
        if run.streams.is_stdin_closed:
            raise Refusal("standard input is closed; there is nothing to send")
        yield STDIN
        return
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise Refusal(f"cannot read {path}: {error.strerror}") from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _lines(descriptor: int) -> Iterator[tuple[int, bytes] | None]:
    """Numbered lines without their ends; None where a reader would have to wait for more."""
    rest, number = b"", 0
    while chunk := _read(descriptor):
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            number += 1
            yield number, line
        if len(rest) > REQUEST_BYTES_MAX:
            raise Refusal(f"line {number + 1} has more than {REQUEST_BYTES_MAX} bytes")
        if not _has_more(descriptor):
            yield None
    if rest:
        yield number + 1, rest


def _read(descriptor: int) -> bytes:
    try:
        return read_some(descriptor, _CHUNK_BYTES)
    except OSError as error:
        raise Refusal(f"cannot read the messages: {error.strerror}") from error


def _has_more(descriptor: int) -> bool:
    if sys.platform == "win32":  # its select knows sockets alone
        return True
    return bool(select.select([descriptor], [], [], 0)[0])
