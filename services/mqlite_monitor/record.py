"""Recordings: what was seen, a line of JSON a tick, to be looked at again later.

`Recorder` is fed by `app` and writes a new file that only its owner reads; `Replay` reads one and
makes the same snapshots again. The first line says what the file is; each further line is an answer
of Observe with its zero counters left out, or why there was none. Rules: a recording has a bound; a
file that cannot be written any more ends the recording and not the monitor; a line that was cut off
by the end of the program is passed over.
"""

from __future__ import annotations

import os
from io import FileIO
from pathlib import Path

import msgspec

from mqlite_actor import InvalidArgument
from mqlite_actor.contract.observe import ObserveResponse
from mqlite_monitor.sampling import HISTORY_TICKS, Sampler
from mqlite_monitor.snapshot import Snapshot

RECORDING_BYTES_MAX = 1_000_000_000
"""Some ten hours of a hundred queues at a tick a second; an incident is shorter."""

LINE_BYTES_MAX = 32 * 1024 * 1024
"""The bound of an answer of Observe (spec/wire.md 2.19)."""

FORMAT = 1


class Head(msgspec.Struct, frozen=True):
    """The first line."""

    mqlite_top: int
    source: str


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tick: an answer, or why there was none."""

    observed: ObserveResponse | None = None
    failure: str = ""


class Recorder:
    """A recording that grows. `fault` says why it does not any more, or is ""."""

    __slots__ = ("_file", "_size", "fault", "ticks")

    def __init__(self, path: str, *, source: str) -> None:
        """Begin the file; InvalidArgument if it exists or cannot be made."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            # Unbuffered: a full disk is noticed at its tick, and closing cannot fail.
            self._file = FileIO(os.open(path, flags, 0o600), "wb")
        except OSError as error:
            raise InvalidArgument(f"--record: {path}: {error.strerror}; name a new file") from error
        self._size = 0
        self.ticks = 0
        self.fault = ""
        self._write(msgspec.json.encode(Head(mqlite_top=FORMAT, source=source)))

    def answer(self, observed: ObserveResponse) -> None:
        """Keep an answer."""
        self.ticks += 1
        self._write(msgspec.json.encode(Entry(observed=_without_zeros(observed))))

    def failure(self, reason: str) -> None:
        """Keep that there was none."""
        self._write(msgspec.json.encode(Entry(failure=reason)))

    def close(self) -> None:
        """End the file."""
        self._file.close()

    def _write(self, line: bytes) -> None:
        if self.fault:
            return
        if self._size + len(line) >= RECORDING_BYTES_MAX:
            self.fault = "the recording has reached 1 GB and was ended"
            return
        try:
            rest = memoryview(line + b"\n")
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            self.fault = f"the recording was ended: {error.strerror}"
        self._size += len(line) + 1


def _without_zeros(observed: ObserveResponse) -> ObserveResponse:
    """The same counters; a missing one reads as zero."""
    http = msgspec.structs.replace(
        observed.http, requests=[each for each in observed.http.requests if each.count]
    )
    storage = msgspec.structs.replace(
        observed.storage,
        operations=[each for each in observed.storage.operations if each.duration.count],
    )
    messages = [each for each in observed.messages if each.count]
    return msgspec.structs.replace(observed, http=http, storage=storage, messages=messages)


class Replay:
    """A recording that is read. `snapshot` and `failure` are those of the entry at `at`."""

    __slots__ = ("_decoder", "_file", "_offsets", "_sampler", "at", "failure", "snapshot", "source")

    def __init__(self, path: str) -> None:
        """Open it at its first entry; InvalidArgument if it is no recording or an empty one."""
        self._decoder = msgspec.json.Decoder(Entry)
        try:
            self._file = Path(path).open("rb")  # noqa: SIM115 - closed by `close`
        except OSError as error:
            raise InvalidArgument(f"--replay: {path}: {error.strerror}") from error
        try:
            self.source = _head(self._file.readline(LINE_BYTES_MAX)).source
            self._offsets = self._index()
        except (InvalidArgument, OSError) as error:
            self._file.close()
            raise InvalidArgument(f"--replay: {path}: {error}") from error
        self._sampler = Sampler()
        self.snapshot: Snapshot | None = None
        self.failure = ""
        self.at = -1
        self.go_to(0)

    def __len__(self) -> int:
        return len(self._offsets)

    def go_to(self, at: int) -> None:
        """Show this entry, or the nearest that there is, with the rates that it had."""
        at = min(max(0, at), len(self) - 1)
        begin = self.at + 1
        if at < begin or at > begin + HISTORY_TICKS:
            self._sampler, self.snapshot = Sampler(), None
            begin = max(0, at - HISTORY_TICKS)
        for each in range(begin, at + 1):
            self._take(each)
        self.at = at

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _take(self, at: int) -> None:
        self._file.seek(self._offsets[at])
        try:
            entry = self._decoder.decode(self._file.readline(LINE_BYTES_MAX))
        except msgspec.MsgspecError as error:
            self.failure = f"record {at + 1} cannot be read: {error}"
            return
        self.failure = entry.failure
        if entry.observed is not None:
            self.snapshot = self._sampler.take(entry.observed)

    def _index(self) -> list[int]:
        """Where each whole line begins."""
        offsets, at = [], self._file.tell()
        while line := self._file.readline(LINE_BYTES_MAX):
            if line.endswith(b"\n"):
                offsets.append(at)
            at += len(line)
        if not offsets:
            raise InvalidArgument("there is nothing in this recording")
        return offsets


def _head(line: bytes) -> Head:
    try:
        head = msgspec.json.decode(line, type=Head)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidArgument("this is no recording of mqlite top") from error
    if head.mqlite_top != FORMAT:
        raise InvalidArgument(f"a recording of format {head.mqlite_top}; this program has {FORMAT}")
    return head
