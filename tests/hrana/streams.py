"""Streams: a SQLite connection each, kept between requests by a baton that is good once.

A `Stream` answers the requests of one pipeline in order, in the thread of its HTTP request.
`Streams` opens, finds again, expires and ends them. In manners that share one connection there is
one stream for everybody. Rules: a protocol error costs the stream; leaving it rolls back what is
open in it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import struct
import threading
from typing import Final

import apsw

from mqlite_actor.clock import Clock
from tests.hrana.manners import Manners
from tests.hrana.stream import Stream
from tests.hrana.values import ProtocolError
from tests.hrana.writers import Writers

ROW_BYTES_MAX: Final = 5_000_000
DISK: Final = apsw.vfs_names()[0]
"""The file system of this machine by name: the server of other tests may be asked while one test
has a failing one for everybody."""

FORGOTTEN_SECONDS: Final = 300.0
"""How long an expired stream is told from one that never was."""


class Streams:
    """All streams of a server on one file."""

    def __init__(
        self, path: str, manners: Manners, clock: Clock, *, idle_seconds: float, txn_seconds: float
    ) -> None:
        self._path = path
        self._manners = manners
        self._clock = clock
        self._idle_seconds = idle_seconds
        self._writers = Writers(clock, txn_seconds)
        self._lock = threading.Lock()
        self._key = secrets.token_bytes(32)
        self._open: dict[int, Stream] = {}
        self._expired: dict[int, float] = {}
        self._anchor = apsw.Connection(
            path, vfs=DISK
        )  # keeps the log, so that streams end at little cost
        self._anchor.execute("PRAGMA journal_mode = WAL").fetchall()
        self._anchor.execute("SELECT count(*) FROM sqlite_schema").fetchall()  # opens the log
        self._shared = self._new(0) if manners.shares_connection else None

    def acquire(self, baton: str | None) -> Stream:
        """The stream that a baton names, or a new one without; to be released or ended."""
        if self._shared is not None:
            return self._shared
        with self._lock:
            self._expire()
            if baton is not None:
                return self._find(baton)
            stream = self._new(secrets.randbits(64))
            self._open[stream.number] = stream
            stream.is_taken = True
            return stream

    def release(self, stream: Stream, baton: str | None) -> str | None:
        """The baton by which a stream is found again; None when it was closed."""
        if self._shared is not None:
            return baton
        with self._lock:
            if stream.is_closed:
                self._end(stream)
                return None
            stream.is_taken, stream.last_used = False, self._clock.monotonic()
            return self._baton(stream)

    def end(self, stream: Stream) -> None:
        """Roll back and forget a stream."""
        with self._lock:
            if stream is not self._shared:
                self._end(stream)

    def forget_all(self) -> None:
        """What a restart does to streams: every baton names nothing any more."""
        with self._lock:
            for stream in [each for each in self._open.values() if not each.is_taken]:
                self._end(stream)
            self._key = secrets.token_bytes(32)

    def close(self) -> None:
        """End all; nobody may be at work."""
        with self._lock:
            for stream in list(self._open.values()):
                self._end(stream)
            if self._shared is not None:
                self._shared.leave()
            self._anchor.close(True)

    @property
    def number_open(self) -> int:
        """How many streams are kept."""
        with self._lock:
            self._expire()
            return len(self._open)

    def _new(self, number: int) -> Stream:
        connection = apsw.Connection(self._path, vfs=DISK)
        connection.execute("PRAGMA synchronous = NORMAL").fetchall()
        connection.limit(apsw.SQLITE_LIMIT_LENGTH, ROW_BYTES_MAX)
        stream = Stream(number, connection, self._manners, self._writers)
        stream.last_used = self._clock.monotonic()
        return stream

    def _find(self, baton: str) -> Stream:
        number, sequence = self._read(baton)
        if number in self._expired:
            message = "The stream has expired due to inactivity"
            raise ProtocolError(message, code="STREAM_EXPIRED")
        stream = self._open.get(number)
        if stream is None:
            raise ProtocolError("Received an invalid baton")
        if stream.is_taken or stream.sequence != sequence:
            raise ProtocolError("Received a baton that has already been used")
        stream.sequence += 1
        stream.is_taken = True
        return stream

    def _expire(self) -> None:
        now = self._clock.monotonic()
        for stream in list(self._open.values()):
            if not stream.is_taken and now - stream.last_used > self._idle_seconds:
                self._end(stream)
                self._expired[stream.number] = now
        for number, since in list(self._expired.items()):
            if now - since > FORGOTTEN_SECONDS:
                del self._expired[number]

    def _end(self, stream: Stream) -> None:
        self._open.pop(stream.number, None)
        stream.leave()

    def _baton(self, stream: Stream) -> str:
        payload = struct.pack(">QQ", stream.number, stream.sequence)
        return base64.b64encode(payload + self._seal(payload)).decode().rstrip("=")

    def _read(self, baton: str) -> tuple[int, int]:
        try:
            data = base64.b64decode(baton + "=" * (-len(baton) % 4), validate=True)
        except ValueError as error:
            raise ProtocolError("Received an invalid baton") from error
        if len(data) != 48 or not hmac.compare_digest(data[16:], self._seal(data[:16])):
            raise ProtocolError("Received an invalid baton")
        number, sequence = struct.unpack(">QQ", data[:16])
        return number, sequence

    def _seal(self, payload: bytes) -> bytes:
        return hmac.digest(self._key, payload, hashlib.sha256)
