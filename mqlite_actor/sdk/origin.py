"""Where a handle was opened: its process. Asked by every handle before a call; calls nothing.

Rules: sockets, descriptors and threads do not survive a fork in any usable way (B20), so a handle
that came along into a child process refuses there at once instead of hanging or harming its parent.
Forks are counted rather than process ids compared, because to ask for the id is a call into the
system, which costs as much as a tenth of a send.
"""

from __future__ import annotations

import os
from typing import NewType

from mqlite_actor.contract.errors import Unsupported

Origin = NewType("Origin", int)
"""How many forks lie between the first of our processes and the one that opened a handle."""

_forks = 0


def _forked() -> None:
    global _forks  # noqa: PLW0603  # the one fact of a process that its handles share
    _forks += 1


if hasattr(os, "register_at_fork"):  # where there are forks
    os.register_at_fork(after_in_child=_forked)


def here() -> Origin:
    """The mark of this process, to be kept by what is opened in it."""
    return Origin(_forks)


def is_elsewhere(origin: Origin) -> bool:
    """Whether this is a child of the process with that mark."""
    return origin != _forks


def check_process(origin: Origin) -> None:
    """Unsupported in any process but the one with this mark."""
    if origin != _forks:
        raise Unsupported("this handle was opened before a fork; open one in the child process")
