"""The process group of a command: signals for all of it, and whether anybody in it still runs.

Used by `running`, and by `consuming` for its end. Rules: a group is over when nobody in it can run
any more, so one that is dead and that nobody has collected (a container's process 1 may never do
so) does not count; who has left the group, a daemon with `setsid`, is not ours; what belongs to
somebody else cannot be signalled and is waited for. A group's number is not given to anybody new
while it has a member, so its first process may be collected before the others have ended.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

KILL = getattr(signal, "SIGKILL", signal.SIGTERM)  # Windows has none
OWN_GROUP = None if sys.platform == "win32" else 0
"""For `subprocess.Popen(process_group=…)`."""

_PROCESSES = Path("/proc")
_STATE, _GROUP, _THREADS = 0, 2, 17  # behind the name; proc(5)
_DEAD = (b"Z", b"X")
_UNDER_WAY: set[int] = set()


def begun(group: int) -> None:
    """This group works on a message: `kill_all` ends it until `over`."""
    _UNDER_WAY.add(group)


def over(group: int) -> None:
    """It does so no longer."""
    _UNDER_WAY.discard(group)


def kill_all() -> None:
    """End all that is under way. For a signal's handler: it waits for no lock."""
    for group in tuple(_UNDER_WAY):
        signal_group(group, KILL)


def signal_group(group: int, number: int) -> bool:
    """Send a signal to all in it; whether anybody got it, running or not collected. What is
    somebody else's, by `sudo` for instance, gets none."""
    if sys.platform == "win32":
        try:
            os.kill(group, number)
        except OSError:  # it has ended, for which there is no error of its own
            return False
        return True
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def is_over(group: int) -> bool:
    """Whether nobody in it can run any more, once its first process has been collected."""
    if sys.platform == "win32":
        return True  # there are no such groups
    # Two looks at the dead: whoever was begun during the first one is seen by the second.
    return not _has_members(group) or (_are_all_dead(group) and _are_all_dead(group))


def _has_members(group: int) -> bool:
    """Whether anybody is in it, somebody else's too, running or not collected."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _are_all_dead(group: int) -> bool:
    """Whether those that are left only wait for being collected; False where it cannot be told."""
    members = []
    for process in _PROCESSES.glob("[0-9]*/stat"):
        try:
            # pid (name) state parent group …, where the name may hold anything.
            fields = process.read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue  # it has ended meanwhile
        if len(fields) > _THREADS and int(fields[_GROUP]) == group:
            members.append(fields)
    # One whose first thread has ended looks dead, and works on in the others.
    return bool(members) and all(
        each[_STATE] in _DEAD and int(each[_THREADS]) <= 1 for each in members
    )
