"""One message as one run of a shell command: body on standard input, the rest in the environment.

Used by `consuming`, from a thread for each message. Rules: a command gets a process group of its
own, so that a Ctrl-C meant for us does not end it in the middle of its work, and so that ending it
ends what it started; one that was ended, by us or by a signal of somebody else's, is over when its
whole group is, not with its shell, which dies first: until then somebody works on the message; what
one that crashed leaves behind is ended, since nobody told it to finish, and it might never; what it
prints goes where ours goes; one that reads nothing of its input is no failure; exit 0 is a success,
also of one that was asked to end: only it knows what it has done. If we had to kill what it left
behind, it does not know.
"""

from __future__ import annotations

import errno
import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from mqlite_actor.clock import SystemClock
from mqlite_actor.contract.wire import Message
from mqlite_cli.process_groups import KILL, OWN_GROUP, begun, is_over, over, signal_group
from mqlite_cli.refusals import Refusal

KILL_SECONDS = 5.0
"""Between asking a command to end and ending it."""

_LOOK_SECONDS = 0.01
_LOOK_SECONDS_MAX = 0.25
"""Between two looks at a group, doubled each time: only its first process tells us of its end."""

_SENT_TO_ALL = [
    -getattr(signal, name)
    for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT")
    if hasattr(signal, name)
]
"""The exit codes of the signals that supervisors and terminals send to a whole group, by which its
members may finish what they have. By any other a command crashes, alone."""

_NOT_STARTED = 126
"""What a shell says of a command that cannot be started."""

_CLOCK = SystemClock()

_IN_ENVIRONMENT = {
    "MESSAGE_SEQ": "seq_number",
    "MESSAGE_DELIVERY_COUNT": "delivery_count",
    "MESSAGE_ENQUEUED_AT_MS": "enqueued_at_ms",
    "MESSAGE_EXPIRES_AT_MS": "expires_at_ms",
    "MESSAGE_ID": "message_id",
    "MESSAGE_CORRELATION_ID": "correlation_id",
    "MESSAGE_REPLY_TO": "reply_to",
    "MESSAGE_GROUP_ID": "group_id",
    "MESSAGE_CONTENT_TYPE": "content_type",
    "MESSAGE_SUBJECT": "subject",
}
"""Variable → field. MESSAGE_QUEUE and MESSAGE_PROPERTIES, a JSON object, are there besides."""


class Stopped(Exception):
    """The command was ended because we have to go; its message is not handled."""


class Ended(NamedTuple):
    """How a command ended. `code` is negative for a signal; `shown` says it in words."""

    code: int
    shown: str

    @property
    def is_success(self) -> bool:
        """Whether the message is done with."""
        return self.code == 0


class Command:
    """One command for one message. `run` it once; `end_within` comes from any thread."""

    __slots__ = (
        "_changed", "_deadline", "_is_killed", "_is_stopped", "_limit", "_line", "_message",
        "_queue",
    )  # fmt: skip

    def __init__(self, line: str, queue: str, message: Message, *, limit_seconds: float) -> None:
        self._line = line
        self._queue = queue
        self._message = message
        self._limit = limit_seconds
        self._changed = threading.Condition()
        self._deadline: float | None = None
        self._is_stopped = False
        self._is_killed = False

    def end_within(self, seconds: float) -> None:
        """Let it run for so long at most, and raise Stopped out of `run` then."""
        with self._changed:
            self._deadline = _CLOCK.monotonic() + seconds
            self._changed.notify_all()

    def run(self) -> Ended:
        """Run it to its end. Stopped if `end_within` ended it and it did not succeed all the same;
        Refusal if there is no shell."""
        try:
            process = self._start()
        except OSError as error:
            if error.errno == errno.E2BIG:
                return Ended(_NOT_STARTED, "the metadata is too large for an environment")
            raise Refusal(f"cannot run a shell: {error.strerror}") from error
        begun(process.pid)
        try:
            is_late = self._watch(process)
        finally:
            over(process.pid)
        code = process.returncode
        is_cut = self._is_killed and not code
        if is_cut:
            code = -KILL
        if code and self._is_stopped:
            raise Stopped
        if code and is_late:
            but = "; it ended with exit 0, but what it had started was killed" if is_cut else ""
            return Ended(code, f"it took longer than {self._limit:g}s{but}")
        return Ended(code, f"exit {code}" if code >= 0 else f"ended by signal {-code}")

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S602 - a shell command is what --exec takes
            self._line,
            shell=True,
            stdin=subprocess.PIPE,
            env={**os.environ, **_environ(self._queue, self._message)},
            process_group=OWN_GROUP,
        )

    def _watch(self, process: subprocess.Popen[bytes]) -> bool:
        """Feed it and wait for its end; whether it ran until it was ended for its own limit."""
        feeder = threading.Thread(target=_feed, args=(process, self._message.body), daemon=True)
        reaper = threading.Thread(target=self._reap, args=(process,), daemon=True)
        try:
            feeder.start()
            reaper.start()
        except RuntimeError as error:  # no more threads are to be had
            signal_group(process.pid, KILL)
            process.communicate()
            with self._changed:
                self._is_over_within(process, math.inf)
            raise Refusal(f"cannot run a command beside others: {error}") from error
        is_late = self._wait(process)
        reaper.join()
        return is_late

    def _reap(self, process: subprocess.Popen[bytes]) -> None:
        process.wait()
        with self._changed:
            self._changed.notify_all()

    def _wait(self, process: subprocess.Popen[bytes]) -> bool:
        """Until it has ended, or was ended; whether it ran until then and that was for its own
        limit."""
        limit = _CLOCK.monotonic() + self._limit if self._limit else None
        pause = _LOOK_SECONDS
        with self._changed:
            while not _has_ended(code := process.returncode, process.pid):
                if code is not None and code not in _SENT_TO_ALL:
                    self._end(process)
                    return False
                ends = [each for each in (limit, self._deadline) if each is not None]
                left = min(ends) - _CLOCK.monotonic() if ends else None
                if left is not None and left <= 0:
                    is_own_limit = min(ends) == limit
                    self._is_stopped = not is_own_limit
                    self._end(process)
                    return is_own_limit and code is None
                if code is not None:  # from here on nobody tells us
                    left = pause if left is None else min(pause, left)
                    pause = min(2 * pause, _LOOK_SECONDS_MAX)
                self._changed.wait(left)
        return False

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """Ask it to end, and see to it. Returns when nobody of its group is left, however long that
        takes: its message goes to the next one then."""
        signal_group(process.pid, signal.SIGTERM)
        if not self._is_over_within(process, KILL_SECONDS):
            self._is_killed = signal_group(process.pid, KILL)
            self._is_over_within(process, math.inf)

    def _is_over_within(self, process: subprocess.Popen[bytes], seconds: float) -> bool:
        """Whether nobody of its group is left, waiting so long for it; with `_changed` held."""
        until, pause = _CLOCK.monotonic() + seconds, _LOOK_SECONDS
        while process.returncode is None or not is_over(process.pid):
            left = until - _CLOCK.monotonic()
            if left <= 0:
                return False
            self._changed.wait(min(pause, left))
            pause = min(2 * pause, _LOOK_SECONDS_MAX)
        return True


def _has_ended(code: int | None, group: int) -> bool:
    """Whether its message may go on. A shell that ends by itself may leave behind what it likes;
    one that a signal ends did not choose to: whoever sent it, systemd for one, may have sent it to
    the workers behind the shell too, and they may finish first what they have. Those of one that
    crashed are ended."""
    return code is not None and (code >= 0 or is_over(group))


def _feed(process: subprocess.Popen[bytes], body: bytes) -> None:
    assert process.stdin is not None
    try:
        with process.stdin as stdin:
            stdin.write(body)
    except OSError:
        # It has closed its input or ended; its exit code says whether that was meant.
        return


def _environ(queue: str, message: Message) -> Mapping[str, str | bytes]:
    """UTF-8, whatever the locale's encoding can hold: a message of somebody else's is not to stop a
    consumer."""
    values = {name: str(getattr(message, field)) for name, field in _IN_ENVIRONMENT.items()}
    values["MESSAGE_QUEUE"] = queue
    values["MESSAGE_PROPERTIES"] = msgspec.json.encode(message.properties).decode()
    # No environment can hold a NUL; whoever needs such a value reads it with `peek`.
    held = {name: value for name, value in values.items() if "\0" not in value}
    return held if sys.platform == "win32" else {name: held[name].encode() for name in held}
