"""Where a handle was opened: its process. Asked by every handle before a call; calls nothing.

Rule: sockets, descriptors and threads do not survive a fork in any usable way (B20), so a handle
that came along into a child process refuses there at once instead of hanging or harming its parent.
"""

from __future__ import annotations

import os

from mqlite_actor.contract.errors import Unsupported


def check_process(pid: int) -> None:
    """Unsupported in any process but the one with this id."""
    if os.getpid() != pid:
        raise Unsupported("this handle was opened before a fork; open one in the child process")
