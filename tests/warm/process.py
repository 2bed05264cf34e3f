"""`Popen` for programs of ours that begins with their modules imported: a tenth of a start's cost.

Used where tests start `python -m mqlite_cli`, `mqlite_broker` or `mqlite_mcp` by the hundred. What
comes out is a real process, a child of this one: own id, streams, folder, environment, signals and
exit code. It is forked from an interpreter that waits with everything imported (__main__.py), one
for each worker of the tests; a broker with workers of its own has another for those.

Whatever that could hide is started cold, by the interpreter's own start: anything but those
programs, an environment that speaks to the interpreter, special wishes of Popen's, and every test
with the mark `cold`. The whole suite is, with MQLITE_COLD=1, once a night (.ci/lowest). Tests of
installed programs (tests/packages, tests/deploy, examples, shells) start them by other ways anyway.
Rules: only Linux has what this needs (a subreaper); elsewhere every start is cold.
"""

from __future__ import annotations

import ctypes
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, AnyStr, Final

from tests.warm.wanted import DESCRIPTORS_MAX, HEAD, STREAMS, Wanted, read, send

_COMMAND_LINE: Final = ("mqlite_actor", "mqlite_broker", "mqlite_cli", "mqlite_monitor")
PACKAGES: Final[dict[str, tuple[str, ...]]] = {
    "mqlite_cli": _COMMAND_LINE,
    "mqlite_broker": _COMMAND_LINE,
    "mqlite_broker.front": _COMMAND_LINE,
    "mqlite_mcp": ("mqlite_actor", "mqlite_mcp"),
}
"""What is imported for each program; the same packages are one interpreter. A module of the tests
that is run as a program, `tests.…`, is one of the first."""

SPEAKING: Final = ("PYTHON", "LD_", "LC_", "LANG", "MALLOC_")
"""Beginnings of variables that are heard when an interpreter starts, and never again."""

ROOT: Final = Path(__file__).resolve().parents[2]
PATHS: Final = os.pathsep.join((str(ROOT), str(ROOT / "services")))
"""PYTHONPATH of the programs: this tree, whatever is installed."""

_SET_CHILD_SUBREAPER: Final = 36
"""PR_SET_CHILD_SUBREAPER of prctl(2)."""


_Plain: Final = subprocess.Popen
"""As it is outside started_by_others: what waits is never begun from another that waits."""


class Warm:
    """The interpreters that wait, and whether they are used."""

    def __init__(self) -> None:
        self.is_possible = sys.platform == "linux" and not os.environ.get("MQLITE_COLD")
        self.is_on = self.is_possible
        self.starts = 0
        self._lock = threading.Lock()
        self._waiting: dict[tuple[str, ...], socket.socket] = {}
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, wanted: Wanted, streams: list[int]) -> int:
        """A child of this process that runs what is wanted; its id."""
        with self._lock:
            connection = self._interpreter(PACKAGES.get(wanted.module, _COMMAND_LINE))
            self.starts += 1
            _adopt_orphans(1)
            try:
                send(connection, wanted, streams)
                (pid,) = HEAD.unpack(read(connection, HEAD.size))
            finally:
                _adopt_orphans(0)
        return int(pid)

    def end(self) -> None:
        """End the interpreters; what they have become stays."""
        with self._lock:
            for connection in self._waiting.values():
                connection.close()
            for process in self._processes:
                process.wait()
            self._waiting.clear()
            self._processes.clear()

    def use(self, connection: socket.socket) -> None:
        """Begin programs of the command line from who is at the other end, and was one of ours."""
        self._waiting[_COMMAND_LINE] = connection
        self._processes.clear()

    def _interpreter(self, packages: tuple[str, ...]) -> socket.socket:
        """The one of these packages."""
        if packages not in self._waiting:
            ours, theirs = socket.socketpair()
            with theirs:
                process = _Plain(
                    [sys.executable, "-m", "tests.warm", str(theirs.fileno()), *packages],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    cwd=ROOT,
                    env={**os.environ, "PYTHONPATH": PATHS},
                )
            self._processes.append(process)
            self._waiting[packages] = ours
        return self._waiting[packages]


warm: Final = Warm()


_GIVEN: Final = 23
"""Arguments of subprocess's own start in Python 3.11 to 3.13; with others, every start is cold."""

_COLD: Final[Any] = vars(subprocess.Popen)["_execute_child"]
_CLOSE_PIPES: Final[Any] = vars(subprocess.Popen)["_close_pipe_fds"]
"""What subprocess keeps to itself: its own start, and the end of the child's ends of the pipes."""


class Popen(subprocess.Popen[AnyStr]):
    """subprocess.Popen, with a warm start for what has one."""

    def _execute_child(self, *given: Any) -> None:  # noqa: ANN401 - passed on as it comes
        if len(given) != _GIVEN:
            _COLD(self, *given)
            return
        (
            args, executable, preexec_fn, close_fds, pass_fds, cwd, env, _, _, shell,
            p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, restore_signals,
            gid, gids, uid, umask, start_new_session, process_group,
        ) = given  # fmt: skip
        plain = (
            warm.is_on and not shell and executable is None and preexec_fn is None and close_fds
            and restore_signals and umask == -1 and STREAMS + len(pass_fds) <= DESCRIPTORS_MAX
            and gid is gids is uid is None
        )  # fmt: skip
        environ = dict(os.environ if env is None else env)
        program = _program(args) if plain and _is_usual(environ) else None
        folder = Path.cwd() if cwd is None else Path(os.fsdecode(cwd))
        if program is None or not folder.is_dir():
            _COLD(self, *given)
            return
        handed: tuple[int, ...] = tuple(pass_fds)
        wanted = Wanted(
            module=program[0],
            words=tuple(os.fsencode(word) for word in program[1]),
            folder=os.fsencode(folder),
            environ={os.fsencode(k): os.fsencode(v) for k, v in environ.items()},
            new_session=bool(start_new_session),
            process_group=process_group,
            handed=handed,
        )
        streams = zip((p2cread, c2pwrite, errwrite), range(3), strict=True)
        descriptors: list[int] = [own if own != -1 else ours for own, ours in streams]
        self.pid = warm.start(wanted, [*descriptors, *handed])
        self._child_created = True
        _CLOSE_PIPES(self, p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)

    def wait(self, timeout: float | None = None) -> int:
        """The same, told of the end by the system: subprocess looks again after up to 50 ms."""
        if timeout is None or self.returncode is not None:
            return super().wait(timeout)
        end = time.monotonic() + timeout
        wait_for_end(self.pid, timeout)
        try:
            return super().wait(max(end - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            raise subprocess.TimeoutExpired(self.args, timeout) from None


def wait_for_end(pid: int, timeout: float) -> None:
    """Return when a child has ended or the time is over; at once where nobody can tell."""
    if sys.platform != "linux":
        return
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:  # somebody has its exit code already, or the system is too old
        return
    try:
        ended = select.poll()
        ended.register(descriptor, select.POLLIN)
        ended.poll(max(timeout, 0) * 1000)
    finally:
        os.close(descriptor)


def run(
    args: Sequence[str | bytes],
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout: float,
    input: bytes = b"",
) -> subprocess.CompletedProcess[bytes]:
    """As subprocess.run with its output captured; killed when its time is over."""
    pipe = subprocess.PIPE
    with Popen[bytes](args, stdin=pipe, stdout=pipe, stderr=pipe, cwd=cwd, env=env) as process:
        try:
            out, err = process.communicate(input, timeout=timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(args, process.returncode, out, err)


@contextmanager
def preparing() -> Iterator[None]:
    """Within the block, a test with the mark `cold` begins programs warm as others do: commands
    that make the scene for the program that it is about."""
    before = warm.is_on
    warm.is_on = warm.is_possible
    try:
        yield
    finally:
        warm.is_on = before


@contextmanager
def started_by_others() -> Iterator[None]:
    """Within the block, what other people's code starts begins warm as well, if it can."""
    cold = subprocess.Popen
    subprocess.Popen = Popen  # type: ignore[misc]  # a subclass in its place, for a moment
    try:
        yield
    finally:
        subprocess.Popen = cold  # type: ignore[misc]  # and back


def begin_from(connection: socket.socket) -> None:
    """From now on, all that this process starts begins warm if it can, at the other end."""
    warm.use(connection)
    warm.is_on = True
    subprocess.Popen = Popen  # type: ignore[misc]  # a subclass in its place, for good


def _program(args: object) -> tuple[str, list[Any]] | None:
    """The program of ours that these words run, and its own words, if one of those."""
    match args:
        case [sys.executable, "-m", str() as module, *words] | [
            sys.executable,
            "-P",
            "-m",
            str() as module,
            *words,
        ]:
            known = module in PACKAGES or module.startswith("tests.")
            return (module, words) if known else None
    return None


def _is_usual(environ: Mapping[str, str]) -> bool:
    """Whether an interpreter would hear of these variables what the one that waits has heard."""
    return _said({"PYTHONPATH": PATHS, **environ}) == _said({**os.environ, "PYTHONPATH": PATHS})


def _said(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name.startswith(SPEAKING)}


def _adopt_orphans(number: int) -> None:
    """Become the parent of grandchildren whose parent ends, or no longer."""
    if ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, number, 0, 0, 0) != 0:
        raise OSError("prctl refused: a warm start needs a subreaper")
