"""Python's garbage collector in a process that is a broker and nothing else.

Called once by `serve.py` and by each front-end process, when everything is loaded and the doors are
about to open. Requests, messages and answers hold no cycles and are outside of it anyway
(`contract/wire.py`); what is left for it are the scopes and exceptions of the framework. Never
called in a program that embeds the engine: its collector is its own.
"""

from __future__ import annotations

import gc
from typing import Final

ALLOCATIONS: Final = 10_000
"""Between two looks at the newest objects: those of some hundred requests, a megabyte or so. At
Python's own 700, one group of commands makes several, and a tenth of a batch's time goes there."""


def settle() -> None:
    """Leave what is loaded out of every later look, and look less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(ALLOCATIONS, *gc.get_threshold()[1:])
