"""The standard streams of a broker's process, which may have been started without some.

Called first of all by `__main__.py`, `serve.py` and `front.py`, whose log goes to descriptor 2.
"""

from __future__ import annotations

import os
import sys


def hold() -> None:
    """Put the null device where a standard stream is closed, for this process and its children.

    The next socket or database file would get its number otherwise, and the log would be written
    into it. `sys.stderr` is there afterwards, too: what is printed to None goes to stdout.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest that is free
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", errors="backslashreplace", closefd=False)
