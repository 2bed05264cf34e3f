"""One keep-alive connection to a Hrana server, and what its answers mean for a transaction.

Called by `hrana_stream.py` in the storage thread, one request at a time. httpcore is loaded on
first use (ruling R36). The one question that matters is told by the kind of the error: was the
request certainly not run (`NotRun`), is it refused for good (a contract error), or does nobody know
(`Lost`)? A token is sent with every request and stands in no error and no log.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from mqlite_actor.clock import SystemClock
from mqlite_actor.contract import limits
from mqlite_actor.contract.errors import Internal, StorageFailed, Unavailable, Unsupported
from mqlite_actor.storage.patience import Patience

if TYPE_CHECKING:
    import httpcore

PIPELINE: Final = "/v2/pipeline"
"""The one path that all servers have."""


class NotRun(Exception):
    """Nothing of the request was run; it may be repeated after `pause_seconds`."""

    def __init__(self, reason: str, pause_seconds: float = 0.0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.pause_seconds = pause_seconds


class Lost(NotRun):
    """The request may have been run, or may yet be; its answer is lost."""


class Unreached(NotRun):
    """There was no connection at all."""


class NoPipeline(StorageFailed):
    """Whoever listens there does not speak Hrana. `body`: what it said."""

    def __init__(self, message: str, body: bytes = b"") -> None:
        super().__init__(message)
        self.body = body


class Link:
    """A connection that is opened when it is needed, and again when it broke; until it is cut."""

    __slots__ = ("_base", "_headers", "_http", "_pool", "_socket", "is_cut", "requests")

    def __init__(self, base_url: str, token: str) -> None:
        try:
            self._http = import_module("httpcore")
        except ImportError as error:
            raise Unsupported("install mqlite-actor[client] to reach a remote store") from error
        place, _, query = base_url.partition("?")
        self._base = (place.rstrip("/"), query)
        self._headers: list[tuple[bytes | str, bytes | str]] = [
            ("Content-Type", "application/json"),
            ("Accept", "application/json"),
        ]
        if token:
            self._headers.append(("Authorization", f"Bearer {token}"))
        self._pool: httpcore.ConnectionPool = self._http.ConnectionPool(
            ssl_context=ssl.create_default_context() if place.startswith("https") else None,
            max_connections=1,
            max_keepalive_connections=1,
            keepalive_expiry=limits.REMOTE_KEEP_SECONDS,
        )
        self._socket: socket.socket | None = None  # of the last connection
        self.is_cut = threading.Event()
        self.requests = 0

    def pipeline(self, body: bytes, base_url: str | None = None) -> bytes:
        """The answer to a pipeline request. `base_url`: where this stream is to go on.

        Raises NotRun, Lost, StorageFailed for a refusal that only a person can end, and Internal
        for one that is our own fault.
        """
        status, headers, found = self._ask("POST", PIPELINE, body, base_url)
        if status == 200:
            return found
        pause = _pause(headers)
        if status == 429:
            raise NotRun("the remote database is throttled (429)", pause)
        if b"STREAM_EXPIRED" in found:
            raise NotRun("the stream had expired")
        if status in {401, 403} or (status == 400 and b"nauthorized" in found):
            raise StorageFailed(
                f"the remote database refuses the token ({status}); set MQLITE_DB_AUTH_TOKEN"
            )
        if status in {404, 405, 410}:
            raise NoPipeline(f"no remote database answers there ({status})", found)
        if status == 413:
            raise Internal("the request is larger than the remote database takes (413)")
        if 400 <= status < 500 and status != 408:
            raise Internal(f"the remote database does not understand the request ({status})")
        if b"unknown variant" in found:
            raise NoPipeline("the server knows a part of the protocol only", found)
        raise Lost(f"the remote database answered {status}", pause)

    def page(self) -> bytes:
        """What the address itself answers to a browser; b"" if it does not."""
        try:
            return self._ask("GET", "/", b"", None)[2]
        except NotRun:
            return b""

    def cut(self) -> None:
        """Break the connection under whoever waits for it, and refuse every later request as never
        run; for good. The one thing here that other threads may call."""
        self.is_cut.set()
        if self._socket is not None:
            # Past TLS, whose own shutdown is for the thread that reads. OSError: it has ended.
            with suppress(OSError):
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def _note(self, event: str, info: Mapping[str, Any]) -> None:
        """Told by httpcore of each step; remembers what `cut` is to break."""
        if event in _CONNECTED:
            self._socket = info["return_value"].get_extra_info("socket")
            if self.is_cut.is_set():
                raise _cut_off()

    def close(self) -> None:
        """Hang up."""
        self._pool.close()

    def _ask(
        self, method: str, path: str, body: bytes, base_url: str | None
    ) -> tuple[int, Mapping[str, str], bytes]:
        if self.is_cut.is_set():
            raise _cut_off()
        http = self._http
        place, query = (base_url.rstrip("/"), "") if base_url else self._base
        if self._base[0].startswith("https:") and not place.startswith("https:"):
            raise StorageFailed("the remote database sends us to an address without TLS; refused")
        url = f"{place}{path}?{query}" if query else place + path
        self.requests += 1
        try:
            with self._pool.stream(
                method,
                url,
                headers=self._headers,
                content=body or None,
                extensions={"timeout": _TIMEOUTS, "trace": self._note},
            ) as response:
                found = _whole(response)
        except (http.ConnectError, http.ConnectTimeout, http.PoolTimeout) as error:
            raise Unreached("the remote database cannot be reached") from error
        except (http.UnsupportedProtocol, http.LocalProtocolError) as error:
            raise StorageFailed("the address of the remote database cannot be dialled") from error
        except (http.NetworkError, http.ProtocolError, http.TimeoutException, _TooLong) as error:
            raise Lost("the answer of the remote database is lost") from error
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in response.headers
        }
        return response.status, headers, found


_CONNECTED: Final = ("connection.connect_tcp.complete", "connection.start_tls.complete")

_TIMEOUTS: Final = {
    "connect": limits.REMOTE_CONNECT_SECONDS,
    "read": limits.REMOTE_ANSWER_SECONDS,
    "write": limits.REMOTE_ANSWER_SECONDS,
    "pool": limits.REMOTE_CONNECT_SECONDS,
}


def _cut_off() -> Unreached:
    return Unreached("the engine ends and waits for the remote database no longer")


class _TooLong(Exception):
    """In bytes, or in seconds: an answer that trickles in is none."""


def _whole(response: Any) -> bytes:  # noqa: ANN401  # httpcore is loaded on first use
    patience = Patience(limits.REMOTE_ANSWER_SECONDS)
    parts: list[bytes] = []
    size = 0
    for part in response.iter_stream():
        parts.append(part)
        size += len(part)
        if size > limits.REMOTE_REPLY_BYTES_MAX or patience.is_over:
            raise _TooLong
    return b"".join(parts)


def _pause(headers: Mapping[str, str]) -> float:
    """Retry-After, in seconds or as a date; 0 if there is none that makes sense."""
    text = headers.get("retry-after", "").strip()
    if text.isdecimal():
        return min(float(text), limits.REMOTE_PATIENCE_SECONDS)
    try:
        seconds = parsedate_to_datetime(text).timestamp() - SystemClock().now_ms() / 1000
    except (ValueError, TypeError):
        return 0.0
    return min(max(seconds, 0.0), limits.REMOTE_PATIENCE_SECONDS)


def unreachable(reason: str) -> Unavailable:
    """What callers are told when a repetition did not help either."""
    return Unavailable(f"{reason}; nothing was done, repeat after a pause")
