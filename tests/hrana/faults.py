"""What goes wrong on the way, on the word of the test.

A `Script` is asked once for each request of a pipeline or cursor and gives the fault that is its
turn: `add(Drop(after=True), nth=3)` loses the answer of the third request from now,
`add(Refuse.throttled(1), when=commits)` the next one that the predicate likes. A fault acts at
up to three places: before the request runs, inside it, and on its answer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tests.hrana.stream import Trouble

HOLD_SECONDS: Final = 15.0
"""The longest that a test may hold a request."""


@dataclass
class Request:
    """One request, as it was recorded."""

    method: str
    path: str
    door: int
    """0 is the address that the server gave, 1 the other one."""

    connection: int
    """Which TCP connection, counted from 1."""

    headers: Mapping[str, str]
    body: Any = None
    status: int = 0
    """Of the answer; 0 when there was none."""

    was_run: bool = False
    """Whether its statements ran, whatever was answered."""

    @property
    def baton(self) -> str | None:
        """What it named its stream by."""
        found: str | None = self.body.get("baton") if isinstance(self.body, dict) else None
        return found

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of its requests, in order; a cursor is one."""
        if not isinstance(self.body, dict):
            return ()
        if "batch" in self.body:
            return ("cursor",)
        return tuple(each.get("type", "") for each in self.body.get("requests") or ())

    @property
    def statements(self) -> tuple[str, ...]:
        """The texts of its statements, in order."""
        if not isinstance(self.body, dict):
            return ()
        found: list[str] = []
        for each in self.body.get("requests") or (self.body,):
            steps = (each.get("batch") or {}).get("steps") or [each]
            found += [(step.get("stmt") or step).get("sql") or "" for step in steps]
        return tuple(text for text in found if text)


@dataclass(frozen=True)
class Answer:
    """What goes back."""

    status: int
    content_type: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    sent: int | None = None
    """How many bytes of the body go out before the connection ends; None is all."""


class Dropped(Exception):
    """The connection ends without an answer."""


class Fault:
    """Harmless; each kind overrides the place where it acts."""

    trouble: Trouble = Trouble()

    def before(self) -> Answer | None:
        """An answer instead of running the request, or None to run it."""

    def after(self, answer: Answer) -> Answer:
        """What goes back instead of the answer."""
        return answer


class Drop(Fault):
    """The connection ends: before anything ran, or after all of it, COMMIT included, has."""

    def __init__(self, *, after: bool) -> None:
        self._is_after = after

    def before(self) -> None:
        if not self._is_after:
            raise Dropped

    def after(self, _: Answer) -> Answer:
        raise Dropped


class Hold(Fault):
    """The request stands still, before it runs or before its answer, until the test releases it."""

    def __init__(self, *, after: bool) -> None:
        self._is_after = after
        self.reached = threading.Event()
        self.released = threading.Event()

    def before(self) -> None:
        if not self._is_after:
            self._stand()

    def after(self, answer: Answer) -> Answer:
        if self._is_after:
            self._stand()
        return answer

    def _stand(self) -> None:
        self.reached.set()
        assert self.released.wait(HOLD_SECONDS), "the test forgot a request that it holds"


class Delay(Fault):
    """The answer comes so many seconds late."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def after(self, answer: Answer) -> Answer:
        pause(self._seconds)
        return answer


class Truncate(Fault):
    """The answer ends in the middle, and its connection with it."""

    def __init__(self, share: float = 0.5) -> None:
        self._share = share

    def after(self, answer: Answer) -> Answer:
        return replace(answer, sent=int(len(answer.body) * self._share))


class Refuse(Fault):
    """Another answer: instead of running the request, or after it ran, as a proxy would do."""

    def __init__(self, answer: Answer, *, after: bool = False) -> None:
        self._answer = answer
        self._is_after = after

    def before(self) -> Answer | None:
        return None if self._is_after else self._answer

    def after(self, _: Answer) -> Answer:
        return self._answer

    @classmethod
    def unauthorized(cls, status: int = 401) -> Refuse:
        """As for a token that has run out."""
        return cls(Answer(status, "application/json", b'{"error":"Unauthorized: expired"}'))

    @classmethod
    def throttled(cls, retry_after: str = "1") -> Refuse:
        """429 with Retry-After; nothing ran."""
        headers = {"Retry-After": retry_after}
        return cls(Answer(429, "application/json", b'{"error":"Too many requests"}', headers))

    @classmethod
    def overloaded(cls, retry_after: str = "", *, after: bool = False) -> Refuse:
        """503 with a page of HTML, as a proxy says it."""
        page = b"<html><body><h1>503 Service Unavailable</h1></body></html>"
        headers = {"Retry-After": retry_after} if retry_after else {}
        return cls(Answer(503, "text/html; charset=utf-8", page, headers), after=after)

    @classmethod
    def with_status(cls, status: int, *, after: bool = False) -> Refuse:
        """Any other, in plain text."""
        return cls(Answer(status, "text/plain", f"status {status}".encode()), after=after)


class BusyOnBegin(Fault):
    """Every BEGIN of the request finds the lock taken: SQLITE_BUSY in band."""

    trouble = Trouble(busy_on_begin=True)


class TimeOut(Fault):
    """The transaction is rolled back before a step of a batch, and all that follows fails."""

    def __init__(self, before_step: int) -> None:
        self.trouble = Trouble(time_out_before=before_step)


class Move(Fault):
    """The answer names the server's other address for whatever follows on this stream."""


@dataclass
class _Rule:
    fault: Fault
    when: Callable[[Request], bool]
    skip: int
    times: int


class Script:
    """The faults that are still to come, in the order in which they were added."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rules: list[_Rule] = []

    def add(
        self,
        fault: Fault,
        *,
        nth: int = 1,
        times: int = 1,
        when: Callable[[Request], bool] = lambda _: True,
    ) -> Fault:
        """Let it happen to the `nth` request from now of those that `when` likes, and to the ones
        after it, `times` in all."""
        with self._lock:
            self._rules.append(_Rule(fault, when, nth - 1, times))
        return fault

    def clear(self) -> None:
        """Nothing more goes wrong."""
        with self._lock:
            self._rules.clear()

    @property
    def is_over(self) -> bool:
        """Whether all that was added has happened."""
        with self._lock:
            return not self._rules

    def turn(self, request: Request) -> Fault:
        """The fault of this request; the first rule whose turn it is wins."""
        with self._lock:
            chosen: Fault | None = None
            for rule in list(self._rules):
                if not rule.when(request):
                    continue
                if rule.skip:
                    rule.skip -= 1
                elif chosen is None:
                    chosen = rule.fault
                    rule.times -= 1
                    if not rule.times:
                        self._rules.remove(rule)
            return chosen or Fault()


def pause(seconds: float) -> None:
    """Let real time pass in the thread of a request: the network that is not there."""
    if seconds:
        threading.Event().wait(seconds)
